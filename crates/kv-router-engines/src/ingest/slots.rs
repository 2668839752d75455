//! A table of names in one run of memory: forty bytes a name, found by the name's own bits.
//!
//! What an event does to a rank waits for memory, not for arithmetic: a name is one place in a table far larger than
//! the caches. So a slot has everything that is known of a name, lies where the name says or right behind, and can be
//! asked for in advance. There are no tombstones: what a removal leaves is closed at once.

use std::hint::black_box;

use kv_router_types::{LocalBlockHash, SequenceHash, Tier};

use super::names::mix;
use super::salts::SaltId;

/// One name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Zero where the slot is free.
    head: u64,
    pub(super) name: u64,
    /// The name before it; meaningless at the root.
    pub(super) parent: u64,
    pub(super) local: LocalBlockHash,
    pub(super) path: SequenceHash,
}

const IN_USE: u64 = 1 << 63;
const ROOT: u64 = 1 << 62;
const SALT_AT: u32 = 36;
const PARTS_AT: u32 = 20;
/// Bits of the copies of one tier.
const COPIES_BITS: u32 = 5;
const _: () = assert!(COPIES_BITS as usize * Tier::COUNT <= PARTS_AT as usize);

impl Slot {
    const FREE: Self =
        Self { head: 0, name: 0, parent: 0, local: LocalBlockHash::new(0), path: SequenceHash::new(0) };

    /// Copies of one tier that a slot counts at most.
    pub(super) const MOST_COPIES: u32 = (1 << COPIES_BITS) - 1;

    /// A name without a copy.
    #[inline]
    pub(super) fn new(
        name: u64,
        parent: Option<u64>,
        (local, path): (LocalBlockHash, SequenceHash),
        salt: SaltId,
        parts: u16,
    ) -> Self {
        let root = if parent.is_none() { ROOT } else { 0 };
        let head = IN_USE | root | u64::from(salt.number()) << SALT_AT | u64::from(parts) << PARTS_AT;
        Self { head, name, parent: parent.unwrap_or(0), local, path }
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.head == 0
    }

    #[inline]
    pub(super) fn parent(&self) -> Option<u64> {
        (self.head & ROOT == 0).then_some(self.parent)
    }

    #[inline]
    pub(super) fn set_parent(&mut self, parent: Option<u64>) {
        self.head = self.head & !ROOT | if parent.is_none() { ROOT } else { 0 };
        self.parent = parent.unwrap_or(0);
    }

    #[inline]
    pub(super) fn salt(&self) -> SaltId {
        SaltId::from_number((self.head >> SALT_AT) as u32 & SaltId::MOST)
    }

    #[inline]
    pub(super) fn parts(&self) -> u16 {
        (self.head >> PARTS_AT) as u16
    }

    #[inline]
    pub(super) fn copies(&self, tier: Tier) -> u32 {
        (self.head >> (COPIES_BITS * tier.index() as u32)) as u32 & Self::MOST_COPIES
    }

    /// `copies` is at most [`Slot::MOST_COPIES`].
    #[inline]
    pub(super) fn set_copies(&mut self, tier: Tier, copies: u32) {
        let at = COPIES_BITS * tier.index() as u32;
        self.head = self.head & !(u64::from(Self::MOST_COPIES) << at) | u64::from(copies) << at;
    }

    /// Whether no tier has a copy.
    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        self.head & ((1 << (COPIES_BITS as usize * Tier::COUNT)) - 1) == 0
    }
}

/// Where a name is, or where it would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Taken(usize),
    Free(usize),
}

