//! Search over groups: exact although most groups are not asked, and honest when it stops early.
#![expect(clippy::unwrap_used, reason = "a helper of a test may panic, as the test may")]

use std::cell::Cell;

use kv_router_approx::cuckoo::{CuckooFeeder, FeederLimits, SummaryEpoch};
use kv_router_approx::hierarchy::{
    BestProof, GroupApplyError, GroupError, GroupId, GroupedOverlaps, HierarchicalIndex, HierarchyLimits,
};
use kv_router_index::conformance::Suite;
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlap,
    Overlaps, PrefixIndex, RadixTree,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

/// A leaf that counts how often it is asked.
#[derive(Default)]
struct Leaf {
    tree: RadixTree,
    asked: Cell<u32>,
}

impl PrefixIndex for Leaf {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.asked.set(self.asked.get() + 1);
        self.tree.find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        self.tree.certainty()
    }
}

impl ApplyEvents for Leaf {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.tree.apply(from, event)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.tree.remove_worker(worker)
    }
}

type Fleet = HierarchicalIndex<Leaf, CuckooFeeder>;

fn feeder(names: usize) -> CuckooFeeder {
    CuckooFeeder::new(SummaryEpoch::new(1), FeederLimits { names, logged_changes: 0 })
}

fn fleet(groups: u32, visits: usize) -> Fleet {
    let mut fleet = Fleet::new(HierarchyLimits { groups: 100, visits });
    for group in 0..groups {
        fleet.add(GroupId::new(group), Leaf::default(), feeder(1 << 20)).unwrap();
    }
    fleet
}

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

fn prompt(blocks: impl IntoIterator<Item = u64>) -> Vec<LocalBlockHash> {
    blocks.into_iter().map(LocalBlockHash::new).collect()
}

fn stored(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let block = |raw| StoredBlock::new(ExternalSequenceHash::new(raw), LocalBlockHash::new(raw));
    KvEvent::Stored { tier: Tier::Device, parent: None, blocks: blocks.into_iter().map(block).collect() }
}

fn removed(block: u64) -> KvEvent {
    KvEvent::Removed { tier: Tier::Device, blocks: vec![ExternalSequenceHash::new(block)] }
}

fn best(fleet: &Fleet, query: &[LocalBlockHash]) -> GroupedOverlaps {
    let mut answer = GroupedOverlaps::new();
    fleet.find_best_into(query, FindOptions::new(), &mut answer);
    answer
}

fn asked(fleet: &Fleet) -> u32 {
    fleet.groups().map(|group| fleet.leaf(group).unwrap().asked.take()).sum()
}

/// Worker `n` is in group `n`, and holds `n` blocks of the prompt.
fn ladder(groups: u32, visits: usize) -> Fleet {
    let mut fleet = fleet(groups, visits);
    for group in 0..groups {
        let event = stored(0..u64::from(group));
        fleet.apply(GroupId::new(group), rank(u64::from(group)), &event).unwrap();
    }
    fleet
}

#[test]
fn one_leaf_is_enough_for_the_best() {
    let fleet = ladder(50, 8);
    let answer = best(&fleet, &prompt(0..100));
    assert_eq!(asked(&fleet), 1);
    let found = answer.overlaps().best().unwrap();
    assert_eq!((found.worker(), found.blocks()), (rank(49), 49));
    assert_eq!((answer.proof(), answer.overlaps().certainty()), (BestProof::Proven, Certainty::Exact));
    assert_eq!((answer.visited().len(), answer.skipped().len()), (1, 48), "group 0 holds nothing");
    assert!(answer.skipped().is_sorted_by(|a, b| a.blocks_at_most >= b.blocks_at_most));
}

/// Behind a long enough island, a summary promises what its leaf does not hold.
fn with_islands(visits: usize) -> Fleet {
    let mut fleet = fleet(6, visits);
    for group in 0..4 {
        let (id, worker) = (GroupId::new(group), rank(u64::from(group)));
        fleet.apply(id, worker, &stored(0..60)).unwrap();
        fleet.apply(id, worker, &removed(10 + u64::from(group))).unwrap();
    }
    fleet.apply(GroupId::new(4), rank(4), &stored(0..50)).unwrap();
    fleet.apply(GroupId::new(5), rank(5), &stored(0..49)).unwrap();
    fleet
}

