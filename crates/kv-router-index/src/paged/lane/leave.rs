//! Copies that go, and what readers are told of it.

use kv_router_types::{ExternalSequenceHash, Tier};

use super::{AHEAD, Lane, each_name};
use crate::Applied;
use crate::paged::ids::Ids;
use crate::paged::names::Place;
use crate::paged::pages::Pages;
use crate::paged::record::Record;
use crate::paged::shared::Shared;
use crate::paged::table::Home;
use crate::paged::tiers::LOWER;
use crate::paged::touch::touch;
use crate::paged::words::{Entry, Mask, PAGE_BLOCKS};

impl Lane {
    pub(super) fn remove(&mut self, shared: &Shared, tier: Tier, names: &[ExternalSequenceHash]) -> Applied {
        let mut removed = 0;
        for names in names.chunks(AHEAD) {
            let mut homes = [Home::default(); AHEAD];
            for (home, name) in homes.iter_mut().zip(names) {
                *home = self.names.home(name.get());
            }
            let homes = &homes[..names.len()];
            self.names.touch(homes);
            removed += if tier != Tier::Device || !self.twins.is_empty() {
                names.iter().map(|name| u64::from(self.remove_one(name.get(), tier))).sum()
            } else if self.is_scattered {
                self.remove_scattered(names, homes)
            } else {
                self.remove_runs(&shared.pages, names, homes)
            };
        }
        let unknown = names.len() as u64 - removed;
        let applied = Applied { removed, unknown, ..Applied::default() };
        self.copies -= applied.removed;
        self.flush_all(&shared.pages);
        let records = &self.records;
        self.names.shrink(records.len(), |each| each_name(records, each));
        applied
    }

    /// Removes names from the device where there are no twins, in runs: engines free a chain from its end, and some
    /// name a chain from its beginning.
    fn remove_runs(&mut self, pages: &Pages, names: &[ExternalSequenceHash], homes: &[Home]) -> u64 {
        let (mut at, mut removed, mut runs) = (0, 0, 0);
        while let Some(name) = names.get(at) {
            let guess = self.next_removed;
            let is_guessed = self
                .records
                .get(guess.record())
                .is_some_and(|record| record.is_at(guess.offset(), name.get()));
            let found =
                if is_guessed { Some(guess) } else { self.names.find(homes[at], name.get(), &self.records) };
            let Some(place) = found else {
                at += 1;
                continue;
            };
            let record = &self.records[place.record()];
            if !record.is_plain() {
                removed += u64::from(self.remove_copy(name.get(), place, Tier::Device));
                at += 1;
                continue;
            }
            if !record.is_dirty {
                // Needed when this is shown to readers.
                touch(|| pages.headers.at(record.page).holders());
            }
            let Run { lowest, count, direction } = run(record, place.offset(), &names[at..], self.direction);
            let first = Place::new(place.record() as u32, lowest);
            for index in 0..count {
                let step = match direction {
                    Direction::Rising => index,
                    Direction::Falling => count - 1 - index,
                };
                self.names.remove(homes[at + index], first.after(step));
            }
            self.records[place.record()].give_up(lowest, count);
            self.mark(place.record());
            if count > 1 {
                self.direction = direction;
            }
            // Past either end of the page nobody knows.
            let next = match self.direction {
                Direction::Rising => (lowest + count) % PAGE_BLOCKS,
                Direction::Falling => lowest.saturating_sub(1),
            };
            self.next_removed = Place::new(place.record() as u32, next);
            at += count;
            removed += count as u64;
            runs += 1;
        }
        self.is_scattered = is_scattered(runs, names.len());
        removed
    }

    /// The same without an order to go by: finds all first, so that what is waited for comes together. A guess that
    /// fails would have to wait for its own.
    fn remove_scattered(&mut self, names: &[ExternalSequenceHash], homes: &[Home]) -> u64 {
        let mut places = [None; AHEAD];
        for ((place, name), &home) in places.iter_mut().zip(names).zip(homes) {
            *place = self.names.find(home, name.get(), &self.records);
        }
        let (mut removed, mut breaks, mut before) = (0, 0, Place::default());
        for ((place, name), &home) in places.iter().zip(names).zip(homes) {
            let Some(place) = *place else { continue };
            breaks += usize::from(place != before.after(1) && before != place.after(1));
            before = place;
            let record = &mut self.records[place.record()];
            if !record.is_at(place.offset(), name.get()) {
                // It came before in the same event.
                continue;
            }
            if record.is_plain() {
                self.names.remove(home, place);
                record.give_up(place.offset(), 1);
                self.mark(place.record());
                removed += 1;
            } else {
                removed += u64::from(self.remove_copy(name.get(), place, Tier::Device));
            }
        }
        self.is_scattered = is_scattered(breaks, names.len());
        removed
    }

    /// Whether there was such a copy.
    pub(super) fn remove_one(&mut self, name: u64, tier: Tier) -> bool {
        match self.find(name) {
            Some(place) => self.remove_copy(name, place, tier),
            None => self.remove_twin(name, tier),
        }
    }

