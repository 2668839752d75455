//! What belongs to one rank's writer alone: names, records, and how events change them.

mod calls;
mod enter;
mod leave;
mod moved;
mod numbered;
mod tails;
mod walk;

use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier, TierSet, WorkerRank};

use super::ids::Ids;
use super::names::{Names, Place};
use super::page_map::PageMap;
use super::record::Record;
use super::shared::Shared;
use super::table::Seat;
use super::touch::touch;
use super::twins::Twins;
use super::words::ROOT;
use crate::{Applied, ApplyError};
use calls::ByName;
use leave::Direction;
use tails::{Tail, Tails};
use walk::Job;

/// Names of an event that are looked up together.
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
    /// Empty in a rank whose blocks have numbers.
    pub(super) names: Names,
    /// Places by number, in a rank whose blocks have numbers instead of names. What is called a name elsewhere in a lane
    /// is a number then.
    pub(super) ids: Option<Ids>,
    pub(super) twins: Twins,
    /// Where stores ended: where others will most likely go on.
    tails: Tails,
    /// Where the next removal will most likely begin.
    next_removed: Place,
    /// Where the last removal by number was: the next one mostly frees the block before.
    last_removed: Tail,
    /// How it will most likely go on.
    direction: Direction,
    /// Whether removals came in no order lately.
    is_scattered: bool,
    /// Names times tiers.
    copies: u64,
    dirty: Vec<u32>,
    /// Where in the table the names of a store are that were not there before.
    seats: Vec<Seat>,
    /// The others, with what was there, while a store is looked at.
    lent: Vec<(Seat, u32)>,
    /// Taken out of the index: whoever waited for the lock has to look again.
    pub(super) is_dead: bool,
}

/// Where a name is.
#[derive(Clone, Copy)]
enum Named {
    First(Place),
    Twin(Place, TierSet),
}

impl Named {
    fn place(self) -> Place {
        match self {
            Self::First(place) | Self::Twin(place, _) => place,
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
            ids: None,
            twins: Twins::default(),
            tails: Tails::default(),
            next_removed: Place::default(),
            last_removed: Tail::default(),
            direction: Direction::default(),
            is_scattered: false,
            copies: 0,
            dirty: Vec::new(),
            seats: Vec::new(),
            lent: Vec::new(),
            is_dead: false,
        }
    }

    /// Names held.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.ids.as_ref().map_or(0, Ids::len) + self.twins.len()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.names.bytes()
            + self.ids.as_ref().map_or(0, Ids::bytes)
            + self.records.capacity() * size_of::<Record>()
            + self.records.iter().map(Record::bytes).sum::<usize>()
            + self.by_page.bytes()
    }

    /// The record of a page.
    pub(super) fn record_of(&self, page: u32) -> Option<&Record> {
        self.by_page.get(page, &self.records).map(|record| &self.records[record as usize])
    }

    /// Where the table says that a name is.
    pub(super) fn place_of(&self, name: u64) -> Option<Place> {
        self.find(name)
    }

    /// Applies one event.
    pub(super) fn apply(&mut self, shared: &Shared, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { .. } if self.ids.is_some() => Err(ApplyError::NumberedRank),
            KvEvent::Removed { blocks, .. } if self.ids.is_some() => {
                Ok(Applied { unknown: blocks.len() as u64, ..Applied::default() })
            }
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
        if let Some(parent) = parent {
            // Each of the locks below waits for whatever is on its way from memory: ask for all of it before the first.
            self.touch(shared, self.tails.guess(parent.get()));
        }
        let entered = self.enter_names(parent, blocks);
        let (slot, parent) = match self.check_store(shared, parent, blocks, &entered) {
            Ok(checked) => checked,
            Err(error) => {
                self.retract_names(blocks);
                return Err(error);
            }
        };
        let calls = ByName(blocks);
        let mut applied = Applied::default();
        if entered.known > 0 {
            applied.moved = self.release_moved(shared, parent, &calls, blocks);
        }
        let is_simple = entered.known == 0 && tier == Tier::Device;
        let job = Job { pages: &shared.pages, slot, tier, blocks, calls, is_simple };
        self.walk(&job, parent, &mut applied);
        self.copies += applied.stored;
        applied.stored -= applied.moved;
        Ok(applied)
    }

    /// Reads what will be needed where a chain ends. No part of it is found by another: the waits are one wait.
    #[inline]
    fn touch(&self, shared: &Shared, tail: Tail) {
        if tail.page != ROOT {
            touch(|| self.records.get(tail.place.record()).map_or(0, |record| record.page));
            shared.pages.touch(tail.page, tail.line);
        }
    }

    /// The place of a first name.
    #[inline(always)]
    fn find(&self, name: u64) -> Option<Place> {
        match &self.ids {
            None => self.names.find(self.names.home(name), name, &self.records),
            Some(ids) => ids.get(name),
        }
    }

    /// Gives a name that is not in use to a place.
    fn call(&mut self, name: u64, place: Place) {
        match &mut self.ids {
            None => self.names.insert(self.names.home(name), place),
            // A number in use is below the limit, and that fits.
            Some(ids) => ids.set_run(name as u32, place, 1),
        }
    }

    /// Every first name with its place, in no order.
    pub(super) fn each_name(&self, each: &mut dyn FnMut(u64, Place)) {
        match &self.ids {
            None => each_name(&self.records, each),
            Some(ids) => ids.iter().for_each(|(id, place)| each(id, place)),
        }
    }

    /// The place of any name.
    fn named(&self, name: u64) -> Option<Named> {
        match self.find(name) {
            Some(place) => Some(Named::First(place)),
            None => self.twins.get(name).map(|(place, tiers)| Named::Twin(place, tiers)),
        }
    }

    #[inline]
    fn mark(&mut self, record: usize) {
        if !self.records[record].is_dirty {
            self.records[record].is_dirty = true;
            self.dirty.push(record as u32);
        }
    }
}

/// Every first name with its place.
fn each_name(records: &[Record], each: &mut dyn FnMut(u64, Place)) {
    for (at, record) in (0..).zip(records) {
        for offset in record.held.iter() {
            each(record.names[offset], Place::new(at, offset));
        }
    }
}
