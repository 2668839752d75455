//! The prefix cache of one engine: a fixed number of blocks, least recently used first to go, leaves before parents.
//!
//! A request pins the blocks of its prompt while it runs and lets go of them tail first. What nobody pins stands in a
//! queue by the moment it was let go, so a child always stands before its parent and no eviction leaves a hole. The queue
//! keeps a stamp with each entry: an entry whose block was used since is passed over, which is simpler than taking it
//! out and costs no more.
//!
//! The engine of `kv-router-sim` also batches, prefills and preempts; a corpus wants the cache alone, and the moments of
//! its events under its own control.

use std::collections::VecDeque;

use kv_router_types::ExternalSequenceHash;
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug)]
struct Entry {
    pins: u32,
    /// The moment it was last let go; the queue entry with this stamp is the valid one.
    stamp: u64,
}

/// The cache of one engine.
#[derive(Debug)]
pub(super) struct Engine {
    capacity: usize,
    cached: FxHashMap<ExternalSequenceHash, Entry>,
    queue: VecDeque<(ExternalSequenceHash, u64)>,
    now: u64,
    pinned: usize,
    /// Requests admitted so far.
    pub(super) served: u64,
}

impl Engine {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, cached: FxHashMap::default(), queue: VecDeque::new(), now: 0, pinned: 0, served: 0 }
    }

    /// Blocks of running requests.
    pub(super) fn pinned(&self) -> usize {
        self.pinned
    }

    /// Leading blocks of a prompt that are cached.
    pub(super) fn hit(&self, names: &[ExternalSequenceHash]) -> usize {
        names.iter().take_while(|name| self.cached.contains_key(name)).count()
    }

    /// Pins a prompt of which the first `hit` blocks are cached and the others are not. Returns what was evicted for
    /// them; `None`, and nothing changes, when running requests leave too little room.
    pub(super) fn admit(
        &mut self,
        names: &[ExternalSequenceHash],
        hit: usize,
    ) -> Option<Vec<ExternalSequenceHash>> {
        let (known, fresh) = names.split_at(hit);
        let idle = known.iter().filter(|name| self.cached.get(name).is_some_and(|entry| entry.pins == 0));
        if self.pinned + idle.count() + fresh.len() > self.capacity {
            return None;
        }
        for name in known {
            if let Some(entry) = self.cached.get_mut(name) {
                self.pinned += usize::from(entry.pins == 0);
                entry.pins += 1;
            }
        }
        let mut evicted = Vec::new();
        while self.cached.len() + fresh.len() > self.capacity {
            let Some((name, stamp)) = self.queue.pop_front() else { break };
            if self.cached.get(&name).is_some_and(|entry| entry.pins == 0 && entry.stamp == stamp) {
                self.cached.remove(&name);
                evicted.push(name);
            }
        }
        self.cached.extend(fresh.iter().map(|&name| (name, Entry { pins: 1, stamp: 0 })));
        self.pinned += fresh.len();
        Some(evicted)
    }

    /// A request that pinned these blocks is done.
    pub(super) fn release(&mut self, names: &[ExternalSequenceHash]) {
        for &name in names.iter().rev() {
            let Some(entry) = self.cached.get_mut(&name) else { continue };
            entry.pins -= 1;
            if entry.pins == 0 {
                self.now += 1;
                entry.stamp = self.now;
                self.pinned -= 1;
                self.queue.push_back((name, self.now));
            }
        }
    }
}
