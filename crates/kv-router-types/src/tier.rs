//! Where a copy of a block lives.

use std::fmt;

/// Where a copy of a block lives, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tier {
    /// G1: accelerator memory.
    Device = 0,
    /// G2: host memory.
    Host = 1,
    /// G3: a local disk.
    Disk = 2,
    /// G4: object storage.
    Object = 3,
}

impl Tier {
    /// How many tiers there are.
    pub const COUNT: usize = 4;

    /// All tiers, best first.
    pub const ALL: [Self; Self::COUNT] = [Self::Device, Self::Host, Self::Disk, Self::Object];

    /// Position in [`Tier::ALL`], for tables with one entry a tier.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Disk => "disk",
            Self::Object => "object",
        })
    }
}

/// The tiers that hold one block: a set in one byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TierSet(u8);

impl TierSet {
    /// No tier.
    pub const EMPTY: Self = Self(0);

    /// The set of one tier.
    #[inline]
    pub const fn only(tier: Tier) -> Self {
        Self(1 << tier as u8)
    }

    /// Whether no tier is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `tier` is in the set.
    #[inline]
    pub const fn contains(self, tier: Tier) -> bool {
        self.0 & (1 << tier as u8) != 0
    }

    /// The set with `tier` added.
    #[inline]
    #[must_use]
    pub const fn with(self, tier: Tier) -> Self {
        Self(self.0 | 1 << tier as u8)
    }

    /// The set with `tier` taken out.
    #[inline]
    #[must_use]
    pub const fn without(self, tier: Tier) -> Self {
        Self(self.0 & !(1 << tier as u8))
    }

    /// The tier that a block is credited at: the best one in the set.
    #[inline]
    pub const fn best(self) -> Option<Tier> {
        match self.0.trailing_zeros() {
            0 => Some(Tier::Device),
            1 => Some(Tier::Host),
            2 => Some(Tier::Disk),
            3 => Some(Tier::Object),
            _ => None,
        }
    }

    /// The tiers in the set, best first.
    pub fn iter(self) -> impl Iterator<Item = Tier> {
        Tier::ALL.into_iter().filter(move |&tier| self.contains(tier))
    }
}

impl FromIterator<Tier> for TierSet {
    fn from_iter<I: IntoIterator<Item = Tier>>(tiers: I) -> Self {
        tiers.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for TierSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subset_knows_its_members_and_its_best() {
        for bits in 0u8..16 {
            let tiers: Vec<Tier> = Tier::ALL.into_iter().filter(|t| bits & (1 << t.index()) != 0).collect();
            let set: TierSet = tiers.iter().copied().collect();
            assert_eq!(set.iter().collect::<Vec<_>>(), tiers);
            assert_eq!(set.best(), tiers.first().copied());
            assert_eq!(set.is_empty(), tiers.is_empty());
            for tier in Tier::ALL {
                assert!(!set.without(tier).contains(tier));
                assert!(set.with(tier).contains(tier));
            }
        }
    }
}
