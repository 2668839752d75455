//! Makes a subject of an index that is written to through `&self`.

use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};

use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlaps,
    PrefixIndex,
};

/// An index that implements [`ApplyEvents`] for `&T`, as one that implements it for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared<T>(pub T);

impl<T: PrefixIndex> PrefixIndex for Shared<T> {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.0.find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        self.0.certainty()
    }
}

impl<T> ApplyEvents for Shared<T>
where
    for<'a> &'a T: ApplyEvents,
{
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        (&self.0).apply(from, event)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        (&self.0).remove_worker(worker)
    }
}

impl<T: DumpEvents> DumpEvents for Shared<T> {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.0.dump(emit);
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        self.0.dump_rank(rank, emit);
    }
}

impl<T: Inspect> Inspect for Shared<T> {
    fn occupancy(&self) -> Occupancy {
        self.0.occupancy()
    }
}
