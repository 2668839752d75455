//! What the index says about itself: integrity, memory, explanations, limits, writers.

use std::collections::BTreeMap;

use kv_router_index::paged::{BlockId, BlockRun, IdEvent, PagedConfig, PagedIndex};
use kv_router_index::{ApplyError, ApplyEvents, DumpEvents, Inspect, Occupancy, PrefixIndex};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

fn rank(number: u64) -> WorkerRank {
    WorkerId::new(number).into()
}

fn name(raw: u64) -> ExternalSequenceHash {
    ExternalSequenceHash::new(raw)
}

fn store(tier: Tier, parent: Option<u64>, blocks: impl IntoIterator<Item = (u64, u64)>) -> KvEvent {
    let block = |(id, local)| StoredBlock::new(name(id), LocalBlockHash::new(local));
    KvEvent::Stored { tier, parent: parent.map(name), blocks: blocks.into_iter().map(block).collect() }
}

fn chain(blocks: std::ops::Range<u64>) -> KvEvent {
    store(Tier::Device, None, blocks.map(|id| (id, id)))
}

#[derive(Clone, Debug)]
struct Step {
    rank: u64,
    what: u8,
    tier: usize,
    name: u64,
    local: u64,
    len: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u64..4, 0u8..20, 0usize..8, 0u64..400, 0u64..3, 1u64..150)
        .prop_map(|(rank, what, tier, name, local, len)| Step { rank, what, tier, name, local, len });
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Names, places and tiers at random, with moves, twins and holes: the parts must fit after every event.
    #[test]
    fn everything_fits_after_every_event(steps in steps()) {
        let mut index = PagedIndex::new();
        for step in steps {
            let tier = if step.tier < 5 { Tier::Device } else { Tier::ALL[step.tier - 4] };
            let event = match step.what {
                0..12 => {
                    let parent = (step.what < 9 && step.name > 0).then(|| step.name - 1);
                    // Content repeats, so that chains of different names meet and part.
                    let blocks = (0..step.len).map(|at| {
                        let id = step.name + at;
                        (id, if id.is_multiple_of(7) { step.local } else { 0 })
                    });
                    store(tier, parent, blocks)
                }
                12..19 => KvEvent::Removed { tier, blocks: (step.name..step.name + step.len).rev().map(name).collect() },
                _ => KvEvent::Cleared,
            };
            let _ = index.apply(rank(step.rank), &event);
            prop_assert_eq!(index.audit(), vec![]);
        }
        for number in 0..4 {
            index.apply(rank(number), &KvEvent::Cleared).unwrap();
        }
        while index.reclaim(100) > 0 {}
        prop_assert_eq!(index.audit(), vec![]);
        prop_assert_eq!(index.occupancy(), Occupancy::default());
        prop_assert_eq!(index.memory().lines_used, 0);
    }
}

#[test]
fn an_empty_index_is_small() {
    let mut index = PagedIndex::new();
    assert!(index.memory().total() < 1 << 20, "{:?}", index.memory());
    index.apply(rank(1), &chain(0..10)).unwrap();
    assert!(index.memory().total() < 1 << 20, "{:?}", index.memory());
}

