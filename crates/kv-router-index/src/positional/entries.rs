//! The shared map: who holds which prefix, found by position and local hash.
//!
//! Only closures see an entry, and they return what they found: no guard of the map outlives a call, and none
//! is held while another, or any lock, is taken.

use dashmap::DashMap;
use dashmap::mapref::entry::Entry as Place;
use kv_router_types::{LocalBlockHash, SequenceHash, Tier};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::holders::Holders;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Below this many prefixes the map keeps its memory until it is empty.
const SHRINK_FROM: usize = 1024;

/// Where a block stands and what is in it: what a lookup knows of its query without hashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) position: u32,
    pub(super) local: LocalBlockHash,
}

/// The prefixes that end at one position with one local hash. Somebody holds each of them.
#[derive(Debug)]
pub(super) enum Entry {
    /// One prefix, which is the usual case.
    ///
    /// That it is the only one does not make it the prefix of a query: the query may have gone another way
    /// before.
    Single(SequenceHash, Holders),
    /// Two or more.
    Multi(Box<FxHashMap<SequenceHash, Holders>>),
}

impl Entry {
    /// Who holds the prefix with this hash.
    pub(super) fn holders(&self, sequence: SequenceHash) -> Option<&Holders> {
        match self {
            Self::Single(only, holders) => (*only == sequence).then_some(holders),
            Self::Multi(several) => several.get(&sequence),
        }
    }

    fn holders_mut(&mut self, sequence: SequenceHash) -> Option<&mut Holders> {
        match self {
            Self::Single(only, holders) => (*only == sequence).then_some(holders),
            Self::Multi(several) => several.get_mut(&sequence),
        }
    }

    /// Adds a prefix that is not there yet.
    fn add(&mut self, sequence: SequenceHash, holders: Holders) {
        match self {
            Self::Single(first, theirs) => {
                let theirs = std::mem::replace(theirs, Holders::NONE);
                *self = Self::Multi(Box::new(FxHashMap::from_iter([(*first, theirs), (sequence, holders)])));
            }
            Self::Multi(several) => {
                several.insert(sequence, holders);
            }
        }
    }

    /// Takes out a prefix that nobody holds any more. True when that leaves nothing.
    fn remove(&mut self, sequence: SequenceHash) -> bool {
        let Self::Multi(several) = self else { return true };
        several.remove(&sequence);
        let last = if several.len() == 1 { several.drain().next() } else { None };
        if let Some((last, holders)) = last {
            *self = Self::Single(last, holders);
        }
        false
    }
}

/// The map. An entry is there exactly as long as somebody holds a prefix in it.
#[derive(Debug)]
pub(super) struct Entries {
    map: DashMap<Key, Entry, FxBuildHasher>,
    /// Prefixes, over all entries.
    nodes: AtomicUsize,
    /// The most there were since the map last gave memory back.
    peak: AtomicUsize,
}

impl Entries {
    pub(super) fn new() -> Self {
        Self {
            map: DashMap::with_hasher(FxBuildHasher),
            nodes: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// How many prefixes somebody holds.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Shows the entry to `look`, which must not lock anything.
    #[inline]
    pub(super) fn read<R>(&self, key: Key, look: impl FnOnce(Option<&Entry>) -> R) -> R {
        match self.map.get(&key) {
            Some(entry) => look(Some(entry.value())),
            None => look(None),
        }
    }

    /// Whether somebody holds the prefix.
    pub(super) fn contains(&self, key: Key, sequence: SequenceHash) -> bool {
        self.read(key, |entry| entry.is_some_and(|entry| entry.holders(sequence).is_some()))
    }

    /// Adds a holder of a prefix.
    pub(super) fn hold(&self, key: Key, sequence: SequenceHash, slot: u32, tier: Tier) {
        let alone = || {
            let mut holders = Holders::NONE;
            holders.insert(slot, tier);
            holders
        };
        let is_new = match self.map.entry(key) {
            Place::Vacant(place) => {
                place.insert(Entry::Single(sequence, alone()));
                true
            }
            Place::Occupied(mut place) => match place.get_mut().holders_mut(sequence) {
                Some(holders) => {
                    holders.insert(slot, tier);
                    false
                }
                None => {
                    place.get_mut().add(sequence, alone());
                    true
                }
            },
        };
        if is_new {
            let nodes = self.nodes.fetch_add(1, Ordering::Relaxed) + 1;
            if nodes > self.peak.load(Ordering::Relaxed) {
                self.peak.fetch_max(nodes, Ordering::Relaxed);
            }
        }
    }

    /// Takes a holder of a prefix out of one tier, and the prefix and the entry with the last one.
    pub(super) fn let_go(&self, key: Key, sequence: SequenceHash, slot: u32, tier: Tier) {
        let mut is_gone = false;
        self.map.remove_if_mut(&key, |_, entry| {
            let Some(holders) = entry.holders_mut(sequence) else { return false };
            holders.remove(slot, tier);
            is_gone = holders.is_empty();
            is_gone && entry.remove(sequence)
        });
        if is_gone {
            let nodes = self.nodes.fetch_sub(1, Ordering::Relaxed) - 1;
            self.shrink_when_sparse(nodes);
        }
    }

    /// Gives memory back once the map is empty, or has come down to an eighth of what it was.
    fn shrink_when_sparse(&self, nodes: usize) {
        let peak = self.peak.load(Ordering::Relaxed);
        let is_sparse = nodes == 0 || (peak > SHRINK_FROM && nodes < peak / 8);
        // Whoever lowers the mark does it, alone.
        if is_sparse && self.peak.compare_exchange(peak, nodes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.map.shrink_to_fit();
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.map.capacity()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }
}
