//! The index as events, sorted by position.

use std::mem;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, SequenceHash, StoredBlock, Tier, WorkerRank,
};
use rustc_hash::FxHashMap;

use super::PositionalIndexer;
use super::cache::Cache;
use crate::DumpEvents;

/// The longest event that a dump emits, in blocks: keeps frames and buffers of those who carry a dump small.
const MAX_RUN: usize = 1024;

/// Rank by rank. First each place once, in runs of up to 1,024 blocks; then the copies in further tiers and
/// the further names; the events of both kinds come sorted by the position of their first block. Last, the
/// holes are removed.
///
/// A rank is copied while its events wait, and emitted after, when no lock is held: what the ranks hold need
/// not have been there at one moment. Needs memory for one rank at a time.
impl DumpEvents for PositionalIndexer {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        for rank in self.fleet.ranks() {
            self.dump_rank(rank, &mut |event| emit(rank, event));
        }
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        if let Some(mut copy) = self.write(rank, |writer| RankCopy::new(writer.cache)) {
            copy.emit(emit);
        }
    }
}

/// A place, by its number in a [`RankCopy`].
type PlaceId = usize;

/// A block to store.
#[derive(Clone, Copy, Debug)]
struct Copy {
    place: PlaceId,
    name: ExternalSequenceHash,
    tier: Tier,
}

#[derive(Clone, Debug)]
struct Step {
    local: LocalBlockHash,
    parent: Option<PlaceId>,
    /// The name under which it is stored first; no name of the rank in a hole.
    name: ExternalSequenceHash,
    is_hole: bool,
}

/// What one rank holds, its places sorted by position.
#[derive(Debug)]
struct RankCopy {
    places: Vec<Step>,
    /// One of each place, in the order of places.
    first: Vec<Copy>,
    /// Those beyond, in the order of places and tiers.
    further: Vec<Copy>,
}

impl RankCopy {
    fn new(cache: &Cache) -> Self {
        let mut order: Vec<(u32, SequenceHash)> =
            cache.places.iter().map(|(&sequence, place)| (place.position, sequence)).collect();
        order.sort_unstable();
        let numbers: FxHashMap<SequenceHash, PlaceId> =
            order.iter().enumerate().map(|(number, &(_, sequence))| (sequence, number)).collect();

        let mut names: Vec<_> = cache
            .names
            .iter()
            .filter_map(|(name, home)| Some((*numbers.get(&home.place)?, name, home.tiers)))
            .collect();
        names.sort_unstable_by_key(|&(place, name, _)| (place, name));
        let mut unused = unused_names(cache);
        let mut copy =
            Self { places: Vec::with_capacity(order.len()), first: Vec::new(), further: Vec::new() };
        let mut names = names.into_iter().peekable();
        for (number, &(_, sequence)) in order.iter().enumerate() {
            let Some(place) = cache.places.get(&sequence) else { continue };
            let mut first = None;
            while let Some((_, name, tiers)) = names.next_if(|&(at, ..)| at == number) {
                let copies = tiers.iter().map(|tier| Copy { place: number, name, tier });
                let mut copies = copies.skip(usize::from(first.is_none()));
                if first.is_none() {
                    first = tiers.best().map(|tier| Copy { place: number, name, tier });
                }
                copy.further.extend(&mut copies);
            }
            // A hole goes on in the tier of what is before it, to break no run.
            let is_hole = first.is_none();
            let parent = place.parent().and_then(|parent| numbers.get(&parent).copied());
            let first = first.unwrap_or_else(|| Copy {
                place: number,
                name: unused.next().unwrap_or_default(),
                tier: parent.map_or(Tier::Device, |parent| copy.first[parent].tier),
            });
            copy.places.push(Step { local: place.local, parent, name: first.name, is_hole });
            copy.first.push(first);
        }
        copy.further.sort_by_key(|copy| (copy.place, copy.tier));
        copy
    }

    fn emit(&mut self, emit: &mut dyn FnMut(KvEvent)) {
        let first = mem::take(&mut self.first);
        let further = mem::take(&mut self.further);
        self.emit_stores(&first, emit);
        self.emit_stores(&further, emit);
        for tier in Tier::ALL {
            let holes = first.iter().filter(|copy| copy.tier == tier && self.places[copy.place].is_hole);
            let names: Vec<_> = holes.map(|copy| copy.name).collect();
            for blocks in names.chunks(MAX_RUN) {
                emit(KvEvent::Removed { tier, blocks: blocks.to_vec() });
            }
        }
    }

    /// Stores copies that are sorted by place, in runs: one run takes along, of each next place, a copy in
    /// the same tier under the place's first name.
    fn emit_stores(&self, copies: &[Copy], emit: &mut dyn FnMut(KvEvent)) {
        // Which copies continue a copy: those at a child of its place.
        let mut next_of: FxHashMap<(PlaceId, Tier), usize> = FxHashMap::default();
        for (number, copy) in copies.iter().enumerate().rev() {
            let step = &self.places[copy.place];
            if let Some(parent) = step.parent.filter(|_| step.name == copy.name) {
                next_of.insert((parent, copy.tier), number);
            }
        }
        let mut is_emitted = vec![false; copies.len()];
        for start in 0..copies.len() {
            let mut blocks = Vec::new();
            let mut next = Some(start);
            while let Some(number) = next.filter(|&number| !is_emitted[number] && blocks.len() < MAX_RUN) {
                is_emitted[number] = true;
                let copy = copies[number];
                blocks.push(StoredBlock::new(copy.name, self.places[copy.place].local));
                // The next block continues the first name of the place.
                let goes_on = self.places[copy.place].name == copy.name;
                next = next_of.get(&(copy.place, copy.tier)).copied().filter(|_| goes_on);
            }
            if !blocks.is_empty() {
                let Copy { place, tier, .. } = copies[start];
                let parent = self.places[place].parent.map(|parent| self.places[parent].name);
                emit(KvEvent::Stored { tier, parent, blocks });
            }
        }
    }
}

/// Names that the rank does not use, from the highest down: engines that count, count up.
fn unused_names(cache: &Cache) -> impl Iterator<Item = ExternalSequenceHash> {
    (0..=u64::MAX).rev().map(ExternalSequenceHash::new).filter(|name| cache.names.get(*name).is_none())
}
