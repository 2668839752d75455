//! Every interleaving, within bounds, of a few operations on the real types: `cargo xtask loom`.
//!
//! docs/locking.md says which claim each model checks, and `cargo xtask loom --mutate` that each can fail. A
//! model has at most three threads of at most two operations each, and two preemptions; one where two take minutes.
#![cfg(kv_router_loom)]

mod paged;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kv_router_index::{
    Applied, ApplyError, ApplyEvents, ConcurrentRadixTree, FindOptions, Inspect, Occupancy, Overlaps,
    PoolConfig, PrefixIndex, WriterPool,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use loom::sync::Arc;
use loom::thread;
use parking_lot::Mutex;

/// Runs every interleaving of `run` and says how many there were.
fn model(name: &str, run: impl Fn() + Send + Sync + 'static) {
    model_with(2, name, run);
}

/// The same with at most so many preemptions, or as many as LOOM_MAX_PREEMPTIONS says.
fn model_with(preemptions: usize, name: &str, run: impl Fn() + Send + Sync + 'static) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 20_000;
    let (before, started) = (RUNS.load(Ordering::Relaxed), Instant::now());
    builder.check(move || {
        RUNS.fetch_add(1, Ordering::Relaxed);
        run();
    });
    println!("{name}: {} interleavings in {:.1?}", RUNS.load(Ordering::Relaxed) - before, started.elapsed());
}

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

/// Block `n` has content `n`, and every worker calls it `n`.
fn store(parent: Option<u64>, blocks: &[u64]) -> KvEvent {
    let block = |&n: &u64| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
    KvEvent::Stored {
        tier: Tier::Device,
        parent: parent.map(ExternalSequenceHash::new),
        blocks: blocks.iter().map(block).collect(),
    }
}

fn remove(blocks: &[u64]) -> KvEvent {
    KvEvent::Removed {
        tier: Tier::Device,
        blocks: blocks.iter().copied().map(ExternalSequenceHash::new).collect(),
    }
}

fn apply(tree: &ConcurrentRadixTree, worker: u64, event: &KvEvent) {
    let mut writer = tree;
    writer.apply(rank(worker), event).expect("the event is in order");
}

/// A tree in which each worker holds a chain.
fn tree(held: &[(u64, &[u64])]) -> Arc<ConcurrentRadixTree> {
    let tree = ConcurrentRadixTree::new();
    held.iter().for_each(|&(worker, blocks)| apply(&tree, worker, &store(None, blocks)));
    Arc::new(tree)
}

fn with_thread(
    tree: &Arc<ConcurrentRadixTree>,
    run: impl FnOnce(&ConcurrentRadixTree) + Send + 'static,
) -> thread::JoinHandle<()> {
    let tree = Arc::clone(tree);
    thread::spawn(move || run(&tree))
}

/// What a lookup says of some workers, and that it names no other and none twice.
fn scores<const N: usize>(tree: &ConcurrentRadixTree, query: &[u64], workers: [u64; N]) -> [u32; N] {
    scores_of(tree, query, workers)
}

fn scores_of<const N: usize>(tree: &impl PrefixIndex, query: &[u64], workers: [u64; N]) -> [u32; N] {
    scores_into(tree, query, workers, &mut Overlaps::new())
}

/// The same in an answer that may have served before.
fn scores_into<const N: usize>(
    tree: &impl PrefixIndex,
    query: &[u64],
    workers: [u64; N],
    overlaps: &mut Overlaps,
) -> [u32; N] {
    let query: Vec<_> = query.iter().copied().map(LocalBlockHash::new).collect();
    tree.find_into(&query, FindOptions::new(), overlaps);
    let scores = workers.map(|worker| overlaps.blocks(rank(worker)));
    assert_eq!(overlaps.len(), scores.iter().filter(|&&score| score > 0).count(), "{overlaps:?}");
    scores
}

#[track_caller]
fn one_of<T: PartialEq + std::fmt::Debug>(found: T, allowed: &[T]) {
    assert!(allowed.contains(&found), "{found:?} is none of {allowed:?}");
}

/// Removes the workers; nothing may be left. loom itself complains about what leaks.
fn empty(tree: &ConcurrentRadixTree, workers: &[u64]) {
    let mut writer = tree;
    workers.iter().for_each(|&worker| {
        writer.remove_worker(WorkerId::new(worker));
    });
    assert_eq!(tree.occupancy(), Occupancy::default());
}

#[test]
fn store_and_lookup() {
    model("store_and_lookup", || {
        let tree = tree(&[(1, &[1])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &store(Some(1), &[2, 3])));
        one_of(scores(&tree, &[1, 2, 3], [1]), &[[1], [3]]);
        writer.join().unwrap();
        assert_eq!(scores(&tree, &[1, 2, 3], [1]), [3]);
        empty(&tree, &[1]);
    });
}

#[test]
fn first_store_and_lookup() {
    model("first_store_and_lookup", || {
        let tree = tree(&[]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &store(None, &[1, 2])));
        one_of(scores(&tree, &[1, 2], [1]), &[[0], [2]]);
        writer.join().unwrap();
        empty(&tree, &[1]);
    });
}

