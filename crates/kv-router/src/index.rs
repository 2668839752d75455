//! One interface to whichever index the router was built with.

use std::fmt;

use kv_router_index::{
    Applied, ApplyError, ApplyEvents, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};
use parking_lot::RwLock;

/// An index that many threads read and write through `&self`.
pub(crate) trait SharedIndex: fmt::Debug + Send + Sync {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps);
    fn apply(&self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError>;
    fn remove_worker(&self, worker: WorkerId) -> Applied;
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent));
    fn occupancy(&self) -> Occupancy;
}

/// A single-threaded index behind a reader-writer lock: lookups run side by side, an event waits for them.
pub(crate) struct Locked<I>(RwLock<I>);

impl<I> Locked<I> {
    pub(crate) fn new(index: I) -> Self {
        Self(RwLock::new(index))
    }
}

impl<I> fmt::Debug for Locked<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locked").field(&std::any::type_name::<I>()).finish()
    }
}

impl<I> SharedIndex for Locked<I>
where
    I: PrefixIndex + ApplyEvents + DumpEvents + Inspect + Send + Sync,
{
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.0.read().find_into(query, options, out);
    }

    fn apply(&self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.0.write().apply(from, event)
    }

    fn remove_worker(&self, worker: WorkerId) -> Applied {
        self.0.write().remove_worker(worker)
    }

    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.0.read().dump(emit);
    }

    fn occupancy(&self) -> Occupancy {
        self.0.read().occupancy()
    }
}
