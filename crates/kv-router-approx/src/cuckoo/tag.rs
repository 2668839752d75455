//! What the filter keeps of a sequence hash: a fingerprint and a pair of homes.

use std::fmt;

use kv_router_types::SequenceHash;

/// Bits of a home that an entry can still tell: 2^26 buckets are the most that a filter grows to.
pub(super) const POSITION_BITS: u32 = 26;

const POSITION_MASK: u32 = (1 << POSITION_BITS) - 1;

/// 41 bits of one sequence hash: a fingerprint of 16 bits that is never 0, and 25 bits of home.
///
/// Every tag has an even home and an odd one, which differ by an odd number that the fingerprint alone
/// decides. So either home leads to the other, the two are never one bucket at any table size, and two tags
/// of one fingerprint share both homes or none: taking a fingerprint out of a pair can only take out
/// an equal one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tag {
    even_home: u32,
    fingerprint: u16,
}

impl Tag {
    /// Bits of [`packed`](Self::packed) that are ever set.
    pub(super) const PACKED_BITS: u32 = POSITION_BITS + 16;

    pub(super) fn of(hash: SequenceHash) -> Self {
        // The place of a root block is its local hash, which a caller may have made from a counter.
        let mixed = mix(hash.get());
        let fingerprint = (((mixed >> 48) * 0xFFFF) >> 16) as u16 + 1;
        Self { even_home: mixed as u32 & POSITION_MASK & !1, fingerprint }
    }

    /// The tag of an entry that sits at `home` with `fingerprint`.
    pub(super) fn at(home: u32, fingerprint: u16) -> Self {
        let even_home = if home & 1 == 0 { home } else { home ^ displacement(fingerprint) };
        Self { even_home, fingerprint }
    }

    pub(super) fn fingerprint(self) -> u16 {
        self.fingerprint
    }

    /// Both homes, at full width; a table uses as many of their low bits as it has buckets for.
    pub(super) fn homes(self) -> [u32; 2] {
        [self.even_home, self.even_home ^ displacement(self.fingerprint)]
    }

    /// The tag as a number of [`PACKED_BITS`](Self::PACKED_BITS) bits.
    pub(super) fn packed(self) -> u64 {
        u64::from(self.even_home) << 16 | u64::from(self.fingerprint)
    }

    /// Reads [`packed`](Self::packed) back; `None` when no tag packs to `raw`.
    pub(super) fn unpack(raw: u64) -> Option<Self> {
        let home = u32::try_from(raw >> 16).ok()?;
        let fingerprint = raw as u16;
        let valid = fingerprint != 0 && home <= POSITION_MASK && home & 1 == 0;
        valid.then_some(Self { even_home: home, fingerprint })
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({:07x}:{:04x})", self.even_home, self.fingerprint)
    }
}

/// The other home of an entry: its own inverse.
pub(super) fn other_home(home: u32, fingerprint: u16) -> u32 {
    home ^ displacement(fingerprint)
}

/// An odd number of [`POSITION_BITS`] bits.
fn displacement(fingerprint: u16) -> u32 {
    let x = u32::from(fingerprint).wrapping_mul(0x9E37_79B1);
    let x = (x ^ x >> 15).wrapping_mul(0x85EB_CA6B);
    (x ^ x >> 13) & POSITION_MASK | 1
}

/// A bijection in which every input bit moves every output bit (the finaliser of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_fingerprint_moves_a_home_away_and_back_at_every_width() {
        for fingerprint in 1..=u16::MAX {
            for home in [0, 1, 0x0123_4567 & POSITION_MASK, POSITION_MASK] {
                let other = other_home(home, fingerprint);
                assert!(other <= POSITION_MASK);
                assert_eq!(other_home(other, fingerprint), home);
                for width in 1..=POSITION_BITS {
                    let mask = (1 << width) - 1;
                    assert_ne!(home & mask, other & mask, "one bucket at width {width}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn either_home_leads_to_the_same_tag(raw: u64) {
            let tag = Tag::of(SequenceHash::new(raw));
            prop_assert_ne!(tag.fingerprint(), 0);
            for home in tag.homes() {
                prop_assert_eq!(Tag::at(home, tag.fingerprint()), tag);
            }
            prop_assert_eq!(Tag::unpack(tag.packed()), Some(tag));
            prop_assert!(tag.packed() >> Tag::PACKED_BITS == 0);
        }

        #[test]
        fn what_no_tag_packs_to_is_refused(raw: u64) {
            prop_assert!(Tag::unpack(raw & !0xFFFF).is_none(), "fingerprint 0");
            prop_assert!(Tag::unpack(raw | 1 << 16).is_none(), "an odd home");
            prop_assert!(Tag::unpack(raw | 1 << Tag::PACKED_BITS).is_none(), "too many bits");
        }
    }
}
