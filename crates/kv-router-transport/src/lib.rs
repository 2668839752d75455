//! Event batches on their way from an engine to an index: an in-process channel, the gap rule, a binary form,
//! and dumps.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::time::Instant;
//!
//! use kv_router_transport::{Action, EventBatch, Incarnation, Numbered, Standing};
//! use kv_router_transport::{SequencerConfig, StreamSequencer, batch_channel};
//! use kv_router_types::{KvEvent, WorkerId, WorkerRank};
//!
//! let batch = |sequence| EventBatch {
//!     from: WorkerRank::from(WorkerId::new(7)),
//!     incarnation: Incarnation::new(1),
//!     sequence,
//!     events: vec![KvEvent::Cleared],
//! };
//! let (sender, mut receiver) = batch_channel(NonZeroUsize::new(16).ok_or("no capacity")?);
//! sender.try_send(batch(0))?;
//! sender.try_send(batch(0))?; // a duplicate
//! sender.try_send(batch(1))?;
//! drop(sender);
//!
//! let mut sequencer = StreamSequencer::new(SequencerConfig::default())?; // one a rank
//! let mut actions = Vec::new();
//! while let Ok(batch) = receiver.try_recv() {
//!     sequencer.live(Instant::now(), Numbered::from(batch), &mut actions);
//! }
//! let applied = actions.iter().filter(|action| matches!(action, Action::Apply(_)));
//! assert_eq!(applied.count(), 2);
//! assert_eq!(sequencer.standing(), Standing::Fresh);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | type |
//! |---|---|
//! | send batches to another thread | [`batch_channel`]: [`BatchSender`], [`BatchReceiver`] |
//! | send batches to another process | [`BatchCodec`], and any transport of bytes |
//! | notice lost, repeated, late and outdated batches, and recover | [`StreamSequencer`], one a rank |
//! | the same for an engine's own stream, whose lives nobody numbers | [`RankFeed`] |
//! | know whether a rank's state can be trusted | [`StreamSequencer::standing`], [`RankFeed::standing`] |
//! | write a state to a file or a peer, and read it back | [`DumpWriter`], [`DumpReader`] |
//! | join a restored state to its stream | [`Watermark`], [`StreamSequencer::restored`], [`RankFeed::restored`] |
//! | keep what streams say, and leave their order to others | [`FollowSink`], [`ReplicaSink`] |
//!
//! # The gap rule
//!
//! | batch | outcome |
//! |---|---|
//! | next in order | applied |
//! | applied or held already | skipped |
//! | ahead of the next | held, the missing ones are asked for: first from the replay source, else from a peer |
//! | of an older life | skipped |
//! | of a newer life | the rank is forgotten, then the batch is its first |
//!
//! When what is missing cannot be had (no source, a deadline, a replay that starts too late, a full hold), the
//! rank is forgotten and goes on from the earliest batch after the hole that is available: cold, but live. The
//! first batch of all follows the same rule: if it is not the first of its life, the ones before are missing.
//!
//! # Guarantees
//!
//! * Between two [`Action::Forget`]s the batches applied are a run of one life: in order, no holes, no repeats.
//! * [`Standing::Fresh`] is never a guess: every batch of the life is in the state, or one that clears it and
//!   every one since.
//! * Nothing is lost silently: each batch is applied, skipped with a reason that is counted, or held.
//! * Every wait has a deadline, every buffer a limit and a counter. No clock is read; a wait in the channel is
//!   the caller's `Duration`.
//! * Bytes from outside give a value or an error that names the field: no panic, nothing half decoded, no
//!   allocation on the word of a length. A frame with a damaged byte does not decode; a dump that was cut off is
//!   not taken for whole.
//!
//! What this crate does not do: no sockets, no files, no threads, no retries, no policy on many ranks at once.
//!
//! # Cost
//!
//! A batch through the channel is a move of some 60 bytes and one or two atomic additions. A sequencer's input is
//! a few comparisons when in order, and O(log held) while recovering. A frame is 16 bytes a block and 16 an event;
//! encoding and decoding are one pass, with one allocation for the events and one for each event's blocks.
//! Bincode and serde are private to the wire module; `docs/wire.md` has every byte, so both can be replaced.
#![forbid(unsafe_code)]

mod backoff;
mod batch;
mod channel;
mod dump;
mod feed;
mod follow;
mod frame_hash;
mod sequencer;
mod watermark;
mod wire;

pub use backoff::{Backoff, Jitter};
pub use batch::{EventBatch, Incarnation};
pub use channel::{BatchReceiver, BatchSender, ChannelCounters, RecvError, SendError, batch_channel};
pub use dump::{DumpFingerprint, DumpReadError, DumpReader, DumpRecord, DumpWriteError, DumpWriter};
pub use feed::{FeedConfig, FeedCounters, FeedHealth, RankFeed, ReplayFault};
pub use follow::{Audience, FleetSnapshot, FollowSink, ReplicaSink};
pub use frame_hash::FrameHash;
pub use sequencer::{
    Action, ForgetReason, Numbered, RecoveryId, ReplayRequest, ReplayWaits, SequencerConfig,
    SequencerConfigError, SequencerCounters, SkipReason, SnapshotRequest, Standing, StreamSequencer,
};
pub use watermark::Watermark;
pub use wire::{BatchCodec, DecodeError, EncodeError, WireField, WireLimits, WireLimitsError, crc32};
