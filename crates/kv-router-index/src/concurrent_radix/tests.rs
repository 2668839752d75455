//! What is freed, what is limited, and what a lookup does that meets a change.

use std::sync::Weak;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::node::Node;
use super::*;
use crate::sync::Arc;
use crate::{Applied, ApplyError, ApplyEvents, FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex};

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

fn store(parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
    let parent = parent.map(ExternalSequenceHash::new);
    KvEvent::Stored { tier: Tier::Device, parent, blocks: blocks.into_iter().map(block).collect() }
}

fn remove(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let blocks = blocks.into_iter().map(ExternalSequenceHash::new).collect();
    KvEvent::Removed { tier: Tier::Device, blocks }
}

fn apply(tree: &ConcurrentRadixTree, worker: u64, event: &KvEvent) -> Result<Applied, ApplyError> {
    let mut writer = tree;
    writer.apply(rank(worker), event)
}

/// The node at the end of a path.
fn node(tree: &ConcurrentRadixTree, path: impl IntoIterator<Item = u64>) -> Arc<Node> {
    path.into_iter().fold(Arc::clone(&tree.root), |at, n| at.child(LocalBlockHash::new(n)).unwrap())
}

#[test]
fn a_freed_chain_is_gone_and_whoever_kept_a_node_of_it_kept_only_that() {
    let tree = ConcurrentRadixTree::new();
    apply(&tree, 1, &store(None, 1..=100_000)).unwrap();
    let (head, tail) = (Arc::downgrade(&node(&tree, [1])), node(&tree, 1..=100_000));
    apply(&tree, 1, &remove((1..=100_000).rev())).unwrap();
    assert_eq!(tree.occupancy(), Occupancy::default());
    assert_eq!(Weak::strong_count(&head), 0, "the dead tail does not hold its ancestors");
    assert_eq!(Arc::strong_count(&tail), 1);
    assert_eq!(Arc::strong_count(&tree.root), 1, "nor do they hold the root");
}

#[test]
fn dropping_a_deep_tree_neither_recurses_nor_leaks() {
    let tree = ConcurrentRadixTree::new();
    apply(&tree, 1, &store(None, 1..=300_000)).unwrap();
    let nodes: Vec<_> =
        [1, 7, 150_000].map(|end| Arc::downgrade(&node(&tree, 1..=end))).into_iter().collect();
    drop(tree);
    assert!(nodes.iter().all(|node| Weak::strong_count(node) == 0));
}

#[test]
fn a_slot_is_used_again_and_its_stamps_go_on() {
    let tree = ConcurrentRadixTree::new();
    let mut stamps = Vec::new();
    for worker in 0..3 {
        apply(&tree, worker, &store(None, [1])).unwrap();
        stamps.push(tree.roster.read().stamp(0).unwrap());
        let mut writer = &tree;
        writer.remove_worker(WorkerId::new(worker));
        assert_eq!(tree.occupancy(), Occupancy::default());
    }
    assert!(stamps.is_sorted_by(|before, after| before < after), "{stamps:?}");
}

#[test]
fn limits_count_only_what_is_new() {
    let mut config = ConcurrentRadixConfig::default();
    (config.max_names_per_rank, config.max_nodes) = (3, 5);
    let tree = ConcurrentRadixTree::with_config(&config);
    apply(&tree, 1, &store(None, 1..=3)).unwrap();
    assert_eq!(apply(&tree, 1, &store(Some(3), [4])), Err(ApplyError::RankFull { limit: 3 }));
    assert_eq!(apply(&tree, 1, &store(None, 1..=3)).unwrap().already_held, 3);
    assert_eq!(apply(&tree, 2, &store(None, [11, 12, 13])), Err(ApplyError::IndexFull { limit: 5 }));
    assert_eq!(tree.occupancy().ranks, 1, "a refused rank is not remembered");
    apply(&tree, 2, &store(None, 1..=3)).unwrap();
    apply(&tree, 3, &store(None, [11, 12])).unwrap();
    assert_eq!(tree.occupancy().nodes, 5);
}

/// As a lookup would meet it that came in the middle of an event of worker 1.
#[test]
fn a_rank_that_changes_is_walked_again_under_its_lock() {
    let tree = ConcurrentRadixTree::new();
    apply(&tree, 1, &store(None, 1..=4)).unwrap();
    apply(&tree, 2, &store(None, 1..=2)).unwrap();
    let one = tree.rank(rank(1)).unwrap();
    let change = one.stamp.change();
    let mut out = Overlaps::new();
    let query: Vec<_> = (1..=9).map(LocalBlockHash::new).collect();
    for options in [FindOptions::new(), FindOptions::new().early_exit()] {
        tree.find_into(&query, options, &mut out);
        assert_eq!((out.blocks(rank(1)), out.blocks(rank(2)), out.len()), (4, 2, 2));
        assert!(!out.is_lower_bound(), "what was walked again was walked in full");
    }
    drop(change);
    tree.find_into(&query, FindOptions::new().early_exit(), &mut out);
    assert!(out.is_lower_bound() && out.best().unwrap().worker() == rank(1));
}
