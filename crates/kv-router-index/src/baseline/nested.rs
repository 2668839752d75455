//! The first generation: for each worker, its blocks by local hash.

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, Tier, TierSet, WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use super::ledger::{Change, Copy, Ledger};
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Inspect, Occupancy, Overlap, Overlaps,
    PrefixIndex,
};

/// Worker rank to local hash to engine names: the naive index. See the [module documentation](super).
///
/// # Cost
///
/// A lookup asks every rank about each block of its own overlap, so it grows with the fleet. An event costs
/// two probes of a table and one of a set for each block.
#[derive(Debug, Default)]
pub struct NestedDictionary {
    ranks: FxHashMap<WorkerRank, FxHashMap<LocalBlockHash, Names>>,
    ledger: Ledger,
}

/// What a rank calls its blocks of one content, wherever they stand.
type Names = FxHashMap<ExternalSequenceHash, TierSet>;

impl NestedDictionary {
    /// An empty dictionary.
    pub fn new() -> Self {
        Self::default()
    }
}

fn note(ranks: &mut FxHashMap<WorkerRank, FxHashMap<LocalBlockHash, Names>>, change: Change) {
    match change {
        Change::Came(Copy { rank, name, local, tier }) => {
            let tiers = ranks.entry(rank).or_default().entry(local).or_default().entry(name).or_default();
            *tiers = tiers.with(tier);
        }
        Change::Went(Copy { rank, name, local, tier }) => {
            let Some(blocks) = ranks.get_mut(&rank) else { return };
            let Some(names) = blocks.get_mut(&local) else { return };
            let Some(tiers) = names.get_mut(&name) else { return };
            *tiers = tiers.without(tier);
            if tiers.is_empty() {
                names.remove(&name);
            }
            if names.is_empty() {
                blocks.remove(&local);
            }
            if blocks.is_empty() {
                ranks.remove(&rank);
            }
        }
    }
}

/// Always answers in full, whatever the options.
impl PrefixIndex for NestedDictionary {
    fn find_into(&self, query: &[LocalBlockHash], _: FindOptions, out: &mut Overlaps) {
        out.begin(query.len(), Certainty::UpperBound);
        let mut overlaps = Vec::new();
        for (&rank, blocks) in &self.ranks {
            let mut by_tier = [0; Tier::COUNT];
            for names in query.iter().map_while(|local| blocks.get(local)) {
                let best = names.values().filter_map(|tiers| tiers.best()).min().unwrap_or(Tier::Object);
                by_tier[best.index()] += 1;
            }
            overlaps.push(Overlap::new(rank, by_tier));
        }
        overlaps.retain(|overlap| overlap.blocks() > 0);
        overlaps.sort_unstable_by_key(|overlap| overlap.blocks());
        overlaps.into_iter().for_each(|overlap| out.push(overlap));
    }

    fn certainty(&self) -> Certainty {
        Certainty::UpperBound
    }
}

impl ApplyEvents for NestedDictionary {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.ledger.apply(from, event, &mut |change| note(&mut self.ranks, change))
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.ledger.remove_worker(worker, &mut |change| note(&mut self.ranks, change))
    }
}

/// A node is one content that one rank has.
impl Inspect for NestedDictionary {
    fn occupancy(&self) -> Occupancy {
        Occupancy {
            ranks: self.ledger.ranks(),
            names: self.ledger.names(),
            nodes: self.ranks.values().map(FxHashMap::len).sum(),
            side_entries: 0,
        }
    }
}
