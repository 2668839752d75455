//! The index: events in, overlaps out.

use std::mem;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::cache::{At, Cache, Writer};
use super::entries::Entries;
use super::find::{Lookup, Reader};
use super::fleet::{Fleet, Seat};
use super::{PositionalConfig, PositionalConfigError};
use crate::sequence::SequenceCheck;
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex,
};

/// A concurrent index that finds blocks by their position and jumps. See the [module documentation](super).
///
/// Shared by reference: lookups and events may come from any number of threads. Events of one rank apply one
/// after another, in the order in which their calls got hold of the rank; keep each rank on one thread for
/// the order sent.
///
/// ```
/// use kv_router_index::{ApplyEvents, PositionalIndexer, PrefixIndex};
/// use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank};
///
/// let rank = WorkerRank::from(WorkerId::new(1));
/// let blocks: Vec<_> =
///     (0..1000).map(|n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n % 7))).collect();
/// let prompt: Vec<_> = blocks.iter().map(|block| block.local).collect();
///
/// let store = KvEvent::Stored { tier: Tier::Device, parent: None, blocks };
///
/// let index = PositionalIndexer::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| (&index).apply(rank, &store));
///     // Meanwhile: some of the leading blocks, or none of them, or all.
///     scope.spawn(|| assert!(index.find(&prompt).blocks(rank) <= 1000));
/// });
/// assert_eq!(index.find(&prompt).blocks(rank), 1000);
/// ```
///
/// # Consistency
///
/// A lookup may see part of the events in flight. What it reports of a rank is what the rank held at some
/// moment of the lookup, and lies between what it held before and after each of these events; it is never
/// added up from what was there at different times. A store that moves names is seen whole or not at all.
///
/// # Locking
///
/// A lookup takes the read lock of one shard of the map at a time, and the registry's for two probes. Where a
/// rank shrank meanwhile, it stops the writer of that rank between two sections of 64 blocks and looks again;
/// in the worst case it waits for one such section, or for a store that moves names. A writer holds its rank
/// for an event, and one shard of the map for a block.
///
/// # Cost
///
/// A lookup takes a probe of the map for each jump, the rolling hash of the query (6 ns a block) as far as
/// somebody may hold it, and two looks at each rank that holds the first block. Where ranks drop out it takes
/// about eight probes more, once for all that drop out at the same block; where a rank has a hole or a block
/// in a lower tier alone, one probe for each of 64 blocks around. A query that nobody holds costs one or two.
/// Nothing is allocated when the [`Overlaps`] is reused.
///
/// A stored or removed block costs one rolling hash, three probes of the rank's own tables and one change of
/// the map. A block takes 75 to 150 bytes for each rank that holds it, and once 65 to 130 for its prefix.
#[derive(Debug)]
pub struct PositionalIndexer {
    pub(super) entries: Entries,
    pub(super) fleet: Fleet,
    config: PositionalConfig,
}

impl PositionalIndexer {
    /// An empty index with the default configuration.
    pub fn new() -> Self {
        Self::unchecked(PositionalConfig::default())
    }

    /// An empty index.
    ///
    /// # Errors
    ///
    /// [`PositionalConfigError`] when the configuration makes no sense.
    pub fn with_config(config: &PositionalConfig) -> Result<Self, PositionalConfigError> {
        if config.jump == 0 {
            return Err(PositionalConfigError::ZeroJump);
        }
        Ok(Self::unchecked(config.clone()))
    }

    fn unchecked(config: PositionalConfig) -> Self {
        Self { entries: Entries::new(), fleet: Fleet::new(), config }
    }

