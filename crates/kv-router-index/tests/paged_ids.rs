//! Ranks whose blocks have numbers: the relay and its writer together, the writer alone, bad input.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;

use kv_router_index::conformance::Suite;
use kv_router_index::paged::{
    BlockId, BlockIds, BlockRun, IdError, IdEvent, IdWriter, PagedConfig, PagedIndex, TakenBy,
};
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Oracle,
    Overlaps, PrefixIndex,
};
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

fn id(raw: u32) -> BlockId {
    BlockId::new(raw)
}

fn run(first: u32, len: u32) -> BlockRun {
    BlockRun::new(id(first), len)
}

fn locals(range: std::ops::Range<u64>) -> Vec<LocalBlockHash> {
    range.map(LocalBlockHash::new).collect()
}

/// An index whose events go through a relay for each rank.
#[derive(Default)]
struct Relayed {
    index: PagedIndex,
    ranks: HashMap<WorkerRank, (BlockIds, IdWriter)>,
    events: u32,
}

impl ApplyEvents for Relayed {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let Self { index, ranks, events } = self;
        let (ids, writer) =
            ranks.entry(from).or_insert_with(|| (BlockIds::new(), index.id_writer(from).unwrap()));
        let translated = ids.translate(event)?;
        let applied = writer.apply(&translated.event).map_err(|error| match error {
            IdError::UnknownParent { parent } => {
                ApplyError::UnknownParent { parent: ids.name(parent).unwrap() }
            }
            IdError::RankFull { limit } => ApplyError::RankFull { limit },
            IdError::IndexFull { limit } => ApplyError::IndexFull { limit },
            error => panic!("a relay sends nothing that is {error}"),
        });
        // It walks the whole index.
        *events += 1;
        assert!(*events % 16 > 0 || index.audit().is_empty());
        applied.map(|mut applied| {
            applied.unknown += translated.unknown;
            applied
        })
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.ranks.retain(|rank, _| rank.worker != worker);
        self.index.remove_worker(worker)
    }
}

impl PrefixIndex for Relayed {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.index.find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        self.index.certainty()
    }
}

impl DumpEvents for Relayed {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.index.dump(&mut |rank, mut event| {
            // A dump makes up names for blocks that are in the way but not held: any will do.
            let own = |number: ExternalSequenceHash| {
                let id = u32::try_from(number.get()).ok().map(BlockId::new);
                let made_up = name(number.get() ^ 0x7ab1_e000_dead_0000);
                id.and_then(|id| self.ranks[&rank].0.name(id)).unwrap_or(made_up)
            };
            match &mut event {
                KvEvent::Stored { parent, blocks, .. } => {
                    *parent = parent.map(own);
                    blocks.iter_mut().for_each(|block| block.external = own(block.external));
                }
                KvEvent::Removed { blocks, .. } => blocks.iter_mut().for_each(|name| *name = own(*name)),
                KvEvent::Cleared => {}
            }
            emit(rank, event);
        });
    }
}

impl Inspect for Relayed {
    fn occupancy(&self) -> Occupancy {
        self.index.occupancy()
    }
}

#[test]
fn examples() {
    Suite::new(Relayed::default).run_examples();
}

#[test]
fn random_histories() {
    Suite::new(Relayed::default).run_histories();
}

#[test]
fn a_long_churn_leaves_nothing() {
    let index = PagedIndex::new();
    let (mut ids, mut writer) = (BlockIds::new(), index.id_writer(rank(1)).unwrap());
    let mut held: Vec<u64> = Vec::new();
    for round in 0..3000u64 {
        let chain: Vec<u64> = (0..round % 40 + 1).map(|at| round * 64 + at).collect();
        let block = |&raw: &u64| StoredBlock::new(name(raw << 20), LocalBlockHash::new(raw % 1000));
        let parent = (round % 3 > 0).then(|| held.last().copied()).flatten().map(|raw| name(raw << 20));
        let blocks = chain.iter().map(block).collect();
        let stored = ids.translate(&KvEvent::Stored { tier: Tier::Device, parent, blocks }).unwrap();
        assert_eq!(writer.apply(&stored.event).unwrap().stored, chain.len() as u64);
        held.extend(chain);
        if held.len() > 2000 {
            let blocks: Vec<_> = held.drain(..held.len() - 1000).rev().map(|raw| name(raw << 20)).collect();
            let count = blocks.len() as u64;
            let removed = ids.translate(&KvEvent::Removed { tier: Tier::Device, blocks }).unwrap();
            assert_eq!(removed.unknown, 0);
            assert_eq!(writer.apply(&removed.event).unwrap().removed, count);
        }
        assert_eq!(ids.len(), held.len());
    }
    assert_eq!(index.audit(), vec![]);
    let blocks = held.iter().map(|&raw| name(raw << 20)).collect();
    writer.apply(&ids.translate(&KvEvent::Removed { tier: Tier::Device, blocks }).unwrap().event).unwrap();
    assert!(ids.is_empty());
    assert_eq!(index.occupancy(), Occupancy::default());
    drop(writer);
    assert_eq!(index.memory().lines_used, 0);
    assert!(index.memory().lanes == 0, "{:?}", index.memory());
}