/// The lookup fails to see a quiet rank twice, and the third time must wait for the event that is under way.
#[test]
fn two_stores_and_lookup() {
    model("two_stores_and_lookup", || {
        let tree = tree(&[(1, &[1])]);
        let writer = with_thread(&tree, |tree| {
            apply(tree, 1, &store(Some(1), &[2]));
            apply(tree, 1, &store(Some(2), &[3, 4]));
        });
        one_of(scores(&tree, &[1, 2, 3, 4], [1]), &[[1], [2], [4]]);
        writer.join().unwrap();
        empty(&tree, &[1]);
    });
}

/// The rank never holds three blocks from the root: a lookup that adds up what it saw of two states says so.
#[test]
fn remove_then_store_below_and_lookup() {
    model("remove_then_store_below_and_lookup", || {
        let tree = tree(&[(1, &[1, 2])]);
        let writer = with_thread(&tree, |tree| {
            apply(tree, 1, &remove(&[1]));
            apply(tree, 1, &store(Some(2), &[3]));
        });
        one_of(scores(&tree, &[1, 2, 3], [1]), &[[2], [0]]);
        writer.join().unwrap();
        empty(&tree, &[1]);
    });
}

#[test]
fn remove_and_lookup() {
    model("remove_and_lookup", || {
        let tree = tree(&[(1, &[1, 2]), (2, &[1])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &remove(&[2, 1])));
        one_of(scores(&tree, &[1, 2], [1, 2]), &[[2, 1], [0, 1]]);
        writer.join().unwrap();
        empty(&tree, &[2]);
    });
}

/// Both make the same node: one of them must find the other's.
#[test]
fn two_stores_of_one_chain() {
    model("two_stores_of_one_chain", || {
        let tree = tree(&[]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &store(None, &[1, 2])));
        apply(&tree, 2, &store(None, &[1, 2]));
        writer.join().unwrap();
        assert_eq!(scores(&tree, &[1, 2], [1, 2]), [2, 2]);
        assert_eq!(tree.occupancy().nodes, 2);
        empty(&tree, &[1, 2]);
    });
}

#[test]
fn store_and_remove_on_one_chain() {
    model("store_and_remove_on_one_chain", || {
        let tree = tree(&[(1, &[1, 2])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &remove(&[2, 1])));
        apply(&tree, 2, &store(None, &[1, 2]));
        writer.join().unwrap();
        assert_eq!(scores(&tree, &[1, 2], [1, 2]), [0, 2]);
        assert_eq!(tree.occupancy().nodes, 2);
        empty(&tree, &[2]);
    });
}

/// The removal frees the only node on the way, which the store then needs, and needs to extend.
#[test]
fn freeing_and_store_through() {
    model("freeing_and_store_through", || {
        let tree = tree(&[(1, &[1]), (2, &[9])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &remove(&[1])));
        let reader = with_thread(&tree, |tree| {
            one_of(scores(tree, &[1, 2], [1, 2]), &[[0, 0], [0, 2], [1, 0], [1, 2]])
        });
        apply(&tree, 2, &store(None, &[1, 2]));
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(scores(&tree, &[1, 2], [1, 2]), [0, 2]);
        empty(&tree, &[2]);
    });
}

/// Both workers leave the last node at once: one of them frees it, and its parent.
#[test]
fn two_removals_of_one_chain() {
    model("two_removals_of_one_chain", || {
        let tree = tree(&[(1, &[1, 2]), (2, &[1, 2])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &remove(&[1, 2])));
        apply(&tree, 2, &remove(&[2, 1]));
        writer.join().unwrap();
        assert_eq!(tree.occupancy(), Occupancy::default());
    });
}

