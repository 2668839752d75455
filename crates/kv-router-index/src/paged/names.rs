//! From an engine's name to the place of the block: one rank's table.
//!
//! Compact rather than general: a bucket is one cache line with ten slots, each a 16-bit tag and a 32-bit place. The
//! name itself is not here; it is compared where the place says, so an answer is exact. A bucket knows how many of the
//! names that belong there had to go on to the next ones, and how far; removal empties the slot and lowers the count:
//! there are no tombstones. About 10 bytes a name.

/// Slots in a bucket.
const SLOTS: usize = 10;
/// A table grows above 7/10 of its slots, and is written anew below a quarter. Fuller ones are slow to say no.
const LOAD: (usize, usize) = (7, 10);
const LANES: u64 = 0x0001_0001_0001_0001;
const LOW: u64 = 0x7fff_7fff_7fff_7fff;
/// Where a block of the rank is: a record of its lane (bits 9..31) and the offset in the record's page (0..9). With
/// bit 31 set it is still pending: a block of the store that is being applied, by its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place(u32);

/// Records that a lane can have, hence names.
pub(super) const MAX_RECORDS: usize = 1 << 22;

const PENDING: u32 = 1 << 31;

impl Place {
    #[inline]
    pub(super) fn new(record: u32, offset: usize) -> Self {
        debug_assert!((record as usize) < MAX_RECORDS && offset < super::words::PAGE_BLOCKS);
        Self(record << 9 | offset as u32)
    }

    /// A block of the store that is being applied.
    #[inline]
    pub(super) fn pending(index: usize) -> Self {
        debug_assert!(index < PENDING as usize);
        Self(PENDING | index as u32)
    }

    /// The index of a pending block.
    #[inline]
    pub(super) fn as_pending(self) -> Option<usize> {
        (self.0 & PENDING != 0).then_some((self.0 & !PENDING) as usize)
    }

    #[inline]
    pub(super) const fn record(self) -> usize {
        (self.0 >> 9) as usize
    }

    #[inline]
    pub(super) const fn offset(self) -> usize {
        (self.0 & 0x1ff) as usize
    }
}

const HIGH: u64 = 0x8000_8000_8000_8000;
/// The tail has two tags only.
const TAIL: u64 = 0xffff_ffff;
const FULL: u16 = (1 << SLOTS) - 1;
/// The greatest number that a count or distance can have; one that gets there stays.
const MOST: u8 = u8::MAX;

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    /// 0 where the slot is free.
    tags: [u16; SLOTS],
    /// Which slots are in use.
    used: u16,
    /// How many names of this bucket are in later ones.
    away: u8,
    /// How many buckets on the farthest of them may be.
    far: u8,
    places: [Place; SLOTS],
}

impl Bucket {
    /// For each of four tags a top bit that is 0 where it is equal; the same for the next four and the last two.
    #[inline(always)]
    fn differences(&self, tag: u16) -> [u64; 3] {
        let [a, b, c, d, e, f, g, h, i, j] = self.tags.map(u64::from);
        let wanted = u64::from(tag) * LANES;
        let differs = |word: u64| {
            let x = word ^ wanted;
            ((x & LOW) + LOW) | x
        };
        [
            differs(a | b << 16 | c << 32 | d << 48),
            differs(e | f << 16 | g << 32 | h << 48),
            differs(i | j << 16) | !TAIL,
        ]
    }

    /// A bit for each slot that has the tag.
    #[inline(always)]
    fn matches(&self, tag: u16) -> u32 {
        let [a, b, c] = self.differences(tag);
        if a & b & c & HIGH == HIGH {
            return 0;
        }
        // The four top bits side by side.
        let four = |differs: u64| {
            let equal = !differs & HIGH;
            ((equal >> 15).wrapping_mul(1 << 48 | 1 << 33 | 1 << 18 | 1 << 3) >> 48) as u32
        };
        four(a) | four(b) << 4 | four(c) << 8
    }

