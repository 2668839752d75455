//! What goes into a sequencer and what comes out.

use kv_router_types::KvEvent;

use crate::{EventBatch, Incarnation};

/// A payload with the numbers that tell where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered<P> {
    /// The life of the engine: it grows from life to life. A [`RankFeed`](crate::RankFeed) ignores it.
    pub incarnation: Incarnation,
    /// Counts the batches of the life. `u64::MAX` is what engines end a replay with and never a batch.
    pub sequence: u64,
    /// Whether the rank holds nothing older once this is applied: a state that was incomplete is whole again.
    pub clears: bool,
    /// Whether something of it was lost before it came here, for instance an event that could not be decoded:
    /// the rank is suspect once this is applied.
    pub lossy: bool,
    /// What to apply.
    pub payload: P,
}

/// Reads the numbers off a batch that lost nothing, and whether it has a [`KvEvent::Cleared`] in it.
impl From<EventBatch> for Numbered<EventBatch> {
    fn from(batch: EventBatch) -> Self {
        Self {
            incarnation: batch.incarnation,
            sequence: batch.sequence,
            clears: batch.events.iter().any(|event| matches!(event, KvEvent::Cleared)),
            lossy: false,
            payload: batch,
        }
    }
}

/// Names one replay or snapshot request, so that what comes in answer to an older one is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecoveryId(u64);

impl RecoveryId {
    /// Wraps a number that no other request of the same stream has.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Please send these batches again.
///
/// An answer that starts earlier or goes on longer is fine. It has to come in order, and
/// [`replay_ended`](crate::StreamSequencer::replay_ended) or
/// [`replay_failed`](crate::StreamSequencer::replay_failed) ends it; an answer that never ends meets a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Hand it back with each batch of the answer.
    pub id: RecoveryId,
    /// Whose batches; `None` when no batch was seen yet.
    pub incarnation: Option<Incarnation>,
    /// The first one missing.
    pub from: u64,
    /// The last one missing; `None` for everything there is.
    pub to: Option<u64>,
}

/// Please get this rank's state from a peer, replace what the rank holds by it, then call
/// [`restored`](crate::StreamSequencer::restored) with its watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Hand it back with [`snapshot_failed`](crate::StreamSequencer::snapshot_failed).
    pub id: RecoveryId,
    /// An older life's snapshot is of no use; `None` when no batch was seen yet.
    pub incarnation: Option<Incarnation>,
    /// The batch wanted next. A watermark before it can do too, if the batches between can be replayed.
    pub next: u64,
}

/// What to do now, in this order.
///
/// Not `#[non_exhaustive]` on purpose: code that forgets a kind of action must not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// Apply this payload to the rank.
    Apply(P),
    /// Forget everything that the rank holds, in every tier, as [`KvEvent::Cleared`] does.
    Forget(ForgetReason),
    /// Ask the replay source.
    RequestReplay(ReplayRequest),
    /// Ask a peer.
    RequestSnapshot(SnapshotRequest),
    /// Nothing: the batch was dropped, for the log.
    Skip {
        /// Its number.
        sequence: u64,
        /// Why.
        reason: SkipReason,
    },
}

/// Why a batch is not applied. Counted by reason in [`SequencerCounters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// It was applied, or is held, already.
    Duplicate,
    /// It belongs to an older life, or the rank is retired.
    Stale,
    /// It was held behind a gap that could not be closed, in a life that ended meanwhile, or until it would be known
    /// whose life a connection is, which another one replaced.
    Abandoned,
    /// It answers a request that is no longer open.
    Unasked,
    /// Its number is `u64::MAX`.
    Reserved,
}

/// Why a rank's state has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForgetReason {
    /// The first batch from this rank: what is held of it came from somewhere else.
    FirstContact,
    /// The engine restarted.
    NewIncarnation,
    /// Batches are missing and there is no source to ask.
    Gap,
    /// The replay starts later than asked, has a hole, or ends too early.
    ReplayIncomplete,
    /// The replay source said so.
    ReplayFailed,
    /// The replay took too long.
    ReplayDeadline,
    /// More live batches came during the recovery than may be held.
    HeldOverflow,
    /// No peer has a snapshot, or it does not join the stream.
    SnapshotFailed,
    /// The snapshot took too long.
    SnapshotDeadline,
    /// The state restored belongs to an older life.
    StaleSnapshot,
    /// Asked for: the state is rebuilt from the start.
    Resync,
    /// Asked for: the worker is gone.
    Retired,
}

/// How far a rank's state can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It is what the stream says, from the first batch of the life or from the last clear on. Whether the
    /// stream lost something inside a batch is [`is_suspect`](crate::StreamSequencer::is_suspect).
    Fresh,
    /// Batches are missing and asked for; later ones wait.
    Recovering,
    /// It is what the stream says since some batch; what the engine holds from before is unknown. Also every
    /// rank that was never heard of.
    Cold,
}

/// What a sequencer did so far. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequencerCounters {
    /// Batches handed out to be applied.
    pub applied: u64,
    /// Batches skipped as [`SkipReason::Duplicate`].
    pub duplicates: u64,
    /// Batches skipped as [`SkipReason::Stale`].
    pub stale: u64,
    /// Batches skipped as [`SkipReason::Abandoned`]: these are lost.
    pub abandoned: u64,
    /// Batches skipped as [`SkipReason::Unasked`].
    pub unasked: u64,
    /// Batches skipped as [`SkipReason::Reserved`].
    pub reserved: u64,
    /// Gaps in the live stream.
    pub gaps: u64,
    /// Replays asked for.
    pub replays: u64,
    /// Snapshots asked for.
    pub snapshots: u64,
    /// Times the rank was forgotten.
    pub forgets: u64,
    /// Lives seen after the first.
    pub new_lives: u64,
}
