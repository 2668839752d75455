//! What the conformance suite cannot see: identity inside a jump, laziness, limits, memory, order of a dump,
//! threads.

use std::collections::BTreeMap;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, SequenceHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

use super::entries::{Entries, Entry, Key};
use super::{PositionalConfig, PositionalConfigError, PositionalIndexer};
use crate::{
    Applied, ApplyError, ApplyEvents, DumpEvents, FindOptions, Inspect, Occupancy, Oracle, Overlap, Overlaps,
    PrefixIndex,
};

mod threads;

fn rank(worker: u64) -> WorkerRank {
    WorkerId::new(worker).into()
}

fn name(n: u64) -> ExternalSequenceHash {
    ExternalSequenceHash::new(n)
}

fn store_in(tier: Tier, parent: Option<u64>, blocks: impl IntoIterator<Item = (u64, u64)>) -> KvEvent {
    let block = |(external, local)| StoredBlock::new(name(external), LocalBlockHash::new(local));
    KvEvent::Stored { tier, parent: parent.map(name), blocks: blocks.into_iter().map(block).collect() }
}

/// Blocks whose names are their content.
fn store(parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    store_in(Tier::Device, parent, blocks.into_iter().map(|n| (n, n)))
}

fn remove_in(tier: Tier, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    KvEvent::Removed { tier, blocks: blocks.into_iter().map(name).collect() }
}

fn remove(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    remove_in(Tier::Device, blocks)
}

fn query(blocks: impl IntoIterator<Item = u64>) -> Vec<LocalBlockHash> {
    blocks.into_iter().map(LocalBlockHash::new).collect()
}

fn with_jump(jump: u32) -> PositionalIndexer {
    PositionalIndexer::with_config(&PositionalConfig { jump, ..PositionalConfig::default() }).unwrap()
}

/// Applies events to an index and to the oracle, and compares a query.
#[track_caller]
fn check(jump: u32, events: &[(u64, KvEvent)], asked: &[LocalBlockHash]) {
    let (index, mut oracle) = (with_jump(jump), Oracle::new());
    for (worker, event) in events {
        assert_eq!((&index).apply(rank(*worker), event), oracle.apply(rank(*worker), event));
    }
    let sorted = |overlaps: &Overlaps| {
        let mut list: Vec<Overlap> = overlaps.iter().collect();
        list.sort_by_key(|overlap| overlap.worker());
        list
    };
    assert_eq!(sorted(&index.find(asked)), sorted(&oracle.find(asked)));
}

#[test]
fn a_jump_of_nothing_is_refused() {
    let config = PositionalConfig { jump: 0, ..PositionalConfig::default() };
    let error = PositionalIndexer::with_config(&config).unwrap_err();
    assert_eq!(error, PositionalConfigError::ZeroJump);
    assert!(error.to_string().contains("use 1"), "{error}");
}

mod identity {
    use super::*;

    #[test]
    fn a_lone_prefix_behind_a_different_block_is_not_that_of_the_query() {
        // Nobody else stands at any of these positions, and the rank holds the far end of each jump.
        let events = [(1, store(None, 0..200))];
        for altered in [1, 30, 63, 64, 65, 198, 199] {
            let mut asked: Vec<u64> = (0..200).collect();
            asked[altered] = 7777;
            for jump in [1, 2, 64, 1000] {
                check(jump, &events, &query(asked.iter().copied()));
            }
        }
    }

    #[test]
    fn equal_numbers_of_ranks_are_not_equal_ranks() {
        // Two ranks at the first block and two at block 64: rank 2 left at 10, rank 3 has no head.
        let events =
            [(1, store(None, 0..100)), (2, store(None, 0..10)), (3, store(None, 0..100)), (3, remove([0]))];
        check(64, &events, &query(0..100));
    }

    #[test]
    fn the_far_end_of_a_jump_over_a_hole_proves_nothing() {
        for hole in [1, 5, 63, 64, 65, 130] {
            let events = [(1, store(None, 0..200)), (2, store(None, 0..200)), (2, remove([hole]))];
            check(64, &events, &query(0..200));
        }
    }

    #[test]
    fn copies_in_a_lower_tier_are_not_jumped_over() {
        let host = |blocks: std::ops::Range<u64>| {
            let parent = blocks.start.checked_sub(1);
            store_in(Tier::Host, parent, blocks.map(|n| (n, n)))
        };
        let events = [
            (1, store(None, 0..200)),
            (1, host(70..75)),
            (1, remove([71, 72])),
            (2, host(0..100)),
            (2, store(Some(99), 100..200)),
        ];
        check(64, &events, &query(0..200));
    }

    #[test]
    fn prefixes_that_share_position_and_content_are_told_apart() {
        // 1000 conversations: a different first block, then the same turn.
        let events: Vec<_> = (0..1000u64)
            .map(|n| {
                (n % 7, store_in(Tier::Device, None, [(n * 10, n), (n * 10 + 1, 5000), (n * 10 + 2, 6000)]))
            })
            .collect();
        for first in [0, 3, 999] {
            for jump in [1, 64] {
                check(jump, &events, &query([first, 5000, 6000]));
            }
        }
        check(64, &events, &query([1000, 5000, 6000]));
    }

