//! One interface to whichever index the router was built with.

use std::fmt;

use kv_router_hash::{KeyedHashes, PrefixKeyer};
use kv_router_index::paged::{PagedConfig, PagedIndex};
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, ConcurrentRadixConfig, ConcurrentRadixTree, DumpEvents,
    FindOptions, Inspect, Occupancy, Overlaps, PositionalConfig, PositionalIndexer, PrefixIndex, RadixConfig,
    RadixTree,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};
use parking_lot::RwLock;

use crate::BuildError;

/// Which index a router keeps, with its bounds. All are exact; docs/benchmarks.md has them side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexConfig {
    /// [`PagedIndex`]: lookups take no lock, and a third to a half of the memory of the others. The default.
    Paged(PagedConfig),
    /// [`ConcurrentRadixTree`]: a lock a node. Lookups see each event of a rank whole.
    ConcurrentRadix(ConcurrentRadixConfig),
    /// [`PositionalIndexer`]: lookups jump; events are dear.
    Positional(PositionalConfig),
    /// [`RadixTree`] behind one lock: the simplest, for small fleets and for comparison.
    Radix(RadixConfig),
}

impl Default for IndexConfig {
    fn default() -> Self {
        Self::Paged(PagedConfig::default())
    }
}

impl IndexConfig {
    /// An empty index. `seed` goes into its hash where it has one: prompts are user input.
    pub(crate) fn build(&self, seed: u64) -> Result<Box<dyn SharedIndex>, BuildError> {
        Ok(match self {
            Self::Paged(config) => {
                let mut config = *config;
                config.hash_seed ^= seed;
                Box::new(PagedIndex::with_config(config).map_err(BuildError::PagedIndex)?)
            }
            Self::ConcurrentRadix(config) => Box::new(ConcurrentRadixTree::with_config(config)),
            Self::Positional(config) => {
                Box::new(PositionalIndexer::with_config(config).map_err(BuildError::PositionalIndex)?)
            }
            Self::Radix(config) => Box::new(Locked(RwLock::new(RadixTree::with_config(config)))),
        })
    }
}

/// An index that many threads read and write through `&self`.
pub(crate) trait SharedIndex: fmt::Debug + Send + Sync {
    fn find_into(&self, query: &KeyedHashes, options: FindOptions, out: &mut Overlaps);
    fn keyer(&self) -> Option<PrefixKeyer>;
    fn apply(&self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError>;
    fn remove_worker(&self, worker: WorkerId) -> Applied;
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent));
    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent));
    fn occupancy(&self) -> Occupancy;
}

impl<I> SharedIndex for I
where
    I: PrefixIndex + DumpEvents + Inspect + fmt::Debug + Send + Sync,
    for<'a> &'a I: ApplyEvents,
{
    fn find_into(&self, query: &KeyedHashes, options: FindOptions, out: &mut Overlaps) {
        self.find_keyed_into(query, options, out);
    }

    fn keyer(&self) -> Option<PrefixKeyer> {
        PrefixIndex::keyer(self)
    }

    fn apply(&self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        let mut index = self;
        ApplyEvents::apply(&mut index, from, event)
    }

    fn remove_worker(&self, worker: WorkerId) -> Applied {
        let mut index = self;
        ApplyEvents::remove_worker(&mut index, worker)
    }

    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        DumpEvents::dump(self, emit);
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        DumpEvents::dump_rank(self, rank, emit);
    }

    fn occupancy(&self) -> Occupancy {
        Inspect::occupancy(self)
    }
}

/// A single-threaded index behind a reader-writer lock: lookups run side by side, an event waits for them.
struct Locked<I>(RwLock<I>);

impl<I> fmt::Debug for Locked<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locked").field(&std::any::type_name::<I>()).finish()
    }
}

impl<I: PrefixIndex> PrefixIndex for Locked<I> {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.0.read().find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        self.0.read().certainty()
    }
}

impl<I: ApplyEvents> ApplyEvents for &Locked<I> {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.0.write().apply(from, event)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.0.write().remove_worker(worker)
    }
}

impl<I: DumpEvents> DumpEvents for Locked<I> {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.0.read().dump(emit);
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        self.0.read().dump_rank(rank, emit);
    }
}

impl<I: Inspect> Inspect for Locked<I> {
    fn occupancy(&self) -> Occupancy {
        self.0.read().occupancy()
    }
}
