//! What both flat indexes need to know of names: which rank calls which content how, and in which tiers it
//! has it.

use std::collections::hash_map::Entry;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, TierSet, WorkerId, WorkerRank,
};
use rustc_hash::FxHashMap;

use crate::sequence::SequenceCheck;
use crate::{Applied, ApplyError};

/// A copy that came or went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) rank: WorkerRank,
    pub(super) name: ExternalSequenceHash,
    pub(super) local: LocalBlockHash,
    pub(super) tier: Tier,
}

/// What happened to a copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Came(Copy),
    Went(Copy),
}

#[derive(Clone, Copy, Debug)]
struct Named {
    local: LocalBlockHash,
    /// Never empty.
    tiers: TierSet,
}

/// The names of all ranks. Only ranks that hold something are there.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    ranks: FxHashMap<WorkerRank, FxHashMap<ExternalSequenceHash, Named>>,
    sequence: SequenceCheck,
}

impl Ledger {
    pub(super) fn ranks(&self) -> usize {
        self.ranks.len()
    }

    pub(super) fn names(&self) -> usize {
        self.ranks.values().map(FxHashMap::len).sum()
    }

    /// Applies an event and tells `note` which copies come and go.
    pub(super) fn apply(
        &mut self,
        rank: WorkerRank,
        event: &KvEvent,
        note: &mut impl FnMut(Change),
    ) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(rank, *tier, *parent, blocks, note),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(rank, *tier, blocks, note)),
            KvEvent::Cleared => Ok(self.clear(rank, note)),
        }
    }

    pub(super) fn remove_worker(&mut self, worker: WorkerId, note: &mut impl FnMut(Change)) -> Applied {
        let ranks: Vec<_> = self.ranks.keys().copied().filter(|rank| rank.worker == worker).collect();
        let mut applied = Applied::default();
        ranks.into_iter().for_each(|rank| applied += self.clear(rank, note));
        applied
    }

    fn store(
        &mut self,
        rank: WorkerRank,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
        note: &mut impl FnMut(Change),
    ) -> Result<Applied, ApplyError> {
        if let Some(block) = self.sequence.first_repeat(parent, blocks) {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        if let Some(parent) = parent
            && !self.ranks.get(&rank).is_some_and(|names| names.contains_key(&parent))
        {
            return Err(ApplyError::UnknownParent { parent });
        }
        let mut applied = Applied::default();
        for &StoredBlock { external: name, local } in blocks {
            let here = Named { local, tiers: TierSet::only(tier) };
            match self.ranks.entry(rank).or_default().entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(here);
                    applied.stored += 1;
                }
                Entry::Occupied(mut entry) if entry.get().local != local => {
                    let old = entry.insert(here);
                    old.tiers
                        .iter()
                        .for_each(|tier| note(Change::Went(Copy { rank, name, local: old.local, tier })));
                    applied.moved += 1;
                }
                Entry::Occupied(entry) if entry.get().tiers.contains(tier) => {
                    applied.already_held += 1;
                    continue;
                }
                Entry::Occupied(mut entry) => {
                    let tiers = &mut entry.get_mut().tiers;
                    *tiers = tiers.with(tier);
                    applied.stored += 1;
                }
            }
            note(Change::Came(Copy { rank, name, local, tier }));
        }
        Ok(applied)
    }

    fn remove(
        &mut self,
        rank: WorkerRank,
        tier: Tier,
        names: &[ExternalSequenceHash],
        note: &mut impl FnMut(Change),
    ) -> Applied {
        let mut applied = Applied::default();
        let Some(held) = self.ranks.get_mut(&rank) else {
            return Applied { unknown: names.len() as u64, ..applied };
        };
        for &name in names {
            let Some(named) = held.get_mut(&name).filter(|named| named.tiers.contains(tier)) else {
                applied.unknown += 1;
                continue;
            };
            let local = named.local;
            named.tiers = named.tiers.without(tier);
            if named.tiers.is_empty() {
                held.remove(&name);
            }
            applied.removed += 1;
            note(Change::Went(Copy { rank, name, local, tier }));
        }
        if held.is_empty() {
            self.ranks.remove(&rank);
        }
        applied
    }

    fn clear(&mut self, rank: WorkerRank, note: &mut impl FnMut(Change)) -> Applied {
        let mut applied = Applied::default();
        for (name, Named { local, tiers }) in self.ranks.remove(&rank).unwrap_or_default() {
            for tier in tiers.iter() {
                applied.removed += 1;
                note(Change::Went(Copy { rank, name, local, tier }));
            }
        }
        applied
    }
}
