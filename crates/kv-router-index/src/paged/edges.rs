//! Which page hangs where: one flat table for the whole index.
//!
//! The key is (parent page, offset, first local hash); the value is a page number, and the page itself says whether
//! the key is really its own, so an answer is exact whatever the hash does. 256 segments grow one by one. Inside a
//! segment, buckets are single cache lines: seven slots and a count of entries that went on to the next bucket. A
//! removed entry leaves an empty slot and lower counts: there are no tombstones and nothing ever moves.
//!
//! A segment that grows copies its slots to a table of twice the size and swings one word. The old table is kept for
//! readers that are still in it; all old tables together are smaller than the current one. What such a reader misses was
//! entered after it began to look: who has seen anything later than an entry sees the table that the entry is in.

use super::lines::Line;
use super::sizes::{LINE, SEGMENT_SIZES as SIZES, SEGMENTS};
use super::touch::touch;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, OnceLock};

const SLOTS: usize = LINE - 1;

/// The hash of a place in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeHash(u64);

impl EdgeHash {
    /// `seed` keeps those who choose prompts from choosing buckets.
    #[inline]
    pub(super) fn new(parent: u32, offset: usize, local: u64, seed: u64) -> Self {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let place = (u64::from(parent) << 10 | offset as u64).wrapping_mul(K) ^ seed;
        let wide = u128::from(local ^ place) * u128::from(place.rotate_left(32) | 1);
        let mixed = (wide >> 64) as u64 ^ wide as u64;
        Self((mixed ^ mixed >> 32).wrapping_mul(K))
    }

    #[inline]
    const fn segment(self) -> usize {
        (self.0 >> 56) as usize % SEGMENTS
    }

    /// Tells entries of a bucket apart, and says which bucket in a table of any size.
    #[inline]
    const fn tag(self) -> u32 {
        (self.0 >> 24) as u32
    }
}

/// The table. Segments grow about together, so what one lookup needs of them lies beside what another needs, and stays
/// in the cache: the sizes in use, and the tables of one size.
pub(super) struct Edges {
    /// The size in use, of each segment.
    current: Box<[AtomicU64]>,
    /// For each size the table of each segment.
    tables: [Tables; SIZES],
    /// Entries, of each segment.
    writers: Box<[Mutex<usize>]>,
}

type Tables = Box<[OnceLock<Box<[Line]>>]>;

impl Edges {
    pub(super) fn new() -> Self {
        Self {
            current: (0..SEGMENTS).map(|_| AtomicU64::new(0)).collect(),
            tables: std::array::from_fn(|_| (0..SEGMENTS).map(|_| OnceLock::new()).collect()),
            writers: (0..SEGMENTS).map(|_| Mutex::new(0)).collect(),
        }
    }

    #[inline]
    fn table(&self, segment: usize, size: usize) -> Option<&[Line]> {
        self.tables.get(size)?[segment].get().map(|table| &**table)
    }

    /// The first page with the hash that `accept` accepts.
    #[inline]
    pub(super) fn find<R>(&self, hash: EdgeHash, mut accept: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let segment = hash.segment();
        let table = self.table(segment, self.current[segment].load(Ordering::Acquire) as usize)?;
        let mask = table.len() - 1;
        let mut bucket = hash.tag() as usize & mask;
        for _ in 0..table.len() {
            let line = &table[bucket].0;
            for slot in &line[..SLOTS] {
                let word = slot.load(Ordering::Acquire);
                if (word >> 32) as u32 == hash.tag()
                    && word != 0
                    && let Some(found) = accept(word as u32)
                {
                    return Some(found);
                }
            }
            if line[SLOTS].load(Ordering::Acquire) == 0 {
                break;
            }
            bucket = (bucket + 1) & mask;
        }
        None
    }

    /// Reads what a change at the hash will need.
    #[inline]
    pub(super) fn touch(&self, hash: EdgeHash) {
        touch(|| {
            let segment = hash.segment();
            let table = self.table(segment, self.current[segment].load(Ordering::Relaxed) as usize)?;
            Some(table[hash.tag() as usize & (table.len() - 1)].0[0].load(Ordering::Relaxed))
        });
    }

    /// The segment of the hash, for changes. Innermost lock but the allocators'.
    pub(super) fn lock(&self, hash: EdgeHash) -> LockedSegment<'_> {
        let segment = hash.segment();
        LockedSegment { edges: self, segment, entries: self.writers[segment].lock() }
    }

    /// Entries of the whole table. Not O(1): for audits.
    pub(super) fn len(&self) -> usize {
        self.writers.iter().map(|entries| *entries.lock()).sum()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.tables.iter().flat_map(|tables| tables.iter().filter_map(OnceLock::get));
        let fixed = size_of::<[OnceLock<Box<[Line]>>; SIZES]>() + size_of::<(AtomicU64, Mutex<usize>)>();
        tables.map(|table| table.len() * size_of::<Line>()).sum::<usize>() + SEGMENTS * fixed
    }
}

