//! Event streams of engines over ZeroMQ: a subscriber for many publishers on one thread, the replay client, the
//! glue to the sequence machine, and a publisher.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use kv_router_transport::{Action, FeedConfig, RankFeed};
//! use kv_router_zmq::{Decoded, Publisher, PublisherConfig, RecvError, Source, Subscriber, SubscriberConfig};
//!
//! // An engine, or a mock of one.
//! let publisher = Publisher::start(PublisherConfig::default())?;
//! publisher.publish(b"first".to_vec())?;
//! publisher.publish(b"second".to_vec())?;
//!
//! // A router that comes late.
//! let config = SubscriberConfig::default();
//! let policy = config.replay;
//! let subscriber = Subscriber::start(config, Instant::now)?;
//! let replay = publisher.replay_endpoint().ok_or("no replay endpoint")?;
//! let rank = subscriber.add(Source::connect(publisher.live_endpoint().clone()).with_replay(replay.clone()))?;
//! let mut feed = RankFeed::new(FeedConfig { replay: Some(policy.waits()), ..FeedConfig::default() })?;
//!
//! let (mut actions, mut applied) = (Vec::new(), Vec::new());
//! let until = Instant::now() + Duration::from_secs(20);
//! while applied.len() < 2 && Instant::now() < until {
//!     match subscriber.recv(Duration::from_millis(50)) {
//!         Ok(incoming) => {
//!             let decode = |_, payload| Decoded { clears: false, lossy: false, payload };
//!             incoming.hand_to(&mut feed, Instant::now(), decode, &mut actions);
//!         }
//!         Err(RecvError::Empty) => {}
//!         Err(stopped) => return Err(stopped.into()),
//!     }
//!     feed.tick(Instant::now(), &mut actions);
//!     for action in actions.drain(..) {
//!         match action {
//!             Action::Apply(payload) => applied.push(payload.to_vec()),
//!             Action::Forget(_) => applied.clear(),
//!             Action::RequestReplay(ask) => subscriber.request_replay(rank, ask)?,
//!             Action::RequestSnapshot(_) | Action::Skip { .. } => {}
//!         }
//!     }
//! }
//! assert_eq!(applied, [b"first".to_vec(), b"second".to_vec()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | hear what engines publish | [`Subscriber`], a [`Source`] for each rank |
//! | apply it in order, with recovery | the `EngineStream` of a `Router`, or [`RankFeed`] |
//! | know how a publisher does | [`Subscriber::health`] |
//! | publish, beside an engine or as a relay | [`Publisher`] |
//!
//! What a payload says is the business of `kv-router-engines`.
//!
//! # Guarantees
//!
//! * Every wait has a deadline, every queue a limit. A live batch that finds the queue full is dropped and counted,
//!   and the sequence machine sees the gap; a replay waits instead.
//! * A live stream never waits for a replay: each has a socket of its own, and each socket its turn.
//! * A frame above the limit is skipped and counted. One above twice the limit is not received: ZeroMQ closes the
//!   connection, which is counted and made again.
//! * A message that is none (frames, length of the number, empty payload) is skipped and counted by reason.
//! * A connection that is half dead is noticed by heartbeats, and made again after a wait that grows and has chance
//!   in it.
//! * Each connection is told of before the first message on it, so that an engine that started again is noticed,
//!   however much it published before: see [`RankFeed`].
//!
//! [`RankFeed`]: kv_router_transport::RankFeed
//!
//! What this crate does not do: no encryption and no authentication, so bind to loopback or to a network that is
//! trusted; no decoding; no index. It runs where there are Unix sockets.
//!
//! # Cost
//!
//! One thread for a subscriber, and two of ZeroMQ's for each 250 publishers. A publisher costs three sockets, that
//! is seven file handles: raise the limit of open files for more than a hundred. A message costs some microseconds,
//! and no copy of its payload.
#![forbid(unsafe_code)]

mod config;
mod endpoint;
mod error;
mod feed;
mod frames;
mod health;
mod incoming;
mod message;
mod publisher;
mod reactor;
#[cfg(feature = "soak")]
pub mod soak;
mod subscriber;
mod wake;

pub use config::{ConfigError, Heartbeat, ReplayPolicy, Source, SubscriberConfig};
pub use endpoint::{Attach, Endpoint, EndpointError};
pub use error::{PublishError, RecvError, RequestError, SocketError, SocketOperation, StartError};
pub use feed::Decoded;
pub use health::{PublisherHealth, ReplayCounts, SubscriberCounters};
pub use incoming::{Incoming, ReplayFailure};
pub use kv_router_transport::Backoff;
pub use message::{Connection, MessageFault, MessageFaults, Payload, PublisherId, Topic};
pub use publisher::{Publisher, PublisherConfig, PublisherCounters, ReplayFraming};
pub use subscriber::Subscriber;
