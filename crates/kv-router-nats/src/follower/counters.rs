//! What a follower counts.

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
    /// Batches and admissions of ranks above the limit.
    pub refused_ranks: u64,
    /// Batches of ranks that are not followed: they are asked for once the rank is.
    pub strangers: u64,
    /// Pages asked for.
    pub pages: u64,
    /// Pages that did not come, or made no sense.
    pub failed_pages: u64,
    /// Snapshots loaded.
    pub snapshots: u64,
    /// Snapshots that did not come, were damaged, or are of another fingerprint.
    pub failed_snapshots: u64,
    /// Times a cold rank was tried to be built anew.
    pub healings: u64,
    /// Ranks restored from snapshots.
    pub restored: u64,
    /// Times the connection came back and every rank was asked for what it said meanwhile.
    pub catch_ups: u64,
}