/// A segment that only we change.
pub(super) struct LockedSegment<'a> {
    edges: &'a Edges,
    segment: usize,
    entries: MutexGuard<'a, usize>,
}

impl<'a> LockedSegment<'a> {
    pub(super) fn insert(&mut self, hash: EdgeHash, page: u32) {
        let table = self.table_with_room();
        put(table, hash.tag(), page);
        *self.entries += 1;
    }

    /// Takes the page out; false when it is not in.
    pub(super) fn remove(&mut self, hash: EdgeHash, page: u32) -> bool {
        let Some(table) = self.table() else { return false };
        let wanted = u64::from(hash.tag()) << 32 | u64::from(page);
        let mask = table.len() - 1;
        let home = hash.tag() as usize & mask;
        for step in 0..table.len() {
            let line = &table[(home + step) & mask].0;
            if let Some(slot) = line[..SLOTS].iter().find(|slot| slot.load(Ordering::Relaxed) == wanted) {
                slot.store(0, Ordering::Release);
                for passed in 0..step {
                    let overflow = &table[(home + passed) & mask].0[SLOTS];
                    overflow.store(overflow.load(Ordering::Relaxed) - 1, Ordering::Release);
                }
                *self.entries -= 1;
                return true;
            }
            if line[SLOTS].load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        false
    }

    fn table(&self) -> Option<&'a [Line]> {
        self.edges.table(self.segment, self.edges.current[self.segment].load(Ordering::Relaxed) as usize)
    }

    /// The table, grown when three quarters are taken.
    fn table_with_room(&self) -> &'a [Line] {
        let (edges, segment) = (self.edges, self.segment);
        let size = edges.current[segment].load(Ordering::Relaxed) as usize;
        let table = allocated(&edges.tables[size][segment], size);
        if (*self.entries + 1) * 4 <= table.len() * SLOTS * 3 || size + 1 == SIZES {
            return table;
        }
        let larger = allocated(&edges.tables[size + 1][segment], size + 1);
        for line in table {
            for slot in &line.0[..SLOTS] {
                let word = slot.load(Ordering::Relaxed);
                if word != 0 {
                    put(larger, (word >> 32) as u32, word as u32);
                }
            }
        }
        edges.current[segment].store(size as u64 + 1, Ordering::Release);
        larger
    }
}

fn allocated(table: &OnceLock<Box<[Line]>>, size: usize) -> &[Line] {
    table.get_or_init(|| (0..1usize << size).map(|_| Line::default()).collect())
}

/// Writes an entry into the first free slot from its home on.
fn put(table: &[Line], tag: u32, page: u32) {
    let mask = table.len() - 1;
    let mut bucket = tag as usize & mask;
    loop {
        let line = &table[bucket].0;
        if let Some(slot) = line[..SLOTS].iter().find(|slot| slot.load(Ordering::Relaxed) == 0) {
            slot.store(u64::from(tag) << 32 | u64::from(page), Ordering::Release);
            return;
        }
        line[SLOTS].store(line[SLOTS].load(Ordering::Relaxed) + 1, Ordering::Release);
        bucket = (bucket + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((0u32..600, any::<bool>()), 1..3000), spread in 0u32..3) {
            let (edges, mut model) = (Edges::new(), BTreeMap::new());
            // Without spread every key falls in one segment and, at first, one bucket.
            let hash = |key: u32| match spread {
                0 => EdgeHash(u64::from(key) << 40),
                1 => EdgeHash(u64::from(key % 7) << 24),
                _ => EdgeHash::new(key, 3, 9, 1),
            };
            for (key, store) in steps {
                if store && !model.contains_key(&key) {
                    edges.lock(hash(key)).insert(hash(key), key + 1);
                    model.insert(key, key + 1);
                } else if !store {
                    prop_assert_eq!(edges.lock(hash(key)).remove(hash(key), key + 1), model.remove(&key).is_some());
                }
                let found = edges.find(hash(key), |page| (page == key + 1).then_some(page));
                prop_assert_eq!(found, model.get(&key).copied());
            }
            for key in 0..600 {
                let found = edges.find(hash(key), |page| (page == key + 1).then_some(page));
                prop_assert_eq!(found, model.get(&key).copied());
            }
            prop_assert_eq!(edges.len(), model.len());
        }
    }
}
