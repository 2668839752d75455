//! What one rank calls its blocks: from an engine's name to a place, with the tiers that have a copy.
//!
//! Decision record 5 says why a name has one place and a set of tiers. `P` is what an index calls a place.

use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::mem;

use kv_router_types::{ExternalSequenceHash, StoredBlock, Tier, TierSet};
use rustc_hash::FxHashMap;

use crate::Applied;
use crate::children::shrink_sparse;

/// The names of one rank.
#[derive(Debug)]
pub(crate) struct Names<P> {
    homes: FxHashMap<ExternalSequenceHash, Home<P>>,
}

/// Where the block that a name denotes is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<P> {
    pub(crate) place: P,
    /// Never empty.
    pub(crate) tiers: TierSet,
}

/// What a store did to one name.
pub(crate) enum Put<P> {
    /// Nothing: there was such a copy.
    Held,
    /// The name has one copy more.
    Added,
    /// The same, and it left another place: the caller must let go of that.
    Moved(Home<P>),
}

impl<P> Default for Names<P> {
    fn default() -> Self {
        Self { homes: FxHashMap::default() }
    }
}

impl<P> Names<P> {
    pub(crate) fn len(&self) -> usize {
        self.homes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    #[inline]
    pub(crate) fn get(&self, name: ExternalSequenceHash) -> Option<&Home<P>> {
        self.homes.get(&name)
    }

    /// How many of the names are new.
    pub(crate) fn count_new(&self, blocks: &[StoredBlock]) -> usize {
        blocks.iter().filter(|block| !self.homes.contains_key(&block.external)).count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ExternalSequenceHash, &Home<P>)> {
        self.homes.iter().map(|(&name, home)| (name, home))
    }

    /// Hands over all names.
    pub(crate) fn take_all(&mut self) -> impl ExactSizeIterator<Item = Home<P>> + use<P> {
        mem::take(&mut self.homes).into_values()
    }

    /// Gives memory back after removals.
    pub(crate) fn shrink(&mut self) {
        shrink_sparse(&mut self.homes);
    }
}

impl<P: PartialEq> Names<P> {
    /// Lets `name` denote `place`, with a copy in `tier`, and counts what that is.
    #[inline]
    pub(crate) fn put(
        &mut self,
        name: ExternalSequenceHash,
        place: P,
        tier: Tier,
        applied: &mut Applied,
    ) -> Put<P> {
        let here = Home { place, tiers: TierSet::only(tier) };
        match self.homes.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(here);
                applied.stored += 1;
                Put::Added
            }
            Entry::Occupied(mut entry) => {
                let home = entry.get_mut();
                if home.place != here.place {
                    applied.moved += 1;
                    Put::Moved(mem::replace(home, here))
                } else if home.tiers.contains(tier) {
                    applied.already_held += 1;
                    Put::Held
                } else {
                    home.tiers = home.tiers.with(tier);
                    applied.stored += 1;
                    Put::Added
                }
            }
        }
    }
}

impl<P: Clone> Names<P> {
    /// Takes one copy of a name away and gives back its place; `None` when there is no such copy.
    #[inline]
    pub(crate) fn take(&mut self, name: ExternalSequenceHash, tier: Tier) -> Option<P> {
        let Entry::Occupied(mut entry) = self.homes.entry(name) else { return None };
        let home = entry.get_mut();
        if !home.tiers.contains(tier) {
            return None;
        }
        home.tiers = home.tiers.without(tier);
        if home.tiers.is_empty() { Some(entry.remove().place) } else { Some(home.place.clone()) }
    }
}

/// Where several names of a rank denote one place in one tier: how many there are beyond the first. Expected to be
/// empty; the rank holds the place there until the last of the names goes.
#[derive(Debug)]
pub(crate) struct Twins<K> {
    further: FxHashMap<(K, Tier), u32>,
}

impl<K> Default for Twins<K> {
    fn default() -> Self {
        Self { further: FxHashMap::default() }
    }
}

impl<K: Eq + Hash> Twins<K> {
    /// Places with twins, tier by tier.
    pub(crate) fn len(&self) -> usize {
        self.further.len()
    }

    /// One more name for a place that has one.
    pub(crate) fn add(&mut self, place: K, tier: Tier) {
        *self.further.entry((place, tier)).or_insert(0) += 1;
    }

    /// Takes one of several names away; false when there was but one.
    #[inline]
    pub(crate) fn drop_one(&mut self, place: K, tier: Tier) -> bool {
        if self.further.is_empty() {
            return false;
        }
        let Entry::Occupied(mut entry) = self.further.entry((place, tier)) else { return false };
        match entry.get_mut() {
            1 => {
                entry.remove();
            }
            further => *further -= 1,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: ExternalSequenceHash = ExternalSequenceHash::new(7);

    #[test]
    fn a_name_gathers_tiers_at_one_place_and_loses_them_when_it_moves() {
        let (mut names, mut applied) = (Names::default(), Applied::default());
        assert!(matches!(names.put(NAME, 'a', Tier::Device, &mut applied), Put::Added));
        assert!(matches!(names.put(NAME, 'a', Tier::Host, &mut applied), Put::Added));
        assert!(matches!(names.put(NAME, 'a', Tier::Host, &mut applied), Put::Held));
        let moved = names.put(NAME, 'b', Tier::Disk, &mut applied);
        assert!(matches!(moved, Put::Moved(Home { place: 'a', tiers }) if tiers.iter().count() == 2));
        assert_eq!(applied, Applied { stored: 2, already_held: 1, moved: 1, ..Applied::default() });
        assert_eq!(names.take(NAME, Tier::Device), None);
        assert_eq!((names.take(NAME, Tier::Disk), names.len()), (Some('b'), 0));
    }

    #[test]
    fn the_last_twin_leaves_the_first_name() {
        let mut twins = Twins::default();
        twins.add(1, Tier::Host);
        twins.add(1, Tier::Host);
        assert!(!twins.drop_one(1, Tier::Device) && !twins.drop_one(2, Tier::Host));
        assert!(twins.drop_one(1, Tier::Host) && twins.drop_one(1, Tier::Host));
        assert!(!twins.drop_one(1, Tier::Host));
        assert_eq!(twins.len(), 0);
    }
}