#[derive(Clone, Debug)]
struct Step {
    rank: u64,
    what: u8,
    tier: usize,
    first: u32,
    local: u64,
    lens: Vec<(u32, u32)>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (0u64..3, 0u8..20, 0usize..8, 0u32..400, 0u64..3, prop::collection::vec((0u32..60, 0u32..70), 1..4))
            .prop_map(|(rank, what, tier, first, local, lens)| Step { rank, what, tier, first, local, lens });
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Numbers, places and tiers at random, with moves, twins and holes, beside an oracle to which the numbers are names.
    #[test]
    fn numbers_mean_what_names_mean(steps in steps()) {
        let (index, mut oracle) = (PagedIndex::new(), Oracle::new());
        let mut writers: Vec<IdWriter> = (0..3).map(|number| index.id_writer(rank(number)).unwrap()).collect();
        for step in steps {
            let tier = if step.tier < 5 { Tier::Device } else { Tier::ALL[step.tier - 4] };
            let (from, writer) = (rank(step.rank), &mut writers[step.rank as usize]);
            let mut at = step.first;
            let runs: Vec<BlockRun> = step.lens.iter().map(|&(gap, len)| {
                at += gap + len;
                run(at - len, len)
            }).collect();
            let numbers: Vec<u64> = runs.iter().flat_map(|run| run.ids()).map(|id| u64::from(id.get())).collect();
            match step.what {
                0..12 => {
                    let parent = (step.what < 9).then(|| id(step.first * 7 % 300));
                    // Content repeats, so that chains of different numbers meet and part.
                    let locals: Vec<_> = numbers.iter().map(|at| LocalBlockHash::new(if at % 7 == 0 { step.local } else { 0 })).collect();
                    let blocks = numbers.iter().zip(&locals).map(|(&at, &local)| StoredBlock::new(name(at), local)).collect();
                    let parent_name = parent.map(|id| name(u64::from(id.get())));
                    let expected = oracle.apply(from, &KvEvent::Stored { tier, parent: parent_name, blocks });
                    let found = writer.store(tier, parent, &runs, &locals).map_err(|error| match error {
                        IdError::Repeated { id } => ApplyError::InvalidBlockSequence { block: name(u64::from(id.get())) },
                        IdError::UnknownParent { parent } => ApplyError::UnknownParent { parent: name(u64::from(parent.get())) },
                        error => panic!("{error}"),
                    });
                    prop_assert_eq!(found, expected);
                }
                12..19 => {
                    let blocks = numbers.iter().map(|&at| name(at)).collect();
                    let expected = oracle.apply(from, &KvEvent::Removed { tier, blocks });
                    prop_assert_eq!(Ok(writer.remove(tier, &runs)), expected);
                }
                _ => prop_assert_eq!(Ok(writer.clear()), oracle.apply(from, &KvEvent::Cleared)),
            }
            prop_assert_eq!(index.audit(), vec![]);
            prop_assert_eq!(index.occupancy().names, oracle.occupancy().names);
            for length in [1, 9, 80] {
                let query: Vec<_> = (0..length).map(|at| LocalBlockHash::new(if at % 7 == 0 { step.local } else { 0 })).collect();
                let answer = |found: Overlaps| (0..3).map(|number| found.get(rank(number))).collect::<Vec<_>>();
                prop_assert_eq!(answer(index.find(&query)), answer(oracle.find(&query)));
            }
        }
        drop(writers);
        for number in 0..3 {
            (&index).apply(rank(number), &KvEvent::Cleared).unwrap();
        }
        while index.reclaim(100) > 0 {}
        prop_assert_eq!(index.audit(), vec![]);
        prop_assert_eq!(index.occupancy(), Occupancy::default());
    }
}