    /// Hands what a rank holds to `act`, for as long as an event takes; `None` when it holds nothing.
    pub(super) fn write<R>(&self, id: WorkerRank, mut act: impl FnMut(Writer<'_>) -> R) -> Option<R> {
        loop {
            if let Ok(result) = self.write_at(id, self.fleet.seat(id)?, &mut act) {
                return Some(result);
            }
        }
    }

    /// The same for a rank that may be new.
    fn write_or_add<R>(&self, id: WorkerRank, mut act: impl FnMut(Writer<'_>) -> R) -> R {
        loop {
            if let Ok(result) = self.write_at(id, self.fleet.seat_or_add(id), &mut act) {
                return result;
            }
        }
    }

    fn write_at<R>(
        &self,
        id: WorkerRank,
        seat: Seat,
        act: &mut impl FnMut(Writer<'_>) -> R,
    ) -> Result<R, Stale> {
        let cell = seat.cell();
        let mut cache = cell.cache();
        match &*cache {
            Some(_) if cell.id() == id => {}
            None if self.fleet.sits(id, &seat) => cell.occupy(id),
            // Given up, and perhaps given to another, while this thread waited for the lock.
            _ => return Err(Stale),
        }
        let held = cache.get_or_insert_with(Box::default);
        let result = act(Writer { entries: &self.entries, cell, slot: seat.slot, cache: held });
        if held.is_empty() {
            cell.vacate();
            *cache = None;
            self.fleet.leave(id);
        }
        Ok(result)
    }

    fn store(
        &self,
        from: WorkerRank,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        if let Some(block) = SequenceCheck::default().first_repeat(parent, blocks) {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        match parent {
            None if blocks.is_empty() => Ok(Applied::default()),
            None => self.write_or_add(from, |writer| self.store_under(writer, tier, None, blocks)),
            Some(parent) => {
                let unknown = ApplyError::UnknownParent { parent };
                let store = |writer: Writer<'_>| {
                    let under = writer.cache.at(parent).ok_or(unknown)?;
                    self.store_under(writer, tier, Some(under), blocks)
                };
                self.write(from, store).unwrap_or(Err(unknown))
            }
        }
    }

    fn store_under(
        &self,
        writer: Writer<'_>,
        tier: Tier,
        under: Option<At>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        self.check_limits(writer.cache, under, blocks)?;
        Ok(writer.store(tier, under, blocks))
    }

    /// Whether the store fits; names and prefixes that are there already do not count.
    fn check_limits(
        &self,
        cache: &Cache,
        under: Option<At>,
        blocks: &[StoredBlock],
    ) -> Result<(), ApplyError> {
        let limit = self.config.max_names_per_rank;
        if cache.names.len().saturating_add(blocks.len()) > limit {
            let new = cache.names.count_new(blocks);
            if new > 0 && cache.names.len().saturating_add(new) > limit {
                return Err(ApplyError::RankFull { limit });
            }
        }
        let limit = self.config.max_nodes;
        if self.entries.nodes().saturating_add(blocks.len()) > limit {
            let new = self.new_nodes(under, blocks);
            if new > 0 && self.entries.nodes().saturating_add(new) > limit {
                return Err(ApplyError::IndexFull { limit });
            }
        }
        Ok(())
    }

    /// How many of the prefixes nobody holds.
    fn new_nodes(&self, under: Option<At>, blocks: &[StoredBlock]) -> usize {
        let mut under = under;
        let mut is_new = |block: &&StoredBlock| {
            let here = At::after(under, block.local);
            under = Some(here);
            !self.entries.contains(here.key(block.local), here.sequence)
        };
        blocks.iter().filter(|block| is_new(block)).count()
    }
}

/// The seat was given up meanwhile.
#[derive(Debug)]
pub(super) struct Stale;

impl Default for PositionalIndexer {
    fn default() -> Self {
        Self::new()
    }
}

/// Ignores [`FindOptions::use_at`]: uses are not tracked.
impl PrefixIndex for PositionalIndexer {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        out.begin(query.len(), Certainty::Exact);
        let cells = self.fleet.cells();
        let (mut scratch, mut buffers) = (mem::take(&mut out.scratch), mem::take(&mut out.jumps));
        let reader = Reader { entries: &self.entries, cells: &cells, jump: self.config.jump };
        Lookup::new(reader, query, &mut scratch.candidates, &mut buffers).run(options.early_exit, out);
        (out.scratch, out.jumps) = (scratch, buffers);
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ApplyEvents for &PositionalIndexer {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(from, *tier, *parent, blocks),
            KvEvent::Removed { tier, blocks } => {
                let unknown = Applied { unknown: blocks.len() as u64, ..Applied::default() };
                Ok(self.write(from, |writer| writer.remove(*tier, blocks)).unwrap_or(unknown))
            }
            KvEvent::Cleared => Ok(self.write(from, |writer| writer.clear()).unwrap_or_default()),
        }
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let mut applied = Applied::default();
        for id in self.fleet.of_worker(worker) {
            applied += self.write(id, |writer| writer.clear()).unwrap_or_default();
        }
        applied
    }
}

/// A node is a prefix that somebody holds. The side entries are second names, and the holes that lead
/// somewhere, for each rank. Costs a step for each held block of each rank, and stops each rank for its own
/// part.
impl Inspect for PositionalIndexer {
    fn occupancy(&self) -> Occupancy {
        let mut all =
            Occupancy { ranks: self.fleet.len(), nodes: self.entries.nodes(), ..Occupancy::default() };
        for id in self.fleet.ranks() {
            self.write(id, |writer| {
                all.names += writer.cache.names.len();
                all.side_entries += writer.cache.side_entries();
            });
        }
        all
    }
}
