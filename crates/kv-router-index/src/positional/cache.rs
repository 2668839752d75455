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
use crate::children::shrink_sparse;
use crate::names::{Names, Put, Twins};

/// Blocks in one section, so that a lookup that waits at the gate does not wait for a whole event.
pub(super) const SECTION: usize = 64;

/// The tables of one rank.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// A place is a key of `places`.
    pub(super) names: Names<SequenceHash>,
    /// Each place that the rank holds, or that leads to one.
    pub(super) places: FxHashMap<SequenceHash, Place>,
    twins: Twins<SequenceHash>,
    exceptions: Exceptions,
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
        let sequence = self.names.get(name)?.place;
        Some(At { sequence, position: self.places.get(&sequence)?.position })
    }

    /// Whether the store takes a name away from where it is.
    fn would_move(&self, mut under: Option<At>, blocks: &[StoredBlock]) -> bool {
        // Names that are new, the usual case, are told without hashing.
        self.names.count_new(blocks) < blocks.len()
            && blocks.iter().any(|block| {
                let here = At::after(under, block.local);
                under = Some(here);
                self.names.get(block.external).is_some_and(|home| home.place != here.sequence)
            })
    }

    /// Twins, and places that the rank does not hold itself.
    pub(super) fn side_entries(&self) -> usize {
        self.twins.len() + self.places.values().filter(|place| place.tiers.is_empty()).count()
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
        let put = self.cache.names.put(block.external, at.sequence, tier, applied);
        if let Put::Held = put {
            return at;
        }
        self.hold(section, tier, at, under, block.local);
        // Only now: the old place may be on the way to the new one.
        if let Put::Moved(old) = put {
            old.tiers.iter().for_each(|tier| self.release(section, tier, old.place));
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
                    return self.cache.twins.add(sequence, tier);
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
        if self.cache.twins.drop_one(sequence, tier) {
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
        self.cache.names.shrink();
        shrink_sparse(&mut self.cache.places);
        applied
    }

    /// Takes one copy away; false when there is none.
    fn remove_one(&mut self, section: &mut Section<'_>, tier: Tier, name: ExternalSequenceHash) -> bool {
        let Some(sequence) = self.cache.names.take(name, tier) else { return false };
        section.shrink();
        self.release(section, tier, sequence);
        true
    }

    /// Forgets everything.
    pub(super) fn clear(self) -> Applied {
        let Self { entries, cell, slot, cache } = self;
        let Cache { mut names, places, .. } = cell.section(|section| {
            section.shrink();
            // In no order: until it is over there may be a hole anywhere.
            section.show(Buckets::ALL);
            mem::take(cache)
        });
        let copies = names.take_all().map(|home| home.tiers.iter().count() as u64).sum();
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
