//! Every index that a router can keep, through the router: all exact, all alike.

use kv_router::{
    BlockSize, BuildError, Capacity, ConcurrentRadixConfig, IndexConfig, KvEvent, Occupancy, PagedConfig,
    PositionalConfig, RadixConfig, RouteRequest, Router, RouterConfig, Tier, WorkerRank,
};

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
