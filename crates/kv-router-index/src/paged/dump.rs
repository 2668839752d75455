//! Dumps, one rank after the other.

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, WorkerRank};
use rustc_hash::FxHashMap;

use super::lane::Lane;
use super::pages::Pages;
use super::shared::Shared;
use super::words::{PAGE_BLOCKS, ROOT};
use crate::dump::{Held, PlaceId, dump_rank};

impl Shared {
    /// Each rank as it was at some moment; its lane waits meanwhile.
    pub(super) fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        for cell in self.cells() {
            let lane = cell.lane.lock();
            if lane.len() > 0 && !lane.is_dead {
                dump_lane(&self.pages, &lane, emit);
            }
        }
    }
}

fn dump_lane(pages: &Pages, lane: &Lane, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
    let ways = Ways::new(pages, lane);
    let id = |record: usize, offset: usize| ways.numbers[&lane.records[record].page] * BLOCKS + offset as u32;
    let mut held: Vec<Held> = Vec::with_capacity(lane.len());
    lane.each_name(&mut |name, place| {
        let tiers = lane.records[place.record()].tiers(place.offset());
        held.push((id(place.record(), place.offset()), ExternalSequenceHash::new(name), tiers));
    });
    let twins = lane.twins.iter();
    held.extend(twins.map(|(name, place, tiers)| {
        (id(place.record(), place.offset()), ExternalSequenceHash::new(name), tiers)
    }));
    dump_rank(lane.rank, &mut held, |place| ways.up(place), emit);
}

const BLOCKS: u32 = PAGE_BLOCKS as u32;

/// The pages that lead to what a rank holds, numbered from 0.
struct Ways {
    numbers: FxHashMap<u32, u32>,
    /// The local hashes of each, as far as they are needed, and the place before it.
    pages: Vec<(Vec<LocalBlockHash>, Option<PlaceId>)>,
}

impl Ways {
    fn new(pages: &Pages, lane: &Lane) -> Self {
        let mut ways = Self { numbers: FxHashMap::default(), pages: Vec::new() };
        let mut list: Vec<u32> = Vec::new();
        let mut number = |page: u32, list: &mut Vec<u32>| {
            *ways.numbers.entry(page).or_insert_with(|| {
                list.push(page);
                list.len() as u32 - 1
            })
        };
        for record in lane.records.iter().filter(|record| record.page != ROOT) {
            number(record.page, &mut list);
        }
        let mut next = 0;
        while let Some(&page) = list.get(next) {
            // What the rank holds keeps every page on the way alive, and every block that leads on in its place.
            let locked = pages.headers.lock(page);
            let shape = locked.shape();
            let locals = (0..shape.len()).map(|at| pages.local(&locked, at)).collect();
            let before = (shape.parent() != ROOT)
                .then(|| number(shape.parent(), &mut list) * BLOCKS + shape.offset() as u32 - 1);
            ways.pages.push((locals, before));
            next += 1;
        }
        ways
    }

    fn up(&self, place: PlaceId) -> (Option<PlaceId>, LocalBlockHash) {
        let (locals, before) = &self.pages[(place / BLOCKS) as usize];
        let offset = place % BLOCKS;
        (if offset == 0 { *before } else { Some(place - 1) }, locals[offset as usize])
    }
}
