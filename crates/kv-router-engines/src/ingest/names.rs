//! What a rank holds, by name: where each block stands, and how many copies of it there are.

use kv_router_hash::next_sequence_hash;
use kv_router_types::{LocalBlockHash, SequenceHash, Tier};
use rustc_hash::FxHashMap;

use super::Presence;
use super::salts::{SaltId, SaltTable};
use super::slots::{Seat, Slot, Slots};

/// One block of the index under one name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name: u64,
    /// The name before it.
    pub(super) parent: Option<u64>,
    pub(super) local: LocalBlockHash,
    /// Where it stands: the content of all blocks up to it. Names say less, because the name before may have moved.
    pub(super) path: SequenceHash,
    /// Copies in each tier. Never all zero.
    pub(super) copies: [u32; Tier::COUNT],
    pub(super) salt: SaltId,
    /// Blocks of the index that the engine's block under this name is: the others have derived names.
    pub(super) parts: u16,
}

/// A block as a store describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) name: u64,
    pub(super) parent: Option<u64>,
    pub(super) local: LocalBlockHash,
    pub(super) path: SequenceHash,
    pub(super) salt: SaltId,
    pub(super) parts: u16,
}

impl Place {
    /// Without a copy.
    #[inline]
    fn slot(self) -> Slot {
        Slot::new(self.name, self.parent, (self.local, self.path), self.salt, self.parts)
    }
}

/// What a store of one block changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The name is new.
    Fresh,
    /// The name has a first copy in this tier, or stands at another place now.
    Tier,
    /// One copy more, or none: the index knows already.
    Nothing,
}

/// Names of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    slots: Slots,
    /// Copies beyond those that a slot counts, by name and tier.
    many: FxHashMap<(u64, usize), u32>,
    salts: SaltTable,
}

impl Names {
    /// Has the memory fetched that a later call needs.
    #[inline]
    pub(super) fn touch(&self, name: u64) {
        self.slots.touch(name);
    }

    pub(super) fn get(&self, name: u64) -> Option<Entry> {
        self.slots.get(name).map(|slot| self.entry(slot))
    }

    #[inline]
    pub(super) fn contains(&self, name: u64) -> bool {
        self.slots.get(name).is_some()
    }

    /// Where a name stands, and under which salt.
    #[inline]
    pub(super) fn place(&self, name: u64) -> Option<(SequenceHash, SaltId)> {
        self.slots.get(name).map(|slot| (slot.path, slot.salt()))
    }

    /// Where a block stands that continues `parent`; `None` when the rank does not hold the parent.
    pub(super) fn path(&self, parent: Option<u64>, local: LocalBlockHash) -> Option<SequenceHash> {
        let before = match parent {
            None => None,
            Some(parent) => Some(self.slots.get(parent)?.path),
        };
        Some(next_sequence_hash(before, local))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.slots.iter().map(|slot| self.entry(slot))
    }

    pub(super) fn reserve(&mut self, names: usize) {
        self.slots.reserve(names);
    }

    /// Puts a name there as it was saved. `false` when it is there already, or has no copy.
    pub(super) fn restore(&mut self, place: Place, copies: [u32; Tier::COUNT]) -> bool {
        let (Seat::Free(seat), true) = (self.slots.seat(place.name), copies != [0; Tier::COUNT]) else {
            return false;
        };
        let mut slot = place.slot();
        for (tier, count) in Tier::ALL.into_iter().zip(copies) {
            slot.set_copies(tier, count.min(Slot::MOST_COPIES));
            if count > Slot::MOST_COPIES {
                self.many.insert((place.name, tier.index()), count - Slot::MOST_COPIES);
            }
        }
        self.slots.put(seat, slot);
        self.salts.hold(place.salt);
        true
    }

    pub(super) fn salts(&mut self) -> &mut SaltTable {
        &mut self.salts
    }

    pub(super) fn all_salts(&self) -> impl Iterator<Item = (SaltId, &str)> {
        self.salts.iter()
    }

    pub(super) fn salt_count(&self) -> usize {
        self.salts.len()
    }

    #[inline]
    pub(super) fn store(&mut self, place: Place, tier: Tier, presence: Presence) -> Change {
        let fresh = || {
            let mut slot = place.slot();
            slot.set_copies(tier, 1);
            slot
        };
        let at = match self.slots.seat(place.name) {
            Seat::Free(seat) => {
                self.slots.put(seat, fresh());
                self.salts.hold(place.salt);
                return Change::Fresh;
            }
            Seat::Taken(at) => at,
        };
        let slot = self.slots.at_mut(at);
        if slot.path != place.path {
            let old = std::mem::replace(slot, fresh());
            self.salts.hold(place.salt);
            self.salts.release(old.salt());
            Tier::ALL.into_iter().for_each(|tier| self.forget_many(place.name, tier));
            return Change::Tier;
        }
        slot.set_parent(place.parent);
        match (slot.copies(tier), presence) {
            (0, _) => {
                slot.set_copies(tier, 1);
                return Change::Tier;
            }
            (_, Presence::Logical) => {}
            (Slot::MOST_COPIES, Presence::Copies) => {
                let beyond = self.many.entry((place.name, tier.index())).or_default();
                *beyond = beyond.saturating_add(1);
            }
            (copies, Presence::Copies) => slot.set_copies(tier, copies + 1),
        }
        Change::Nothing
    }