/// One worker leaves the node without use; before it can free it, the other holds it, leaves it too, and
/// frees it.
#[test]
fn removal_beside_store_and_removal() {
    model("removal_beside_store_and_removal", || {
        let tree = tree(&[(1, &[1])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &remove(&[1])));
        apply(&tree, 2, &store(None, &[1]));
        apply(&tree, 2, &remove(&[1]));
        writer.join().unwrap();
        assert_eq!(tree.occupancy(), Occupancy::default());
    });
}

/// The clear takes the rank off the roster while the store has come for it.
#[test]
fn clear_and_store_of_one_rank() {
    model("clear_and_store_of_one_rank", || {
        let tree = tree(&[(1, &[1])]);
        let writer = with_thread(&tree, |tree| apply(tree, 1, &KvEvent::Cleared));
        apply(&tree, 1, &store(None, &[2]));
        writer.join().unwrap();
        let [left] = scores(&tree, &[2], [1]);
        assert_eq!(tree.occupancy().names, left as usize);
        empty(&tree, &[1]);
    });
}

/// A worker leaves and another gets its slot: the lookup must not mix the two.
#[test]
fn slot_used_again_and_lookup() {
    model("slot_used_again_and_lookup", || {
        let tree = tree(&[(1, &[1, 2])]);
        let writer = with_thread(&tree, |tree| {
            let mut writer = tree;
            writer.remove_worker(WorkerId::new(1));
            apply(tree, 2, &store(None, &[1]));
        });
        one_of(scores(&tree, &[1, 2], [1, 2]), &[[2, 0], [0, 0], [0, 1]]);
        writer.join().unwrap();
        empty(&tree, &[2]);
    });
}

fn pool_config(threads: usize) -> PoolConfig {
    let mut config = PoolConfig::default();
    (config.threads, config.queue) = (NonZeroUsize::new(threads).unwrap(), NonZeroUsize::new(2).unwrap());
    config
}

/// Whatever is enqueued before a worker is removed does not survive it.
#[test]
fn pool_clears_after_stores() {
    model("pool_clears_after_stores", || {
        let pool = WriterPool::new(ConcurrentRadixTree::new(), &pool_config(1), Instant::now).unwrap();
        pool.enqueue(rank(1), store(None, &[1])).unwrap();
        pool.remove_worker(WorkerId::new(1)).unwrap();
        one_of(scores(pool.index(), &[1], [1]), &[[0], [1]]);
        let (tree, stats) = pool.shutdown();
        assert_eq!((scores(&tree, &[1], [1]), stats.total().workers), ([0], 0));
        empty(&tree, &[]);
    });
}

/// An index that remembers the order of its events. Its lock is not the model's: nothing happens under it.
#[derive(Default)]
struct Recorder(Mutex<Vec<(u64, u64)>>);

impl ApplyEvents for &Recorder {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let KvEvent::Stored { blocks, .. } = event else { return Ok(Applied::default()) };
        let name = blocks[0].external.get();
        if name == 1 {
            // Slow, so that what comes after it may overtake it on another thread.
            thread::yield_now();
        }
        self.0.lock().push((from.worker.get(), name));
        Ok(Applied::default())
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.0.lock().push((worker.get(), 0));
        Applied::default()
    }
}

/// A worker that is forgotten and returns may get another thread, but never before its last message is done.
#[test]
fn pool_keeps_order_when_a_worker_returns() {
    model("pool_keeps_order_when_a_worker_returns", || {
        let pool = WriterPool::new(Recorder::default(), &pool_config(2), Instant::now).unwrap();
        pool.enqueue(rank(2), store(None, &[7])).unwrap();
        pool.remove_worker(WorkerId::new(1)).unwrap();
        pool.enqueue(rank(1), store(None, &[1])).unwrap();
        thread::yield_now();
        // If worker 1 is forgotten by now, this one gets its place, and worker 1 the thread of worker 2.
        pool.enqueue(rank(3), store(None, &[8])).unwrap();
        pool.enqueue(rank(1), store(None, &[2])).unwrap();
        let (recorder, _) = pool.shutdown();
        let order: Vec<_> = recorder.0.into_inner().into_iter().filter(|&(worker, _)| worker == 1).collect();
        assert_eq!(order, [(1, 0), (1, 1), (1, 2)]);
    });
}
