//! What the conformance suite cannot see: limits, use counts, recycling, depth.

use std::time::{Duration, Instant};

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::{RadixConfig, RadixTree};
use crate::{
    Applied, ApplyError, ApplyEvents, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex,
};

fn rank(worker: u64) -> WorkerRank {
    WorkerId::new(worker).into()
}

fn store(parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
    KvEvent::Stored {
        tier: Tier::Device,
        parent: parent.map(ExternalSequenceHash::new),
        blocks: blocks.into_iter().map(block).collect(),
    }
}

fn remove(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let blocks = blocks.into_iter().map(ExternalSequenceHash::new).collect();
    KvEvent::Removed { tier: Tier::Device, blocks }
}

fn query(blocks: impl IntoIterator<Item = u64>) -> Vec<LocalBlockHash> {
    blocks.into_iter().map(LocalBlockHash::new).collect()
}

#[test]
fn a_tree_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<RadixTree>();
    check::<Overlaps>();
}

mod limits {
    use super::*;

    fn tree(max_names_per_rank: usize, max_nodes: usize) -> RadixTree {
        RadixTree::with_config(&RadixConfig { max_names_per_rank, max_nodes, ..RadixConfig::default() })
    }

    #[test]
    fn a_full_rank_refuses_whole_and_stays_as_it_is() {
        let mut tree = tree(3, usize::MAX);
        tree.apply(rank(1), &store(None, [1, 2])).unwrap();
        let before = tree.occupancy();
        assert_eq!(tree.apply(rank(1), &store(Some(2), [3, 4])), Err(ApplyError::RankFull { limit: 3 }));
        assert_eq!(tree.apply(rank(2), &store(None, [1, 2, 3, 4])), Err(ApplyError::RankFull { limit: 3 }));
        assert_eq!(tree.occupancy(), before);
        assert_eq!(tree.find(&query(1..=4)).blocks(rank(1)), 2);

        tree.apply(rank(1), &store(Some(2), [3])).unwrap();
        tree.apply(rank(1), &remove([2])).unwrap();
        tree.apply(rank(1), &store(Some(1), [2])).unwrap();
        assert_eq!(tree.find(&query(1..=4)).blocks(rank(1)), 3);
    }

    #[test]
    fn only_new_names_count() {
        let mut tree = tree(3, usize::MAX);
        tree.apply(rank(1), &store(None, 1..=3)).unwrap();
        let replay = tree.apply(rank(1), &store(None, 1..=3)).unwrap();
        assert_eq!(replay, Applied { already_held: 3, ..Applied::default() });
        let moved = tree.apply(rank(1), &store(Some(1), [3])).unwrap();
        assert_eq!(moved, Applied { moved: 1, ..Applied::default() });
        assert_eq!(tree.apply(rank(1), &store(None, [])), Ok(Applied::default()));
        assert_eq!(tree.apply(rank(1), &store(None, 1..=4)), Err(ApplyError::RankFull { limit: 3 }));
    }

    #[test]
    fn a_full_tree_refuses_new_nodes_alone() {
        let mut tree = tree(usize::MAX, 3);
        tree.apply(rank(1), &store(None, 1..=3)).unwrap();
        assert_eq!(tree.apply(rank(2), &store(None, 1..=4)), Err(ApplyError::IndexFull { limit: 3 }));
        assert_eq!(tree.occupancy().ranks, 1);
        tree.apply(rank(2), &store(None, 1..=3)).unwrap();
        tree.apply(rank(1), &remove([3])).unwrap();
        assert_eq!(tree.apply(rank(1), &store(Some(2), [4])), Err(ApplyError::IndexFull { limit: 3 }));
        tree.apply(rank(2), &remove([3])).unwrap();
        tree.apply(rank(1), &store(Some(2), [4])).unwrap();
    }

    #[test]
    fn what_the_event_shows_comes_first() {
        let mut tree = tree(0, 0);
        let block = ExternalSequenceHash::new(1);
        assert_eq!(
            tree.apply(rank(1), &store(None, [1, 1])),
            Err(ApplyError::InvalidBlockSequence { block })
        );
        assert_eq!(
            tree.apply(rank(1), &store(Some(1), [2])),
            Err(ApplyError::UnknownParent { parent: block })
        );
        assert_eq!(tree.apply(rank(1), &store(None, [1])), Err(ApplyError::RankFull { limit: 0 }));
        assert_eq!(tree.occupancy(), Occupancy::default());
    }
}

mod uses {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(80);

    fn tree() -> RadixTree {
        let config = RadixConfig { use_window: Some(WINDOW), ..RadixConfig::default() };
        let mut tree = RadixTree::with_config(&config);
        tree.apply(rank(1), &store(None, 1..=4)).unwrap();
        tree
    }

    #[expect(clippy::disallowed_methods, reason = "an Instant cannot be made up")]
    fn start() -> Instant {
        Instant::now()
    }

    #[track_caller]
    fn check(tree: &RadixTree, blocks: u64, now: Instant, expected: &[u32]) {
        let mut out = Overlaps::new();
        tree.find_into(&query(1..=blocks), FindOptions::new().counting_use(now), &mut out);
        assert_eq!(out.use_counts(), expected);
    }

