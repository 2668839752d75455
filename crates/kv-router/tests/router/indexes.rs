//! Every index that a router can keep, through the router: all exact, all alike.

use kv_router::{
    BlockSize, BuildError, Capacity, ConcurrentRadixConfig, DpRank, EventBatch, ExternalSequenceHash,
    Incarnation, IndexConfig, KvEvent, LocalBlockHash, Occupancy, PagedConfig, PositionalConfig, RadixConfig,
    RouteRequest, Router, RouterConfig, StoredBlock, Tier, WorkerRank, WorkerSpec,
};
use proptest::prelude::*;

use crate::support::{Fleet, name, rank, worker};

fn kinds() -> Vec<IndexConfig> {
    vec![
        IndexConfig::Paged(PagedConfig::default()),
        IndexConfig::ConcurrentRadix(ConcurrentRadixConfig::default()),
        IndexConfig::Positional(PositionalConfig::default()),
        IndexConfig::Radix(RadixConfig::default()),
    ]
}

#[test]
fn lookups_are_lock_free_unless_asked_otherwise() {
    assert!(matches!(IndexConfig::default(), IndexConfig::Paged(_)));
}

/// What a router that keeps `index` sees of a short life with a hole, a host copy, a clear and a loss.
fn life(index: IndexConfig) -> Vec<Vec<(WorkerRank, u32)>> {
    let fleet = Fleet::with(3, Capacity::default(), |config| config.index = index);
    let prompt: Vec<u32> = (0..640).collect(); // 40 blocks
    let seen = || {
        let found = fleet.router.explain(&RouteRequest::from_tokens(&prompt)).unwrap();
        let overlap = |rank| {
            let seen = found.candidates.iter().find(|seen| seen.worker == rank);
            (rank, seen.map_or(0, |seen| seen.overlap.iter().sum()))
        };
        (0..3).map(|id| overlap(rank(id))).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    (0..3).for_each(|id| {
        fleet.store(id, &prompt, 10 + 10 * id as usize);
    });
    all.push(seen());
    fleet.apply(2, vec![KvEvent::Removed { tier: Tier::Device, blocks: vec![name(2, 4)] }]);
    all.push(seen());
    let KvEvent::Stored { blocks, .. } = fleet.stored(2, &prompt, 5) else { panic!("a store") };
    let refill = KvEvent::Stored { tier: Tier::Host, parent: Some(name(2, 3)), blocks: vec![blocks[4]] };
    fleet.apply(2, vec![refill]);
    fleet.apply(0, vec![KvEvent::Cleared]);
    all.push(seen());
    fleet.router.leave(worker(1)).unwrap();
    all.push(seen());
    fleet.apply(2, vec![KvEvent::Cleared]);
    assert_eq!(fleet.router.stats().index, Occupancy::default());
    all
}

#[test]
fn all_indexes_give_the_same_overlaps() {
    let overlaps =
        |depths: [u32; 3]| -> Vec<_> { (0..3).map(|id| (rank(id), depths[id as usize])).collect() };
    let expected = [[10, 20, 30], [10, 20, 4], [0, 20, 30], [0, 0, 30]].map(overlaps);
    for index in kinds() {
        assert_eq!(life(index.clone()), expected, "{index:?}");
    }
}

#[test]
fn bounds_out_of_range_are_refused() {
    let build = |index| {
        let mut config = RouterConfig::new(BlockSize::new(16).unwrap());
        config.index = index;
        Router::builder(config).build().err()
    };
    let mut paged = PagedConfig::default();
    paged.max_ranks = 0;
    let refused = build(IndexConfig::Paged(paged)).unwrap();
    assert!(matches!(refused, BuildError::PagedIndex(error) if error.field == "max_ranks"));
    let mut positional = PositionalConfig::default();
    positional.jump = 0;
    let refused = build(IndexConfig::Positional(positional)).unwrap();
    assert_eq!(refused.to_string(), "a jump of 0 blocks gets nowhere: use 1 to visit every block");
}

/// Stores, moves, twins, removals, clears, workers that leave and come back, stores refused: whatever an engine may send.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || (0..3u64, 0..2u32);
    let tier = || prop_oneof![2 => Just(Tier::Device), 1 => Just(Tier::Host), 1 => Just(Tier::Disk)];
    let blocks = || prop::collection::vec((0..12u64, 0..3u64), 0..4);
    let step = prop_oneof![
        8 => (at(), tier(), prop::option::of(0..12u64), blocks())
            .prop_map(|(at, tier, parent, blocks)| Step::Store { at, tier, parent, blocks }),
        4 => (at(), tier(), prop::collection::vec(0..12u64, 0..4))
            .prop_map(|(at, tier, names)| Step::Remove { at, tier, names }),
        1 => at().prop_map(Step::Clear),
        1 => (0..3u64).prop_map(Step::Leave),
        1 => (0..3u64).prop_map(Step::Join),
        1 => at().prop_map(Step::Lose),
    ];
    prop::collection::vec(step, 0..60)
}

