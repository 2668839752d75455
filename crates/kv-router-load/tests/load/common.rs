//! Shared by the test programs.

use std::time::{Duration, Instant};

use kv_router_load::{Demand, LoadConfig, LoadSnapshot, LoadStats, LoadTracker};
use kv_router_types::{DpRank, RequestId, SequenceHash, WorkerId, WorkerRank};

/// A virtual clock: the real one gives its start and is never read again.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "there is no other way to get an instant to count from")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn at(self, seconds: u64) -> Instant {
        self.0 + Duration::from_secs(seconds)
    }
}

pub(crate) fn rank(worker: u64, rank: u32) -> WorkerRank {
    WorkerRank::new(WorkerId::new(worker), DpRank::new(rank))
}

pub(crate) fn blocks(raw: &[u64]) -> Vec<SequenceHash> {
    raw.iter().copied().map(SequenceHash::new).collect()
}

pub(crate) fn demand<'a>(
    request: Option<u128>,
    prefill_tokens: u64,
    prompt: &'a [SequenceHash],
    private: u32,
) -> Demand<'a> {
    Demand {
        request: request.map(RequestId::new),
        attempt: 0,
        prefill_tokens,
        prompt_blocks: prompt,
        private_blocks: private,
    }
}

pub(crate) fn tracker(ranks: &[WorkerRank]) -> LoadTracker {
    let tracker = LoadTracker::new(LoadConfig::default()).unwrap();
    for &rank in ranks {
        tracker.add_rank(rank).unwrap();
    }
    tracker
}

/// Tokens, blocks and requests of a rank.
#[track_caller]
pub(crate) fn check(tracker: &LoadTracker, worker: WorkerRank, expected: (u64, u64, u32)) {
    let load = tracker.load(worker).expect("the rank is known");
    assert_eq!((load.prefill_tokens, load.blocks, load.requests), expected);
}

#[track_caller]
pub(crate) fn check_empty(tracker: &LoadTracker, ranks: u64) {
    let stats = tracker.stats();
    let mut expected = LoadStats::default();
    expected.ranks = ranks;
    assert_eq!(stats, expected);
    let mut snapshot = LoadSnapshot::new();
    tracker.snapshot_into(&[], &mut snapshot);
    assert_eq!(snapshot.len() as u64, ranks);
    for rank in snapshot.iter() {
        assert_eq!(rank.load, Default::default(), "{rank:?}");
    }
}
