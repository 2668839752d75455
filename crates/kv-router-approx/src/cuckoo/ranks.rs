//! One filter a rank in one process: an index like the exact ones, but for its answers.

use std::collections::BTreeMap;

use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};

use super::delta::SummaryEpoch;
use super::feeder::{CuckooFeeder, FeederLimits};
use super::index::find_ranks_into;

/// An index that is fed by events and answers from one cuckoo filter a rank. Nothing is published.
///
/// Its use is to see, beside an exact index, what summaries would answer; a process that has the events
/// and the memory for the names is better served by an exact index.
#[derive(Clone, Debug)]
pub struct CuckooRankIndex {
    /// Only ranks that hold something.
    feeders: BTreeMap<WorkerRank, CuckooFeeder>,
    /// Names held, over all ranks.
    names: usize,
    limits: FeederLimits,
}

impl CuckooRankIndex {
    /// An empty index that holds `max_names` names, summed over all ranks.
    pub fn new(max_names: usize) -> Self {
        let limits = FeederLimits { names: max_names, logged_changes: 0 };
        Self { feeders: BTreeMap::new(), names: 0, limits }
    }

    /// Bytes on the heap that the filters take; the names are not in.
    pub fn filter_bytes(&self) -> usize {
        self.feeders.values().map(|feeder| feeder.publisher().filter().heap_bytes()).sum()
    }

    /// Runs one change of a rank and keeps the books.
    fn with_feeder<R>(&mut self, rank: WorkerRank, change: impl FnOnce(&mut CuckooFeeder, usize) -> R) -> R {
        let limits = self.limits;
        let feeder =
            self.feeders.entry(rank).or_insert_with(|| CuckooFeeder::new(SummaryEpoch::default(), limits));
        let others = self.names - feeder.names();
        let result = change(feeder, others);
        self.names = others + feeder.names();
        if feeder.names() == 0 {
            self.feeders.remove(&rank);
        }
        result
    }
}

impl ApplyEvents for CuckooRankIndex {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.with_feeder(from, |feeder, others| feeder.apply_beside(from, event, others))
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let mut applied = Applied::default();
        let ranks: Vec<WorkerRank> =
            self.feeders.keys().copied().filter(|rank| rank.worker == worker).collect();
        for rank in ranks {
            applied += self.with_feeder(rank, |feeder, _| feeder.remove_worker(worker));
        }
        applied
    }
}

/// Always answers in full: [`FindOptions`] changes nothing. Every block counts as in device memory.
impl PrefixIndex for CuckooRankIndex {
    fn find_into(&self, query: &[LocalBlockHash], _: FindOptions, out: &mut Overlaps) {
        find_ranks_into(self.feeders.iter(), query, out);
    }

    fn certainty(&self) -> Certainty {
        Certainty::UpperBound
    }
}

impl Inspect for CuckooRankIndex {
    fn occupancy(&self) -> Occupancy {
        let mut sum = Occupancy::default();
        for one in self.feeders.values().map(Inspect::occupancy) {
            sum.ranks += one.ranks;
            sum.names += one.names;
            sum.nodes += one.nodes;
            sum.side_entries += one.side_entries;
        }
        sum
    }
}
