//! A store that nothing speaks against: holds and names its blocks, page by page.

use kv_router_types::{Tier, TierSet};

use super::Lane;
use super::calls::Calls;
use super::tails::Tail;
use crate::Applied;
use crate::paged::block::Block;
use crate::paged::names::Place;
use crate::paged::page::Locked;
use crate::paged::pages::{Opened, Pages};
use crate::paged::record::Record;
use crate::paged::table::Seat;
use crate::paged::words::{Entry, Mask};

/// A store.
pub(super) struct Job<'a, B, C> {
    pub(super) pages: &'a Pages,
    pub(super) slot: u32,
    pub(super) tier: Tier,
    pub(super) blocks: &'a [B],
    pub(super) calls: C,
    /// Whether every name is new and on the device.
    pub(super) is_simple: bool,
}

/// Blocks of a store that are held now and have no names yet.
struct Span {
    record: u32,
    from: usize,
    count: usize,
    /// What was held of the page before. `None` when a name for each of these blocks is all that is missing.
    before: Option<Mask>,
}

impl Lane {
    pub(super) fn walk<B: Block, C: Calls>(
        &mut self,
        job: &Job<'_, B, C>,
        parent: Option<Place>,
        applied: &mut Applied,
    ) {
        let mut at = parent.map(|place| (place.record() as u32, place.offset() + 1));
        let mut done = 0;
        while done < job.blocks.len() {
            let span = match at {
                None => self.enter(job, None, 0, done),
                Some((record, from)) => {
                    let mut page = job.pages.headers.lock(self.records[record as usize].page);
                    match job.pages.follow(&mut page, from, &job.blocks[done..]) {
                        0 => self.enter(job, Some(&mut page), from, done),
                        count => self.hold(job, &mut page, Span { record, from, count, before: None }),
                    }
                }
            };
            self.name(job, &span, done, applied);
            if !self.dirty.is_empty() {
                self.flush_all(job.pages);
            }
            at = Some((span.record, span.from + span.count));
            done += span.count;
        }
        if let (Some((record, end)), Some(name)) = (at, job.calls.tail()) {
            let page = self.records[record as usize].page;
            let line = job.pages.line_of(page, end - 1);
            self.tails.note(name, Tail { place: Place::new(record, end - 1), page, line });
        }
    }

    /// Holds the blocks from `done` on that continue below `parent` after `at` blocks of it, in a page found or made.
    fn enter<B: Block, C: Calls>(
        &mut self,
        job: &Job<'_, B, C>,
        parent: Option<&mut Locked<'_>>,
        at: usize,
        done: usize,
    ) -> Span {
        let blocks = &job.blocks[done..];
        // What is not on the device is published when it is named.
        let first = |count| Entry::new(job.slot, if job.tier == Tier::Device { count } else { 0 }, count, 0);
        match job.pages.open_child(parent, at, blocks, first) {
            Opened::Created(page, count) => {
                let record = self.add_record(Record::new(page.page(), first(count)));
                self.records[record as usize].held.insert_range(0, count);
                if job.tier != Tier::Device {
                    self.mark(record as usize);
                }
                Span { record, from: 0, count, before: (!job.is_simple).then(Mask::default) }
            }
            Opened::Found(mut page) => {
                let count = job.pages.follow(&mut page, 0, blocks);
                let record = match self.by_page.get(page.page(), &self.records) {
                    Some(record) => record,
                    None => self.add_record(Record::new(page.page(), Entry::NONE)),
                };
                self.hold(job, &mut page, Span { record, from: 0, count, before: None })
            }
        }
    }

    fn add_record(&mut self, record: Record) -> u32 {
        let page = record.page;
        let at = match self.free_records.pop() {
            Some(at) => {
                self.records[at as usize] = record;
                at
            }
            None => {
                if self.records.len() == self.records.capacity() {
                    self.records.reserve_exact(self.records.len() / 4 + 4);
                }
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        self.by_page.insert(page, at, &self.records);
        at
    }

    /// Shows readers that the rank holds these blocks.
    #[inline]
    fn hold<B, C>(&mut self, job: &Job<'_, B, C>, page: &mut Locked<'_>, span: Span) -> Span {
        let record = &mut self.records[span.record as usize];
        let is_simple = job.is_simple && record.is_plain();
        let is_next = span.from == record.held.end();
        let before = (!is_simple || !is_next).then(|| record.held.to_mask());
        let is_fresh = record.held.insert_range(span.from, span.count);
        let entry = if job.tier == Tier::Device && record.is_plain() {
            Entry::new(job.slot, record.held.reach(), record.held.end(), 0)
        } else {
            // Until the tiers are known: enough to keep the page.
            if !record.is_dirty {
                record.is_dirty = true;
                self.dirty.push(span.record);
            }
            Entry::new(job.slot, record.entry.reach(), record.held.end(), record.entry.tiers())
        };
        if record.entry.is_none() {
            record.set_hint(page.add_holder(&job.pages.lines, entry));
        } else if entry != record.entry {
            record.set_hint(page.set_holder(&job.pages.lines, entry, record.hint()));
        }
        record.entry = entry;
        Span { before: before.filter(|_| !(is_simple && is_fresh)), ..span }
    }

    /// Names blocks that are held now; `done` blocks of the event come before them.
    #[inline]
    fn name<B, C: Calls>(&mut self, job: &Job<'_, B, C>, span: &Span, done: usize, applied: &mut Applied) {
        let Some(before) = &span.before else {
            job.calls.name_plain(self, Place::new(span.record, span.from), done, span.count);
            applied.stored += span.count as u64;
            return;
        };
        for (index, name) in job.calls.names().skip(done).take(span.count).enumerate() {
            let place = Place::new(span.record, span.from + index);
            let is_held = before.contains(place.offset());
            let is_new = match (is_held, self.seats.get(done + index)) {
                (true, Some(&seat)) => self.name_again(place, seat, name, job.tier),
                (true, None) => self.number_again(place, name, job.tier),
                (false, Some(&seat)) => self.name_first(place, seat, name, job.tier),
                (false, None) => self.number_first(place, name, job.tier),
            };
            applied.stored += u64::from(is_new);
            applied.already_held += u64::from(!is_new);
        }
    }

    /// Names a block that was not held: the copy is new.
    fn name_first(&mut self, place: Place, seat: Seat, name: u64, tier: Tier) -> bool {
        self.records[place.record()].name(place.offset(), name, TierSet::only(tier));
        if seat == Seat::NONE {
            // It was known, elsewhere, and has been released there.
            self.names.insert(self.names.home(name), place);
        } else {
            self.names.settle(seat, place);
        }
        true
    }

    /// Names a block that was held. Whether the copy is new.
    fn name_again(&mut self, place: Place, seat: Seat, name: u64, tier: Tier) -> bool {
        let record = &mut self.records[place.record()];
        if record.names[place.offset()] == name {
            let tiers = record.tiers(place.offset());
            record.set_tiers(place.offset(), tiers.with(tier));
            return !tiers.contains(tier);
        }
        if seat != Seat::NONE {
            // The block has a name already: this one goes to the twins.
            self.names.remove_pending(self.names.home(name));
        }
        self.add_twin(name, place, tier)
    }

    /// Gives a held block one more name, or that name one more tier. Whether the copy is new.
    pub(super) fn add_twin(&mut self, name: u64, place: Place, tier: Tier) -> bool {
        let tiers = self.twins.get(name).map_or(TierSet::EMPTY, |(_, tiers)| tiers);
        self.twins.set(name, place, tiers.with(tier));
        !tiers.contains(tier)
    }
}
