//! The integrity check: everything that the parts of an index say about each other.

use rustc_hash::{FxHashMap, FxHashSet};

use kv_router_types::{ExternalSequenceHash, WorkerRank};

use super::holders;
use super::lane::Lane;
use super::locals::{self, Locals};
use super::shared::Shared;
use super::words::{Entry, ROOT};
use crate::sync::atomic::Ordering;

/// Something that does not fit. See [`PagedIndex::audit`](super::PagedIndex::audit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A rank's record and what readers see of it differ.
    Hold {
        /// The rank.
        rank: WorkerRank,
        /// The page.
        page: u32,
    },
    /// A page's keys are not those of its blocks.
    Keys {
        /// The page.
        page: u32,
    },
    /// A rank holds something of a page that is not there.
    DeadPage {
        /// The rank.
        rank: WorkerRank,
        /// The page.
        page: u32,
    },
    /// A rank does not find a block by its name.
    Name {
        /// The rank.
        rank: WorkerRank,
        /// The name.
        name: ExternalSequenceHash,
    },
    /// A rank's table has another number of names than its records.
    NameCount {
        /// The rank.
        rank: WorkerRank,
        /// Names in records.
        held: usize,
        /// Names in the table.
        known: usize,
    },
    /// A page is not where its parent, its edge or its filter says, or a block has two homes.
    Place {
        /// The page.
        page: u32,
    },
    /// A page is longer or shorter than what is held of it and hangs behind it.
    Length {
        /// The page.
        page: u32,
        /// Its blocks.
        len: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A rank stands twice in the list of a page.
    TwoEntries {
        /// The page.
        page: u32,
    },
    /// A page counts other children than it has.
    Children {
        /// The page.
        page: u32,
    },
    /// Holds in pages and records of ranks differ in number.
    HoldCount {
        /// Entries in pages.
        pages: usize,
        /// Records of ranks, those still to be reclaimed included.
        records: usize,
    },
    /// A count that is kept differs from what is there.
    Total {
        /// What is counted.
        what: &'static str,
        /// What is there.
        found: usize,
        /// What the index says.
        counted: usize,
    },
}

impl Shared {
    pub(super) fn audit(&self) -> Vec<Fault> {
        let cells = self.cells();
        // Nobody else takes two lanes, so any order will do. No event can pass while all are held.
        let lanes: Vec<_> = cells.iter().map(|cell| cell.lane.lock()).collect();
        let mut faults = Vec::new();
        let (mut records, mut names) = (0, 0);
        for lane in &lanes {
            names += lane.len();
            records += self.audit_lane(lane, &mut faults);
        }
        let holds = self.audit_pages(&mut faults);
        let records = records + self.buried_records();
        if holds != records {
            faults.push(Fault::HoldCount { pages: holds, records });
        }
        let ranks = lanes.iter().filter(|lane| lane.len() > 0).count();
        let counted = self.names.load(Ordering::Relaxed);
        if counted != names {
            faults.push(Fault::Total { what: "names", found: names, counted });
        }
        let counted = self.ranks.load(Ordering::Relaxed);
        if counted != ranks {
            faults.push(Fault::Total { what: "ranks", found: ranks, counted });
        }
        faults
    }

