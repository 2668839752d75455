//! The lane's other half: copies that go, and what readers are told of it.

use super::*;

impl Lane {
    pub(super) fn remove(&mut self, shared: &Shared, tier: Tier, names: &[ExternalSequenceHash]) -> Applied {
        let mut removed = 0;
        for names in names.chunks(AHEAD) {
            let mut homes = [Home::default(); AHEAD];
            for (home, name) in homes.iter_mut().zip(names) {
                *home = self.names.home(name.get());
            }
            self.names.touch(&homes[..names.len()]);
            for (name, &home) in names.iter().zip(&homes) {
                removed += u64::from(self.remove_one(name.get(), home, tier));
            }
        }
        let unknown = names.len() as u64 - removed;
        let applied = Applied { removed, unknown, ..Applied::default() };
        self.copies -= applied.removed;
        self.flush_all(&shared.pages);
        let records = &self.records;
        self.names.shrink(|each| each_name(records, each));
        applied
    }

    /// Whether there was such a copy.
    #[inline]
    pub(super) fn remove_one(&mut self, name: u64, home: Home, tier: Tier) -> bool {
        let Self { names, records, twins, dirty, .. } = self;
        let found = names.find(home, |place| records[place.record()].names[place.offset()] == name);
        let Some(found) = found else { return self.remove_twin(name, tier) };
        let record = &mut records[found.place.record()];
        if tier != Tier::Device || !record.is_plain() || !twins.is_empty() {
            return self.remove_copy(found, tier);
        }
        names.remove(found);
        record.held.remove(found.place.offset());
        if !record.is_dirty {
            record.is_dirty = true;
            dirty.push(found.place.record() as u32);
        }
        true
    }

    /// The same where there may be other copies or other names.
    #[cold]
    pub(super) fn remove_copy(&mut self, found: Found, tier: Tier) -> bool {
        let place = found.place;
        let record = &mut self.records[place.record()];
        let tiers = record.tiers(place.offset());
        if !tiers.contains(tier) {
            return false;
        }
        let rest = tiers.without(tier);
        if rest.is_empty() {
            self.take_first(found);
        } else {
            record.set_tiers(place.offset(), rest);
        }
        self.mark(place.record());
        true
    }

    #[cold]
    pub(super) fn remove_twin(&mut self, name: u64, tier: Tier) -> bool {
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
    #[inline]
    pub(super) fn take_first(&mut self, found: Found) {
        let place = found.place;
        self.names.remove(found);
        let record = &mut self.records[place.record()];
        if !self.twins.is_empty()
            && let Some((name, tiers)) = self.twins.take_at(place)
        {
            record.name(place.offset(), name, tiers);
            self.names.insert(self.names.home(name), place);
        } else {
            record.held.remove(place.offset());
        }
    }

    #[inline]
    pub(super) fn mark(&mut self, record: usize) {
        if !self.records[record].is_dirty {
            self.records[record].is_dirty = true;
            self.dirty.push(record as u32);
        }
    }

    /// Shows readers what has changed.
    pub(super) fn flush_all(&mut self, pages: &Pages) {
        while let Some(record) = self.dirty.pop() {
            self.flush(pages, record);
        }
    }

    pub(super) fn flush(&mut self, pages: &Pages, at: u32) {
        let Some(slot) = self.slot else { return };
        let record = &mut self.records[at as usize];
        record.is_dirty = false;
        if record.held.is_empty() {
            pages.unhold(record.page, slot, record.hint);
            self.by_page.remove(record.page);
            *record = Record::free();
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
        record.hint = page.set_holder(&pages.lines, entry, record.hint);
        record.entry = entry;
        if entry.end() < before.end() && before.end() == page.shape().len() {
            pages.trim(&mut page);
        }
        drop(page);
        pages.tiers.free(before.tiers());
    }

    /// A tier record that says where the best copies are, 0 when all are on the device.
    #[cold]
    pub(super) fn tier_record(&self, pages: &Pages, at: u32) -> u32 {
        let record = &self.records[at as usize];
        let mut best = [Mask::default(); LOWER];
        for offset in record.held.iter() {
            let twins = self.twins.tiers_at(Place::new(at, offset));
            let all: TierSet = record.tiers(offset).iter().chain(twins.iter()).collect();
            if let Some(lower) = all.best().and_then(|tier| tier.index().checked_sub(1)) {
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
        *self = Self { is_dead: self.is_dead, ..Self::new(self.rank) };
        applied
    }
}
