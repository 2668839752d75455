//! What engines say of themselves: their load, beside what we have booked, and what they can bear.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use kv_router_types::WorkerRank;

use crate::{LoadTracker, WorkerLoad};

/// The largest number taken from a report. Far above all sense, and low enough that no sum overflows.
const MOST: u64 = 1 << 40;

/// The same for requests: room for all that we may book beside them.
const MOST_REQUESTS: u32 = 1 << 30;

/// What a rank can bear, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCapacity {
    /// Prompt tokens that the engine computes in one batch.
    pub batched_tokens: Option<NonZeroU32>,
    /// Blocks in the engine's device cache.
    pub total_blocks: Option<NonZeroU32>,
}

/// What an engine counts itself, pushed or scraped. Leave out what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// Prompt tokens that it has still to compute.
    pub prefill_tokens: Option<u64>,
    /// Blocks held by requests, whether they run or wait.
    pub blocks: Option<u64>,
    /// Requests that run or wait.
    pub requests: Option<u32>,
}

/// What is known of a rank besides the requests booked on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Besides {
    /// Load that others put there, by the last report. Part of the rank's load.
    pub(crate) foreign: WorkerLoad,
    /// When it was reported; `None` when `foreign` is nothing.
    pub(crate) reported: Option<Instant>,
    pub(crate) capacity: RankCapacity,
}

impl EngineReport {
    /// What an engine has beyond `booked`.
    pub(crate) fn beyond(&self, booked: &WorkerLoad) -> WorkerLoad {
        let beyond =
            |reported: Option<u64>, booked: u64| reported.unwrap_or(0).min(MOST).saturating_sub(booked);
        WorkerLoad {
            prefill_tokens: beyond(self.prefill_tokens, booked.prefill_tokens),
            blocks: beyond(self.blocks, booked.blocks),
            requests: self.requests.unwrap_or(0).min(MOST_REQUESTS).saturating_sub(booked.requests),
        }
    }
}

impl WorkerLoad {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            prefill_tokens: self.prefill_tokens + other.prefill_tokens,
            blocks: self.blocks + other.blocks,
            requests: self.requests + other.requests,
        }
    }

    /// `other` must be part of this.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self {
            prefill_tokens: self.prefill_tokens - other.prefill_tokens,
            blocks: self.blocks - other.blocks,
            requests: self.requests - other.requests,
        }
    }
}

impl LoadTracker {
    /// Takes in what an engine says of its own load. `false` when the rank is unknown.
    ///
    /// An engine's numbers include the requests that we booked there, so only what is beyond our bookings of this
    /// moment is added to them, as foreign load, until the next report: none of those counts twice. What we booked after
    /// the engine counted is taken off too, so for the length of a report's way foreign load may be seen too small,
    /// and what ended meanwhile too large. A booking of another replica that the engine has counted and we have not
    /// heard of yet is foreign, and counts twice from when it comes. The next report mends all of that.
    pub fn report(&self, worker: WorkerRank, report: &EngineReport, now: Instant) -> bool {
        let fell = self.shared().shard(worker).write().report(worker, report, now);
        if fell == Some(true) {
            self.shared().tell(worker);
        }
        fell.is_some()
    }

    /// Forgets foreign load that was reported `ttl` ago or longer: an engine that has gone quiet says nothing. Returns
    /// how many ranks that concerned. Call it on a timer.
    pub fn expire_reports(&self, now: Instant, ttl: Duration) -> usize {
        let mut stale = Vec::new();
        for shard in &self.shared().shards {
            stale.extend(shard.write().expire_reports(now, ttl));
        }
        stale.iter().for_each(|&worker| self.shared().tell(worker));
        stale.len()
    }

    /// The part of a rank's load that we did not book; `None` if the rank is unknown.
    pub fn foreign_load(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        self.shared().shard(worker).read().besides(worker).map(|besides| besides.foreign)
    }

    /// Says what a rank can bear. `false` when it is unknown. A new rank's capacity is not known.
    pub fn set_capacity(&self, worker: WorkerRank, capacity: RankCapacity) -> bool {
        self.shared().shard(worker).write().set_capacity(worker, capacity)
    }

    /// What a rank can bear; `None` if it is unknown.
    pub fn capacity(&self, worker: WorkerRank) -> Option<RankCapacity> {
        self.shared().shard(worker).read().besides(worker).map(|besides| besides.capacity)
    }
}