#[derive(Clone, Debug)]
enum Step {
    Store { at: (u64, u32), tier: Tier, parent: Option<u64>, blocks: Vec<(u64, u64)> },
    Remove { at: (u64, u32), tier: Tier, names: Vec<u64> },
    Clear((u64, u32)),
    Leave(u64),
    Join(u64),
    Lose((u64, u32)),
}

/// What becomes of it, and what each prompt finds, step by step.
fn trace(index: IndexConfig, steps: &[Step]) -> Vec<String> {
    let block_size = BlockSize::new(16).unwrap();
    let mut config = RouterConfig::new(block_size);
    config.index = index;
    let router = Router::builder(config).seed(3).build().unwrap();
    let mut numbers = std::collections::BTreeMap::<(u64, u32), u64>::new();
    let mut trace = Vec::new();
    let named = ExternalSequenceHash::new;
    let all_join = (0..3).map(Step::Join);
    for step in all_join.chain(steps.iter().cloned()) {
        let (at, events) = match step {
            Step::Store { at, tier, parent, blocks } => {
                let block = |(name, content)| StoredBlock::new(named(name), LocalBlockHash::new(content));
                let blocks = blocks.into_iter().map(block).collect();
                (at, vec![KvEvent::Stored { tier, parent: parent.map(named), blocks }])
            }
            Step::Remove { at, tier, names } => {
                (at, vec![KvEvent::Removed { tier, blocks: names.into_iter().map(named).collect() }])
            }
            Step::Clear(at) => (at, vec![KvEvent::Cleared]),
            Step::Leave(id) => {
                trace.push(format!("{:?}", router.leave(worker(id))));
                continue;
            }
            Step::Join(id) => {
                let joined = router.join(worker(id), WorkerSpec::new(block_size).with_ranks(2));
                if joined.is_ok() {
                    numbers.extend([((id, 0), 0), ((id, 1), 0)]);
                }
                trace.push(format!("{joined:?}"));
                continue;
            }
            Step::Lose(at) => {
                *numbers.entry(at).or_default() += 1;
                continue;
            }
        };
        let number = numbers.entry(at).or_default();
        let from = WorkerRank::new(worker(at.0), DpRank::new(at.1));
        let batch = EventBatch { from, incarnation: Incarnation::new(1), sequence: *number, events };
        *number += 1;
        trace.push(format!("{:?}", router.apply(&batch)));
        for prompt in [[0, 1, 2, 0], [0, 0, 0, 0], [1, 0, 1, 2], [2, 1, 0, 0]] {
            let locals = prompt.map(LocalBlockHash::new);
            let found = router.overlaps(&RouteRequest::from_hashes(&locals, 70)).unwrap();
            let mut found: Vec<_> = found.iter().map(|seen| (seen.worker(), seen.by_tier())).collect();
            found.sort_unstable();
            trace.push(format!("{found:?}"));
        }
    }
    for id in 0..3 {
        let _ = router.leave(worker(id));
    }
    trace.push(format!("{:?}", router.stats().index));
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_life_of_a_fleet_tells_the_indexes_apart(steps in steps()) {
        let [first, others @ ..] = &kinds()[..] else { panic!("several") };
        let expected = trace(first.clone(), &steps);
        for other in others {
            prop_assert_eq!(&trace(other.clone(), &steps), &expected, "{:?}", other);
        }
    }
}
