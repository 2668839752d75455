//! The filters fed by events, through the histories of the conformance suite: exact about what was applied, and never
//! below the truth.
#![expect(clippy::unwrap_used, reason = "a helper of a test may panic, as the test may")]

use kv_router_approx::cuckoo::{
    CuckooFeeder, CuckooRankIndex, CuckooReplica, FeederLimits, PrefixSummary, SummaryEpoch,
};
use kv_router_hash::sequence_hashes_into;
use kv_router_index::conformance::Suite;
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps,
    PrefixIndex, RadixTree,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

/// An exact index that answers, beside filters that must agree with what it says and does: so the suite drives both.
struct Beside {
    exact: RadixTree,
    ranks: CuckooRankIndex,
    /// One summary of all ranks, and a reader that follows it.
    group: CuckooFeeder,
}

impl Beside {
    fn new() -> Self {
        Self {
            exact: RadixTree::new(),
            ranks: CuckooRankIndex::new(1 << 20),
            group: CuckooFeeder::new(SummaryEpoch::new(1), FeederLimits::default()),
        }
    }
}

impl ApplyEvents for Beside {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let expected = self.exact.apply(from, event);
        assert_eq!(self.ranks.apply(from, event), expected);
        assert_eq!(self.group.apply(from, event), expected);
        expected
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let expected = self.exact.remove_worker(worker);
        assert_eq!(self.ranks.remove_worker(worker), expected);
        assert_eq!(self.group.remove_worker(worker), expected);
        expected
    }
}

impl PrefixIndex for Beside {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.exact.find_into(query, options, out);
        let bounds = self.ranks.find(query);
        assert_eq!((bounds.certainty(), bounds.query_blocks()), (Certainty::UpperBound, query.len()));
        assert!(bounds.iter().is_sorted_by(|deeper, other| deeper.blocks() >= other.blocks()));
        let mut places = vec![];
        sequence_hashes_into(query, &mut places);
        let of_group = self.group.blocks_at_most(&places);
        for overlap in out.iter() {
            let bound = bounds.blocks(overlap.worker());
            assert!(bound >= overlap.blocks(), "{bound} is below the truth, {overlap:?}");
            assert!(of_group >= overlap.blocks(), "the group's {of_group} is below the truth, {overlap:?}");
        }
    }

    fn certainty(&self) -> Certainty {
        self.exact.certainty()
    }
}

impl DumpEvents for Beside {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.exact.dump(emit);
    }
}

impl Inspect for Beside {
    fn occupancy(&self) -> Occupancy {
        let exact = self.exact.occupancy();
        let (ranks, group) = (self.ranks.occupancy(), self.group.occupancy());
        assert_eq!((ranks.ranks, ranks.names), (exact.ranks, exact.names));
        assert_eq!((group.ranks, group.names), (exact.ranks, exact.names));
        assert!(group.nodes <= exact.nodes, "a place that nobody names");
        let filter = self.group.publisher().filter();
        assert_eq!(filter.len(), group.nodes, "one entry a place, whoever holds it");
        let replica = CuckooReplica::from_bytes(&self.group.publisher().snapshot(), 1 << 20).unwrap();
        assert_eq!(replica.filter().to_bytes(), filter.to_bytes());
        if exact == Occupancy::default() {
            assert_eq!((ranks, group), (exact, exact), "what is empty is empty");
            assert_eq!(self.ranks.filter_bytes(), 0);
        }
        exact
    }
}

#[test]
fn filters_fed_by_events_conform() {
    let suite = Suite::new(Beside::new);
    suite.run_examples();
    suite.run_histories();
    suite.run_churn(20_000);
}

fn block(raw: u64) -> StoredBlock {
    StoredBlock::new(ExternalSequenceHash::new(raw), LocalBlockHash::new(raw))
}

fn stored(parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let parent = parent.map(ExternalSequenceHash::new);
    KvEvent::Stored { tier: Tier::Device, parent, blocks: blocks.into_iter().map(block).collect() }
}

fn removed(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let blocks = blocks.into_iter().map(ExternalSequenceHash::new).collect();
    KvEvent::Removed { tier: Tier::Device, blocks }
}

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

