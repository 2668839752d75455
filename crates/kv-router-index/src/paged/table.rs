//! A compact hash table of 32-bit words that somebody else can verify.
//!
//! A word is the upper part of a hash, the tag, and below it a value. The key is not here: whoever looks says whether a
//! value is the one, so an answer is exact whatever the tags are. A bucket is one cache line with fifteen slots. It
//! knows how many of the words that belong there had to go on to the next buckets, and how far; removal empties the
//! slot and lowers the count: there are no tombstones. Two words of one home that are equal are the same for all
//! purposes, so removal needs no verification.

use super::touch::touch;

/// Slots in a bucket; the word after them says which are in use.
pub(super) const SLOTS: usize = 15;
const META: usize = SLOTS;
const USED: u32 = (1 << SLOTS) - 1;
/// A count of words that are away from home, and how many buckets on the farthest may be.
const AWAY: u32 = 16;
const FAR: u32 = 24;
/// The greatest number that a count or distance can have; one that gets there stays.
const MOST: u32 = 0xff;
/// A table grows above 3/4 of its slots, by a third. In fuller ones many a bucket has no room.
const LOAD: (usize, usize) = (3, 4);

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Bucket([u32; SLOTS + 1]);

impl Bucket {
    /// A bit for each slot in use whose masked word is `wanted`. `slots` is [`USED`].
    ///
    /// Four vector comparisons, as long as the compiler sees sixteen lanes of the same kind. Hence two bits a lane
    /// (with one it makes a scalar of the first) and [`USED`] from a variable (or it leaves out the last).
    #[inline(always)]
    fn matches(&self, wanted: u32, mask: u32, slots: u32) -> u32 {
        let mut found = 0;
        for (at, word) in self.0.iter().enumerate() {
            found |= if word & mask == wanted { 0x1_0001 << at } else { 0 };
        }
        found & self.0[META] & slots
    }

    #[inline(always)]
    fn used(&self) -> u32 {
        self.0[META] & USED
    }

    #[inline(always)]
    fn field(&self, shift: u32) -> u32 {
        self.0[META] >> shift & MOST
    }

    #[inline]
    fn set_field(&mut self, shift: u32, value: u32) {
        self.0[META] = self.0[META] & !(MOST << shift) | value << shift;
    }
}

/// Where a key belongs, until the table is written anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Home {
    bucket: u32,
    /// In the upper bits, where it is in a word.
    tag: u32,
}

/// Where a word is, until it is removed or the table is written anew. Never `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat(u32);

impl Seat {
    /// No place in any table.
    pub(super) const NONE: Self = Self(u32::MAX);

    #[inline(always)]
    fn new(bucket: usize, slot: u32) -> Self {
        Self((bucket as u32) << 4 | slot)
    }

    #[inline(always)]
    fn bucket(self) -> usize {
        (self.0 >> 4) as usize
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.0 & 0xf) as usize
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    buckets: Box<[Bucket]>,
    len: usize,
    /// The bits of a word that are its tag; the others are the value.
    tag_mask: u32,
    /// [`USED`], for [`Bucket::matches`].
    slots: u32,
}

