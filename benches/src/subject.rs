//! The indexes under test, each behind one interface.

use std::io;

use kv_router_index::baseline::{Actor, InvertedIndex, NestedDictionary};
use kv_router_index::paged::PagedIndex;
use kv_router_index::{
    ApplyEvents, ConcurrentRadixTree, FindOptions, Overlaps, PositionalIndexer, PrefixIndex, RadixTree,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};
use parking_lot::RwLock;

/// An index that several threads drive. The events of one rank come from one thread.
pub trait Subject: Send + Sync {
    /// Applies an event, or queues it; a refusal is part of the traffic.
    fn apply(&self, from: WorkerRank, event: &KvEvent);

    /// Forgets a worker.
    fn remove_worker(&self, worker: WorkerId);

    /// Waits until what this thread queued is applied.
    fn settle(&self) {}

    /// Looks a request up.
    fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps);
}

/// What a subject is made from.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What reports call it.
    pub name: &'static str,
    /// Makes an empty one.
    ///
    /// # Errors
    ///
    /// When the system has no thread for it.
    pub build: fn() -> io::Result<Box<dyn Subject>>,
}

/// All of them, in the order of their generations.
pub const SUBJECTS: &[Entry] = &[
    Entry { name: "nested", build: || locked(NestedDictionary::new()) },
    Entry { name: "actor", build: || Ok(Box::new(Queued(Actor::spawn(RadixTree::new())?))) },
    Entry { name: "inverted", build: || locked(InvertedIndex::new()) },
    Entry { name: "radix", build: || locked(RadixTree::new()) },
    Entry { name: "concurrent-radix", build: || Ok(Box::new(Shared(ConcurrentRadixTree::new()))) },
    Entry { name: "positional", build: || Ok(Box::new(Shared(PositionalIndexer::new()))) },
    Entry { name: "paged", build: || Ok(Box::new(Shared(PagedIndex::new()))) },
];

fn locked<I: PrefixIndex + ApplyEvents + Send + Sync + 'static>(index: I) -> io::Result<Box<dyn Subject>> {
    Ok(Box::new(Locked(RwLock::new(index))))
}

/// A single-threaded index: everybody takes its lock.
struct Locked<I>(RwLock<I>);

impl<I: PrefixIndex + ApplyEvents + Send + Sync> Subject for Locked<I> {
    fn apply(&self, from: WorkerRank, event: &KvEvent) {
        let _ = self.0.write().apply(from, event);
    }

    fn remove_worker(&self, worker: WorkerId) {
        self.0.write().remove_worker(worker);
    }

    fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps) {
        self.0.read().find_into(query, FindOptions::new(), out);
    }
}

/// A concurrent index.
struct Shared<I>(I);

impl<I: PrefixIndex + Send + Sync> Subject for Shared<I>
where
    for<'a> &'a I: ApplyEvents,
{
    fn apply(&self, from: WorkerRank, event: &KvEvent) {
        let _ = (&self.0).apply(from, event);
    }

    fn remove_worker(&self, worker: WorkerId) {
        (&self.0).remove_worker(worker);
    }

    fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps) {
        self.0.find_into(query, FindOptions::new(), out);
    }
}

/// An index on a thread of its own.
struct Queued(Actor<RadixTree>);

impl Subject for Queued {
    fn apply(&self, from: WorkerRank, event: &KvEvent) {
        self.0.apply_later(from, event.clone());
    }

    fn remove_worker(&self, worker: WorkerId) {
        (&self.0).remove_worker(worker);
    }

    fn settle(&self) {
        self.0.flush();
    }

    fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps) {
        self.0.find_into(query, FindOptions::new(), out);
    }
}
