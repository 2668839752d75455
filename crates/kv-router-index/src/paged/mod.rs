//! The fast exact index: content in pages that all ranks share, and for readers one word for all that hold the same.
//!
//! ```
//! use kv_router_index::paged::PagedIndex;
//! use kv_router_index::{FindOptions, Overlaps, PrefixIndex};
//! use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank};
//!
//! let index = PagedIndex::new();
//! let rank = WorkerRank::from(WorkerId::new(1));
//! let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
//!
//! // Whoever receives the events of a rank has its one writer...
//! let mut writer = index.writer(rank)?;
//! writer.apply(&KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block(1), block(2)] })?;
//!
//! // ... and every thread asks, while others write.
//! let mut overlaps = Overlaps::new();
//! index.find_into(&[1, 2, 3].map(LocalBlockHash::new), FindOptions::new(), &mut overlaps);
//! assert_eq!(overlaps.blocks(rank), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Structure
//!
//! A *page* is a run of up to 512 blocks: their local hashes, whom it continues (another page, after so many of its
//! blocks), and who holds it. A block has one home. A chain that parts from a page goes on in a page of its own; nothing
//! is ever split, moved or forwarded, and holes change no shape. One flat table leads from (page, offset, local hash)
//! to the page that continues there.
//!
//! A page has one word a holder: how many of its *leading* blocks the rank holds without a gap. Up to 32 ranks that hold
//! the same share a word. That is all a lookup needs. Which blocks exactly, and their names, is private to the rank's writer, in its *lane*: a record for each page
//! (a mask of 512 bits and the names in order) and a compact table from name to place.
//!
//! # By number
//!
//! A relay beside the engine can number a rank's blocks: [`BlockIds`] does, and an [`IdWriter`] takes them. The rank then
//! has an array where others have a table of names, and an event costs its pages, not its blocks.
//!
//! # Guarantees
//!
//! * Exact under any history: holes, refilled heads, twins, moves, tiers.
//! * A lookup takes no lock, writes nothing that others see and, once warm, allocates nothing. It never reports more
//!   than the rank held at some moment of the lookup; of an event in flight it may see a part. It checks the version of
//!   every page that it used and starts again when a rank shrank in one of them meanwhile. A writer that is preempted
//!   stalls no reader. Only after sixteen failures in a row does a lookup lock the pages of its request.
//! * A cleared rank is gone for lookups at once; its pages are taken apart by later events, a few at a time, or by
//!   [`PagedIndex::reclaim`].
//! * Memory follows what is held. What is freed is used again for anything but headers, and is not given back to the
//!   system before the index is dropped.
//!
//! # Cost
//!
//! | | |
//! |---|---|
//! | lookup | one table access a page, a third of a nanosecond a common block, one or two a word of holders |
//! | the same with keys | one table access a page, two nanoseconds for each 64 common blocks |
//! | store, remove | one access to the rank's name table a block, asked for in advance; one page lock for up to 512 blocks |
//! | the same by number | the array in a row; one page lock for up to 512 blocks |
//! | memory | 8 bytes a distinct block, 8 for a name, about 6 for its place, or 4 for its number; 128 a page that has its first eight in it, and 70 a rank that holds of it |
//! | clear | at once for readers |
//! | [`Inspect::occupancy`] | a few loads |
//!
//! # When not to use it
//!
//! Use counts ([`FindOptions::use_at`](crate::FindOptions::use_at)) are not tracked: the radix trees do that. With tiers below the device
//! on many pages, lookups cost a second pass over the path for every rank reported.
//!
//! # Locks
//!
//! A rank's lane, then pages from parent to child, then a segment of the table, then an allocator. Each is held for one
//! event, one page, one entry, one allocation.
//! `docs/locking.md` in the repository says which model checks which claim.
mod audit;
mod block;
mod branches;
mod chunks;
mod config;
mod dump;
mod edges;
mod explain;
mod find;
mod held;
mod holders;
mod id;
mod id_writer;
mod ids;
mod lane;
mod lines;
mod locals;
mod names;
mod page;
mod page_map;
mod pages;
mod ranks;
mod record;
mod relay;
mod shared;
mod sizes;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod tiers;
mod touch;
mod twins;
mod words;
mod writer;

use std::fmt;

use kv_router_hash::{KeyedHashes, PrefixKeyer};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};

pub use audit::Fault;
pub use config::{PagedConfig, PagedConfigError};
pub use explain::{MemoryUse, PathStep};
pub use id::{BlockId, BlockRun, IdError, IdEvent};
pub use id_writer::IdWriter;
pub use relay::{BlockIds, Translated};
pub use writer::{RankWriter, TakenBy, WriterTaken};

pub(crate) use find::Scratch;

use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps,
    PrefixIndex,
};
use locals::Query;
use shared::Shared;

/// The index. A clone is a handle of the same index. See the [module documentation](self).
#[derive(Clone)]
pub struct PagedIndex {
    shared: Arc<Shared>,
}

