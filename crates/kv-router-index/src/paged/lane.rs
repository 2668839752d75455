//! What belongs to one rank's writer alone: names, records, and how events change them.

mod leave;

use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier, TierSet, WorkerRank};
use rustc_hash::FxHashSet;

use super::names::{Found, Home, Names, Place, Seat};
use super::page_map::PageMap;
use super::pages::Pages;
use super::record::Record;
use super::shared::Shared;
use super::tiers::LOWER;
use super::twins::Twins;
use super::words::{Entry, Mask, ROOT};
use crate::{Applied, ApplyError};

/// Names of a removal that are looked up together.
const AHEAD: usize = 32;

/// One rank's private side. Plain memory under one lock that only its writer takes.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) rank: WorkerRank,
    /// Given out with the first store.
    pub(super) slot: Option<u32>,
    pub(super) records: Vec<Record>,
    free_records: Vec<u32>,
    by_page: PageMap,
    pub(super) names: Names,
    pub(super) twins: Twins,
    /// Where the last store ended: where the next one will most likely go on.
    last: Place,
    /// Names times tiers.
    copies: u64,
    dirty: Vec<u32>,
    /// Where the names of a store belong in the table.
    homes: Vec<Home>,
    /// Where those of them are that were not there before.
    seats: Vec<Option<Seat>>,
    /// The others, with their places, while a store is looked at.
    lent: Vec<(Seat, Place)>,
    /// Taken out of the index: whoever waited for the lock has to look again.
    pub(super) is_dead: bool,
}

/// Where a name is.
#[derive(Clone, Copy)]
enum Named {
    First(Found),
    Twin(Place, TierSet),
}

impl Named {
    fn place(self) -> Place {
        match self {
            Self::First(found) => found.place,
            Self::Twin(place, _) => place,
        }
    }
}

impl Lane {
    pub(super) fn new(rank: WorkerRank) -> Self {
        Self {
            rank,
            slot: None,
            records: Vec::new(),
            free_records: Vec::new(),
            by_page: PageMap::default(),
            names: Names::default(),
            twins: Twins::default(),
            last: Place::default(),
            copies: 0,
            dirty: Vec::new(),
            homes: Vec::new(),
            seats: Vec::new(),
            lent: Vec::new(),
            is_dead: false,
        }
    }

