//! The third generation: for each local hash, who has it.

use kv_router_types::{KvEvent, LocalBlockHash, Tier, WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use super::ledger::{Change, Copy, Ledger};
use crate::children::shrink_sparse;
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Inspect, Occupancy, Overlap, Overlaps,
    PrefixIndex,
};

/// Local hash to worker ranks. See the [module documentation](super).
///
/// # Cost
///
/// A lookup takes one probe for each block until nobody is left, and one for each rank that is still in: it
/// depends on who holds the blocks, no longer on the fleet. An event costs three probes for each block.
#[derive(Debug, Default)]
pub struct InvertedIndex {
    blocks: FxHashMap<LocalBlockHash, Owners>,
    ledger: Ledger,
}

/// How many copies of one content each rank has in each tier, under whatever names and wherever they stand.
type Owners = FxHashMap<WorkerRank, [u32; Tier::COUNT]>;

impl InvertedIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }
}

fn note(blocks: &mut FxHashMap<LocalBlockHash, Owners>, change: Change) {
    match change {
        Change::Came(Copy { rank, local, tier, .. }) => {
            blocks.entry(local).or_default().entry(rank).or_default()[tier.index()] += 1;
        }
        Change::Went(Copy { rank, local, tier, .. }) => {
            let Some(owners) = blocks.get_mut(&local) else { return };
            let Some(copies) = owners.get_mut(&rank) else { return };
            copies[tier.index()] -= 1;
            if *copies == [0; Tier::COUNT] {
                owners.remove(&rank);
            }
            if owners.is_empty() {
                blocks.remove(&local);
                shrink_sparse(blocks);
            }
        }
    }
}

/// Always answers in full, whatever the options.
impl PrefixIndex for InvertedIndex {
    fn find_into(&self, query: &[LocalBlockHash], _: FindOptions, out: &mut Overlaps) {
        out.begin(query.len(), Certainty::UpperBound);
        let Some(first) = query.first().and_then(|local| self.blocks.get(local)) else { return };
        let mut live: Vec<_> = first.keys().map(|&rank| (rank, [0; Tier::COUNT])).collect();
        for local in query {
            let owners = self.blocks.get(local);
            live.retain_mut(|(rank, by_tier)| {
                let copies = owners.and_then(|owners| owners.get(rank));
                match copies.and_then(|copies| copies.iter().position(|&copies| copies > 0)) {
                    Some(best) => by_tier[best] += 1,
                    None => out.push(Overlap::new(*rank, *by_tier)),
                }
                copies.is_some()
            });
            if live.is_empty() {
                return;
            }
        }
        live.into_iter().for_each(|(rank, by_tier)| out.push(Overlap::new(rank, by_tier)));
    }

    fn certainty(&self) -> Certainty {
        Certainty::UpperBound
    }
}

impl ApplyEvents for InvertedIndex {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.ledger.apply(from, event, &mut |change| note(&mut self.blocks, change))
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.ledger.remove_worker(worker, &mut |change| note(&mut self.blocks, change))
    }
}

/// A node is one content, whoever has it.
impl Inspect for InvertedIndex {
    fn occupancy(&self) -> Occupancy {
        Occupancy {
            ranks: self.ledger.ranks(),
            names: self.ledger.names(),
            nodes: self.blocks.len(),
            side_entries: 0,
        }
    }
}