    #[test]
    fn each_matched_block_counts_and_only_those() {
        let (tree, now) = (tree(), start());
        check(&tree, 2, now, &[1, 1]);
        check(&tree, 9, now, &[2, 2, 1, 1]);
        check(&tree, 0, now, &[]);
        assert_eq!(tree.occupancy().side_entries, 4);
    }

    #[test]
    fn a_lookup_that_does_not_ask_counts_nothing() {
        let (tree, now) = (tree(), start());
        let answer = tree.find(&query(1..=4));
        assert!(answer.use_counts().is_empty());
        assert_eq!(tree.occupancy().side_entries, 0);
        check(&tree, 1, now, &[1]);
    }

    #[test]
    fn a_tree_without_a_window_counts_nothing() {
        let mut tree = RadixTree::new();
        tree.apply(rank(1), &store(None, 1..=4)).unwrap();
        check(&tree, 4, start(), &[]);
        assert_eq!(tree.find(&query(1..=4)).blocks(rank(1)), 4);
    }

    #[test]
    fn uses_leave_the_window_step_by_step() {
        let (tree, start) = (tree(), start());
        let at = |seconds| start + Duration::from_secs(seconds);
        check(&tree, 1, at(0), &[1]);
        check(&tree, 1, at(15), &[2]);
        check(&tree, 1, at(79), &[3]); // the first is in the last step of the window
        check(&tree, 1, at(80), &[3]); // and now it has left
        check(&tree, 1, at(89), &[4]);
        check(&tree, 1, at(90), &[4]); // so has the second
        check(&tree, 1, at(100_000), &[1]);
    }

    #[test]
    fn time_that_goes_backwards_counts_as_the_latest() {
        let (tree, start) = (tree(), start() + Duration::from_secs(1000));
        check(&tree, 1, start + Duration::from_secs(200), &[1]);
        check(&tree, 1, start, &[2]);
        check(&tree, 1, start - Duration::from_secs(1000), &[3]);
        check(&tree, 1, start + Duration::from_secs(270), &[4]);
    }

    #[test]
    fn a_hole_ends_what_is_matched() {
        let (mut tree, now) = (tree(), start());
        tree.apply(rank(1), &remove([2])).unwrap();
        check(&tree, 4, now, &[1]);
    }

    #[test]
    fn counts_go_with_their_blocks() {
        let (mut tree, now) = (tree(), start());
        check(&tree, 4, now, &[1, 1, 1, 1]);
        tree.apply(rank(1), &remove([4, 3])).unwrap();
        assert_eq!(tree.occupancy().side_entries, 2);
        tree.apply(rank(1), &store(Some(2), [3])).unwrap();
        check(&tree, 3, now, &[2, 2, 1]);
        tree.apply(rank(1), &KvEvent::Cleared).unwrap();
        assert_eq!(tree.occupancy(), Occupancy::default());
    }

    #[test]
    fn a_window_without_length_still_counts() {
        let config = RadixConfig { use_window: Some(Duration::ZERO), ..RadixConfig::default() };
        let mut tree = RadixTree::with_config(&config);
        tree.apply(rank(1), &store(None, [1])).unwrap();
        let now = start();
        check(&tree, 1, now, &[1]);
        check(&tree, 1, now, &[2]);
        check(&tree, 1, now + Duration::from_nanos(8), &[1]);
    }
}

#[test]
fn slots_are_used_again() {
    let mut tree = RadixTree::new();
    tree.apply(rank(0), &store(None, [1])).unwrap();
    for worker in 1..10_000 {
        tree.apply(rank(worker), &store(None, [1, 2])).unwrap();
        assert_eq!(tree.find(&query([1, 2])).blocks(rank(worker)), 2);
        tree.remove_worker(WorkerId::new(worker));
    }
    // Had each worker taken a new slot, the last would be beyond the first word of every set.
    tree.apply(rank(10_000), &store(None, [1, 2])).unwrap();
    assert_eq!(tree.ranks.slot(rank(10_000)), Some(1));
}

#[test]
fn nothing_recurses_on_depth() {
    const DEPTH: u64 = 300_000;
    let mut tree = RadixTree::new();
    tree.apply(rank(1), &store(None, 0..DEPTH)).unwrap();
    tree.apply(rank(1), &remove(0..DEPTH - 1)).unwrap();
    let mut copy = RadixTree::new();
    tree.dump(&mut |from, event| {
        copy.apply(from, &event).unwrap();
    });
    assert_eq!(copy.occupancy(), tree.occupancy());
    copy.apply(rank(1), &store(None, 0..DEPTH)).unwrap();
    assert_eq!(copy.find(&query(0..DEPTH)).blocks(rank(1)), DEPTH as u32);
    tree.apply(rank(1), &remove([DEPTH - 1])).unwrap();
    assert_eq!(tree.occupancy(), Occupancy::default());
    drop(copy);
}

#[test]
fn a_dump_is_in_runs() {
    let mut tree = RadixTree::new();
    tree.apply(rank(1), &store(None, 0..3000)).unwrap();
    tree.apply(rank(2), &store(None, 0..10)).unwrap();
    let mut sizes = Vec::new();
    tree.dump(&mut |_, event| sizes.push(event.block_count()));
    assert_eq!(sizes, [1024, 1024, 952, 10]);
}