    /// The copy of a first name.
    fn remove_copy(&mut self, name: u64, place: Place, tier: Tier) -> bool {
        let record = &mut self.records[place.record()];
        let tiers = record.tiers(place.offset());
        if !tiers.contains(tier) {
            return false;
        }
        let rest = tiers.without(tier);
        if rest.is_empty() {
            self.take_first(name, place);
        } else {
            record.set_tiers(place.offset(), rest);
        }
        self.mark(place.record());
        true
    }

    fn remove_twin(&mut self, name: u64, tier: Tier) -> bool {
        let Some((place, tiers)) = self.twins.get(name).filter(|(_, tiers)| tiers.contains(tier)) else {
            return false;
        };
        let rest = tiers.without(tier);
        if rest.is_empty() {
            self.twins.remove(name);
        } else {
            self.twins.set(name, place, rest);
        }
        self.mark(place.record());
        true
    }

    /// Takes the first name of a place away. If it has another, that is the first now; else the block is gone.
    pub(super) fn take_first(&mut self, name: u64, place: Place) {
        match &mut self.ids {
            None => self.names.remove(self.names.home(name), place),
            Some(ids) => ids.free_run(name as u32, 1),
        }
        let record = &mut self.records[place.record()];
        if let Some((name, tiers)) = self.twins.take_at(place) {
            match &self.ids {
                None => record.name(place.offset(), name, tiers),
                Some(_) => record.set_tiers(place.offset(), tiers),
            }
            self.call(name, place);
        } else {
            record.give_up(place.offset(), 1);
        }
    }

    /// Shows readers what has changed.
    pub(super) fn flush_all(&mut self, pages: &Pages) {
        while let Some(record) = self.dirty.pop() {
            self.flush(pages, record);
        }
    }

    fn flush(&mut self, pages: &Pages, at: u32) {
        let Some(slot) = self.slot else { return };
        let record = &mut self.records[at as usize];
        record.is_dirty = false;
        record.held.tidy();
        if record.held.is_empty() {
            let page = record.page;
            pages.unhold(page, slot, record.hint());
            *record = Record::free();
            self.by_page.remove(page, at, &self.records);
            self.free_records.push(at);
            return;
        }
        let tiers = if record.is_plain() { 0 } else { self.tier_record(pages, at) };
        let record = &mut self.records[at as usize];
        record.trim();
        let before = record.entry;
        let entry = Entry::new(slot, record.held.reach(), record.held.end(), tiers);
        if entry == before {
            return;
        }
        let mut page = pages.headers.lock(record.page);
        record.set_hint(page.set_holder(&pages.lines, entry, record.hint()));
        record.entry = entry;
        if entry.end() < before.end() && before.end() == page.shape().len() {
            pages.trim(&mut page);
        }
        drop(page);
        pages.tiers.free(before.tiers());
    }

    /// A tier record that says where the best copies are, 0 when all are on the device.
    #[cold]
    fn tier_record(&self, pages: &Pages, at: u32) -> u32 {
        let record = &self.records[at as usize];
        let mut best = [Mask::default(); LOWER];
        for offset in record.held.iter() {
            let mut of_all = record.tiers(offset).best();
            if !self.twins.is_empty() {
                let of_twins = self.twins.tiers_at(Place::new(at, offset)).best();
                of_all = of_all.into_iter().chain(of_twins).min();
            }
            if let Some(lower) = of_all.and_then(|tier| tier.index().checked_sub(1)) {
                best[lower].insert(offset);
            }
        }
        if best.iter().all(Mask::is_empty) {
            return 0;
        }
        pages.tiers.allocate(&best).unwrap_or(0)
    }

    /// Forgets everything: for readers at once, in memory in slices.
    pub(in crate::paged) fn clear(&mut self, shared: &Shared) -> Applied {
        let applied = Applied { removed: self.copies, ..Applied::default() };
        if let Some(slot) = self.slot.take() {
            shared.bury(slot, std::mem::take(&mut self.records));
        }
        let ids = self.ids.is_some().then(Ids::default);
        *self = Self { is_dead: self.is_dead, ids, ..Self::new(self.rank) };
        applied
    }
}

/// Whether so many breaks among so many names make runs not worth while.
fn is_scattered(breaks: usize, names: usize) -> bool {
    breaks > 2 && breaks * 10 > names
}

/// In which order names that are in sequence go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Direction {
    /// The last block first.
    #[default]
    Falling,
    Rising,
}

/// Names of a removal that are in sequence in one record.
struct Run {
    lowest: usize,
    count: usize,
    direction: Direction,
}

/// The longest run of names that begins at `offset`, preferably in that direction.
#[inline]
fn run(record: &Record, offset: usize, names: &[ExternalSequenceHash], likely: Direction) -> Run {
    let falling = || {
        let further = names[1..].iter().zip((0..offset).rev());
        let count = 1 + further.take_while(|(name, at)| record.is_at(*at, name.get())).count();
        Run { lowest: offset + 1 - count, count, direction: Direction::Falling }
    };
    let rising = || {
        let further = names[1..].iter().zip(offset + 1..);
        let count = 1 + further.take_while(|(name, at)| record.is_at(*at, name.get())).count();
        Run { lowest: offset, count, direction: Direction::Rising }
    };
    match likely {
        Direction::Falling => Some(falling()).filter(|run| run.count > 1).unwrap_or_else(rising),
        Direction::Rising => Some(rising()).filter(|run| run.count > 1).unwrap_or_else(falling),
    }
}