    /// Takes one copy away.
    #[inline]
    pub(super) fn remove(&mut self, name: u64, tier: Tier) -> Removal {
        let Some(at) = self.slots.find(name) else { return Removal::Unknown };
        let slot = self.slots.at_mut(at);
        match slot.copies(tier) {
            0 => return Removal::Unknown,
            1 => slot.set_copies(tier, 0),
            copies => {
                if copies < Slot::MOST_COPIES || !self.take_many(name, tier) {
                    self.slots.at_mut(at).set_copies(tier, copies - 1);
                }
                return Removal::CopiesLeft;
            }
        }
        let (parts, salt) = (slot.parts(), slot.salt());
        if slot.is_gone() {
            self.slots.remove(at);
            self.salts.release(salt);
        }
        Removal::Gone { parts }
    }

    /// Takes all copies in a tier away. Whether there were any.
    pub(super) fn remove_all(&mut self, name: u64, tier: Tier) -> bool {
        if let Some(at) = self.slots.find(name) {
            let slot = self.slots.at_mut(at);
            slot.set_copies(tier, slot.copies(tier).min(1));
            self.forget_many(name, tier);
        }
        self.remove(name, tier) != Removal::Unknown
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.many.clear();
        self.salts.clear();
    }

    fn entry(&self, slot: &Slot) -> Entry {
        let copies = Tier::ALL.map(|tier| match slot.copies(tier) {
            Slot::MOST_COPIES => {
                let beyond = self.many.get(&(slot.name, tier.index())).copied().unwrap_or(0);
                Slot::MOST_COPIES.saturating_add(beyond)
            }
            copies => copies,
        });
        let &Slot { name, local, path, .. } = slot;
        Entry { name, parent: slot.parent(), local, path, copies, salt: slot.salt(), parts: slot.parts() }
    }

    /// Takes one of the copies beyond those in the slot. Whether there was one.
    #[cold]
    fn take_many(&mut self, name: u64, tier: Tier) -> bool {
        let Some(beyond) = self.many.get_mut(&(name, tier.index())) else { return false };
        *beyond -= 1;
        if *beyond == 0 {
            self.forget_many(name, tier);
        }
        true
    }

    fn forget_many(&mut self, name: u64, tier: Tier) {
        if !self.many.is_empty() {
            self.many.remove(&(name, tier.index()));
        }
    }
}

/// What a removal of one name changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// The tier has no copy under this name.
    Unknown,
    /// There were several copies, and some are left.
    CopiesLeft,
    /// That was the last copy in the tier.
    Gone {
        /// See [`Entry::parts`].
        parts: u16,
    },
}

/// The name of a block in a group. Groups do not share copies, but their engine names the same content alike.
#[inline]
pub(super) fn scoped(hash: u64, group: u32) -> u64 {
    if group == 0 { hash } else { mix(hash ^ u64::from(group).rotate_left(32)) }
}

/// The name of part `part` of an engine's block that is several of ours. The last part has the block's own name, so
/// that what continues the block continues it.
#[inline]
pub(super) fn part_name(name: u64, part: u16, parts: u16) -> u64 {
    if part + 1 == parts { name } else { mix(name ^ (u64::from(part) + 1).rotate_left(48)) }
}

/// Spreads the bits of a name (the finaliser of SplitMix64): two of a rank's names meet once in 2^64.
pub(super) fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: u64, local: u64) -> Place {
        let local = LocalBlockHash::new(local);
        let path = next_sequence_hash(None, local);
        Place { name, parent: None, local, path, salt: SaltId::NONE, parts: 1 }
    }

    #[test]
    fn more_copies_than_a_slot_counts_are_counted() {
        let mut names = Names::default();
        for _ in 0..100 {
            names.store(place(7, 1), Tier::Host, Presence::Copies);
        }
        assert_eq!(names.get(7).map(|entry| entry.copies), Some([0, 100, 0, 0]));
        let mut restored = Names::default();
        assert!(restored.restore(place(7, 1), [0, 100, 0, 0]));
        for names in [&mut names, &mut restored] {
            for left in (1..100).rev() {
                assert_eq!(names.remove(7, Tier::Host), Removal::CopiesLeft);
                assert_eq!(names.get(7).map(|entry| entry.copies), Some([0, left, 0, 0]));
            }
            assert_eq!(names.remove(7, Tier::Host), Removal::Gone { parts: 1 });
            assert_eq!((names.len(), names.many.len()), (0, 0));
        }
    }

    #[test]
    fn a_name_that_moves_takes_no_copies_along() {
        let mut names = Names::default();
        for _ in 0..50 {
            names.store(place(7, 1), Tier::Device, Presence::Copies);
        }
        assert_eq!(names.store(place(7, 2), Tier::Device, Presence::Copies), Change::Tier);
        assert_eq!(names.remove(7, Tier::Device), Removal::Gone { parts: 1 });
        for _ in 0..50 {
            names.store(place(7, 1), Tier::Device, Presence::Copies);
        }
        assert!(names.remove_all(7, Tier::Device));
        assert_eq!((names.len(), names.many.len()), (0, 0));
    }
}
