//! What one rank holds, and what it calls it: private to the writer of the rank.

use std::collections::hash_map::Entry;
use std::mem;

use kv_router_hash::next_sequence_hash;
use kv_router_types::{ExternalSequenceHash, LocalBlockHash, SequenceHash, StoredBlock, Tier, TierSet};
use rustc_hash::FxHashMap;

use super::cell::{Cell, Section};
use super::entries::{Entries, Key};
use super::exceptions::{Buckets, Exceptions};
use crate::Applied;

/// Blocks in one section, so that a lookup that waits at the gate does not wait for a whole event.
pub(super) const SECTION: usize = 64;

/// The tables of one rank.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) names: FxHashMap<ExternalSequenceHash, Name>,
    /// Each place that the rank holds, or that leads to one.
    pub(super) places: FxHashMap<SequenceHash, Place>,
    /// Where several names denote one place in one tier: how many there are beyond the first. Expected to be
    /// empty.
    twins: FxHashMap<(SequenceHash, Tier), u32>,
    exceptions: Exceptions,
}

/// What a name denotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    /// A key of [`Cache::places`].
    pub(super) sequence: SequenceHash,
    /// Never empty.
    pub(super) tiers: TierSet,
}

/// One prefix, as far as one rank needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The prefix before it. Means nothing at position 0.
    parent: SequenceHash,
    pub(super) local: LocalBlockHash,
    pub(super) position: u32,
    /// How many places of the rank continue it directly.
    children: u32,
    /// Where the rank has a copy under any name; empty in a hole.
    pub(super) tiers: TierSet,
}

impl Place {
    fn key(&self) -> Key {
        Key { position: self.position, local: self.local }
    }

    pub(super) fn parent(&self) -> Option<SequenceHash> {
        (self.position > 0).then_some(self.parent)
    }

    /// Whether a jump must not pass over it.
    fn is_exception(&self) -> bool {
        !self.tiers.contains(Tier::Device)
    }
}

/// One end of a chain: which prefix it is and where it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) sequence: SequenceHash,
    position: u32,
}

impl At {
    /// The end of the chain that one more block makes of another; `None` is the root.
    pub(super) fn after(before: Option<Self>, local: LocalBlockHash) -> Self {
        Self {
            sequence: next_sequence_hash(before.map(|at| at.sequence), local),
            position: before.map_or(0, |at| at.position.saturating_add(1)),
        }
    }

    pub(super) fn key(self, local: LocalBlockHash) -> Key {
        Key { position: self.position, local }
    }
}

impl Cache {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Where the rank has what it calls `name`.
    pub(super) fn at(&self, name: ExternalSequenceHash) -> Option<At> {
        let sequence = self.names.get(&name)?.sequence;
        Some(At { sequence, position: self.places.get(&sequence)?.position })
    }

    /// How many of the names are new.
    pub(super) fn new_names(&self, blocks: &[StoredBlock]) -> usize {
        blocks.iter().filter(|block| !self.names.contains_key(&block.external)).count()
    }

    /// Whether the store takes a name away from where it is.
    fn would_move(&self, mut under: Option<At>, blocks: &[StoredBlock]) -> bool {
        // Names that are new, the usual case, are told without hashing.
        blocks.iter().any(|block| self.names.contains_key(&block.external))
            && blocks.iter().any(|block| {
                let here = At::after(under, block.local);
                under = Some(here);
                self.names.get(&block.external).is_some_and(|name| name.sequence != here.sequence)
            })
    }

    /// Twins, and places that the rank does not hold itself.
    pub(super) fn side_entries(&self) -> usize {
        self.twins.len() + self.places.values().filter(|place| place.tiers.is_empty()).count()
    }

    fn add_twin(&mut self, sequence: SequenceHash, tier: Tier) {
        *self.twins.entry((sequence, tier)).or_insert(0) += 1;
    }

    /// Takes one of several names away; false when there was but one.
    fn drop_twin(&mut self, sequence: SequenceHash, tier: Tier) -> bool {
        if self.twins.is_empty() {
            return false;
        }
        match self.twins.get_mut(&(sequence, tier)) {
            None => return false,
            Some(1) => {
                self.twins.remove(&(sequence, tier));
            }
            Some(further) => *further -= 1,
        }
        true
    }

    /// Forgets a place that is not needed any more, and each before it that this leaves so.
    fn prune(&mut self, mut sequence: SequenceHash) {
        while let Entry::Occupied(entry) = self.places.entry(sequence) {
            if !entry.get().tiers.is_empty() || entry.get().children > 0 {
                return;
            }
            let place = entry.remove();
            self.exceptions.take(place.position);
            let Some(parent) = place.parent() else { return };
            if let Some(parent) = self.places.get_mut(&parent) {
                parent.children -= 1;
            }
            sequence = parent;
        }
    }
}

/// Changes what a rank holds, in its own tables and in the shared map.
///
/// The map has a rank as a holder of exactly what [`Cache::places`] says; while that is changed, the order of
/// steps is what [`Cell`] promises to lookups.
pub(super) struct Writer<'a> {
    pub(super) entries: &'a Entries,
    pub(super) cell: &'a Cell,
    pub(super) slot: u32,
    pub(super) cache: &'a mut Cache,
}