    /// Gives the number of records.
    fn audit_lane(&self, lane: &Lane, faults: &mut Vec<Fault>) -> usize {
        let rank = lane.rank;
        let (mut records, mut held) = (0, 0);
        for record in lane.records.iter().filter(|record| record.page != ROOT) {
            records += 1;
            held += record.held.count();
            let page = record.page;
            let locked = self.pages.headers.lock(page);
            if !locked.is_alive() {
                faults.push(Fault::DeadPage { rank, page });
                continue;
            }
            let slot = lane.slot.unwrap_or_default();
            let entry = Entry::new(slot, record.held.reach(), record.held.end(), record.entry.tiers());
            let listed = locked.entry_of(&self.pages.lines, slot);
            let is_known = lane.record_of(page).is_some_and(|other| std::ptr::eq(other, record));
            if record.entry != entry || listed != Some(entry) || !is_known || record.is_dirty {
                faults.push(Fault::Hold { rank, page });
            }
        }
        let mut places = FxHashSet::default();
        lane.each_name(&mut |name, place| {
            let record = lane.records.get(place.record()).filter(|record| record.page != ROOT);
            let is_held = record.is_some_and(|record| record.held.contains(place.offset()));
            // Every place has one first name, so that as many names as places mean a name for each.
            let is_only = places.insert(place);
            if !is_held || !is_only || lane.place_of(name) != Some(place) {
                faults.push(Fault::Name { rank, name: ExternalSequenceHash::new(name) });
            }
        });
        let known = lane.len() - lane.twins.len();
        if held != known || held != places.len() {
            faults.push(Fault::NameCount { rank, held, known });
        }
        for (name, place, tiers) in lane.twins.iter() {
            let is_second = places.contains(&place) && lane.place_of(name).is_none();
            if !is_second || tiers.is_empty() {
                faults.push(Fault::Name { rank, name: ExternalSequenceHash::new(name) });
            }
        }
        records
    }

    /// Gives the number of entries in pages.
    fn audit_pages(&self, faults: &mut Vec<Fault>) -> usize {
        let pages = &self.pages;
        let mut children: FxHashMap<u32, FxHashMap<usize, u64>> = FxHashMap::default();
        let (mut holds, mut blocks, mut alive) = (0, 0, 0);
        let live = || pages.headers.all().filter(|&page| pages.headers.at(page).state().is_alive());
        for page in live() {
            let header = pages.headers.at(page);
            let (shape, first) = (header.shape(), header.first());
            alive += 1;
            blocks += shape.len();
            *children.entry(shape.parent()).or_default().entry(shape.offset()).or_default() += 1;

            let found = pages.child(shape.parent(), shape.offset(), first).map(|(found, ..)| found);
            let mut is_placed = found == Some(page) && pages.local(header, 0).get() == first;
            if shape.parent() != ROOT {
                let parent = pages.headers.at(shape.parent());
                let (len, offset) = (parent.shape().len(), shape.offset());
                is_placed &= parent.state().is_alive()
                    && (1..=len).contains(&offset)
                    && parent.may_continue_at(offset)
                    && (offset == len || pages.local(parent, offset).get() != first);
            }
            if !is_placed || shape.len() > locals::room(header.content().extent()) {
                faults.push(Fault::Place { page });
            }
        }
        for page in live() {
            let locked = pages.headers.lock(page);
            let expected = children.remove(&page).unwrap_or_default();
            let mut expected: Vec<_> = expected.into_iter().collect();
            expected.sort_unstable();
            if pages.branches.of(&pages.lines, &locked) != expected {
                faults.push(Fault::Children { page });
            }
            let mut needed = locked.shape().top();
            let (mut slots, mut entries) = (FxHashSet::default(), 0);
            holders::for_each(&pages.lines, &locked, |entry| {
                needed = needed.max(entry.end());
                entries += 1;
                slots.insert(entry.slot());
            });
            let len = locked.shape().len();
            if !Locals::of(&pages.lines, &locked).has_keys(len, &pages.keys) {
                faults.push(Fault::Keys { page });
            }
            holds += entries;
            if slots.len() != entries {
                faults.push(Fault::TwoEntries { page });
            }
            if needed != len || len == 0 {
                faults.push(Fault::Length { page, len, needed });
            }
        }
        for (what, found, counted) in [
            ("nodes", blocks, pages.nodes()),
            ("pages", alive, pages.headers.in_use()),
            ("edges", alive, pages.edge_count()),
        ] {
            if found != counted {
                faults.push(Fault::Total { what, found, counted });
            }
        }
        holds
    }
}