impl PagedIndex {
    /// An empty index with default limits.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared::new(PagedConfig::default())) }
    }

    /// An empty index.
    ///
    /// # Errors
    ///
    /// A limit is out of bounds.
    pub fn with_config(config: PagedConfig) -> Result<Self, PagedConfigError> {
        config.check()?;
        Ok(Self { shared: Arc::new(Shared::new(config)) })
    }

    /// The one writer of a rank, for whoever receives its events. Saves finding the rank again for every event.
    ///
    /// # Errors
    ///
    /// [`WriterTaken`] while another one exists, or the rank holds blocks by number.
    pub fn writer(&self, rank: WorkerRank) -> Result<RankWriter, WriterTaken> {
        RankWriter::new(Arc::clone(&self.shared), rank)
    }

    /// The one writer of a rank whose blocks come with numbers instead of names: see [`IdWriter`].
    ///
    /// As long as it exists, or the rank holds something by number, the rank takes no names: a store by name is
    /// [`NumberedRank`](ApplyError::NumberedRank), and the names of a removal are unknown.
    ///
    /// # Errors
    ///
    /// [`WriterTaken`] while another writer exists, or the rank holds blocks by name.
    pub fn id_writer(&self, rank: WorkerRank) -> Result<IdWriter, WriterTaken> {
        IdWriter::new(Arc::clone(&self.shared), rank)
    }

    /// Takes apart up to `budget` page holds of ranks that were cleared; how many it did. Every event does a few
    /// itself: call it when no events come.
    pub fn reclaim(&self, budget: usize) -> usize {
        self.shared.reclaim(budget)
    }

    /// The pages that a lookup of `query` goes through, and what it finds there. For people and tests, not for the hot
    /// path: it allocates, and under writes each step is true for its own moment.
    pub fn explain(&self, query: &[LocalBlockHash]) -> Vec<PathStep> {
        self.shared.explain(query)
    }

    /// Memory in use. Visits every lane and chunk: for gauges that are read now and then.
    pub fn memory(&self) -> MemoryUse {
        self.shared.memory()
    }

    /// Checks that everything fits together. Costs time in proportion to the index, and no event is applied meanwhile;
    /// on an index that nobody [reclaims](Self::reclaim) or clears at the same time, what it finds is a bug.
    pub fn audit(&self) -> Vec<Fault> {
        self.shared.audit()
    }

    fn keyer(&self) -> &PrefixKeyer {
        &self.shared.pages.keys.keyer
    }

    fn apply_event(&self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        loop {
            let cell = match (self.shared.cell(from), event) {
                (Some(cell), _) => cell,
                (None, KvEvent::Stored { .. }) => self.shared.cell_or_new(from),
                (None, KvEvent::Removed { blocks, .. }) => {
                    return Ok(Applied { unknown: blocks.len() as u64, ..Applied::default() });
                }
                (None, KvEvent::Cleared) => return Ok(Applied::default()),
            };
            let mut lane = cell.lane.lock();
            if lane.is_dead {
                continue;
            }
            let result = self.shared.change(&mut lane, |lane| lane.apply(&self.shared, event));
            self.shared.release_if_empty(&cell, &mut lane);
            return result;
        }
    }
}

impl Default for PagedIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl PrefixIndex for PagedIndex {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.shared.find(Query { locals: query, keys: &[] }, options, out);
    }

    fn find_keyed_into(&self, query: &KeyedHashes, options: FindOptions, out: &mut Overlaps) {
        let keys = if query.keyer() == Some(*self.keyer()) { query.keys() } else { &[] };
        self.shared.find(Query { locals: query.locals(), keys }, options, out);
    }

    fn keyer(&self) -> Option<PrefixKeyer> {
        Some(*self.keyer())
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ApplyEvents for &PagedIndex {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.apply_event(from, event)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let mut applied = Applied::default();
        let ranks: Vec<_> =
            self.shared.lanes.read().keys().filter(|rank| rank.worker == worker).copied().collect();
        for rank in ranks {
            applied += self.apply_event(rank, &KvEvent::Cleared).unwrap_or_default();
        }
        applied
    }
}

impl ApplyEvents for PagedIndex {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        (&*self).apply(from, event)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        (&*self).remove_worker(worker)
    }
}

/// Each rank as it is at one moment, in runs of up to 1,024 blocks. Holds up that rank's events while it copies what the
/// rank holds, and no event while it emits. A copy takes some 50 bytes a block, one rank at a time.
impl DumpEvents for PagedIndex {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.shared.dump(emit);
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        self.shared.dump_rank(rank, emit);
    }
}

/// O(1).
impl Inspect for PagedIndex {
    fn occupancy(&self) -> Occupancy {
        let shared = &self.shared;
        Occupancy {
            ranks: shared.ranks.load(Ordering::Relaxed),
            names: shared.names.load(Ordering::Relaxed),
            nodes: shared.pages.nodes(),
            side_entries: shared.twins.load(Ordering::Relaxed)
                + shared.pages.tiers.in_use()
                + shared.buried(),
        }
    }
}

impl fmt::Debug for PagedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedIndex").field("occupancy", &self.occupancy()).finish_non_exhaustive()
    }
}
