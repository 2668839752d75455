//! What a rank holds, by name: where each block stands, and how many copies of it there are.

use kv_router_hash::next_sequence_hash;
use kv_router_types::{LocalBlockHash, SequenceHash, Tier};
use rustc_hash::FxHashMap;

use super::Presence;
use super::salts::{SaltId, SaltTable};

/// One block of the index under one name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The name before it; meaningless at the root.
    parent: u64,
    pub(super) local: LocalBlockHash,
    /// Where it stands: the content of all blocks up to it. Names say less, because the name before may have moved.
    pub(super) path: SequenceHash,
    /// Copies in each tier. Never all zero.
    pub(super) copies: [u32; Tier::COUNT],
    pub(super) salt: SaltId,
    /// Blocks of the index that the engine's block under this name is: the others have derived names.
    pub(super) parts: u16,
    root: bool,
}

impl Entry {
    pub(super) fn parent(&self) -> Option<u64> {
        (!self.root).then_some(self.parent)
    }
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
    entries: FxHashMap<u64, Entry>,
    salts: SaltTable,
}

impl Names {
    #[inline]
    pub(super) fn get(&self, name: u64) -> Option<&Entry> {
        self.entries.get(&name)
    }

    /// Where a block stands that continues `parent`; `None` when the rank does not hold the parent.
    #[inline]
    pub(super) fn path(&self, parent: Option<u64>, local: LocalBlockHash) -> Option<SequenceHash> {
        let before = match parent {
            None => None,
            Some(parent) => Some(self.get(parent)?.path),
        };
        Some(next_sequence_hash(before, local))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(&name, entry)| (name, entry))
    }

    pub(super) fn reserve(&mut self, names: usize) {
        self.entries.reserve(names);
    }

    /// Puts a name there as it was saved. `false` when it is there already, or has no copy.
    pub(super) fn restore(&mut self, place: Place, copies: [u32; Tier::COUNT]) -> bool {
        let Place { name, parent, local, path, salt, parts } = place;
        let root = parent.is_none();
        let entry = Entry { parent: parent.unwrap_or(0), local, path, copies, salt, parts, root };
        let is_new = copies != [0; Tier::COUNT] && self.entries.insert(name, entry).is_none();
        self.salts.hold(salt);
        is_new
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
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        let Place { name, parent, local, path, salt, parts } = place;
        let fresh = || {
            let mut copies = [0; Tier::COUNT];
            copies[tier.index()] = 1;
            Entry { parent: parent.unwrap_or(0), local, path, copies, salt, parts, root: parent.is_none() }
        };
        match self.entries.entry(name) {
            Vacant(slot) => {
                slot.insert(fresh());
                self.salts.hold(salt);
                Change::Fresh
            }
            Occupied(mut slot) => {
                let entry = slot.get_mut();
                if entry.path != path {
                    let old = std::mem::replace(entry, fresh());
                    self.salts.hold(salt);
                    self.salts.release(old.salt);
                    return Change::Tier;
                }
                (entry.parent, entry.root) = (parent.unwrap_or(0), parent.is_none());
                let copies = &mut entry.copies[tier.index()];
                if *copies == 0 {
                    *copies = 1;
                    return Change::Tier;
                }
                if presence == Presence::Copies {
                    *copies = copies.saturating_add(1);
                }
                Change::Nothing
            }
        }
    }

    /// Takes one copy away. `Some` when the tier has none left under this name.
    #[inline]
    pub(super) fn remove(&mut self, name: u64, tier: Tier) -> Removal {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        let mut slot = match self.entries.entry(name) {
            Occupied(slot) => slot,
            Vacant(_) => return Removal::Unknown,
        };
        let entry = slot.get_mut();
        let copies = &mut entry.copies[tier.index()];
        match *copies {
            0 => return Removal::Unknown,
            1 => *copies = 0,
            _ => {
                *copies -= 1;
                return Removal::CopiesLeft;
            }
        }
        let parts = entry.parts;
        if entry.copies == [0; Tier::COUNT] {
            let entry = slot.remove();
            self.salts.release(entry.salt);
        }
        Removal::Gone { parts }
    }

    /// Takes all copies in a tier away. Whether there were any.
    pub(super) fn remove_all(&mut self, name: u64, tier: Tier) -> bool {
        if let Some(entry) = self.entries.get_mut(&name) {
            let copies = &mut entry.copies[tier.index()];
            *copies = (*copies).min(1);
        }
        self.remove(name, tier) != Removal::Unknown
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.salts.clear();
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
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
