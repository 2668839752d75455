//! Cache events, snapshots, worker liveness and gossip between machines, over a NATS server.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//!
//! use kv_router_nats::{Follower, FollowerConfig, Link, LinkConfig, RankPublisher, RelayConfig};
//! use kv_router_nats::{SnapshotConfig, SnapshotStore};
//! use kv_router_transport::{EventBatch, FollowSink, ForgetReason, Incarnation, Standing, Watermark};
//! use kv_router_types::{KvEvent, WorkerId, WorkerRank};
//!
//! // Beside the engine:
//! let link = Link::connect(LinkConfig::default())?;
//! let rank = WorkerRank::from(WorkerId::new(7));
//! let publisher = RankPublisher::start(&link, rank, Incarnation::new(1), RelayConfig::default())?;
//! publisher.publish(vec![KvEvent::Cleared])?;
//!
//! // Beside the router, on another machine:
//! struct Index(u64);
//! impl FollowSink for Index {
//!     fn apply(&mut self, batch: EventBatch) {
//!         self.0 += batch.events.len() as u64;
//!     }
//!     fn forget(&mut self, _: WorkerRank, _: ForgetReason) {}
//!     fn restore(&mut self, _: WorkerRank, _: Watermark, _: &[KvEvent]) {}
//!     fn standing(&mut self, _: WorkerRank, _: Standing) {}
//! }
//! let link = Link::connect(LinkConfig::default())?;
//! let store = SnapshotStore::new(&link, SnapshotConfig::default())?;
//! let (mut follower, mut index) = (Follower::start(&link, store, FollowerConfig::default())?, Index(0));
//! follower.warm(Instant::now(), &mut index)?;
//! while link.is_up() {
//!     follower.poll(Instant::now(), Duration::from_millis(20), &mut index)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | connect to the broker | [`Link`], [`LinkConfig`], with [`Credentials`] and [`TlsConfig`] |
//! | feed a whole router: workers, events, other routers, snapshots | [`Replica`], into a [`ReplicaSink`](kv_router_transport::ReplicaSink) |
//! | publish what happens in an engine's caches | [`RankPublisher`], one a rank and life |
//! | keep an index equal to the caches of the fleet | [`Follower`], into a [`FollowSink`](kv_router_transport::FollowSink) |
//! | keep a state for replicas to come, and start from one | [`SnapshotStore`], [`Follower::warm`] |
//! | say that a worker is there, and learn who is | [`Registry`], [`WorkerWatch`] |
//! | carry load deltas, session gossip, summaries of groups | [`GossipSender`], [`GossipReceiver`] |
//!
//! # What is lost, and how it comes back
//!
//! Batches travel on core subjects, which may lose any of them. The relay numbers them, and so:
//!
//! | lost by | noticed by | got back from |
//! |---|---|---|
//! | a full queue on either side | the next batch, or the relay's beat | the relay's replay buffer |
//! | a broker that restarts, a partition | the same, and the follower asks when it is back | the same |
//! | more than the replay buffer holds | the relay's answer | the latest snapshot, then the buffer |
//! | more than that | the snapshot's watermark | nobody: the rank is [`Cold`](kv_router_transport::Standing::Cold), and live |
//!
//! # Guarantees
//!
//! * What the sink sees keeps the rules of [`StreamSequencer`](kv_router_transport::StreamSequencer): in order, no
//!   holes, no repeats, and a rank that says it is fresh is.
//! * Publishing never waits for the broker and never fails for its sake.
//! * Every wait has a deadline. Reconnecting backs off, up to a limit, for ever.
//! * Every queue, buffer and message has a limit, and a counter for what goes over it.
//! * Nobody expires while one's own connection is down.
//! * At most one [`Replica`] at a time writes snapshots, and never one that knows of no rank.
//! * A rank whose relay started and published nothing is fresh and holds nothing; what an earlier life of it held is
//!   forgotten.
//! * Tokens, passwords and seeds are in no error, counter or `Debug` of ours.
//! * A closed link ends its thread and all that was made from it: calls say
//!   [`Closed`](RequestError::Closed) and do not hang.
//!
//! What this crate does not do: look into gossip, or split a gossip message above the server's limit. One relay
//! publishes a rank at a time; that two do not is up to whoever starts them.
//!
//! # Cost
//!
//! One thread a link. A published batch is encoded once and shared between the socket and the replay buffer, whose
//! memory is bounded a rank. A follower decodes and applies on the thread that polls it.

#![forbid(unsafe_code)]

mod buckets;
mod config;
mod duty;
mod error;
mod follower;
mod gossip;
mod identity;
mod inbox;
mod link;
mod registry;
mod relay;
mod replay;
mod replica;
mod snapshots;
#[cfg(feature = "soak")]
pub mod soak;
mod subject;

pub use config::{Backoff, ClientCertificate, Credentials, FirstConnect, LinkConfig, TlsConfig};
pub use duty::{DutyCounters, SnapshotSchedule};
pub use error::{Cause, ConfigError, ConnectError, CredentialsError, FileFault, RequestError};
pub use follower::{Followed, Follower, FollowerConfig, FollowerCounters};
pub use gossip::{GossipConfig, GossipReceiver, GossipSender, GroupName, Heard, Topic};
pub use link::{Link, LinkCounters};
pub use registry::{Announcement, Registry, RegistryConfig, WorkerEvent, WorkerWatch};
pub use relay::{RankPublisher, RelayConfig, RelayCounters};
pub use replica::{Replica, ReplicaConfig, ReplicaLinkCounters};
pub use snapshots::{SnapshotConfig, SnapshotName, SnapshotStore};
pub use subject::SubjectPrefix;
