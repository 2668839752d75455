//! Where in its sequences a rank has blocks that a jump must not pass over.
//!
//! An exception is a block that a rank needs and has no device copy of: a hole, which it does not hold at
//! all, or a block that it holds in a lower tier alone. Of a stretch without exceptions the far end tells
//! everything: who holds that holds all before it, on the device.

/// Positions that share a bucket.
const SPAN: u32 = 64;

/// Buckets; a position above 4,095 shares one with a lower one.
const BUCKETS: usize = u64::BITS as usize;

/// The buckets that have an exception. A bucket that has none is certain; one that has some says where to
/// look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets(u64);

impl Buckets {
    pub(super) const ALL: Self = Self(u64::MAX);

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every bucket here is in `other` too.
    pub(super) const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The last of the positions `from..=to` up to which there is no exception, if there is none at `from`.
    #[inline]
    pub(super) fn plain_until(self, from: u32, to: u32) -> Option<u32> {
        debug_assert!(from <= to, "an empty stretch");
        if self.0 == 0 {
            return Some(to);
        }
        let first = from / SPAN;
        let clear = self.0.rotate_right(first % BUCKETS as u32).trailing_zeros();
        let end = (u64::from(first) + u64::from(clear)) * u64::from(SPAN);
        // Within `u32`: not above `to`.
        (clear > 0).then(|| (end - 1).min(u64::from(to)) as u32)
    }
}

fn bucket(position: u32) -> usize {
    (position / SPAN) as usize % BUCKETS
}

/// The exceptions of one rank, counted. Expected to be few.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    /// There while there is an exception.
    counts: Option<Box<[u32; BUCKETS]>>,
    buckets: Buckets,
}

impl Exceptions {
    pub(super) fn buckets(&self) -> Buckets {
        self.buckets
    }

    pub(super) fn add(&mut self, position: u32) {
        let at = bucket(position);
        self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]))[at] += 1;
        self.buckets.0 |= 1 << at;
    }

    /// Takes away one that was added.
    pub(super) fn take(&mut self, position: u32) {
        let at = bucket(position);
        let Some(counts) = &mut self.counts else { return };
        counts[at] -= 1;
        if counts[at] == 0 {
            self.buckets.0 &= !(1 << at);
        }
        if self.buckets.0 == 0 {
            self.counts = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_plain_stretch_has_no_exception(
            positions in prop::collection::vec(prop_oneof![0u32..400, 0u32..10_000, any::<u32>()], 0..4),
            from in prop_oneof![0u32..400, 0u32..10_000, any::<u32>()],
            len in prop_oneof![0u32..10, 0u32..300, 0u32..10_000],
        ) {
            let mut exceptions = Exceptions::default();
            positions.iter().for_each(|&position| exceptions.add(position));
            let to = from.saturating_add(len);
            let plain = exceptions.buckets().plain_until(from, to);
            let share = |position: u32| positions.iter().any(|&other| bucket(other) == bucket(position));
            let expected = (from..=to).take_while(|&position| !share(position)).last();
            prop_assert_eq!(plain, expected);

            positions.iter().for_each(|&position| exceptions.take(position));
            prop_assert_eq!(exceptions.buckets(), Buckets::default());
            prop_assert!(exceptions.counts.is_none());
        }
    }

    #[test]
    fn a_bucket_is_flagged_until_its_last_exception_goes() {
        let mut exceptions = Exceptions::default();
        exceptions.add(3);
        exceptions.add(60);
        exceptions.take(3);
        assert_eq!(exceptions.buckets().plain_until(0, 200), None);
        assert_eq!(exceptions.buckets().plain_until(64, 200), Some(200));
        exceptions.take(60);
        assert_eq!(exceptions.buckets().plain_until(0, 200), Some(200));
    }
}
