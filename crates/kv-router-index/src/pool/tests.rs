//! Order, bounds, panics, counts, and what is left of workers that are gone.

use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::*;
use crate::sync::Mutex;
use crate::{Applied, ApplyError, ApplyEvents, ConcurrentRadixTree, Inspect, Occupancy, PrefixIndex};

fn config(threads: usize, queue: usize) -> PoolConfig {
    PoolConfig { threads: NonZeroUsize::new(threads).unwrap(), queue: NonZeroUsize::new(queue).unwrap() }
}

#[expect(clippy::disallowed_methods, reason = "the pool's threads are real, and so is their time")]
fn now() -> Instant {
    Instant::now()
}

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

fn store(parent: Option<u64>, blocks: std::ops::Range<u64>) -> KvEvent {
    let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
    let parent = parent.map(ExternalSequenceHash::new);
    KvEvent::Stored { tier: Tier::Device, parent, blocks: blocks.map(block).collect() }
}

fn overlap(tree: &ConcurrentRadixTree, worker: u64, query: std::ops::Range<u64>) -> u32 {
    tree.find(&query.map(LocalBlockHash::new).collect::<Vec<_>>()).blocks(rank(worker))
}

/// An index whose every event waits until the test lets it go on; block 13 is bad luck.
struct Gated {
    go_on: Mutex<mpsc::Receiver<()>>,
    seen: Mutex<Vec<u64>>,
}

impl Gated {
    fn new() -> (Self, mpsc::Sender<()>) {
        let (sender, receiver) = mpsc::channel();
        (Self { go_on: Mutex::new(receiver), seen: Mutex::new(Vec::new()) }, sender)
    }
}

impl ApplyEvents for &Gated {
    fn apply(&mut self, _: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.go_on.lock().recv().expect("the test holds the sender");
        let KvEvent::Stored { blocks, .. } = event else { return Ok(Applied::default()) };
        let name = blocks[0].external.get();
        assert_ne!(name, 13, "on purpose");
        self.seen.lock().push(name);
        Ok(Applied::default())
    }

    fn remove_worker(&mut self, _: WorkerId) -> Applied {
        Applied::default()
    }
}

#[test]
fn a_thousand_queued_stores_do_not_survive_the_removal_behind_them() {
    let pool = WriterPool::new(ConcurrentRadixTree::new(), &config(2, 4096), now).unwrap();
    for n in 0..1000u64 {
        pool.try_enqueue(rank(1), store(n.checked_sub(1), n..n + 1)).unwrap();
    }
    pool.try_enqueue(rank(2), store(None, 0..3)).unwrap();
    pool.remove_worker(WorkerId::new(1)).unwrap();
    pool.flush();
    assert_eq!((overlap(pool.index(), 1, 0..5), overlap(pool.index(), 2, 0..5)), (0, 3));
    let total = pool.stats().total();
    assert_eq!((total.applied.stored, total.applied.removed, total.events), (1003, 1000, 1002));
    assert_eq!(total.workers, 1, "only worker 2 is left");
}

