//! The cuckoo filter: a multiset of sequence hashes in some three bytes each.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use kv_router_types::SequenceHash;
use rustc_hash::FxHashMap;

use super::bucket::LANES;
use super::depth::prefix_depth;
use super::geometry::Geometry;
use super::summary::PrefixSummary;
use super::table::Table;
use super::tag::Tag;
use crate::tables::shrink_if_sparse;

/// A table grows by one bucket in this many.
const GROWTH: usize = 16;

/// A multiset of sequence hashes that may take a hash for held that is not, and never the other way round.
///
/// # Guarantees
///
/// * **No false negatives**, through any history of inserts, removals, growth and restores.
/// * **Removal is exact** for what was inserted: a hash inserted three times is held until it is removed three
///   times, and removing one hash never takes another with it.
/// * **False positives** have a rate of about `8 * load / 65535` per hash, whatever the filter has been through:
///   growth keeps all 16 bits of every fingerprint.
/// * **Equal histories give equal bytes**: nothing is random, so that a replica that applies the same changes
///   equals its origin to the byte.
///
/// # How it grows
///
/// A plain cuckoo filter cannot grow without its keys, as it has forgotten the bits that tell the new bucket.
/// This one keeps, packed beside the fingerprints and untouched by lookups, the bits of an entry's place that its
/// bucket does not tell: 26 less the logarithm of the number of buckets. Growing by one bucket uses one of them
/// for the entries of one old bucket (linear hashing), so the table grows a sixteenth at a time and is between 82
/// and 95 % full while it does. Where even so no slot can be found, which takes nine or more hashes made to
/// collide, the entry is kept in full at the side: an insert fails at the [limit](Self::with_limit) alone.
///
/// # Cost
///
/// A lookup reads two words. Insert and remove are O(1) amortised; a growing insert moves a sixteenth of the
/// entries, and once a doubling it repacks the spare bits of all. At 10^7 hashes an entry takes 2.6 to 3.2 bytes, all overhead included; at 10^5 it is 4, at 10^3 it is 5.
#[derive(Clone, PartialEq, Eq)]
pub struct CuckooFilter {
    table: Table,
    /// Tags for which there is no slot. Disjoint from the table.
    stash: BTreeSet<Tag>,
    /// Copies beyond the first of tags that are in the table or the stash. No value is 0.
    extra: FxHashMap<Tag, u64>,
    /// The sum of `extra`.
    extra_copies: u64,
    limit: usize,
}

impl CuckooFilter {
    /// The most entries that a filter can be allowed, 255 million: 95 % of the slots of its largest table.
    pub const MAX_ENTRIES: usize = Geometry::MAX_BUCKETS * LANES / 100 * 95;

    /// An empty filter that may hold [`MAX_ENTRIES`](Self::MAX_ENTRIES).
    pub fn new() -> Self {
        Self::with_limit(Self::MAX_ENTRIES)
    }

    /// An empty filter that refuses to hold more than `limit` entries, copies included. A limit above
    /// [`MAX_ENTRIES`](Self::MAX_ENTRIES) means that.
    pub fn with_limit(limit: usize) -> Self {
        let table = Table::new(Geometry::of(0));
        let limit = limit.min(Self::MAX_ENTRIES);
        Self { table, stash: BTreeSet::new(), extra: FxHashMap::default(), extra_copies: 0, limit }
    }

    /// An empty filter with a table for `entries` distinct hashes, so that it need not grow on the way. The room
    /// is given back once removals leave the table three quarters empty.
    pub fn with_room_for(entries: usize) -> Self {
        let table = Table::new(Geometry::for_entries(entries));
        Self { table, ..Self::new() }
    }

    /// Adds one copy of `hash`.
    ///
    /// # Errors
    ///
    /// [`FilterFull`] at the limit; the filter is unchanged.
    pub fn insert(&mut self, hash: SequenceHash) -> Result<(), FilterFull> {
        self.insert_tag(Tag::of(hash))
    }

    /// Takes one copy of `hash` out; false when it is not held.
    ///
    /// Remove only what was inserted. A hash that was not is told from one that was by 41 bits, not by the 16
    /// that a lookup compares, so a stray removal does no harm in practice; yet it is not impossible.
    pub fn remove(&mut self, hash: SequenceHash) -> bool {
        self.remove_tag(Tag::of(hash))
    }

    /// Whether `hash` may be held. A no is certain.
    #[inline]
    pub fn may_contain(&self, hash: SequenceHash) -> bool {
        self.may_contain_tag(Tag::of(hash))
    }

    /// Forgets everything and gives the memory back.
    pub fn clear(&mut self) {
        *self = Self::with_limit(self.limit);
    }

    /// Entries held, copies included.
    pub fn len(&self) -> usize {
        // A snapshot may declare any number of copies, and must not wrap around to few.
        self.distinct().saturating_add(usize::try_from(self.extra_copies).unwrap_or(usize::MAX))
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.distinct() == 0
    }

    /// The most entries that may be held.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Slots of the table. Its load is [`occupied_slots`](Self::occupied_slots) divided by this.
    pub fn slots(&self) -> usize {
        self.table.geometry().slots()
    }

    /// Slots in use.
    pub fn occupied_slots(&self) -> usize {
        self.table.occupied()
    }

    /// Entries at the side: copies beyond the first, and hashes for which there was no slot. Near 0 unless
    /// hashes were inserted more than once, or made to collide.
    pub fn side_entries(&self) -> usize {
        self.stash.len() + self.extra.len()
    }

