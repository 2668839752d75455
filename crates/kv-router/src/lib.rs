//! Route LLM requests to the worker that already holds their KV cache.
//!
//! A [`Router`] is told which workers there are, hears what their engines cache, and places each request: hash the
//! prompt, find who holds its prefix, weigh that against what everybody is working on, pick, book.
//!
//! ```
#![doc = include_str!("../examples/gateway.rs")]
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | set up | [`RouterConfig`], [`Router::builder`] |
//! | say who serves | [`Router::join`] with a [`WorkerSpec`], [`Router::leave`] |
//! | pass on what an engine cached | [`Router::engine_stream`] for an engine's own frames, [`Router::apply`] for an [`EventBatch`] |
//! | start with warm caches | [`Router::snapshot`], [`Router::restore`] |
//! | find out why nothing is ever found | [`Router::diagnose`], a [`Diagnosis`] |
//! | place a request | [`Router::route`] with a [`RouteRequest`], a [`Decision`] |
//! | place it when there is room | [`Router::admit`], a [`Ticket`] |
//! | route to a worker that has no events | [`WorkerSpec::without_events`], [`PredictionConfig`] |
//! | keep a conversation on one worker | [`RouteRequest::session`] |
//! | run several routers over one fleet | [`RouterConfig::journal`], [`Router::poll_peers`], [`Router::receive_peer`] |
//! | have a broker feed it, with workers, events and other routers | [`RouterReplica`], for a transport such as `kv-router-nats` |
//! | report progress, end a request | the [`Booking`] of the decision, or drop it |
//! | filter, score or pick by rules of my own | [`RouterBuilder::custom`] with [`CustomRules`] |
//! | know why | [`RouteRequest::explained`], [`Router::explain`], an [`Explanation`] |
//! | watch | [`Router::stats`], [`Router::streams`], [`Router::load`] |
//!
//! # Guarantees
//!
//! * The overlap of a rank is exactly what its events say, under any history of them ([`kv_router_index`]). Events that
//!   are lost or refused make it smaller, never larger, and are counted.
//! * A rank without events, or one that falls silent, is answered by a guess that says so ([`Decision::certainty`]); of
//!   one rank a decision takes what its events say or what is guessed, never some of both.
//! * A request counts as load from the decision until its booking is dropped, it expires, or its worker leaves.
//! * Events of a worker that left change nothing any more, and those of a life before
//!   [`WorkerSpec::incarnation`] never do.
//! * Equal seeds and equal calls on one thread give equal decisions.
//! * Routers whose messages are lost, repeated or reordered agree on the load in the end; a dead one's expires.
//! * No async runtime, no thread of its own, no I/O.
//!
//! # Cost
//!
//! A decision costs the hash of the prompt, one lookup, and a few nanoseconds a rank; buffers are reused, so it
//! allocates only for the booking.
#![forbid(unsafe_code)]

mod admit;
mod builder;
mod clock;
mod config;
mod core;
mod decision;
mod doctor;
mod engine;
mod error;
mod fleet;
mod index;
mod ingest;
mod membership;
mod order;
mod peers;
mod pool;
mod predict;
mod replica;
mod request;
mod room;
mod router;
mod seed;
mod sessions;
mod snapshot;
mod stats;
mod sync;

pub use admit::Ticket;
pub use builder::RouterBuilder;
pub use clock::{Clock, SystemClock};
pub use config::{BuildError, RouterConfig};
pub use decision::Decision;
pub use doctor::{Diagnosis, Finding};
pub use engine::{
    EngineCounters, EngineFrame, EngineKind, EngineLives, EngineStream, EngineStreamConfig,
    EngineStreamError, FrameFault, FrameReport, OpenStreamError, PulledReport, PulledStream, RankNaming,
};
pub use error::{AdmitError, JoinError, LeaveError, RouteError};
pub use fleet::{EventSource, WorkerSpec};
pub use index::IndexConfig;
pub use ingest::{ApplyBatchError, BatchReport, EventCounters, RankStatus};
pub use peers::{
    PeerDecodeError, PeerEncodeError, PeerEnvelope, PeerLimits, PeerMessage, PeerOutcome, Recipient,
};
pub use predict::{PredictionConfig, PredictionStats, SilenceRule};
pub use replica::{ReplicaCounters, RouterReplica, SpecDecodeError, SpecEncodeError};
pub use request::RouteRequest;
pub use router::Router;
pub use snapshot::{RestoreError, RestoreReport, SnapshotError, SnapshotReport};
pub use stats::RouterStats;

pub use kv_router_approx::predicted::{PredictedConfig, PredictedConfigError};
pub use kv_router_engines::{
    BatchError, DecodeLimits, EventFault, EventFaults, IngestCounters, IngestStateError, MediaTable,
    Presence, Skip, Skips,
};
pub use kv_router_hash::{HashContext, HashScheme, MmHash, MmSpan, Prompt, Window};
pub use kv_router_index::paged::{PagedConfig, PagedConfigError};
pub use kv_router_index::{
    Certainty, ConcurrentRadixConfig, Occupancy, Overlap, Overlaps, PositionalConfig, PositionalConfigError,
    RadixConfig,
};
pub use kv_router_load::{
    Booking, BookingState, EngineReport, JournalConfig, LoadConfig, LoadTracker, ReplicaId, ReplicaLife,
    SyncConfig, SyncOutcome, SyncStats, WorkerLoad,
};
pub use kv_router_schedule::{
    Adapters, Candidate, Capacity, Constraints, Contender, CostConfig, CostTerms, CustomRules, CustomTerm,
    Entropy, Explanation, Filter, FilterConfig, Picker, Pin, QueueConfig, QueueFull, QueueOrder, QueueStats,
    Scorer, SelectRequest, SessionConfig, SessionGossip, SessionId, SessionStats, Spread, StaleRule,
    Stickiness, StreamFreshness, Taint, WorkerSet, WorkerTraits,
};
pub use kv_router_transport::{
    Backoff, DumpFingerprint, DumpReadError, DumpWriteError, EventBatch, FeedConfig, FeedCounters,
    ForgetReason, Incarnation, RecoveryId, ReplayFault, ReplayRequest, ReplayWaits, SequencerConfigError,
    SequencerCounters, SkipReason,
};
pub use kv_router_types::{
    BlockSize, DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, RequestId, StoredBlock, Tier, WorkerId,
    WorkerRank,
};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