impl Table {
    /// An empty table whose values have so many bits, 1 to 31.
    pub(super) fn new(value_bits: u32) -> Self {
        Self { buckets: Box::default(), len: 0, tag_mask: u32::MAX << value_bits, slots: USED }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// Where a key with that hash belongs.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> Home {
        let bucket = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        Home { bucket: bucket as u32, tag: hash as u32 & self.tag_mask }
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Reads the buckets of several keys at once. They are anywhere in memory: waiting for each when it is needed
    /// would take longer than everything else.
    #[inline]
    pub(super) fn touch(&self, homes: &[Home]) {
        let read = |home: &Home| self.buckets.get(home.bucket as usize).map_or(0, |bucket| bucket.0[META]);
        touch(|| homes.iter().fold(0, |all, home| all ^ read(home)));
    }

    /// The first word with the tag whose value `accept` accepts.
    #[inline(always)]
    pub(super) fn find<R>(&self, home: Home, mut accept: impl FnMut(u32) -> Option<R>) -> Option<(Seat, R)> {
        let at = home.bucket as usize;
        let bucket = self.buckets.get(at)?;
        let matches = bucket.matches(home.tag, self.tag_mask, self.slots);
        if matches != 0
            && let Some(found) = self.find_in(at, matches, &mut accept)
        {
            return Some(found);
        }
        if bucket.field(FAR) == 0 { None } else { self.find_further(home, &mut accept) }
    }

    #[inline(always)]
    fn find_in<R>(
        &self,
        at: usize,
        mut matches: u32,
        accept: &mut impl FnMut(u32) -> Option<R>,
    ) -> Option<(Seat, R)> {
        while matches != 0 {
            let slot = matches.trailing_zeros();
            if let Some(found) = accept(self.buckets[at].0[slot as usize] & !self.tag_mask) {
                return Some((Seat::new(at, slot), found));
            }
            matches &= matches - 1;
        }
        None
    }

    fn find_further<R>(&self, home: Home, accept: &mut impl FnMut(u32) -> Option<R>) -> Option<(Seat, R)> {
        let mut at = home.bucket as usize;
        for _ in 0..self.reach(at) {
            at = self.next(at);
            let matches = self.buckets[at].matches(home.tag, self.tag_mask, self.slots);
            if matches != 0
                && let Some(found) = self.find_in(at, matches, accept)
            {
                return Some(found);
            }
        }
        None
    }

    /// How many buckets after its home a word may be.
    fn reach(&self, home: usize) -> usize {
        match self.buckets[home].field(FAR) {
            MOST => self.buckets.len(),
            far => far as usize,
        }
    }

    /// How many buckets the table needs now for so many further words, if it has too few.
    #[inline]
    pub(super) fn wants_growth(&self, more: usize) -> Option<usize> {
        let wanted = self.len + more;
        if wanted * LOAD.1 <= self.buckets.len() * SLOTS * LOAD.0 {
            return None;
        }
        let least = (wanted * LOAD.1).div_ceil(SLOTS * LOAD.0);
        Some(least.max(self.buckets.len() * 4 / 3))
    }

    /// How many buckets would do, if most are empty.
    pub(super) fn wants_shrinking(&self) -> Option<usize> {
        let is_sparse = self.buckets.len() > 4 && self.len * 3 < self.buckets.len() * SLOTS;
        is_sparse.then(|| (self.len * 3).div_ceil(SLOTS * 2).max(1))
    }

    /// Buckets that the table has.
    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Empties the table and gives it another size. All homes and seats are void.
    pub(super) fn reset(&mut self, buckets: usize, value_bits: u32) {
        // The old one goes first, or both would count in the peak.
        self.buckets = Box::default();
        *self = Self { buckets: vec![Bucket::default(); buckets].into(), ..Self::new(value_bits) };
    }

    /// Adds a word if that is all there is to it: no other has the tag, or may be further on. There must be room.
    #[inline(always)]
    pub(super) fn insert_alone(&mut self, home: Home, value: u32) -> Option<Seat> {
        let (mask, slots) = (self.tag_mask, self.slots);
        let bucket = self.buckets.get_mut(home.bucket as usize)?;
        let meta = bucket.0[META];
        // Full, or with words away from home: any bit above those for the slots makes it greater.
        if bucket.matches(home.tag, mask, slots) != 0 || meta >= USED {
            return None;
        }
        let slot = meta.trailing_ones();
        bucket.0[slot as usize & 0xf] = home.tag | value;
        bucket.0[META] = meta | 1 << slot;
        self.len += 1;
        Some(Seat::new(home.bucket as usize, slot))
    }

    /// Adds a word. There must be room.
    #[inline(always)]
    pub(super) fn insert(&mut self, home: Home, value: u32) -> Seat {
        debug_assert!(value & self.tag_mask == 0);
        let mut at = home.bucket as usize;
        if self.buckets[at].used() == USED {
            at = self.go_on(at);
        }
        let bucket = &mut self.buckets[at].0;
        let slot = bucket[META].trailing_ones();
        bucket[slot as usize & 0xf] = home.tag | value;
        bucket[META] |= 1 << slot;
        self.len += 1;
        Seat::new(at, slot)
    }

    /// The next bucket that is not full; noted at home.
    #[cold]
    fn go_on(&mut self, home: usize) -> usize {
        let (mut at, mut steps) = (self.next(home), 1);
        while self.buckets[at].used() == USED {
            at = self.next(at);
            steps += 1;
        }
        let bucket = &mut self.buckets[home];
        bucket.set_field(AWAY, (bucket.field(AWAY) + 1).min(MOST));
        bucket.set_field(FAR, bucket.field(FAR).max(steps.min(MOST)));
        at
    }

    /// The value at a seat.
    #[inline]
    pub(super) fn value(&self, seat: Seat) -> u32 {
        self.buckets[seat.bucket()].0[seat.slot()] & !self.tag_mask
    }

    /// Changes the value at a seat.
    #[inline(always)]
    pub(super) fn set(&mut self, seat: Seat, value: u32) {
        let word = &mut self.buckets[seat.bucket()].0[seat.slot()];
        *word = *word & self.tag_mask | value;
    }

    /// Takes out the word of a key with that value, or one that is the same in all respects; false when it is not in.
    #[inline(always)]
    pub(super) fn remove(&mut self, home: Home, value: u32) -> bool {
        let slots = self.slots;
        let Some(bucket) = self.buckets.get_mut(home.bucket as usize) else { return false };
        let matches = bucket.matches(home.tag | value, u32::MAX, slots);
        if matches == 0 {
            return self.remove_further(home, value);
        }
        bucket.0[META] &= !(matches & matches.wrapping_neg());
        self.len -= 1;
        true
    }

    #[cold]
    fn remove_further(&mut self, home: Home, value: u32) -> bool {
        let first = home.bucket as usize;
        let mut at = first;
        for _ in 0..self.reach(first) {
            at = self.next(at);
            let matches = self.buckets[at].matches(home.tag | value, u32::MAX, self.slots);
            if matches != 0 {
                self.buckets[at].0[META] &= !(matches & matches.wrapping_neg());
                self.len -= 1;
                self.come_back(first);
                return true;
            }
        }
        false
    }

    /// Notes at home that a word that was away is gone.
    fn come_back(&mut self, home: usize) {
        let bucket = &mut self.buckets[home];
        match bucket.field(AWAY) {
            MOST => {}
            1 => {
                bucket.set_field(AWAY, 0);
                bucket.set_field(FAR, 0);
            }
            away => bucket.set_field(AWAY, away - 1),
        }
    }
}

#[cfg(test)]
mod tests;