impl Writer<'_> {
    /// Stores a chain that has been checked.
    pub(super) fn store(mut self, tier: Tier, mut under: Option<At>, blocks: &[StoredBlock]) -> Applied {
        let mut applied = Applied::default();
        let cell = self.cell;
        // Half of a store that moves names may be more than the rank held before and than it holds after.
        let moves = self.cache.would_move(under, blocks);
        let at_once = if moves { blocks.len() } else { SECTION };
        for some in blocks.chunks(at_once.max(1)) {
            cell.section(|section| {
                if moves {
                    section.shrink();
                }
                for &block in some {
                    under = Some(self.put(section, tier, under, block, &mut applied));
                }
            });
        }
        applied
    }

    fn put(
        &mut self,
        section: &Section<'_>,
        tier: Tier,
        under: Option<At>,
        block: StoredBlock,
        applied: &mut Applied,
    ) -> At {
        let at = At::after(under, block.local);
        let here = Name { sequence: at.sequence, tiers: TierSet::only(tier) };
        let moved = match self.cache.names.entry(block.external) {
            Entry::Vacant(entry) => {
                entry.insert(here);
                applied.stored += 1;
                None
            }
            Entry::Occupied(mut entry) => {
                let name = entry.get_mut();
                if name.sequence != at.sequence {
                    applied.moved += 1;
                    Some(mem::replace(name, here))
                } else if name.tiers.contains(tier) {
                    applied.already_held += 1;
                    return at;
                } else {
                    name.tiers = name.tiers.with(tier);
                    applied.stored += 1;
                    None
                }
            }
        };
        self.hold(section, tier, at, under, block.local);
        // Only now: the old place may be on the way to the new one.
        if let Some(old) = moved {
            old.tiers.iter().for_each(|tier| self.release(section, tier, old.sequence));
        }
        at
    }

    /// One more name has a copy of a place.
    fn hold(&mut self, section: &Section<'_>, tier: Tier, at: At, under: Option<At>, local: LocalBlockHash) {
        let At { sequence, position } = at;
        let (key, was_exception, is_exception) = match self.cache.places.entry(sequence) {
            Entry::Occupied(mut entry) => {
                let place = entry.get_mut();
                if place.tiers.contains(tier) {
                    return self.cache.add_twin(sequence, tier);
                }
                let was_exception = place.is_exception();
                place.tiers = place.tiers.with(tier);
                (place.key(), was_exception, place.is_exception())
            }
            Entry::Vacant(entry) => {
                let place = *entry.insert(Place {
                    parent: under.map_or(sequence, |under| under.sequence),
                    local,
                    position,
                    children: 0,
                    tiers: TierSet::only(tier),
                });
                if let Some(parent) = under.and_then(|under| self.cache.places.get_mut(&under.sequence)) {
                    parent.children += 1;
                }
                (place.key(), false, place.is_exception())
            }
        };
        // Flagged before a lookup can meet it, cleared when none can any more.
        if is_exception && !was_exception {
            self.cache.exceptions.add(key.position);
            section.show(self.cache.exceptions.buckets());
        }
        self.entries.hold(key, sequence, self.slot, tier);
        if was_exception && !is_exception {
            self.cache.exceptions.take(key.position);
            section.show(self.cache.exceptions.buckets());
        }
    }

    /// One name has a copy less of a place. The section shrinks.
    fn release(&mut self, section: &Section<'_>, tier: Tier, sequence: SequenceHash) {
        if self.cache.drop_twin(sequence, tier) {
            return;
        }
        let Some(place) = self.cache.places.get_mut(&sequence) else { return };
        place.tiers = place.tiers.without(tier);
        let key = place.key();
        if tier == Tier::Device {
            self.cache.exceptions.add(key.position);
        }
        self.entries.let_go(key, sequence, self.slot, tier);
        self.cache.prune(sequence);
        section.show(self.cache.exceptions.buckets());
    }

    pub(super) fn remove(mut self, tier: Tier, names: &[ExternalSequenceHash]) -> Applied {
        let mut applied = Applied::default();
        let cell = self.cell;
        for some in names.chunks(SECTION) {
            cell.section(|section| {
                for &name in some {
                    if self.remove_one(section, tier, name) {
                        applied.removed += 1;
                    } else {
                        applied.unknown += 1;
                    }
                }
            });
        }
        shrink_sparse(&mut self.cache.names);
        shrink_sparse(&mut self.cache.places);
        applied
    }

    /// Takes one copy away; false when there is none.
    fn remove_one(&mut self, section: &mut Section<'_>, tier: Tier, name: ExternalSequenceHash) -> bool {
        let Entry::Occupied(mut entry) = self.cache.names.entry(name) else { return false };
        let Name { sequence, tiers } = *entry.get();
        if !tiers.contains(tier) {
            return false;
        }
        entry.get_mut().tiers = tiers.without(tier);
        if entry.get().tiers.is_empty() {
            entry.remove();
        }
        section.shrink();
        self.release(section, tier, sequence);
        true
    }

    /// Forgets everything.
    pub(super) fn clear(self) -> Applied {
        let Self { entries, cell, slot, cache } = self;
        let Cache { names, places, .. } = cell.section(|section| {
            section.shrink();
            // In no order: until it is over there may be a hole anywhere.
            section.show(Buckets::ALL);
            mem::take(cache)
        });
        let copies = names.values().map(|name| name.tiers.iter().count() as u64).sum();
        let mut places = places.into_iter();
        while places.len() > 0 {
            cell.section(|section| {
                section.shrink();
                for (sequence, place) in places.by_ref().take(SECTION) {
                    place.tiers.iter().for_each(|tier| entries.let_go(place.key(), sequence, slot, tier));
                }
            });
        }
        Applied { removed: copies, ..Applied::default() }
    }
}

/// Gives memory back once a table is at most one eighth full. Amortised, since it is then left half full.
fn shrink_sparse<K: Eq + std::hash::Hash, V>(table: &mut FxHashMap<K, V>) {
    if table.capacity() > 64 && table.len() * 8 < table.capacity() {
        table.shrink_to(table.len() * 2);
    }
}