    /// Names held.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.twins.len()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.names.bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.records.iter().map(Record::bytes).sum::<usize>()
            + self.by_page.bytes()
    }

    /// The record of a page.
    pub(super) fn record_of(&self, page: u32) -> Option<&Record> {
        self.by_page.get(page).map(|record| &self.records[record as usize])
    }

    /// Where the table says that a name is: record and offset.
    pub(super) fn place_of(&self, name: u64) -> Option<(usize, usize)> {
        let found = self.find(name, self.names.home(name))?;
        Some((found.place.record(), found.place.offset()))
    }

    /// Applies one event.
    pub(super) fn apply(&mut self, shared: &Shared, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(shared, *tier, *parent, blocks),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(shared, *tier, blocks)),
            KvEvent::Cleared => Ok(self.clear(shared)),
        }
    }

    fn store(
        &mut self,
        shared: &Shared,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        let records = &self.records;
        self.names.reserve(blocks.len(), |each| each_name(records, each));
        let (repeat, known) = self.enter_names(parent, blocks);
        match self.check_store(shared, parent, blocks, repeat, known) {
            Ok((slot, parent)) => Ok(self.store_checked(shared, slot, tier, parent, blocks, known)),
            Err(error) => {
                self.retract_names();
                Err(error)
            }
        }
    }

    /// Everything that may speak against a store; its slot and the place of its parent if nothing does.
    #[inline]
    fn check_store(
        &mut self,
        shared: &Shared,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
        repeat: Option<ExternalSequenceHash>,
        known: usize,
    ) -> Result<(u32, Option<Place>), ApplyError> {
        if let Some(block) = repeat {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        let parent = match parent {
            None => None,
            Some(parent) => Some(self.place(parent).ok_or(ApplyError::UnknownParent { parent })?),
        };
        self.check_limits(shared, parent, blocks, known)?;
        let slot = match self.slot {
            Some(slot) => slot,
            None if blocks.is_empty() => 0,
            None => shared.allocate_slot(self.rank)?,
        };
        if !blocks.is_empty() {
            self.slot = Some(slot);
        }
        Ok((slot, parent))
    }

    #[inline]
    fn store_checked(
        &mut self,
        shared: &Shared,
        slot: u32,
        tier: Tier,
        parent: Option<Place>,
        blocks: &[StoredBlock],
        known: usize,
    ) -> Applied {
        let mut applied = Applied::default();
        if known > 0 {
            applied.moved = self.release_moved(shared, parent, blocks);
        }
        self.walk(&shared.pages, slot, tier, parent, blocks, &mut applied);
        self.copies += applied.stored;
        applied.stored -= applied.moved;
        applied
    }

    fn check_limits(
        &self,
        shared: &Shared,
        parent: Option<Place>,
        blocks: &[StoredBlock],
        known: usize,
    ) -> Result<(), ApplyError> {
        let limit = shared.config.max_names_per_rank;
        // New names are counted already.
        if self.len() > limit && known < blocks.len() {
            return Err(ApplyError::RankFull { limit });
        }
        let (limit, nodes) = (shared.config.max_nodes, shared.pages.nodes());
        if nodes + blocks.len() > limit {
            let spans = self.trace(&shared.pages, parent, blocks);
            let exist: usize = spans.iter().map(|span| span.count).sum();
            if nodes + blocks.len() - exist > limit {
                return Err(ApplyError::IndexFull { limit });
            }
        }
        Ok(())
    }

    /// Where the rank has the block that it calls `name`.
    #[inline]
    fn place(&self, name: ExternalSequenceHash) -> Option<Place> {
        let last = self.last;
        if let Some(record) = self.records.get(last.record())
            && record.names.get(last.offset()) == Some(&name.get())
            && record.held.contains(last.offset())
        {
            return Some(last);
        }
        self.named(name.get(), self.names.home(name.get())).map(Named::place)
    }

    #[inline(always)]
    fn find(&self, name: u64, home: Home) -> Option<Found> {
        self.names.find(home, |place| is_at(&self.records, place, name))
    }

    #[inline(always)]
    fn named(&self, name: u64, home: Home) -> Option<Named> {
        match self.find(name, home) {
            Some(found) => Some(Named::First(found)),
            None if self.twins.is_empty() => None,
            None => self.twins.get(name).map(|(place, tiers)| Named::Twin(place, tiers)),
        }
    }

    /// Looks at every name of a store once: puts those that are new in the table, pending, and finds by that the first
    /// that stands in the event twice. Gives that and how many the rank had already.
    fn enter_names(
        &mut self,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> (Option<ExternalSequenceHash>, usize) {
        let Self { names, records, twins, homes, seats, lent, .. } = self;
        homes.clear();
        homes.extend(blocks.iter().map(|block| names.home(block.external.get())));
        seats.clear();
        seats.reserve(blocks.len());
        let mut repeat = if twins.is_empty() { None } else { first_repeat(parent, blocks) };
        let mut known = 0;
        'all: for (chunk, from) in homes.chunks(AHEAD).zip((0..).step_by(AHEAD)) {
            names.touch(chunk);
            for ((&home, block), at) in chunk.iter().zip(&blocks[from..]).zip(from..) {
                let name = block.external.get();
                let found = names.find(home, |place| match place.as_pending() {
                    None => records[place.record()].names[place.offset()] == name,
                    Some(index) => blocks[index].external.get() == name,
                });
                if parent == Some(block.external) {
                    repeat = repeat.or(Some(block.external));
                    break 'all;
                }
                seats.push(match found {
                    None if twins.is_empty() || twins.get(name).is_none() => {
                        Some(names.insert(home, Place::pending(at)))
                    }
                    None => {
                        known += 1;
                        None
                    }
                    Some(found) if found.place.as_pending().is_some() => {
                        repeat = repeat.or(Some(block.external));
                        break 'all;
                    }
                    Some(found) => {
                        // Pending too, until all are seen, or the same name later would look like a known one.
                        let seat = names.seat(found);
                        names.settle(seat, Place::pending(at));
                        lent.push((seat, found.place));
                        None
                    }
                });
            }
        }
        known += lent.len();
        lent.drain(..).for_each(|(seat, place)| names.settle(seat, place));
        (repeat, known)
    }

    /// Takes the names of a refused store out again.
    #[cold]
    fn retract_names(&mut self) {
        for (at, &home) in self.homes.iter().enumerate().take(self.seats.len()) {
            if self.seats[at].is_some()
                && let Some(found) = self.names.find(home, |place| place == Place::pending(at))
            {
                self.names.remove(found);
            }
        }
    }

    /// Takes away the old places of names that the store puts elsewhere, before anything of it is to be seen: a
    /// lookup must not count both. How many names that were.
    ///
    /// A block that changes its name by this store is not away for a moment: readers keep seeing it.
    fn release_moved(&mut self, shared: &Shared, parent: Option<Place>, blocks: &[StoredBlock]) -> u64 {
        let spans = self.trace(&shared.pages, parent, blocks);
        let stays: Vec<(u32, Mask)> = spans
            .iter()
            .filter_map(|span| Some((self.by_page.get(span.page)?, span)))
            .map(|(record, span)| (record, self.records[record as usize].held.part(span.from, span.count)))
            .collect();
        let mut targets = spans.iter().flat_map(|span| (0..span.count).map(|at| (span.page, span.from + at)));
        let mut moved = 0;
        for block in blocks {
            let target = targets.next();
            let name = block.external.get();
            let Some(home) = self.named(name, self.names.home(name)) else { continue };
            let place = home.place();
            if target == Some((self.records[place.record()].page, place.offset())) {
                continue;
            }
            moved += 1;
            match home {
                Named::First(found) => {
                    let tiers = self.records[place.record()].tiers(place.offset());
                    self.copies -= tiers.iter().count() as u64;
                    self.take_first(found);
                }
                Named::Twin(_, tiers) => {
                    self.copies -= tiers.iter().count() as u64;
                    self.twins.remove(name);
                }
            }
            self.mark(place.record());
        }
        let renamed: Vec<(u32, Mask)> = stays
            .into_iter()
            .map(|(record, mut lost)| {
                lost.remove_all(&self.records[record as usize].held);
                self.records[record as usize].held.insert_all(&lost);
                (record, lost)
            })
            .collect();
        self.flush_all(&shared.pages);
        for (record, lost) in renamed {
            self.records[record as usize].held.remove_all(&lost);
        }
        moved
    }

    /// The pages that exist along the way of a store.
    fn trace(&self, pages: &Pages, parent: Option<Place>, blocks: &[StoredBlock]) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut rest = blocks;
        let (mut page, mut at) = match parent {
            Some(place) => (self.records[place.record()].page, place.offset() + 1),
            None => (ROOT, 0),
        };
        // What the rank itself holds cannot change while we look, and nothing else matters here.
        while !rest.is_empty() {
            if page != ROOT {
                let locked = pages.headers.lock(page);
                let count = if locked.is_alive() { pages.common(&locked, at, rest) } else { 0 };
                if count > 0 {
                    spans.push(Span { page, from: at, count });
                    rest = &rest[count..];
                    at += count;
                } else if at == 0 {
                    break;
                }
            }
            let Some(next) = rest.first() else { break };
            match pages.child(page, at, next.local.get()) {
                Some((child, ..)) => (page, at) = (child, 0),
                None => break,
            }
        }
        spans
    }

    /// Holds and names the blocks, page by page.
    fn walk(
        &mut self,
        pages: &Pages,
        slot: u32,
        tier: Tier,
        parent: Option<Place>,
        blocks: &[StoredBlock],
        applied: &mut Applied,
    ) {
        let mut at = parent.map(|place| (place.record() as u32, place.offset() + 1));
        let mut rest = blocks;
        while !rest.is_empty() {
            let (record, from, count) = match at {
                None => self.enter(pages, None, 0, rest, slot, tier),
                Some((record, from)) => {
                    let mut page = pages.headers.lock(self.records[record as usize].page);
                    match pages.follow(&mut page, from, rest) {
                        0 => self.enter(pages, Some(&mut page), from, rest, slot, tier),
                        count => {
                            self.hold(pages, &mut page, record, from..from + count, slot, tier);
                            (record, from, count)
                        }
                    }
                }
            };
            let (here, further) = rest.split_at(count);
            self.name(record, from, here, blocks.len() - rest.len(), tier, applied);
            if self.records[record as usize].is_dirty {
                self.flush_all(pages);
            }
            at = Some((record, from + count));
            rest = further;
        }
        if let Some((record, end)) = at {
            self.last = Place::new(record, end - 1);
        }
    }

    /// Holds the blocks of a page below `parent` that continue there, in a page found or made. Gives the record, 0 and
    /// how many.
    fn enter(
        &mut self,
        pages: &Pages,
        parent: Option<&mut super::page::Locked<'_>>,
        at: usize,
        blocks: &[StoredBlock],
        slot: u32,
        tier: Tier,
    ) -> (u32, usize, usize) {
        use super::pages::Opened;
        // What is not on the device is published when it is named.
        let first = |count| Entry::new(slot, if tier == Tier::Device { count } else { 0 }, count, 0);
        match pages.open_child(parent, at, blocks, first) {
            Opened::Created(page, count) => {
                let record = self.add_record(Record::new(page.page(), 0, first(count)));
                if tier != Tier::Device {
                    self.mark(record as usize);
                }
                (record, 0, count)
            }
            Opened::Found(mut page) => {
                let count = pages.follow(&mut page, 0, blocks);
                let record = match self.by_page.get(page.page()) {
                    Some(record) => record,
                    None => self.add_record(Record::new(page.page(), 0, Entry::NONE)),
                };
                self.hold(pages, &mut page, record, 0..count, slot, tier);
                (record, 0, count)
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
        self.by_page.insert(page, at);
        at
    }

    /// Shows readers that the rank holds these blocks.
    #[inline]
    fn hold(
        &mut self,
        pages: &Pages,
        page: &mut super::page::Locked<'_>,
        record: u32,
        blocks: std::ops::Range<usize>,
        slot: u32,
        tier: Tier,
    ) {
        let at = record;
        let record = &mut self.records[at as usize];
        let mut held = record.held;
        held.insert_range(blocks.start, blocks.len());
        let entry = if tier == Tier::Device && record.is_plain() {
            Entry::new(slot, held.reach(), held.end(), 0)
        } else {
            // Until the tiers are known: enough to keep the page.
            if !record.is_dirty {
                record.is_dirty = true;
                self.dirty.push(at);
            }
            Entry::new(slot, record.entry.reach(), held.end(), record.entry.tiers())
        };
        if record.entry.is_none() {
            record.hint = page.add_holder(&pages.lines, entry);
        } else if entry != record.entry {
            record.hint = page.set_holder(&pages.lines, entry, record.hint);
        }
        record.entry = entry;
    }

    /// Names blocks that are held now; `done` blocks of the event come before them.
    #[inline]
    fn name(
        &mut self,
        at: u32,
        from: usize,
        blocks: &[StoredBlock],
        done: usize,
        tier: Tier,
        applied: &mut Applied,
    ) {
        let record = &mut self.records[at as usize];
        let before = record.held;
        let is_fresh = record.held.insert_range(from, blocks.len());
        let seats = &self.seats[done..done + blocks.len()];
        if is_fresh && tier == Tier::Device && record.is_plain() && seats.iter().all(Option::is_some) {
            record.name_plain(from, blocks);
            for (offset, seat) in (from..).zip(seats) {
                if let &Some(seat) = seat {
                    self.names.settle(seat, Place::new(at, offset));
                }
            }
            applied.stored += blocks.len() as u64;
            return;
        }
        for (index, block) in blocks.iter().enumerate() {
            let (place, seat) = (Place::new(at, from + index), self.seats[done + index]);
            let was_held = before.contains(from + index);
            let is_new =
                self.name_one(place, seat, self.homes[done + index], was_held, block.external.get(), tier);
            applied.stored += u64::from(is_new);
            applied.already_held += u64::from(!is_new);
        }
    }

    /// Whether the copy is new.
    fn name_one(
        &mut self,
        place: Place,
        seat: Option<Seat>,
        home: Home,
        was_held: bool,
        name: u64,
        tier: Tier,
    ) -> bool {
        let (record, offset) = (&mut self.records[place.record()], place.offset());
        if !was_held {
            record.name(offset, name, TierSet::only(tier));
            match seat {
                Some(seat) => self.names.settle(seat, place),
                // It was known, elsewhere, and has been released there.
                None => {
                    self.names.insert(home, place);
                }
            }
            return true;
        }
        if record.names[offset] == name {
            let tiers = record.tiers(offset);
            record.set_tiers(offset, tiers.with(tier));
            return !tiers.contains(tier);
        }
        if let Some(seat) = seat {
            // The block has a name already: this one goes to the twins.
            self.names.settle(seat, place);
            let found = self.names.find(home, |other| other == place);
            if let Some(found) = found {
                self.names.remove(found);
            }
        }
        let tiers = self.twins.get(name).map_or(TierSet::EMPTY, |(_, tiers)| tiers);
        self.twins.set(name, place, tiers.with(tier));
        !tiers.contains(tier)
    }
}

/// Blocks of one page along a store.
struct Span {
    page: u32,
    from: usize,
    count: usize,
}

/// The first name that equals the parent or a block before it.
#[cold]
fn first_repeat(
    parent: Option<ExternalSequenceHash>,
    blocks: &[StoredBlock],
) -> Option<ExternalSequenceHash> {
    let mut seen = FxHashSet::from_iter(parent);
    blocks.iter().map(|block| block.external).find(|&name| !seen.insert(name))
}

/// Whether the block at a place has that name; those of a store in the making have none yet.
#[inline(always)]
fn is_at(records: &[Record], place: Place, name: u64) -> bool {
    place.as_pending().is_none() && records[place.record()].names[place.offset()] == name
}

/// Every first name with its place.
fn each_name(records: &[Record], each: &mut dyn FnMut(u64, Place)) {
    for (at, record) in records.iter().enumerate() {
        for offset in record.held.iter() {
            each(record.names[offset], Place::new(at as u32, offset));
        }
    }
}