/// Slots by name. Three in five are in use at most: a search ends at a free one, and those are never far.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    len: usize,
    /// Other in a table of another size. Names that come in the order in which such a table had them would otherwise all
    /// have their homes at its beginning.
    seed: u64,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !slot.is_free())
    }

    /// Where a name lies if nobody is in its way. Numbers that count up are spread as evenly as hashes.
    #[inline]
    fn home(&self, name: u64) -> usize {
        let spread = (name ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(spread) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 < self.slots.len() { at + 1 } else { 0 }
    }

    /// Has the memory fetched where a name lies, and whoever is next to it.
    #[inline]
    pub(super) fn touch(&self, name: u64) {
        let home = self.home(name);
        let near = self.slots.get(home..).unwrap_or_default();
        black_box(near.first().map_or(0, |slot| slot.head));
        black_box(near.get(1).map_or(0, |slot| slot.path.get()));
    }

    #[inline]
    pub(super) fn find(&self, name: u64) -> Option<usize> {
        let mut at = self.home(name);
        loop {
            let slot = self.slots.get(at).filter(|slot| !slot.is_free())?;
            if slot.name == name {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    #[inline]
    pub(super) fn get(&self, name: u64) -> Option<&Slot> {
        self.find(name).map(|at| &self.slots[at])
    }

    #[inline]
    pub(super) fn at_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Where a name is, or is to be [put](Slots::put); makes room for it.
    #[inline]
    pub(super) fn seat(&mut self, name: u64) -> Seat {
        self.reserve(1);
        let mut at = self.home(name);
        loop {
            let slot = &self.slots[at];
            if slot.is_free() {
                return Seat::Free(at);
            }
            if slot.name == name {
                return Seat::Taken(at);
            }
            at = self.after(at);
        }
    }

    /// Fills a free seat, right after it was found.
    #[inline]
    pub(super) fn put(&mut self, seat: usize, slot: Slot) {
        self.slots[seat] = slot;
        self.len += 1;
    }

    /// Frees a slot, and moves up whoever was put behind it because it was taken.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        let (mut hole, mut next) = (at, at);
        loop {
            next = self.after(next);
            let slot = &self.slots[next];
            if slot.is_free() {
                break;
            }
            if self.distance(self.home(slot.name), next) >= self.distance(hole, next) {
                self.slots[hole] = *slot;
                hole = next;
            }
        }
        self.slots[hole].head = 0;
        self.len -= 1;
    }

    /// Steps from one place to another.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.slots.len() - from }
    }

    #[inline]
    pub(super) fn reserve(&mut self, names: usize) {
        if (self.len + names) * 5 > self.slots.len() * 3 {
            self.grow(self.len + names);
        }
    }

    #[cold]
    fn grow(&mut self, names: usize) {
        let slots = (names * 5 / 3 + 1).max(self.slots.len() * 3 / 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![Slot::FREE; slots]);
        self.seed = mix(slots as u64);
        for slot in old.into_iter().filter(|slot| !slot.is_free()) {
            let mut at = self.home(slot.name);
            while !self.slots[at].is_free() {
                at = self.after(at);
            }
            self.slots[at] = slot;
        }
    }

    /// Costs what is there: a table that is nearly empty is let go of. A payload may clear thousands of times.
    pub(super) fn clear(&mut self) {
        if self.len < self.slots.len() / 8 {
            self.slots = Vec::new();
        } else {
            self.slots.fill(Slot::FREE);
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn slot(name: u64, path: u64) -> Slot {
        let content = (LocalBlockHash::new(!path), SequenceHash::new(path));
        Slot::new(name, (path & 1 == 0).then_some(path), content, SaltId::NONE, 1)
    }

    #[test]
    fn a_slot_keeps_its_fields_apart() {
        let salt = SaltId::from_number(SaltId::MOST);
        let mut slot = Slot::new(7, None, (LocalBlockHash::new(1), SequenceHash::new(2)), salt, u16::MAX);
        assert!(slot.is_gone());
        for tier in Tier::ALL {
            slot.set_copies(tier, Slot::MOST_COPIES);
        }
        slot.set_copies(Tier::Host, 3);
        slot.set_parent(Some(9));
        assert_eq!((slot.parent(), slot.salt(), slot.parts()), (Some(9), salt, u16::MAX));
        assert_eq!(Tier::ALL.map(|tier| slot.copies(tier)), [31, 3, 31, 31]);
        Tier::ALL.into_iter().for_each(|tier| slot.set_copies(tier, 0));
        slot.set_parent(None);
        assert!(slot.is_gone() && !slot.is_free());
        assert_eq!((slot.parent(), slot.salt(), slot.parts()), (None, salt, u16::MAX));
    }

    #[test]
    fn names_in_the_order_of_another_table_go_in_one_by_one() {
        let mut old = Slots::default();
        for name in (0..20_000).map(mix) {
            let Seat::Free(at) = old.seat(name) else { panic!("{name} is new") };
            old.put(at, slot(name, 0));
        }
        let mut new = Slots::default();
        let mut steps = 0;
        for &moved in old.iter() {
            let Seat::Free(at) = new.seat(moved.name) else { panic!("{} is new", moved.name) };
            steps += new.distance(new.home(moved.name), at);
            new.put(at, moved);
        }
        assert!(steps < 5 * 20_000, "{steps}");
    }

    #[test]
    fn clearing_costs_what_is_there_and_not_what_once_was() {
        let mut slots = Slots::default();
        for round in 0..3 {
            for name in 0..20_000 {
                let Seat::Free(at) = slots.seat(name) else { panic!("{name} is new") };
                slots.put(at, slot(name, 0));
            }
            let full = slots.slots.len();
            if round == 0 {
                slots.clear();
                assert_eq!(slots.slots.len(), full, "a full table is worth keeping");
                continue;
            }
            (0..20_000 - round).for_each(|name| slots.remove(slots.find(name).unwrap()));
            slots.clear();
            assert_eq!((slots.slots.len(), slots.len(), slots.find(19_999)), (0, 0, None));
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u64..48, any::<u64>(), 0..4), 1..400)) {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::new());
            for (name, path, what) in steps {
                match what {
                    0 => {
                        prop_assert_eq!(slots.find(name).is_some(), model.remove(&name).is_some());
                        if let Some(at) = slots.find(name) {
                            slots.remove(at);
                        }
                    }
                    _ => {
                        model.insert(name, path);
                        match slots.seat(name) {
                            Seat::Free(at) => slots.put(at, slot(name, path)),
                            Seat::Taken(at) => *slots.at_mut(at) = slot(name, path),
                        }
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
                for name in 0..48 {
                    let found = slots.get(name).map(|slot| slot.path.get());
                    prop_assert_eq!(found, model.get(&name).copied());
                }
            }
            let mut all: Vec<_> = slots.iter().map(|slot| (slot.name, slot.path.get())).collect();
            all.sort_unstable();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
            slots.clear();
            prop_assert_eq!((slots.len(), slots.iter().count()), (0, 0));
        }
    }
}