#[test]
fn promises_that_are_not_kept_are_paid_with_visits() {
    let fleet = with_islands(8);
    let answer = best(&fleet, &prompt(0..60));
    assert_eq!(answer.overlaps().best().map(Overlap::blocks), Some(50));
    assert_eq!(answer.proof(), BestProof::Proven);
    assert_eq!((answer.visited().len(), answer.skipped().len()), (5, 1));
    assert_eq!(answer.overlaps().blocks(rank(3)), 13, "what was asked is reported");
    assert_eq!(answer.overlaps().blocks(rank(5)), 0, "what was skipped is not");
}

#[test]
fn the_limit_of_visits_is_admitted() {
    let fleet = with_islands(3);
    let answer = best(&fleet, &prompt(0..60));
    assert_eq!((answer.visited().len(), asked(&fleet)), (3, 3));
    assert_eq!(answer.overlaps().best().map(Overlap::blocks), Some(12));
    assert_eq!(answer.proof(), BestProof::LimitReached { blocks_at_most: 60 });
}

#[test]
fn a_summary_behind_its_leaf_is_seen() {
    let mut fleet = ladder(3, 8);
    let leaf = fleet.leaf_mut(GroupId::new(2)).unwrap();
    leaf.apply(rank(9), &stored(0..30)).unwrap();
    let answer = best(&fleet, &prompt(0..30));
    assert_eq!(answer.proof(), BestProof::StaleSummary { group: GroupId::new(2) });
}

/// The summary has less room than the leaf: it bounds nothing any more, so the group is always asked.
#[test]
fn a_summary_that_overflows_costs_visits_not_answers() {
    let mut fleet = fleet(1, 8);
    let small = GroupId::new(7);
    fleet.add(small, Leaf::default(), feeder(10)).unwrap();
    fleet.apply(GroupId::new(0), rank(0), &stored(0..15)).unwrap();
    assert_eq!(fleet.apply(small, rank(1), &stored(0..20)).unwrap().stored, 20);
    let answer = best(&fleet, &prompt(0..20));
    assert_eq!(answer.overlaps().best().map(Overlap::worker), Some(rank(1)));
    assert_eq!(answer.proof(), BestProof::Proven);
    assert_eq!(fleet.find(&prompt(0..20)).len(), 2);

    let mut summary = feeder(1_000);
    summary.apply(rank(1), &stored(0..20)).unwrap();
    fleet.replace_summary(small, summary).unwrap();
    asked(&fleet);
    best(&fleet, &prompt(90..99));
    assert_eq!(asked(&fleet), 0, "it is trusted again");
}

#[test]
fn groups_and_workers_are_kept_apart() {
    let mut fleet = fleet(2, 8);
    let [zero, one, none] = [0, 1, 9].map(GroupId::new);
    assert_eq!(fleet.apply(none, rank(1), &stored(0..1)), Err(GroupApplyError::UnknownGroup { group: none }));
    fleet.apply(zero, rank(1), &stored(0..3)).unwrap();
    let other = GroupApplyError::OtherGroup { worker: WorkerId::new(1), group: zero };
    assert_eq!(fleet.apply(one, rank(1), &stored(0..3)), Err(other));
    let parent = ExternalSequenceHash::new(77);
    let orphan = KvEvent::Stored { tier: Tier::Device, parent: Some(parent), blocks: vec![] };
    let refused = GroupApplyError::Leaf(ApplyError::UnknownParent { parent });
    assert_eq!(fleet.apply(one, rank(2), &orphan), Err(refused));
    assert_eq!(fleet.workers(), 1);

    assert_eq!(fleet.remove_worker(WorkerId::new(1)).removed, 3);
    assert_eq!(fleet.workers(), 0);
    assert!(fleet.find(&prompt(0..3)).is_empty());
    fleet.apply(one, rank(1), &stored(0..3)).unwrap();

    let again = fleet.add(one, Leaf::default(), feeder(1));
    assert!(matches!(again, Err(GroupError::AlreadyThere { group, .. }) if group == one));
    let (leaf, _) = fleet.remove(one).unwrap();
    assert_eq!((leaf.tree.occupancy().names, fleet.workers()), (3, 0));
    // A leaf may bring workers along.
    fleet.add(one, leaf, feeder(100)).unwrap();
    assert_eq!(fleet.remove_worker(WorkerId::new(1)).removed, 3);
    let mut tiny = Fleet::new(HierarchyLimits { groups: 0, visits: 1 });
    assert!(matches!(tiny.add(zero, Leaf::default(), feeder(1)), Err(GroupError::TooMany { limit: 0, .. })));
}