#[test]
fn many_ranks_on_one_prompt_and_none_after() {
    let mut index = PagedIndex::new();
    let ranks = 3000;
    for number in 0..ranks {
        index.apply(rank(number), &chain(0..600)).unwrap();
    }
    assert_eq!(index.audit(), vec![]);
    let query: Vec<_> = (0..700).map(LocalBlockHash::new).collect();
    let found = index.find(&query);
    assert_eq!(found.len(), ranks as usize);
    assert!(found.iter().all(|overlap| overlap.blocks() == 600));
    assert_eq!(index.occupancy().nodes, 600);

    // Half of them one by one, in the middle; the rest at once.
    for number in (0..ranks).filter(|number| number % 2 == 0) {
        let blocks = (0..600).rev().map(name).collect();
        index.apply(rank(number), &KvEvent::Removed { tier: Tier::Device, blocks }).unwrap();
    }
    assert_eq!(index.audit(), vec![]);
    assert_eq!(index.find(&query).len(), ranks as usize / 2);
    for number in 0..ranks {
        index.remove_worker(WorkerId::new(number));
    }
    assert_eq!(index.occupancy(), Occupancy::default());
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn a_large_rank_goes_at_once_and_its_memory_in_slices() {
    let mut index = PagedIndex::new();
    for prompt in 0..2000 {
        index.apply(rank(1), &chain(prompt * 10..prompt * 10 + 10)).unwrap();
    }
    let query = [LocalBlockHash::new(0)];
    assert_eq!(index.find(&query).blocks(rank(1)), 1);
    assert_eq!(index.apply(rank(1), &KvEvent::Cleared).unwrap().removed, 20_000);
    assert!(index.find(&query).is_empty());
    assert!(index.occupancy().nodes > 0, "not all in one go");
    assert_eq!(index.audit(), vec![]);
    // It may come back before the rest is gone.
    index.apply(rank(1), &chain(0..7)).unwrap();
    assert_eq!(index.find(&query).blocks(rank(1)), 1);
    while index.reclaim(64) > 0 {
        assert_eq!(index.audit(), vec![]);
    }
    assert_eq!((index.occupancy().nodes, index.occupancy().side_entries), (7, 0));
}

#[test]
fn limits_refuse_whole() {
    let mut config = PagedConfig::default();
    (config.max_names_per_rank, config.max_nodes, config.max_ranks) = (10, 15, 2);
    let mut index = PagedIndex::with_config(config).unwrap();
    index.apply(rank(1), &chain(0..8)).unwrap();
    assert_eq!(index.apply(rank(1), &chain(0..11)), Err(ApplyError::RankFull { limit: 10 }));
    index.apply(rank(1), &chain(0..10)).unwrap();
    assert_eq!(index.apply(rank(2), &chain(100..106)), Err(ApplyError::IndexFull { limit: 15 }));
    index.apply(rank(2), &chain(0..10)).unwrap();
    assert!(index.apply(rank(3), &chain(0..1)).is_err());
    assert_eq!(index.occupancy().ranks, 2);
    assert_eq!(index.audit(), vec![]);

    config.max_ranks = 0;
    let error = PagedIndex::with_config(config).unwrap_err();
    assert_eq!((error.field, error.value), ("max_ranks", 0));
}

#[test]
fn one_writer_a_rank() {
    let index = PagedIndex::new();
    let mut writer = index.writer(rank(1)).unwrap();
    assert_eq!(index.writer(rank(1)).unwrap_err().rank, rank(1));
    writer.apply(&chain(0..5)).unwrap();
    drop(writer);
    let mut writer = index.writer(rank(1)).unwrap();
    assert_eq!(writer.apply(&chain(0..5)).unwrap().already_held, 5);
    let mut events = 0;
    index.dump(&mut |_, _| events += 1);
    assert_eq!(events, 1);
}

#[test]
fn a_rank_is_dumped_alone() {
    let index = PagedIndex::new();
    let mut writer = &index;
    writer.apply(rank(1), &chain(0..700)).unwrap();
    writer.apply(rank(2), &chain(0..5)).unwrap();
    let mut numbered = index.id_writer(rank(3)).unwrap();
    let locals: Vec<_> = (0..600).map(LocalBlockHash::new).collect();
    let run = BlockRun::new(BlockId::new(9), 600);
    numbered.apply(&IdEvent::Stored { tier: Tier::Device, parent: None, runs: vec![run], locals }).unwrap();

    let mut all = BTreeMap::<_, Vec<_>>::new();
    index.dump(&mut |from, event| all.entry(from).or_default().push(event));
    for from in [1, 2, 3, 4].map(rank) {
        let mut alone = Vec::new();
        index.dump_rank(from, &mut |event| {
            // Nothing waits for whoever takes the events, not even the rank itself.
            if from != rank(3) {
                writer.apply(from, &KvEvent::Cleared).unwrap();
            }
            alone.push(event);
        });
        assert_eq!(alone, all.remove(&from).unwrap_or_default());
    }
    assert!(all.is_empty());
    assert_eq!(index.occupancy().ranks, 1);
}

#[test]
fn an_explanation_names_the_pages() {
    let mut index = PagedIndex::new();
    index.apply(rank(1), &chain(0..700)).unwrap();
    index.apply(rank(2), &store(Tier::Device, None, (0..520).map(|id| (id, id)))).unwrap();
    let query: Vec<_> = (0..600).map(LocalBlockHash::new).collect();
    let steps = index.explain(&query);
    let numbers: Vec<_> =
        steps.iter().map(|step| (step.before, step.common, step.holders, step.full_holders)).collect();
    assert_eq!(numbers, [(0, 512, 2, 2), (512, 88, 2, 1)]);
    assert!(index.explain(&[LocalBlockHash::new(9)]).is_empty());
}
