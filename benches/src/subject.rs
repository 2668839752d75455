//! The indexes under test, each behind one interface.

use kv_router_index::{ApplyEvents, FindOptions, Overlaps, PrefixIndex, RadixTree};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerRank};
use parking_lot::RwLock;

/// An index that several threads drive. The events of one rank come from one thread.
pub trait Subject: Send + Sync {
    /// Applies an event; a refusal is part of the traffic.
    fn apply(&self, from: WorkerRank, event: &KvEvent);

    /// Looks a request up.
    fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps);
}

/// What a subject is made from.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What reports call it.
    pub name: &'static str,
    /// Makes an empty one.
    pub build: fn() -> Box<dyn Subject>,
}

/// All of them, in the order of their generations.
pub const SUBJECTS: &[Entry] =
    &[Entry { name: "radix", build: || Box::new(Locked(RwLock::new(RadixTree::new()))) }];

/// A single-threaded index: everybody takes its lock.
struct Locked<I>(RwLock<I>);

impl<I: PrefixIndex + ApplyEvents + Send + Sync> Subject for Locked<I> {
    fn apply(&self, from: WorkerRank, event: &KvEvent) {
        let _ = self.0.write().apply(from, event);
    }

    fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps) {
        self.0.read().find_into(query, FindOptions::new(), out);
    }
}
