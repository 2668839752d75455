//! The table of a cuckoo filter: buckets, and the spare bits that let it grow without the keys.

use super::bucket::{Bucket, LANES};
use super::evict;
use super::geometry::Geometry;
use super::spare::PackedBits;
use super::tag::Tag;

/// Where an entry sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) bucket: usize,
    pub(super) lane: usize,
}

/// A set of tags. Each is in one slot of one of its two buckets.
///
/// Invariant: the spare bits of a free slot are 0, so that equal contents are equal words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    geometry: Geometry,
    buckets: Vec<Bucket>,
    /// The bits of each entry's home that its bucket does not tell.
    spare: PackedBits,
    occupied: usize,
}

impl Table {
    pub(super) fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            buckets: vec![Bucket::default(); geometry.buckets()],
            spare: PackedBits::new(geometry.spare_width(), geometry.slots()),
            occupied: 0,
        }
    }

    /// A table from what [`buckets`](Self::buckets) and [`spare_words`](Self::spare_words) returned; the bucket
    /// that is not well-formed otherwise.
    ///
    /// Whether a tag stands twice is not looked for, as it would take longer than all the rest: the second one is a
    /// false positive that stays, and does no other harm.
    pub(super) fn from_parts(
        geometry: Geometry,
        buckets: Vec<Bucket>,
        spare: PackedBits,
    ) -> Result<Self, usize> {
        let mut table = Self { geometry, buckets, spare, occupied: 0 };
        for bucket in 0..table.buckets.len() {
            for lane in 0..LANES {
                let slot = Slot { bucket, lane };
                let spare = table.spare.get(slot.index());
                if table.fingerprint(slot) != 0 && geometry.spare_fits(bucket, spare) {
                    table.occupied += 1;
                } else if table.fingerprint(slot) != 0 || spare != 0 {
                    return Err(bucket);
                }
            }
        }
        Ok(table)
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    pub(super) fn spare_words(&self) -> &[u64] {
        self.spare.words()
    }

    /// Slots in use.
    pub(super) fn occupied(&self) -> usize {
        self.occupied
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>() + self.spare.heap_bytes()
    }

    /// Whether an entry looks like `tag`: always when `tag` is held, rarely when it is not.
    #[inline]
    pub(super) fn may_contain(&self, tag: Tag) -> bool {
        let [even, odd] = tag.homes().map(|home| self.buckets[self.geometry.bucket_of(home)]);
        even.contains(tag.fingerprint()) | odd.contains(tag.fingerprint())
    }

    /// The slot of exactly this tag.
    pub(super) fn find(&self, tag: Tag) -> Option<Slot> {
        tag.homes().into_iter().find_map(|home| {
            let bucket = self.geometry.bucket_of(home);
            self.buckets[bucket]
                .lanes_of(tag.fingerprint())
                .map(|lane| Slot { bucket, lane })
                .find(|&slot| self.home(slot) == home)
        })
    }

    /// Puts a tag that is not held into a slot; false, and nothing changed, when the search for one gave up.
    ///
    /// Cost: two buckets, and rarely a search over at most [`evict::SEARCHED_BUCKETS`].
    #[must_use]
    pub(super) fn place(&mut self, tag: Tag) -> bool {
        // The emptier bucket first: what is spread evenly is seldom moved later.
        let [even, odd] = tag.homes();
        let free = |home: u32| self.buckets[self.geometry.bucket_of(home)].lanes_of(0).count();
        let home = if free(odd) > free(even) { odd } else { even };
        let free = self.free_slot(home).map(|slot| (home, slot));
        let Some((home, slot)) = free.or_else(|| evict::make_room(self, tag)) else { return false };
        self.write(slot, tag.fingerprint(), home);
        self.occupied += 1;
        true
    }

    pub(super) fn vacate(&mut self, slot: Slot) {
        self.erase(slot);
        self.occupied -= 1;
    }

    /// Moves an entry to a free slot of its other bucket, which is at `home`.
    pub(super) fn move_entry(&mut self, from: Slot, home: u32, to: Slot) {
        self.write(to, self.fingerprint(from), home);
        self.erase(from);
    }

    pub(super) fn fingerprint(&self, slot: Slot) -> u16 {
        self.buckets[slot.bucket].get(slot.lane)
    }

    /// The full home of the entry in a slot.
    pub(super) fn home(&self, slot: Slot) -> u32 {
        self.geometry.home(slot.bucket, self.spare.get(slot.index()))
    }

    pub(super) fn free_slot(&self, home: u32) -> Option<Slot> {
        let bucket = self.geometry.bucket_of(home);
        Some(Slot { bucket, lane: self.buckets[bucket].free_lane()? })
    }

    /// All tags, in the order of their slots.
    pub(super) fn tags(&self) -> impl Iterator<Item = Tag> {
        (0..self.buckets.len())
            .flat_map(|bucket| (0..LANES).map(move |lane| Slot { bucket, lane }))
            .filter(|&slot| self.fingerprint(slot) != 0)
            .map(|slot| Tag::at(self.home(slot), self.fingerprint(slot)))
    }

    /// Adds up to `buckets` buckets; false when the table is as large as it can be.
    ///
    /// Each new bucket takes over part of one old bucket, so that growing always succeeds and looks at no other
    /// entry. Cost: linear in `buckets`, plus moving the table when the allocator cannot extend it.
    pub(super) fn grow(&mut self, buckets: usize) -> bool {
        let target = (self.buckets.len() + buckets).min(Geometry::MAX_BUCKETS);
        self.buckets.reserve_exact(target - self.buckets.len());
        self.spare.grow(target * LANES);
        let grows = self.buckets.len() < target;
        while self.buckets.len() < target {
            self.split_next();
        }
        grows
    }

    fn split_next(&mut self) {
        let Some((halved, new)) = self.geometry.next_split() else { return };
        let mut entries = [None; LANES];
        for (lane, entry) in entries.iter_mut().enumerate() {
            let slot = Slot { bucket: halved, lane };
            if self.fingerprint(slot) != 0 {
                *entry = Some((self.fingerprint(slot), self.home(slot)));
                self.erase(slot);
            }
        }
        self.buckets.push(Bucket::default());
        debug_assert_eq!(self.buckets.len(), new + 1);
        let level = self.geometry.level();
        self.geometry = self.geometry.after_split();
        if self.geometry.level() > level {
            // Every bucket now tells one bit more.
            self.spare = self.spare.at_width(self.geometry.spare_width());
        }
        for (lane, entry) in entries.into_iter().enumerate() {
            let Some((fingerprint, home)) = entry else { continue };
            let slot = Slot { bucket: self.geometry.bucket_of(home), lane };
            self.write(slot, fingerprint, home);
        }
    }

    fn write(&mut self, slot: Slot, fingerprint: u16, home: u32) {
        debug_assert_eq!(self.geometry.bucket_of(home), slot.bucket);
        self.buckets[slot.bucket].set(slot.lane, fingerprint);
        self.spare.set(slot.index(), self.geometry.spare_of(home));
    }

    fn erase(&mut self, slot: Slot) {
        self.buckets[slot.bucket].set(slot.lane, 0);
        self.spare.set(slot.index(), 0);
    }
}

impl Slot {
    fn index(self) -> usize {
        self.bucket * LANES + self.lane
    }
}
