//! What every worker is working on: prompt tokens still to compute, blocks held, requests in flight.
//!
//! An inference engine reports its load late, if at all. A router knows better: it sent the requests itself. A
//! [`LoadTracker`] counts what was sent and not yet given back, one guard for each request.
//!
//! ```
//! use kv_router_load::{Demand, LoadConfig, LoadSnapshot, LoadTracker};
//! use kv_router_types::{SequenceHash, WorkerId, WorkerRank};
//! # #[expect(clippy::disallowed_methods, reason = "a program reads the clock, the library does not")]
//! # fn now() -> std::time::Instant { std::time::Instant::now() }
//!
//! let tracker = LoadTracker::new(LoadConfig::default())?;
//! let worker = WorkerRank::from(WorkerId::new(7));
//! tracker.add_rank(worker)?;
//!
//! let prompt = [1, 2, 3].map(SequenceHash::new);
//! let demand = Demand {
//!     request: None,
//!     attempt: 0,
//!     prefill_tokens: 48,
//!     prompt_blocks: &prompt,
//!     private_blocks: 1,
//! };
//! let booking = tracker.book(worker, demand, now())?; // counted from here ...
//! booking.prefill_completed(now());
//! booking.set_output_blocks(2, now());
//!
//! let load = tracker.load(worker).expect("the rank was added above");
//! assert_eq!((load.prefill_tokens, load.blocks, load.requests), (0, 3 + 1 + 2, 1));
//!
//! // What a decision reads: every rank, and how much of the next prompt is already in flight there.
//! let mut snapshot = LoadSnapshot::new();
//! tracker.snapshot_into(&[1, 2, 9].map(SequenceHash::new), &mut snapshot);
//! assert_eq!(snapshot.iter().next().map(|rank| rank.shared_blocks), Some(2));
//!
//! drop(booking); // ... to here, whatever happened to the request
//! assert_eq!(tracker.load(worker), Some(Default::default()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | count requests, and read the counts | [`LoadTracker`] |
//! | keep one request counted, and report its progress | [`Booking`], from [`LoadTracker::book`] |
//! | compare all ranks in one decision | [`LoadSnapshot`], filled by [`LoadTracker::snapshot_into`] |
//! | know when a rank has room again | [`LoadListener`], in the [`Hooks`] of [`LoadTracker::with_hooks`] |
//! | count what engines report beside it | [`LoadTracker::report`] with an [`EngineReport`] |
//! | share load with other routers | a [`JournalConfig`] in the [`Hooks`], [`LoadTracker::take_deltas`], [`LoadTracker::bookings_parts`], and a [`ReplicaSync`] |
//! | end requests in any order | [`LoadTracker::end_attempt`] |
//! | know who leaked | [`Expired`], from [`LoadTracker::expire_idle`] |
//!
//! # Guarantees
//!
//! * A booking is given back exactly once: by its drop, by its id, by expiry or with its rank, whichever is first.
//!   The others then find nothing, also when the rank has come back in between: a new life of a rank starts at zero.
//! * A refused booking changes nothing.
//! * A prompt block shared by several requests of one rank counts once there. Everything else counts each.
//! * Expiry follows inactivity, never age.
//! * The three numbers of one rank always belong together. Numbers of two ranks may be a few bookings apart.
//! * Foreign load is what an engine reports beyond our bookings of that moment: of those, nothing counts twice.
//! * Replicas whose messages are lost, repeated or reordered agree in the end; a dead one's bookings expire. No message
//!   is larger than set, and what others book takes no room of our own.
//! * Requests, ranks, tombstones and stored prompt blocks are bounded by [`LoadConfig`]; [`LoadTracker::stats`] shows the use.
//!
//! Deliberately absent: a clock (every call takes `now`), threads (the caller decides when to sweep), sockets (the
//! caller moves messages), any judgement of what a worker can bear, and any knowledge of its cache.
//!
//! # Cost
//!
//! Booking and release cost one lock, a few map probes for each fork in the tree of prompts in flight, and one copy
//! of the part of the prompt that nobody else has in flight; they do not grow with the number of ranks. Progress
//! reports cost one lock and a few additions. A snapshot looks at a stamp for every 16 ranks and copies those that
//! changed since the same buffer was filled last, plus one write for each rank that shares a part of the prompt; it
//! allocates nothing once its buffer has grown.
#![forbid(unsafe_code)]

mod booking;
mod budget;
mod config;
mod demand;
mod engine;
mod error;
mod hooks;
mod ids;
mod prompts;
mod replica;
mod requests;
mod shard;
mod shared;
mod snapshot;
mod tracker;

pub use booking::{Booking, BookingState};
pub use config::{LoadConfig, LoadConfigError};
pub use demand::{AttemptEnd, Demand, Expired, LoadStats, WorkerLoad};
pub use engine::{EngineReport, RankCapacity};
pub use error::{AddRankError, BookError};
pub use hooks::{Hooks, LoadListener};
pub use replica::{
    BookingName, BookingsPart, BookingsParts, BookingsWish, DeltaBatch, JournalConfig, LoadDelta, ReplicaId,
    ReplicaLife, ReplicaSync, SharedBooking, SyncConfig, SyncConfigError, SyncOutcome, SyncStats,
};
pub use snapshot::{LoadSnapshot, Membership, RankLoad};
pub use tracker::LoadTracker;