#[test]
fn a_full_queue_gives_the_event_back_and_says_how_deep_it_is() {
    let (index, go_on) = Gated::new();
    let pool = WriterPool::new(index, &config(1, 2), now).unwrap();
    let mut taken = 0;
    // One under way and two queued; how soon the first is under way is up to the system.
    let refused = loop {
        match pool.try_enqueue(rank(1), store(None, taken..taken + 1)) {
            Ok(()) => taken += 1,
            Err(error) if taken >= 3 => break error,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert!(refused.is_full() && refused.to_string().contains("full"), "{refused}");
    assert_eq!(refused.into_event(), (rank(1), store(None, 3..4)));
    assert_eq!(pool.stats().total().depth, 2);
    (0..taken).for_each(|_| go_on.send(()).unwrap());
    pool.flush();
    assert_eq!(*pool.index().seen.lock(), [0, 1, 2]);
    assert_eq!(pool.stats().total().depth, 0);
}

#[test]
fn a_refused_event_leaves_no_route_behind() {
    let (index, go_on) = Gated::new();
    let pool = WriterPool::new(index, &config(1, 1), now).unwrap();
    let mut taken = 0;
    while taken < 2 {
        taken += usize::from(pool.try_enqueue(rank(1), store(None, 1..2)).is_ok());
    }
    assert!(pool.try_enqueue(rank(2), store(None, 1..2)).is_err_and(|error| error.is_full()));
    assert_eq!(pool.stats().total().workers, 1);
    (0..taken).for_each(|_| go_on.send(()).unwrap());
}

#[test]
fn a_panic_costs_one_event_and_the_host_is_told() {
    struct Host(Mutex<mpsc::Sender<WorkerId>>);
    impl PoolHost for Host {
        fn now(&self) -> Instant {
            now()
        }
        fn panicked(&self, worker: WorkerId) {
            self.0.lock().send(worker).unwrap();
            panic!("the host too, on purpose");
        }
    }
    let (index, go_on) = Gated::new();
    let (told, hears) = mpsc::channel();
    let pool = WriterPool::new(index, &config(1, 8), Host(Mutex::new(told))).unwrap();
    for n in 12..15 {
        pool.try_enqueue(rank(n), store(None, n..n + 1)).unwrap();
        go_on.send(()).unwrap();
    }
    pool.flush();
    let total = pool.stats().total();
    assert_eq!((total.panicked, total.events), (1, 2));
    assert_eq!(*pool.index().seen.lock(), [12, 14]);
    assert_eq!(hears.try_iter().collect::<Vec<_>>(), [WorkerId::new(13)]);
}

#[test]
fn the_host_gets_refused_events_back_and_tells_the_time() {
    struct Host {
        refused: Mutex<mpsc::Sender<(WorkerRank, KvEvent, ApplyError)>>,
        started: Instant,
        calls: Mutex<u32>,
    }
    impl PoolHost for Host {
        fn now(&self) -> Instant {
            let mut calls = self.calls.lock();
            *calls += 1;
            self.started + Duration::from_millis(1) * *calls
        }
        fn refused(&self, from: WorkerRank, event: KvEvent, error: ApplyError) {
            self.refused.lock().send((from, event, error)).unwrap();
        }
    }
    let (refused, hears) = mpsc::channel();
    let host = Host { refused: Mutex::new(refused), started: now(), calls: Mutex::new(0) };
    let pool = WriterPool::new(ConcurrentRadixTree::new(), &config(3, 8), host).unwrap();
    let orphan = store(Some(7), 8..9);
    pool.enqueue(rank(1), orphan.clone()).unwrap();
    pool.flush();
    let parent = ExternalSequenceHash::new(7);
    assert_eq!(hears.try_recv().unwrap(), (rank(1), orphan, ApplyError::UnknownParent { parent }));
    let total = pool.stats().total();
    assert_eq!((total.unknown_parents, total.refused, total.events), (1, 0, 0));
    assert_eq!((total.lag.count(), total.lag.max()), (1, Duration::from_millis(1)));
    assert_eq!(total.workers, 0, "a worker that never stored anything is not remembered");
}

#[test]
fn a_hundred_thousand_short_lived_workers_leave_nothing() {
    let pool = WriterPool::new(ConcurrentRadixTree::new(), &config(2, 1024), now).unwrap();
    for worker in 0..100_000 {
        let from = WorkerRank::new(WorkerId::new(worker), DpRank::new((worker % 3) as u32));
        pool.enqueue(from, store(None, worker % 50..worker % 50 + 3)).unwrap();
        pool.remove_worker(from.worker).unwrap();
    }
    pool.flush();
    let total = pool.stats().total();
    assert_eq!((total.workers, total.depth, total.events), (0, 0, 200_000));
    let (tree, _) = pool.shutdown();
    assert_eq!(tree.occupancy(), Occupancy::default());
}

#[test]
fn workers_are_spread_and_stay_where_they_are() {
    let pool = WriterPool::new(ConcurrentRadixTree::new(), &config(3, 64), now).unwrap();
    let spread = |pool: &WriterPool<_>| -> Vec<usize> {
        pool.stats().threads.iter().map(|thread: &ThreadStats| thread.workers).collect()
    };
    for round in 0..3 {
        (0..7).for_each(|worker| pool.enqueue(rank(worker), store(None, round..round + 1)).unwrap());
        pool.flush();
        assert_eq!(spread(&pool), [3, 2, 2]);
    }
    pool.remove_worker(WorkerId::new(1)).unwrap();
    pool.flush();
    assert_eq!(spread(&pool), [3, 1, 2]);
    pool.enqueue(rank(8), store(None, 0..1)).unwrap();
    assert_eq!(spread(&pool), [3, 2, 2], "a new worker goes where the fewest are");
}

#[test]
fn a_drained_pool_takes_nothing_and_has_applied_what_it_took() {
    let pool = WriterPool::new(ConcurrentRadixTree::new(), &config(2, 64), now).unwrap();
    pool.enqueue(rank(1), store(None, 0..3)).unwrap();
    pool.drain();
    assert_eq!(overlap(pool.index(), 1, 0..9), 3);
    let (from, event) = (rank(1), store(None, 0..1));
    let closed = EnqueueError::Closed { from, event: event.clone() };
    assert_eq!(pool.try_enqueue(from, event.clone()), Err(closed.clone()));
    assert_eq!(pool.enqueue(from, event), Err(closed));
    assert_eq!(pool.remove_worker(from.worker), Err(PoolClosed));
    pool.flush();
    let (tree, stats) = pool.shutdown();
    assert_eq!((overlap(&tree, 1, 0..9), stats.total().events), (3, 1));
}

#[test]
fn dropping_the_pool_applies_what_is_queued() {
    let (index, go_on) = Gated::new();
    let seen = std::sync::Arc::new(Mutex::new(0));
    let counted = std::sync::Arc::clone(&seen);
    struct Counting(Gated, std::sync::Arc<Mutex<usize>>);
    impl ApplyEvents for &Counting {
        fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
            *self.1.lock() += 1;
            (&self.0).apply(from, event)
        }
        fn remove_worker(&mut self, worker: WorkerId) -> Applied {
            (&self.0).remove_worker(worker)
        }
    }
    let pool = WriterPool::new(Counting(index, counted), &config(1, 8), now).unwrap();
    for n in 0..5 {
        pool.try_enqueue(rank(1), store(None, n..n + 1)).unwrap();
        go_on.send(()).unwrap();
    }
    drop(pool);
    assert_eq!(*seen.lock(), 5);
    assert_eq!(std::sync::Arc::strong_count(&seen), 1, "the threads have ended and the index is gone");
}