    /// Bytes on the heap; the filter itself adds `size_of::<CuckooFilter>()`.
    pub fn heap_bytes(&self) -> usize {
        // A hash table has a byte of control and an eighth of its buckets free; a B-tree node is half full.
        let extra = self.extra.capacity() * (size_of::<(Tag, u64)>() + 1) * 8 / 7;
        self.table.heap_bytes() + extra + self.stash.len() * size_of::<Tag>() * 2
    }

    #[inline]
    pub(super) fn may_contain_tag(&self, tag: Tag) -> bool {
        self.table.may_contain(tag) || (!self.stash.is_empty() && self.stash.contains(&tag))
    }

    pub(super) fn insert_tag(&mut self, tag: Tag) -> Result<(), FilterFull> {
        if self.len() >= self.limit {
            return Err(FilterFull { limit: self.limit });
        }
        if self.holds(tag) {
            *self.extra.entry(tag).or_insert(0) += 1;
            self.extra_copies += 1;
        } else {
            self.add_distinct(tag);
        }
        Ok(())
    }

    pub(super) fn remove_tag(&mut self, tag: Tag) -> bool {
        if let Some(copies) = self.extra.get_mut(&tag) {
            *copies -= 1;
            self.extra_copies -= 1;
            if *copies == 0 {
                self.extra.remove(&tag);
                shrink_if_sparse(&mut self.extra);
            }
            return true;
        }
        match self.table.find(tag) {
            Some(slot) => self.table.vacate(slot),
            None if self.stash.remove(&tag) => {}
            None => return false,
        }
        self.shrink();
        true
    }

    /// How often this tag is held.
    pub(super) fn copies(&self, tag: Tag) -> u64 {
        u64::from(self.holds(tag)) + self.extra.get(&tag).copied().unwrap_or(0)
    }

    fn distinct(&self) -> usize {
        self.table.occupied() + self.stash.len()
    }

    /// Whether exactly this tag is in the table or the stash.
    fn holds(&self, tag: Tag) -> bool {
        self.table.find(tag).is_some() || self.stash.contains(&tag)
    }

    fn add_distinct(&mut self, tag: Tag) {
        if self.table.occupied() >= self.table.geometry().max_entries() {
            self.grow();
        }
        while !self.table.place(tag) {
            // Growing helps a crowded table. Where there is room and yet none for this tag, its pair of buckets
            // is overrun: more of the same 16 + n bits than growth could tell apart at a sane size.
            let crowded = self.table.occupied() * 2 >= self.table.geometry().slots();
            if !(crowded && self.grow()) {
                self.stash.insert(tag);
                return;
            }
        }
    }

    fn grow(&mut self) -> bool {
        let step = (self.table.buckets().len() / GROWTH).max(Geometry::MIN_BUCKETS);
        self.table.grow(step)
    }

    /// Moves into a smaller table once three quarters are empty.
    fn shrink(&mut self) {
        if self.distinct() * 4 >= self.table.geometry().slots() {
            return;
        }
        let geometry = Geometry::for_entries(self.distinct() * 2);
        if geometry.buckets() >= self.table.geometry().buckets() {
            return;
        }
        // The table can list its tags, so a smaller one can be built from it, and the stash gets another chance.
        let old = std::mem::replace(&mut self.table, Table::new(geometry));
        let stash = std::mem::take(&mut self.stash);
        for tag in old.tags().chain(stash) {
            self.add_distinct(tag);
        }
    }
}

/// For snapshots.
impl CuckooFilter {
    pub(super) fn parts(&self) -> (&Table, &BTreeSet<Tag>, Vec<(Tag, u64)>) {
        let mut extra: Vec<(Tag, u64)> = self.extra.iter().map(|(&tag, &copies)| (tag, copies)).collect();
        extra.sort_unstable();
        (&self.table, &self.stash, extra)
    }

    /// A filter from its parts; the tag that contradicts another part otherwise.
    pub(super) fn from_parts(
        table: Table,
        stash: BTreeSet<Tag>,
        extra: FxHashMap<Tag, u64>,
        limit: usize,
    ) -> Result<Self, Tag> {
        let in_both = stash.iter().find(|&&tag| table.find(tag).is_some()).copied();
        let mut filter = Self { table, stash, extra, extra_copies: 0, limit: limit.min(Self::MAX_ENTRIES) };
        for (&tag, &copies) in &filter.extra {
            let total = filter.extra_copies.checked_add(copies);
            match total {
                Some(total) if copies > 0 && filter.holds(tag) => filter.extra_copies = total,
                _ => return Err(tag),
            }
        }
        in_both.map_or(Ok(filter), Err)
    }
}

impl Default for CuckooFilter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CuckooFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuckooFilter")
            .field("len", &self.len())
            .field("slots", &self.slots())
            .field("occupied_slots", &self.occupied_slots())
            .field("side_entries", &self.side_entries())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl PrefixSummary for CuckooFilter {
    fn blocks_at_most(&self, sequence: &[SequenceHash]) -> u32 {
        prefix_depth(sequence.len(), |block| self.may_contain(sequence[block])) as u32
    }
}

/// A filter holds as many entries as it was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterFull {
    /// The limit, in entries.
    pub limit: usize,
}

impl fmt::Display for FilterFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the filter already holds {} entries: removals are lost, or the limit is too low",
            self.limit
        )
    }
}

impl Error for FilterFull {}