    #[test]
    fn ranks_that_leave_everywhere_inside_a_jump() {
        let events: Vec<_> = (0..60).map(|n| (n, store(None, 0..1 + n * n % 150))).collect();
        for jump in [1, 5, 64, 1000] {
            check(jump, &events, &query(0..200));
        }
    }
}

mod laziness {
    use super::*;

    #[track_caller]
    fn check_hashed(index: &PositionalIndexer, asked: &[LocalBlockHash], at_most: usize) {
        let mut out = Overlaps::new();
        index.find_into(asked, FindOptions::new(), &mut out);
        let hashed = out.jumps.hashes.len();
        assert!(hashed <= at_most, "hashed {hashed} blocks");
    }

    #[test]
    fn a_query_is_hashed_no_further_than_somebody_may_hold_it() {
        let mut index = &with_jump(64);
        index.apply(rank(1), &store(None, 0..10)).unwrap();
        index.apply(rank(2), &store(None, 500..600)).unwrap();
        check_hashed(index, &query(900..2000), 1);
        check_hashed(index, &query(0..2000), 11);
        check_hashed(index, &query(500..2000), 101);
        // Somebody stands at block 64, but none of those that hold the first one.
        check_hashed(index, &query((0..10).chain(510..2000)), 11);
    }
}

mod limits {
    use super::*;

    fn index(max_names_per_rank: usize, max_nodes: usize) -> PositionalIndexer {
        let config = PositionalConfig { max_names_per_rank, max_nodes, ..PositionalConfig::default() };
        PositionalIndexer::with_config(&config).unwrap()
    }

    #[test]
    fn a_full_rank_refuses_whole_and_leaves_no_state() {
        let mut index = &index(3, usize::MAX);
        let full = Err(ApplyError::RankFull { limit: 3 });
        assert_eq!(index.apply(rank(2), &store(None, [1, 2, 3, 4])), full);
        assert_eq!(index.occupancy(), Occupancy::default());
        index.apply(rank(1), &store(None, [1, 2])).unwrap();
        let before = index.occupancy();
        assert_eq!(index.apply(rank(1), &store(Some(2), [3, 4])), full);
        assert_eq!(index.occupancy(), before);
        index.apply(rank(1), &store(Some(2), [3])).unwrap();
        let moved = index.apply(rank(1), &store(Some(1), [3])).unwrap();
        assert_eq!(moved, Applied { moved: 1, ..Applied::default() });
    }

    #[test]
    fn a_full_index_refuses_new_prefixes_alone() {
        let mut index = &index(usize::MAX, 3);
        let full = Err(ApplyError::IndexFull { limit: 3 });
        index.apply(rank(1), &store(None, 1..=3)).unwrap();
        assert_eq!(index.apply(rank(2), &store(None, 1..=4)), full);
        assert_eq!(index.occupancy().ranks, 1);
        index.apply(rank(2), &store(None, 1..=3)).unwrap();
        index.apply(rank(1), &remove([3])).unwrap();
        assert_eq!(index.apply(rank(1), &store(Some(2), [4])), full);
        index.apply(rank(2), &remove([3])).unwrap();
        index.apply(rank(1), &store(Some(2), [4])).unwrap();
    }
}

mod memory {
    use super::*;

    #[track_caller]
    fn assert_nothing_left(index: &PositionalIndexer) {
        assert_eq!(index.occupancy(), Occupancy::default());
        assert_eq!((index.entries.len(), index.entries.capacity()), (0, 0));
        assert!(index.fleet.cells().get(0).is_none());
    }

    #[test]
    fn a_hundred_thousand_short_lived_workers_leave_nothing() {
        let mut index = &PositionalIndexer::new();
        for worker in 0..100_000 {
            index.apply(rank(worker), &store(None, [worker + 10, 1, 2])).unwrap();
            match worker % 3 {
                0 => assert_eq!(index.remove_worker(WorkerId::new(worker)).removed, 3),
                1 => assert_eq!(index.apply(rank(worker), &KvEvent::Cleared).unwrap().removed, 3),
                _ => assert_eq!(index.apply(rank(worker), &remove([1, worker + 10, 2])).unwrap().removed, 3),
            }
        }
        assert_nothing_left(index);
    }

    #[test]
    fn workers_that_come_and_go_together_leave_nothing() {
        let mut index = &PositionalIndexer::new();
        for worker in 0..5_000 {
            index.apply(rank(worker), &store(None, [1, worker + 10])).unwrap();
        }
        assert_eq!(index.find(&query([1])).len(), 5_000);
        for worker in 0..5_000 {
            index.remove_worker(WorkerId::new(worker));
        }
        assert_nothing_left(index);
    }

    #[test]
    fn the_map_follows_what_is_held_down() {
        let mut index = &PositionalIndexer::new();
        index.apply(rank(1), &store(None, 0..50_000)).unwrap();
        index.apply(rank(1), &remove((100..50_000).rev())).unwrap();
        assert_eq!(index.occupancy().nodes, 100);
        assert!(index.entries.capacity() < 20_000, "{}", index.entries.capacity());
    }