#[test]
fn a_refused_store_says_why_and_changes_nothing() {
    let mut config = PagedConfig::default();
    (config.max_ids_per_rank, config.max_names_per_rank, config.max_nodes) = (100, 20, 30);
    let index = PagedIndex::with_config(config).unwrap();
    let mut writer = index.id_writer(rank(1)).unwrap();
    writer.store(Tier::Device, None, &[run(0, 4)], &locals(0..4)).unwrap();
    let before = index.occupancy();
    let many: Vec<BlockRun> = (0..20).map(|at| run(4 + at % 19, 1)).collect();
    let cases: [(Option<u32>, &[BlockRun], u64, IdError); 10] = [
        (None, &[run(10, 2)], 3, IdError::Length { ids: 2, locals: 3 }),
        (
            None,
            &[run(7, u32::MAX), run(9, u32::MAX)],
            1,
            IdError::Length { ids: 2 * u64::from(u32::MAX), locals: 1 },
        ),
        (None, &[run(98, 3)], 3, IdError::OutOfRange { id: id(100), limit: 100 }),
        (None, &[run(5, 1), run(u32::MAX, 1)], 2, IdError::OutOfRange { id: id(u32::MAX), limit: 100 }),
        (Some(u32::MAX), &[run(5, 1)], 1, IdError::UnknownParent { parent: id(u32::MAX) }),
        (Some(4), &[run(5, 1)], 1, IdError::UnknownParent { parent: id(4) }),
        (Some(6), &[run(5, 2)], 2, IdError::Repeated { id: id(6) }),
        (Some(3), &[run(5, 3), run(9, 1), run(6, 4)], 8, IdError::Repeated { id: id(6) }),
        (Some(3), &many, 20, IdError::Repeated { id: id(4) }),
        (Some(3), &[run(10, 17)], 17, IdError::RankFull { limit: 20 }),
    ];
    for (parent, runs, count, expected) in cases {
        let found = writer.store(Tier::Device, parent.map(id), runs, &locals(50..50 + count));
        assert_eq!(found, Err(expected));
        assert!(!expected.to_string().is_empty());
    }
    let mut other = index.id_writer(rank(2)).unwrap();
    let too_much = other.store(Tier::Device, None, &[run(0, 20)], &locals(100..120));
    assert_eq!(too_much.map(|applied| applied.stored), Ok(20));
    let full = other.store(Tier::Device, None, &[run(20, 7)], &locals(200..207));
    assert_eq!(full, Err(IdError::RankFull { limit: 20 }));
    other.remove(Tier::Device, &[run(0, 1)]);
    let mut third = index.id_writer(rank(3)).unwrap();
    let full = third.store(Tier::Device, None, &[run(20, 7)], &locals(200..207));
    assert_eq!(full, Err(IdError::IndexFull { limit: 30 }));
    other.clear();
    while index.reclaim(100) > 0 {}
    assert_eq!(index.occupancy(), before);
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn no_blocks_are_no_store_but_their_parent_is_checked() {
    let index = PagedIndex::new();
    let mut writer = index.id_writer(rank(1)).unwrap();
    assert_eq!(writer.store(Tier::Device, None, &[], &[]), Ok(Applied::default()));
    assert_eq!(writer.store(Tier::Device, None, &[run(7, 0)], &[]), Ok(Applied::default()));
    let orphan = writer.store(Tier::Device, Some(id(1)), &[], &[]);
    assert_eq!(orphan, Err(IdError::UnknownParent { parent: id(1) }));
    assert_eq!(index.occupancy(), Occupancy::default());
}

#[test]
fn free_numbers_in_a_removal_are_unknown_however_many() {
    let index = PagedIndex::new();
    let mut writer = index.id_writer(rank(1)).unwrap();
    writer.store(Tier::Device, None, &[run(5, 5)], &locals(0..5)).unwrap();
    let runs = [run(0, u32::MAX), run(7, 2), run(u32::MAX, u32::MAX)];
    let applied = writer.remove(Tier::Device, &runs);
    assert_eq!((applied.removed, applied.unknown), (5, 2 * u64::from(u32::MAX) - 5 + 2));
    assert_eq!(index.occupancy(), Occupancy::default());
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn a_number_in_use_moves_and_a_replay_does_nothing() {
    let index = PagedIndex::new();
    let mut writer = index.id_writer(rank(1)).unwrap();
    writer.store(Tier::Device, None, &[run(0, 6)], &locals(0..6)).unwrap();
    let again = writer.store(Tier::Device, None, &[run(0, 6)], &locals(0..6)).unwrap();
    assert_eq!((again.stored, again.already_held), (0, 6));
    let moved = writer.store(Tier::Device, Some(id(1)), &[run(4, 2)], &locals(4..6)).unwrap();
    assert_eq!((moved.stored, moved.moved), (0, 2));
    assert_eq!(index.find(&locals(0..6)).blocks(rank(1)), 4);
    let other: Vec<_> = [0, 1, 4, 5].map(LocalBlockHash::new).into();
    assert_eq!(index.find(&other).blocks(rank(1)), 4);
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn names_and_numbers_exclude_each_other() {
    let index = PagedIndex::new();
    let stored = KvEvent::Stored {
        tier: Tier::Device,
        parent: None,
        blocks: vec![StoredBlock::new(name(1), LocalBlockHash::new(1))],
    };
    let removed = KvEvent::Removed { tier: Tier::Device, blocks: vec![name(1), name(0)] };

    let mut by_name = index.writer(rank(1)).unwrap();
    assert_eq!(index.id_writer(rank(1)).unwrap_err().by, TakenBy::Writer);
    by_name.apply(&stored).unwrap();
    drop(by_name);
    let taken = index.id_writer(rank(1)).unwrap_err();
    assert_eq!((taken.by, taken.rank), (TakenBy::Names, rank(1)));
    assert!(taken.to_string().contains("by name"));
    (&index).apply(rank(1), &removed).unwrap();

    let mut by_id = index.id_writer(rank(1)).unwrap();
    assert_eq!(index.writer(rank(1)).unwrap_err().by, TakenBy::Writer);
    assert_eq!((&index).apply(rank(1), &stored), Err(ApplyError::NumberedRank));
    by_id.store(Tier::Device, None, &[run(1, 1)], &locals(1..2)).unwrap();
    assert_eq!((&index).apply(rank(1), &removed).unwrap().unknown, 2, "a name is no number");
    drop(by_id);
    assert_eq!(index.writer(rank(1)).unwrap_err().by, TakenBy::Ids);
    assert_eq!((&index).apply(rank(1), &stored), Err(ApplyError::NumberedRank));
    // The next relay goes on where the last one was.
    let mut by_id = index.id_writer(rank(1)).unwrap();
    assert_eq!(by_id.store(Tier::Device, Some(id(1)), &[run(2, 1)], &locals(2..3)).unwrap().stored, 1);
    assert_eq!((&index).apply(rank(1), &KvEvent::Cleared).unwrap().removed, 2);
    by_id.apply(&IdEvent::Cleared).unwrap();
    drop(by_id);
    index.writer(rank(1)).unwrap().apply(&stored).unwrap();
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn a_clear_is_seen_at_once_and_gives_every_number_back() {
    let index = PagedIndex::new();
    let mut writer = index.id_writer(rank(1)).unwrap();
    for chain in 0..2000 {
        writer
            .store(
                Tier::Device,
                None,
                &[run(chain * 2, 2)],
                &locals(u64::from(chain) * 9..u64::from(chain) * 9 + 2),
            )
            .unwrap();
    }
    assert_eq!(writer.clear().removed, 4000);
    assert_eq!(index.find(&locals(9..11)).len(), 0);
    assert_eq!(writer.store(Tier::Device, None, &[run(0, 2)], &locals(9..11)).unwrap().stored, 2);
    assert_eq!(index.find(&locals(9..11)).blocks(rank(1)), 2);
    while index.reclaim(1000) > 0 {}
    assert_eq!(index.audit(), vec![]);
}
