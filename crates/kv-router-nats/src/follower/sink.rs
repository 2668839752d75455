//! What a follower tells, and what it counts.

use kv_router_transport::{EventBatch, ForgetReason, Watermark};
use kv_router_types::{KvEvent, WorkerRank};

/// What keeps the state of the ranks: an index, or a router.
pub trait FollowSink {
    /// Apply these, in order.
    fn apply(&mut self, batch: EventBatch);

    /// Forget all that the rank holds, in every tier.
    fn forget(&mut self, rank: WorkerRank, reason: ForgetReason);

    /// Replace all that the rank holds by what these events build: its state as of `watermark`.
    fn restore(&mut self, rank: WorkerRank, watermark: Watermark, events: &[KvEvent]);
}

/// What a follower did so far. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowerCounters {
    /// Batches that came live.
    pub live: u64,
    /// Batches that came by replay.
    pub replayed: u64,
    /// Messages that came when too many waited: a slow consumer. They are got back by replay.
    pub dropped: u64,
    /// Messages that are no batch, or not of the rank in their subject.
    pub malformed: u64,
    /// Batches of ranks above the limit.
    pub refused_ranks: u64,
    /// Pages asked for.
    pub pages: u64,
    /// Pages that did not come, or made no sense.
    pub failed_pages: u64,
    /// Snapshots loaded.
    pub snapshots: u64,
    /// Snapshots that did not come, were damaged, or are of another fingerprint.
    pub failed_snapshots: u64,
    /// Ranks restored from snapshots.
    pub restored: u64,
    /// Times the connection came back and every rank was asked for what it said meanwhile.
    pub catch_ups: u64,
}