fn prompt(blocks: impl IntoIterator<Item = u64>) -> Vec<LocalBlockHash> {
    blocks.into_iter().map(LocalBlockHash::new).collect()
}

/// The examples of the contract, and what a summary says about holes.
#[test]
fn holes() {
    let mut index = CuckooRankIndex::new(1_000);
    let query = prompt(1..=5);
    let apply = |index: &mut CuckooRankIndex, event: &KvEvent| {
        index.apply(rank(1), event).unwrap();
        index.find(&query).blocks(rank(1))
    };
    assert_eq!(apply(&mut index, &stored(None, 1..=5)), 5);
    assert_eq!(apply(&mut index, &removed([2])), 1, "so close to the end, a hole is seen");
    assert_eq!(apply(&mut index, &stored(Some(1), [2])), 5);
    assert_eq!(apply(&mut index, &removed([1])), 0);
    assert_eq!(apply(&mut index, &stored(None, [1])), 5);
}

#[test]
fn what_many_ranks_hold_is_published_once() {
    let mut feeder = CuckooFeeder::new(SummaryEpoch::new(1), FeederLimits::default());
    for worker in 0..50 {
        feeder.apply(rank(worker), &stored(None, 0..100)).unwrap();
    }
    assert_eq!((feeder.names(), feeder.publisher().filter().len()), (5_000, 100));
    assert_eq!(feeder.publisher().logged(), 100);
    for worker in 0..49 {
        feeder.apply(rank(worker), &KvEvent::Cleared).unwrap();
    }
    assert_eq!(feeder.publisher().logged(), 100, "the last rank still has it all");
    feeder.apply(rank(49), &KvEvent::Cleared).unwrap();
    assert_eq!(feeder.publisher().logged(), 101, "one change for all");
    assert_eq!(feeder.occupancy(), Occupancy::default());
}

#[test]
fn the_limit_counts_all_ranks_together_and_refuses_whole() {
    let limits = FeederLimits { names: 10, ..FeederLimits::default() };
    let mut feeder = CuckooFeeder::new(SummaryEpoch::new(1), limits);
    let mut index = CuckooRankIndex::new(10);
    let full = Err(ApplyError::IndexFull { limit: 10 });
    let subjects: [&mut dyn ApplyEvents; 2] = [&mut feeder, &mut index];
    for subject in subjects {
        subject.apply(rank(1), &stored(None, 0..6)).unwrap();
        subject.apply(rank(2), &stored(None, 0..3)).unwrap();
        assert_eq!(subject.apply(rank(2), &stored(Some(2), 3..5)), full);
        assert_eq!(subject.apply(rank(3), &stored(None, 0..2)), full);
        assert_eq!(subject.apply(rank(2), &stored(None, 0..3)).unwrap().already_held, 3);
        assert_eq!(subject.apply(rank(2), &stored(Some(2), 3..4)).unwrap().stored, 1);
    }
    assert_eq!((feeder.names(), index.occupancy().names), (10, 10));
    assert_eq!(index.occupancy().ranks, 2, "a refused store leaves no rank behind");
}

proptest! {
    /// Long prompts with holes anywhere, against the literal reach.
    #[test]
    fn deep_prefixes_with_holes_are_never_below_the_truth(
        blocks in 1u64..2_000,
        holes in prop::collection::vec(0u64..2_000, 0..6),
    ) {
        let mut index = CuckooRankIndex::new(10_000);
        index.apply(rank(1), &stored(None, 0..blocks)).unwrap();
        index.apply(rank(1), &removed(holes.iter().copied())).unwrap();
        let truth = holes.iter().copied().min().unwrap_or(blocks).min(blocks) as u32;
        for asked in [blocks, blocks / 2 + 1, blocks + 50] {
            let bound = index.find(&prompt(0..asked)).blocks(rank(1));
            prop_assert!(bound >= truth.min(asked as u32), "{bound} < {truth}");
            if holes.iter().all(|&hole| hole >= blocks) {
                prop_assert_eq!(bound, truth.min(asked as u32));
            }
        }
    }
}