    #[inline]
    fn put(&mut self, slot: usize, tag: u16, place: Place) {
        self.tags[slot] = tag;
        self.places[slot] = place;
        self.used |= 1 << slot;
    }
}

/// Where a name belongs, until the table is written anew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Home {
    bucket: u32,
    tag: u16,
}

/// Where an entry was put, until it is removed or the table is written anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    bucket: u32,
    slot: u32,
}

/// Where an entry is, until the next change of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    home: u32,
    steps: u32,
    slot: u32,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Names {
    buckets: Box<[Bucket]>,
    len: usize,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// Where a name belongs. Engines choose names, mostly by hashing; small numbers must do as well.
    #[inline]
    pub(super) fn home(&self, name: u64) -> Home {
        let wide = u128::from(name ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(0x8bb8_4b93_962e_acc9_u64);
        let hash = (wide >> 64) as u64 ^ wide as u64;
        let bucket = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        Home { bucket: bucket as u32, tag: hash as u16 | 1 }
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Reads the buckets of several names at once. They are anywhere in memory: waiting for each when it is needed
    /// would take longer than everything else.
    #[inline]
    pub(super) fn touch(&self, homes: &[Home]) {
        let read = |home: &Home| self.buckets.get(home.bucket as usize).map_or(0, |bucket| bucket.used);
        std::hint::black_box(homes.iter().fold(0, |all, home| all ^ read(home)));
    }

    /// The entry of a name. `is_at` says whether the block at a place has that name.
    #[inline]
    pub(super) fn find(&self, home: Home, is_at: impl Fn(Place) -> bool) -> Option<Found> {
        let bucket = self.buckets.get(home.bucket as usize)?;
        if let Some((place, slot)) = find_in(bucket, home.tag, &is_at) {
            return Some(Found { place, home: home.bucket, steps: 0, slot });
        }
        if bucket.far == 0 { None } else { self.find_further(home, &is_at) }
    }

    /// The same past the home bucket.
    #[cold]
    fn find_further(&self, home: Home, is_at: &impl Fn(Place) -> bool) -> Option<Found> {
        let mut at = home.bucket as usize;
        let far = match self.buckets[at].far {
            MOST => self.buckets.len() as u32,
            far => u32::from(far),
        };
        for steps in 1..=far {
            at = self.next(at);
            if let Some((place, slot)) = find_in(&self.buckets[at], home.tag, is_at) {
                return Some(Found { place, home: home.bucket, steps, slot });
            }
        }
        None
    }

    /// Makes sure that so many further names fit. `all` gives every entry, when the table has to be written anew.
    #[inline]
    pub(super) fn reserve(&mut self, more: usize, all: impl FnOnce(&mut dyn FnMut(u64, Place))) {
        let wanted = self.len + more;
        if wanted * LOAD.1 > self.buckets.len() * SLOTS * LOAD.0 {
            let least = (wanted * LOAD.1).div_ceil(SLOTS * LOAD.0);
            self.rewrite(least.max(self.buckets.len() * 7 / 5), all);
        }
    }

    /// Gives memory back when most of the table is empty.
    pub(super) fn shrink(&mut self, all: impl FnOnce(&mut dyn FnMut(u64, Place))) {
        if self.buckets.len() > 4 && self.len * 4 < self.buckets.len() * SLOTS {
            self.rewrite((self.len * 2).div_ceil(SLOTS).max(1), all);
        }
    }

    #[cold]
    fn rewrite(&mut self, buckets: usize, all: impl FnOnce(&mut dyn FnMut(u64, Place))) {
        self.buckets = vec![Bucket::default(); buckets].into_boxed_slice();
        self.len = 0;
        all(&mut |name, place| {
            self.insert(self.home(name), place);
        });
    }

    /// Adds a name that is not in. There must be room.
    #[inline]
    pub(super) fn insert(&mut self, home: Home, place: Place) -> Seat {
        let mut at = home.bucket as usize;
        if self.buckets[at].used == FULL {
            at = self.go_on(at);
        }
        let bucket = &mut self.buckets[at];
        let slot = bucket.used.trailing_ones();
        bucket.put(slot as usize % SLOTS, home.tag, place);
        self.len += 1;
        Seat { bucket: at as u32, slot }
    }

    /// Where an entry is.
    #[inline]
    pub(super) fn seat(&self, found: Found) -> Seat {
        let bucket = (found.home as usize + found.steps as usize) % self.buckets.len();
        Seat { bucket: bucket as u32, slot: found.slot }
    }

    /// Gives a pending entry its place.
    #[inline]
    pub(super) fn settle(&mut self, seat: Seat, place: Place) {
        self.buckets[seat.bucket as usize].places[seat.slot as usize] = place;
    }

    /// The next bucket that is not full; noted at home.
    #[cold]
    fn go_on(&mut self, home: usize) -> usize {
        let (mut at, mut steps) = (self.next(home), 1_u32);
        while self.buckets[at].used == FULL {
            at = self.next(at);
            steps += 1;
        }
        let bucket = &mut self.buckets[home];
        bucket.away = bucket.away.saturating_add(1);
        bucket.far = bucket.far.max(steps.min(u32::from(MOST)) as u8);
        at
    }

    /// Takes an entry out.
    #[inline]
    pub(super) fn remove(&mut self, found: Found) {
        let mut at = found.home as usize;
        if found.steps > 0 {
            at = self.come_back(at, found.steps);
        }
        let bucket = &mut self.buckets[at];
        bucket.tags[found.slot as usize] = 0;
        bucket.used &= !(1 << found.slot);
        self.len -= 1;
    }

    /// Notes at home that a name that was so far away is gone, and says where it was.
    #[cold]
    fn come_back(&mut self, home: usize, steps: u32) -> usize {
        let bucket = &mut self.buckets[home];
        if bucket.away < MOST {
            bucket.away -= 1;
            if bucket.away == 0 {
                bucket.far = 0;
            }
        }
        (home + steps as usize) % self.buckets.len()
    }
}

#[inline(always)]
fn find_in(bucket: &Bucket, tag: u16, is_at: &impl Fn(Place) -> bool) -> Option<(Place, u32)> {
    let mut rest = bucket.matches(tag);
    while rest != 0 {
        let slot = rest.trailing_zeros();
        let place = bucket.places[slot as usize];
        if is_at(place) {
            return Some((place, slot));
        }
        rest &= rest - 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equal_tags_are_found(tags in prop::array::uniform10(prop_oneof![0u16..3, any::<u16>()]), tag in prop_oneof![0u16..3, any::<u16>()]) {
            let bucket = Bucket { tags, ..Bucket::default() };
            let expected: u32 = (0..SLOTS).filter(|&at| tags[at] == tag).map(|at| 1 << at).sum();
            prop_assert_eq!(bucket.matches(tag), expected);
        }

        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((0u64..400, 0u32..3), 1..2000), spread in prop::sample::select(vec![1u64, 1 << 32, 0x9e37_79b9_7f4a_7c15])) {
            let (mut names, mut model) = (Names::default(), BTreeMap::new());
            for (key, what) in steps {
                let name = key.wrapping_mul(spread);
                let place = Place::new(key as u32, 7);
                let found = names.find(names.home(name), |place| (place.record() as u64).wrapping_mul(spread) == name);
                prop_assert_eq!(found.map(|found| found.place), model.get(&name).copied());
                match (what, found) {
                    (0, Some(found)) => {
                        names.remove(found);
                        model.remove(&name);
                        names.shrink(|each| model.iter().for_each(|(&name, &place)| each(name, place)));
                    }
                    (1.., None) => {
                        names.reserve(1, |each| model.iter().for_each(|(&name, &place)| each(name, place)));
                        names.insert(names.home(name), place);
                        model.insert(name, place);
                    }
                    _ => {}
                }
                prop_assert_eq!(names.len(), model.len());
            }
            for (&name, &place) in &model {
                let found = names.find(names.home(name), |place| (place.record() as u64).wrapping_mul(spread) == name);
                prop_assert_eq!(found.map(|found| found.place), Some(place));
            }
        }
    }
}
