//! Four fingerprints in one word, so that a lookup is two loads and no loop.

/// Slots of a bucket.
pub(super) const LANES: usize = 4;

const LANE_BITS: usize = 16;
const ONES: u64 = 0x0001_0001_0001_0001;
const LOW: u64 = 0x7FFF_7FFF_7FFF_7FFF;

/// Four slots of 16 bits; 0 is a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Bucket(u64);

impl Bucket {
    pub(super) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(super) fn raw(self) -> u64 {
        self.0
    }

    pub(super) fn get(self, lane: usize) -> u16 {
        (self.0 >> (lane * LANE_BITS)) as u16
    }

    pub(super) fn set(&mut self, lane: usize, fingerprint: u16) {
        let shift = lane * LANE_BITS;
        self.0 = self.0 & !(0xFFFF << shift) | u64::from(fingerprint) << shift;
    }

    #[inline]
    pub(super) fn contains(self, fingerprint: u16) -> bool {
        self.equal_lanes(fingerprint) != 0
    }

    /// The lanes that hold `fingerprint`, lowest first.
    pub(super) fn lanes_of(self, fingerprint: u16) -> impl Iterator<Item = usize> {
        let mut lanes = self.equal_lanes(fingerprint);
        std::iter::from_fn(move || {
            let lane = (lanes != 0).then(|| lanes.trailing_zeros() as usize / LANE_BITS)?;
            lanes &= lanes - 1;
            Some(lane)
        })
    }

    pub(super) fn free_lane(self) -> Option<usize> {
        self.lanes_of(0).next()
    }

    /// The top bit of every lane that equals `fingerprint`. The sum carries into a lane's top bit exactly
    /// when one of its low 15 bits differs, and never beyond it.
    #[inline]
    fn equal_lanes(self, fingerprint: u16) -> u64 {
        let differs = self.0 ^ (u64::from(fingerprint) * ONES);
        !(((differs & LOW) + LOW) | differs) & !LOW
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lanes_of_a_word_are_those_of_an_array(
            lanes in prop::array::uniform4(prop_oneof![Just(0u16), Just(1), Just(0x8000), Just(0xFFFF), any::<u16>()]),
            wanted in prop_oneof![Just(0u16), Just(1), Just(0x8000), Just(0xFFFF), any::<u16>()],
        ) {
            let mut bucket = Bucket::from_raw(u64::MAX);
            for (lane, &fingerprint) in lanes.iter().enumerate() {
                bucket.set(lane, fingerprint);
            }
            for (lane, &fingerprint) in lanes.iter().enumerate() {
                prop_assert_eq!(bucket.get(lane), fingerprint);
            }
            let expected: Vec<usize> = (0..LANES).filter(|&lane| lanes[lane] == wanted).collect();
            prop_assert_eq!(bucket.contains(wanted), !expected.is_empty());
            prop_assert_eq!(bucket.lanes_of(wanted).collect::<Vec<_>>(), expected);
            prop_assert_eq!(bucket.free_lane(), lanes.iter().position(|&fingerprint| fingerprint == 0));
        }
    }
}