    #[test]
    fn holes_have_no_entry_and_go_with_what_they_lead_to() {
        let mut index = &PositionalIndexer::new();
        index.apply(rank(1), &store(None, 0..10)).unwrap();
        index.apply(rank(1), &remove(0..9)).unwrap();
        let Occupancy { names, nodes, side_entries, .. } = index.occupancy();
        assert_eq!((names, nodes, side_entries), (1, 1, 9));
        index.apply(rank(1), &remove([9])).unwrap();
        assert_nothing_left(index);
    }

    #[test]
    fn deep_chains_need_no_stack() {
        const DEPTH: u64 = 300_000;
        let mut index = &PositionalIndexer::new();
        index.apply(rank(1), &store(None, 0..DEPTH)).unwrap();
        index.apply(rank(1), &remove(0..DEPTH - 1)).unwrap();
        let copy = PositionalIndexer::new();
        index.dump(&mut |from, event| {
            (&copy).apply(from, &event).unwrap();
        });
        (&copy).apply(rank(1), &store(None, 0..DEPTH - 1)).unwrap();
        assert_eq!(copy.find(&query(0..DEPTH)).blocks(rank(1)), DEPTH as u32);
        index.apply(rank(1), &remove([DEPTH - 1])).unwrap();
        assert_nothing_left(index);
    }
}

mod dumps {
    use super::*;

    #[test]
    fn a_dump_is_sorted_by_position_and_in_runs() {
        let mut index = &PositionalIndexer::new();
        index.apply(rank(1), &store(None, 0..3000)).unwrap();
        index.apply(rank(1), &store(Some(9), 5000..5010)).unwrap();
        index.apply(rank(1), &store(Some(5004), 6000..6003)).unwrap();
        index.apply(rank(1), &remove([5])).unwrap();
        let (copy, mut sizes, mut starts) = (PositionalIndexer::new(), Vec::new(), Vec::new());
        let mut depth_of = BTreeMap::new();
        index.dump(&mut |from, event| {
            sizes.push(event.block_count());
            if let KvEvent::Stored { parent, blocks, .. } = &event {
                let start = parent.map_or(0, |parent| depth_of[&parent] + 1);
                starts.push(start);
                depth_of.extend((start..).zip(blocks).map(|(depth, block)| (block.external, depth)));
            }
            (&copy).apply(from, &event).unwrap();
        });
        // Which of the two branches goes on in the run that starts at 10 is not specified.
        assert_eq!((sizes[0], sizes[1] + sizes[2], &sizes[3..]), (1024, 13, &[1024, 952, 1][..]));
        assert_eq!(starts, [0, 10, 15, 1024, 2048]);
        assert_eq!(copy.find(&query(0..3000)).blocks(rank(1)), 5);
        (&copy).apply(rank(1), &store(Some(4), [5])).unwrap();
        assert_eq!(copy.find(&query(0..3000)).blocks(rank(1)), 3000);
        let branch = query((0..10).chain(5000..5005).chain(6000..6003));
        assert_eq!(copy.find(&branch).blocks(rank(1)), 18);
    }
}

proptest! {
    #[test]
    fn entries_agree_with_a_model(
        steps in prop::collection::vec((any::<bool>(), 0u32..2, 0u64..2, 0u64..4, 0u32..8), 0..200),
    ) {
        let entries = Entries::new();
        let mut model: BTreeMap<(u32, u64, u64), Vec<u32>> = BTreeMap::new();
        for (hold, position, local, sequence, slot) in steps {
            let key = Key { position, local: LocalBlockHash::new(local) };
            let hash = SequenceHash::new(sequence);
            let slots = model.entry((position, local, sequence)).or_default();
            if hold {
                entries.hold(key, hash, slot, Tier::Device);
                slots.push(slot);
            } else {
                entries.let_go(key, hash, slot, Tier::Device);
                slots.retain(|&other| other != slot);
            }
            model.retain(|_, slots| !slots.is_empty());

            prop_assert_eq!(entries.nodes(), model.len());
            let mut keys: Vec<_> = model.keys().map(|&(position, local, _)| (position, local)).collect();
            keys.dedup();
            prop_assert_eq!(entries.len(), keys.len());
            for (position, local) in keys {
                let key = Key { position, local: LocalBlockHash::new(local) };
                let prefixes = model.range((position, local, 0)..=(position, local, u64::MAX)).count();
                entries.read(key, |entry| {
                    assert_eq!(matches!(entry, Some(Entry::Single(..))), prefixes == 1, "{entry:?}");
                });
            }
            for (&(position, local, sequence), slots) in &model {
                let key = Key { position, local: LocalBlockHash::new(local) };
                let expected = slots.iter().fold(0, |bits, slot| bits | 1u64 << slot);
                let found = entries.read(key, |entry| {
                    entry.and_then(|entry| entry.holders(SequenceHash::new(sequence))).map(|holders| holders.word(0))
                });
                prop_assert_eq!(found, Some(expected));
            }
        }
    }
}
