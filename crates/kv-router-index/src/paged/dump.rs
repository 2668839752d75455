//! Dumps, one rank after the other. A rank is copied while its lane waits, and emitted when no lock is held.

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, WorkerRank};
use rustc_hash::FxHashMap;

use super::lane::Lane;
use super::pages::Pages;
use super::shared::{LaneCell, Shared};
use super::words::{PAGE_BLOCKS, ROOT};
use crate::dump::{Held, PlaceId, dump_rank};

impl Shared {
    /// Each rank as it was at some moment.
    pub(super) fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        for cell in self.cells() {
            if let Some((rank, mut copy)) = self.copy(&cell) {
                copy.emit(&mut |event| emit(rank, event));
            }
        }
    }

    /// One rank as it was at some moment.
    pub(super) fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        // A lane that dies before we have its lock held nothing then, as somebody who came a little earlier would say.
        if let Some((_, mut copy)) = self.cell(rank).and_then(|cell| self.copy(&cell)) {
            copy.emit(emit);
        }
    }

    fn copy(&self, cell: &LaneCell) -> Option<(WorkerRank, Copy)> {
        let lane = cell.lane.lock();
        (lane.len() > 0 && !lane.is_dead).then(|| (lane.rank, Copy::of(&self.pages, &lane)))
    }
}

const BLOCKS: u32 = PAGE_BLOCKS as u32;

/// What a rank holds and the pages that lead there, numbered from 0.
struct Copy {
    held: Vec<Held>,
    pages: Vec<Way>,
}

/// As much of a page as is needed.
struct Way {
    page: u32,
    /// How many of its blocks the rank holds or passes.
    len: usize,
    locals: Vec<LocalBlockHash>,
    /// The place before its first block.
    before: Option<PlaceId>,
}

impl Copy {
    fn of(pages: &Pages, lane: &Lane) -> Self {
        let mut ways = Ways::default();
        let of_record: Vec<u32> = lane
            .records
            .iter()
            .map(|record| if record.page == ROOT { 0 } else { ways.number(record.page, record.held.end()) })
            .collect();
        ways.complete(pages);

        let id = |record: usize, offset: usize| of_record[record] * BLOCKS + offset as u32;
        let mut held: Vec<Held> = Vec::with_capacity(lane.len());
        lane.each_name(&mut |name, place| {
            let tiers = lane.records[place.record()].tiers(place.offset());
            held.push((id(place.record(), place.offset()), ExternalSequenceHash::new(name), tiers));
        });
        let twins = lane.twins.iter();
        held.extend(twins.map(|(name, place, tiers)| {
            (id(place.record(), place.offset()), ExternalSequenceHash::new(name), tiers)
        }));
        Self { held, pages: ways.list }
    }

    fn emit(&mut self, emit: &mut dyn FnMut(KvEvent)) {
        let up = |place: PlaceId| {
            let way = &self.pages[(place / BLOCKS) as usize];
            let offset = place % BLOCKS;
            (if offset == 0 { way.before } else { Some(place - 1) }, way.locals[offset as usize])
        };
        dump_rank(&mut self.held, up, emit);
    }
}

/// The pages of a rank and those that lead to them, while they are collected.
#[derive(Default)]
struct Ways {
    numbers: FxHashMap<u32, u32>,
    list: Vec<Way>,
}

impl Ways {
    /// The number of a page of which `len` blocks are needed.
    fn number(&mut self, page: u32, len: usize) -> u32 {
        let number = *self.numbers.entry(page).or_insert_with(|| {
            self.list.push(Way { page, len: 0, locals: Vec::new(), before: None });
            self.list.len() as u32 - 1
        });
        let way = &mut self.list[number as usize];
        way.len = way.len.max(len);
        number
    }

    /// Adds the pages on the way to those that are there, and reads all of them.
    ///
    /// What the rank holds keeps every page on the way alive and where it hangs, and every block that leads on in its
    /// place. The memory of a page may move while others hold more of it, so that one is read under the lock.
    fn complete(&mut self, pages: &Pages) {
        let mut next = 0;
        while let Some(&Way { page, .. }) = self.list.get(next) {
            let shape = pages.headers.at(page).shape();
            if shape.parent() != ROOT {
                let parent = self.number(shape.parent(), shape.offset());
                self.list[next].before = Some(parent * BLOCKS + shape.offset() as u32 - 1);
            }
            next += 1;
        }
        for way in &mut self.list {
            let locked = pages.headers.lock(way.page);
            way.locals = (0..way.len).map(|at| pages.local(&locked, at)).collect();
        }
    }
}
