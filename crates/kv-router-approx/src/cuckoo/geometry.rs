//! Which bucket a home is in, for a table of any number of buckets.

use super::bucket::LANES;
use super::tag::POSITION_BITS;

/// A table that grows one bucket at a time (linear hashing).
///
/// A table of `2^level + split` buckets: the low `level` bits of a home choose a bucket, and where that bucket
/// has been split already, one more bit decides between its halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    level: u32,
    split: u32,
}

impl Geometry {
    /// The fewest buckets of a table.
    pub(super) const MIN_BUCKETS: usize = 4;
    /// The most buckets of a table: beyond them an entry has no bits left to tell its bucket.
    pub(super) const MAX_BUCKETS: usize = 1 << POSITION_BITS;

    /// The geometry of `buckets` buckets, or the nearest that there is.
    pub(super) fn of(buckets: usize) -> Self {
        let buckets = buckets.clamp(Self::MIN_BUCKETS, Self::MAX_BUCKETS);
        let level = buckets.ilog2();
        Self { level, split: (buckets - (1 << level)) as u32 }
    }

    pub(super) fn buckets(self) -> usize {
        (1 << self.level) + self.split as usize
    }

    pub(super) fn slots(self) -> usize {
        self.buckets() * LANES
    }

    /// The geometry with the fewest buckets that `entries` fit into, or the largest there is.
    pub(super) fn for_entries(entries: usize) -> Self {
        let (mut low, mut high) = (Self::MIN_BUCKETS, Self::MAX_BUCKETS);
        while low < high {
            let middle = (low + high) / 2;
            if Self::of(middle).max_entries() < entries {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Self::of(low)
    }

    /// Entries at which the table has to grow: 95 % of the slots when all buckets are alike, and down to 87 % while
    /// some are split and some are not.
    ///
    /// A split bucket is the home of half as many entries as one that is not. So the ones run empty while the others
    /// run over, and from some 90 % on, finding room would take long searches.
    pub(super) fn max_entries(self) -> usize {
        let (slots, split, level) = (self.slots() as u64, u64::from(self.split), self.level);
        let unsplit = (1 << level) - split;
        // Thousandths of the slots, times the buckets of the level; below 2^63.
        let reserve = (400 * split).min(160 * unsplit).min(80 << level);
        (slots * 950 / 1_000 - ((slots * reserve) >> level) / 1_000) as usize
    }

    /// The bucket of a home.
    #[inline]
    pub(super) fn bucket_of(self, home: u32) -> usize {
        let low = home & ((1 << self.level) - 1);
        // The extra bit is asked for only below `split`, which is 0 at the last level.
        let bucket = if low < self.split { home & ((2 << self.level) - 1) } else { low };
        bucket as usize
    }

    /// The bits of a home that its bucket does not tell, to be kept beside the entry.
    pub(super) fn spare_of(self, home: u32) -> u32 {
        home >> self.known_bits(self.bucket_of(home))
    }

    /// The home of an entry in `bucket`.
    pub(super) fn home(self, bucket: usize, spare: u32) -> u32 {
        bucket as u32 | spare << self.known_bits(bucket)
    }

    /// Bits that the widest spare has.
    pub(super) fn spare_width(self) -> u32 {
        POSITION_BITS - self.level
    }

    /// Whether a spare is one that an entry of `bucket` can have.
    pub(super) fn spare_fits(self, bucket: usize, spare: u32) -> bool {
        u64::from(spare) < 1 << (POSITION_BITS - self.known_bits(bucket))
    }

    /// The bucket that a split would halve next, and the new one; `None` at the largest size.
    pub(super) fn next_split(self) -> Option<(usize, usize)> {
        (self.level < POSITION_BITS).then_some((self.split as usize, self.buckets()))
    }

    /// The geometry after that split.
    pub(super) fn after_split(self) -> Self {
        Self::of(self.buckets() + 1)
    }

    pub(super) fn level(self) -> u32 {
        self.level
    }

    fn known_bits(self, bucket: usize) -> u32 {
        let low = bucket as u32 & ((1 << self.level) - 1);
        self.level + u32::from(low < self.split)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bucket_and_spare_give_the_home_back(
            buckets in prop_oneof![4usize..300, 4usize..=Geometry::MAX_BUCKETS],
            home in 0u32..1 << POSITION_BITS,
        ) {
            let geometry = Geometry::of(buckets);
            prop_assert_eq!(geometry.buckets(), buckets);
            let (bucket, spare) = (geometry.bucket_of(home), geometry.spare_of(home));
            prop_assert!(bucket < buckets);
            prop_assert!(geometry.spare_fits(bucket, spare));
            prop_assert!(u64::from(spare) < 1 << geometry.spare_width());
            prop_assert_eq!(geometry.home(bucket, spare), home);
        }

        #[test]
        fn a_split_moves_homes_of_the_split_bucket_alone(buckets in 4usize..300, home in 0u32..1 << POSITION_BITS) {
            let before = Geometry::of(buckets);
            let (halved, new) = before.next_split().unwrap();
            let (was, is) = (before.bucket_of(home), before.after_split().bucket_of(home));
            if was == halved {
                prop_assert!(is == halved || is == new);
            } else {
                prop_assert_eq!(was, is);
            }
        }
    }

    #[test]
    fn more_buckets_are_for_more_entries() {
        for buckets in (4..5_000).chain(Geometry::MAX_BUCKETS - 1_000..Geometry::MAX_BUCKETS) {
            let (smaller, larger) = (Geometry::of(buckets), Geometry::of(buckets + 1));
            assert!(smaller.max_entries() <= larger.max_entries());
            assert!(smaller.max_entries() * 100 >= smaller.slots() * 87 - 100);
        }
        for entries in (0..5_000).chain([1 << 20, 10_000_000]) {
            let geometry = Geometry::for_entries(entries);
            assert!(geometry.max_entries() >= entries);
            let fewer = Geometry::of(geometry.buckets() - 1);
            assert!(geometry.buckets() == Geometry::MIN_BUCKETS || fewer.max_entries() < entries);
        }
        assert_eq!(Geometry::for_entries(usize::MAX).buckets(), Geometry::MAX_BUCKETS);
    }

    #[test]
    fn the_largest_table_keeps_no_spare_bits() {
        let largest = Geometry::of(usize::MAX);
        assert_eq!((largest.buckets(), largest.spare_width()), (Geometry::MAX_BUCKETS, 0));
        assert_eq!(largest.next_split(), None);
    }
}
