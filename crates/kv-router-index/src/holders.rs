//! Who holds one block, tier by tier.

use kv_router_types::Tier;

use crate::rank_set::{RankSet, Word};

/// Tiers below [`Tier::Device`].
pub(crate) const LOWER: usize = Tier::COUNT - 1;

/// Who holds one block: a set of slots for the device, and three more only where a lower tier has a copy.
///
/// In most fleets almost every block is in device memory alone, and then this costs one set and a null
/// pointer.
#[derive(Debug)]
pub(crate) struct Holders {
    device: RankSet,
    /// In the order of [`Tier::ALL`] without its first. Never all empty.
    lower: Option<Box<[RankSet; LOWER]>>,
}

impl Holders {
    pub(crate) const NONE: Self = Self { device: RankSet::EMPTY, lower: None };

    pub(crate) fn is_empty(&self) -> bool {
        self.device.is_empty() && self.lower.is_none()
    }

    /// The slots among `64 * index ..` that hold the block in any tier.
    #[inline]
    pub(crate) fn word(&self, index: u32) -> u64 {
        let device = self.device.word(index);
        match &self.lower {
            None => device,
            Some(lower) => lower.iter().fold(device, |bits, set| bits | set.word(index)),
        }
    }

    /// The slots among `64 * index ..` that hold the block on the device.
    pub(crate) fn device_word(&self, index: u32) -> u64 {
        self.device.word(index)
    }

    /// The sets of the lower tiers, when one of them has a member.
    #[inline]
    pub(crate) fn lower(&self) -> Option<&[RankSet; LOWER]> {
        self.lower.as_deref()
    }

    /// Adds the holders in any tier to `words`, which is sorted by index and stays so.
    pub(crate) fn add_to(&self, words: &mut Vec<Word>) {
        self.device.add_to(words);
        self.lower.iter().flat_map(|lower| lower.iter()).for_each(|set| set.add_to(words));
    }

    /// Adds a holder; false when it was one already.
    pub(crate) fn insert(&mut self, slot: u32, tier: Tier) -> bool {
        match tier.index().checked_sub(1) {
            None => self.device.insert(slot),
            Some(at) => {
                let lower = self.lower.get_or_insert_with(|| Box::new([RankSet::EMPTY; LOWER]));
                lower[at].insert(slot)
            }
        }
    }

    /// Takes a holder out of one tier.
    pub(crate) fn remove(&mut self, slot: u32, tier: Tier) {
        match (tier.index().checked_sub(1), &mut self.lower) {
            (None, _) => {
                self.device.remove(slot);
            }
            (Some(at), Some(lower)) => {
                lower[at].remove(slot);
                if lower.iter().all(RankSet::is_empty) {
                    self.lower = None;
                }
            }
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_tiers_cost_nothing_where_they_are_empty() {
        let mut holders = Holders::NONE;
        assert!(holders.insert(3, Tier::Device));
        assert!(holders.lower().is_none());
        assert!(holders.insert(3, Tier::Disk));
        assert!(!holders.insert(3, Tier::Disk));
        assert_eq!((holders.word(0), holders.device_word(0)), (1 << 3, 1 << 3));
        holders.remove(3, Tier::Disk);
        assert!(holders.lower().is_none());
        holders.remove(3, Tier::Object);
        holders.remove(3, Tier::Device);
        assert!(holders.is_empty());
    }

    #[test]
    fn holders_are_32_bytes() {
        assert_eq!(size_of::<Holders>(), 32);
    }
}
