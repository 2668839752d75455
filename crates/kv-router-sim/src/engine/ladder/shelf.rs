//! One tier below the device: a bounded set of blocks, of which the one not used for longest gives way.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::super::chain::ChainKey;

/// A bounded set of blocks. Every operation costs O(log n).
#[derive(Debug)]
pub(super) struct Shelf {
    capacity: usize,
    held: FxHashMap<ChainKey, Place>,
    /// By last use, those that nobody reads.
    idle: BTreeMap<u64, ChainKey>,
    /// Counts uses.
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    used: u64,
    /// Pulls that read it.
    pins: u32,
}

/// What became of a block that was put on a shelf.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there, and this one gave way.
    Stored(Option<ChainKey>),
    /// It was there already, or everything is being read, or there is no room at all.
    Refused,
}

impl Shelf {
    pub(super) fn new(capacity: u32) -> Self {
        Self { capacity: capacity as usize, held: FxHashMap::default(), idle: BTreeMap::new(), clock: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn exists(&self) -> bool {
        self.capacity > 0
    }

    pub(super) fn contains(&self, key: ChainKey) -> bool {
        self.held.contains_key(&key)
    }

    pub(super) fn put(&mut self, key: ChainKey) -> Put {
        if self.contains(key) || !self.exists() {
            return Put::Refused;
        }
        let mut gone = None;
        if self.held.len() >= self.capacity {
            let Some((_, oldest)) = self.idle.pop_first() else { return Put::Refused };
            self.held.remove(&oldest);
            gone = Some(oldest);
        }
        self.clock += 1;
        self.held.insert(key, Place { used: self.clock, pins: 0 });
        self.idle.insert(self.clock, key);
        Put::Stored(gone)
    }

    /// It was used: it stays longer.
    pub(super) fn touch(&mut self, key: ChainKey) {
        let Some(place) = self.held.get_mut(&key) else { return };
        self.clock += 1;
        if place.pins == 0 {
            self.idle.remove(&place.used);
            self.idle.insert(self.clock, key);
        }
        place.used = self.clock;
    }

    /// It must not give way until it is unpinned as often.
    pub(super) fn pin(&mut self, key: ChainKey) {
        let Some(place) = self.held.get_mut(&key) else { return };
        if place.pins == 0 {
            self.idle.remove(&place.used);
        }
        place.pins += 1;
    }

    pub(super) fn unpin(&mut self, key: ChainKey) {
        let Some(place) = self.held.get_mut(&key) else { return };
        debug_assert!(place.pins > 0, "unpinned more often than pinned");
        place.pins -= 1;
        if place.pins == 0 {
            self.idle.insert(place.used, key);
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.held.len() <= self.capacity, "a tier never holds more than it can");
        let idle = self.held.values().filter(|place| place.pins == 0).count();
        assert_eq!(self.idle.len(), idle);
        assert!(self.idle.iter().all(|(used, key)| self.held[key].used == *used));
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.idle.len() == self.held.len()
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = ChainKey> {
        self.held.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use kv_router_types::LocalBlockHash;

    use super::*;

    #[test]
    fn the_least_recently_used_gives_way_and_the_pinned_stays() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|local| ChainKey::ROOT.then(LocalBlockHash::new(local)));
        let mut shelf = Shelf::new(2);
        assert_eq!(
            (shelf.put(a), shelf.put(b), shelf.put(a)),
            (Put::Stored(None), Put::Stored(None), Put::Refused)
        );
        shelf.touch(a);
        assert_eq!(shelf.put(c), Put::Stored(Some(b)));
        shelf.pin(a);
        shelf.pin(a);
        shelf.unpin(a);
        assert_eq!(shelf.put(d), Put::Stored(Some(c)));
        shelf.pin(d);
        assert_eq!(shelf.put(b), Put::Refused);
        shelf.unpin(a);
        shelf.touch(a);
        assert_eq!(shelf.put(b), Put::Stored(Some(a)));
        shelf.check();
        assert_eq!(Shelf::new(0).put(a), Put::Refused);
    }
}