/// The whole suite, on a fleet of four groups: as a [`PrefixIndex`] the hierarchy is as exact as its leaves.
struct Conforming(HierarchicalIndex<RadixTree, CuckooFeeder>);

impl Conforming {
    fn new() -> Self {
        let mut fleet = HierarchicalIndex::new(HierarchyLimits::default());
        for group in 0..4 {
            fleet.add(GroupId::new(group), RadixTree::new(), feeder(1 << 20)).unwrap();
        }
        Self(fleet)
    }
}

impl ApplyEvents for Conforming {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let group = GroupId::new((from.worker.get() % 4) as u32);
        self.0.apply(group, from, event).map_err(|error| match error {
            GroupApplyError::Leaf(error) => error,
            other => panic!("{other}"),
        })
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.0.remove_worker(worker)
    }
}

impl PrefixIndex for Conforming {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.0.find_into(query, options, out);
        // The best of a search is the best of all, from leaves that answer in full.
        if options == FindOptions::new() {
            let mut answer = GroupedOverlaps::new();
            self.0.find_best_into(query, options, &mut answer);
            assert_eq!(answer.proof(), BestProof::Proven);
            let blocks = answer.overlaps().best().map(Overlap::blocks);
            assert_eq!(blocks, out.best().map(Overlap::blocks));
        }
    }

    fn certainty(&self) -> Certainty {
        self.0.certainty()
    }
}

impl DumpEvents for Conforming {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.0.groups().for_each(|group| self.0.leaf(group).unwrap().dump(emit));
    }
}

impl Inspect for Conforming {
    fn occupancy(&self) -> Occupancy {
        let mut sum = Occupancy::default();
        for group in self.0.groups() {
            let one = self.0.leaf(group).unwrap().occupancy();
            assert_eq!(self.0.summary(group).unwrap().names(), one.names);
            sum.ranks += one.ranks;
            sum.names += one.names;
            sum.nodes += one.nodes;
        }
        sum
    }
}

#[test]
fn the_hierarchy_conforms() {
    let suite = Suite::new(Conforming::new);
    suite.run_examples();
    suite.run_histories();
}

proptest! {
    #[test]
    fn the_best_is_the_best_of_all(
        chains in prop::collection::vec((0u32..8, 0u64..4, 1u64..40, prop::option::of(0u64..40)), 0..30),
        visits in 1usize..10,
        start in 0u64..4,
    ) {
        let mut fleet = fleet(8, visits);
        for (worker, &(group, start, blocks, hole)) in (0..).zip(&chains) {
            let (group, worker) = (GroupId::new(group), rank(worker));
            // Prompts that begin alike and part later.
            let block = |n: u64| if n < 5 { n } else { n + 1_000 * start };
            fleet.apply(group, worker, &stored((0..blocks).map(block))).unwrap();
            if let Some(hole) = hole {
                fleet.apply(group, worker, &removed(block(hole))).unwrap();
            }
        }
        let query = prompt((0..40).map(|n| if n < 5 { n } else { n + 1_000 * start }));
        let answer = best(&fleet, &query);
        let all = fleet.find(&query);
        let of = |overlaps: &Overlaps| overlaps.best().map_or(0, Overlap::blocks);
        prop_assert!(answer.visited().len() <= visits);
        match answer.proof() {
            BestProof::Proven => prop_assert_eq!(of(answer.overlaps()), of(&all)),
            BestProof::LimitReached { blocks_at_most } => {
                prop_assert_eq!(answer.visited().len(), visits);
                prop_assert!(blocks_at_most > of(answer.overlaps()) && blocks_at_most >= of(&all));
            }
            other => prop_assert!(false, "{:?}", other),
        }
        for overlap in answer.overlaps().iter() {
            prop_assert_eq!(all.get(overlap.worker()), Some(overlap));
        }
    }
}
