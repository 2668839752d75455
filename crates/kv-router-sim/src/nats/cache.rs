//! The cache of one rank, which changes at random and says so: stores, removals with holes, copies in host memory,
//! clears.

use std::collections::BTreeMap;

use kv_router_hash::next_sequence_hash;
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, SequenceHash, StoredBlock, Tier, TierSet, WorkerRank,
};

use crate::holdings::Holdings;
use crate::random::SeededRandom;

/// Blocks that may stand behind one, in all caches: so that ranks share content.
const BRANCHES: usize = 3;

/// What a rank holds.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    random: SeededRandom,
    /// The name of the first block of this life. Lives do not share names.
    first: u64,
    next: u64,
    limit: usize,
    held: BTreeMap<u64, Held>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    parent: Option<u64>,
    local: LocalBlockHash,
    path: SequenceHash,
    tiers: TierSet,
}

impl Cache {
    /// An empty one, of an engine in this life, for at most about `limit` blocks.
    pub(super) fn new(seed: u64, life: u64, limit: usize) -> Self {
        let first = life << 40;
        Self { random: SeededRandom::new(seed), first, next: first, limit, held: BTreeMap::new() }
    }

    /// What an engine does in one step.
    pub(super) fn step(&mut self) -> Vec<KvEvent> {
        match self.random.below(1000) {
            0 => {
                self.held.clear();
                vec![KvEvent::Cleared]
            }
            1..200 => self.remove(8),
            200..260 => self.offload().into_iter().collect(),
            _ => {
                let mut events = Vec::new();
                if self.held.len() > self.limit {
                    events = self.remove(64);
                }
                let count = 1 + self.random.below(12) as u64;
                events.push(self.store(count));
                events
            }
        }
    }

    /// Stores a chain under a random block, or at the root.
    pub(super) fn store(&mut self, count: u64) -> KvEvent {
        let parent = if self.random.below(4) == 0 { None } else { self.any() };
        let mut above = parent;
        let mut blocks = Vec::new();
        for _ in 0..count {
            let path = above.and_then(|parent| self.held.get(&parent)).map(|parent| parent.path);
            let branch = self.random.below(BRANCHES) as u64;
            let local = LocalBlockHash::new(path.map_or(0, SequenceHash::get) ^ branch);
            let name = self.next;
            self.next += 1;
            let path = next_sequence_hash(path, local);
            let tiers = TierSet::default().with(Tier::Device);
            self.held.insert(name, Held { parent: above, local, path, tiers });
            blocks.push(StoredBlock::new(ExternalSequenceHash::new(name), local));
            above = Some(name);
        }
        KvEvent::Stored { tier: Tier::Device, parent: parent.map(ExternalSequenceHash::new), blocks }
    }

    /// Removes random blocks, whatever stands behind them.
    fn remove(&mut self, most: usize) -> Vec<KvEvent> {
        let mut events = Vec::new();
        for _ in 0..=self.random.below(most) {
            let Some(name) = self.any() else { break };
            let Some(held) = self.held.get_mut(&name) else { break };
            let tier = if held.tiers.contains(Tier::Device) { Tier::Device } else { Tier::Host };
            held.tiers = held.tiers.without(tier);
            if held.tiers.is_empty() {
                self.held.remove(&name);
            }
            events.push(KvEvent::Removed { tier, blocks: vec![ExternalSequenceHash::new(name)] });
        }
        events
    }

    /// Copies a block to host memory.
    fn offload(&mut self) -> Option<KvEvent> {
        let name = self.any()?;
        let held = *self.held.get(&name)?;
        // A block whose parent left cannot be said to be anywhere.
        if held.parent.is_some_and(|parent| !self.held.contains_key(&parent)) {
            return None;
        }
        self.held.get_mut(&name)?.tiers = held.tiers.with(Tier::Host);
        let blocks = vec![StoredBlock::new(ExternalSequenceHash::new(name), held.local)];
        Some(KvEvent::Stored { tier: Tier::Host, parent: held.parent.map(ExternalSequenceHash::new), blocks })
    }

    fn any(&mut self) -> Option<u64> {
        let from = self.first + self.random.below((self.next - self.first) as usize) as u64;
        let held = self.held.range(from..).next().or_else(|| self.held.iter().next());
        held.map(|(&name, _)| name)
    }

    /// Adds what it holds as `rank`.
    pub(super) fn add_to(&self, rank: WorkerRank, holdings: &mut Holdings) {
        let entries = self.held.iter();
        holdings.extend(
            entries.map(|(&name, held)| ((rank, ExternalSequenceHash::new(name)), (held.path, held.tiers))),
        );
    }
}

#[cfg(test)]
mod tests {
    use kv_router_index::ApplyEvents;
    use kv_router_index::paged::PagedIndex;
    use kv_router_types::WorkerId;

    use super::*;
    use crate::holdings::holdings;

    #[test]
    fn what_it_says_is_what_it_holds() {
        let rank = WorkerRank::from(WorkerId::new(1));
        let (mut cache, index) = (Cache::new(3, 1, 500), PagedIndex::new());
        for _ in 0..3_000 {
            for event in cache.step() {
                (&index).apply(rank, &event).unwrap();
            }
        }
        let mut held = Holdings::new();
        cache.add_to(rank, &mut held);
        assert!(held.len() > 100, "{}", held.len());
        assert_eq!(holdings(&index), held);
    }
}
