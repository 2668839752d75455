//! The ranks that hold something, each under a dense number: its slot.

use std::collections::BTreeSet;

use kv_router_types::{WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use super::names::Rank;
use super::stamps::{Bank, SLOTS, Stamp};
use crate::sync::Arc;

/// The ranks that hold something.
#[derive(Default)]
pub(super) struct Roster {
    ranks: FxHashMap<WorkerRank, Arc<Rank>>,
    /// Who has each slot.
    ids: Vec<Option<WorkerRank>>,
    /// The stamps of all slots, 64 a bank. A stamp outlives the rank that moved it, so that a slot with a new
    /// owner does not look unchanged.
    banks: Vec<Arc<Bank>>,
    /// The lowest is used again first, so that sets of slots stay dense.
    free: BTreeSet<u32>,
    /// Even, and above every stamp of banks that are gone.
    floor: u64,
}

impl Roster {
    pub(super) fn get(&self, id: WorkerRank) -> Option<Arc<Rank>> {
        self.ranks.get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Rank>> {
        self.ranks.values().map(Arc::clone).collect()
    }

    pub(super) fn of_worker(&self, worker: WorkerId) -> Vec<WorkerRank> {
        self.ranks.keys().copied().filter(|id| id.worker == worker).collect()
    }

    /// Who has a slot.
    #[inline]
    pub(super) fn id(&self, slot: u32) -> Option<WorkerRank> {
        self.ids.get(slot as usize).copied().flatten()
    }

    /// The stamp of a slot.
    #[inline]
    pub(super) fn stamp(&self, slot: u32) -> Option<u64> {
        Some(self.banks.get(slot as usize / SLOTS)?.load(slot as usize % SLOTS))
    }

    /// The rank, new if need be. A new one must get a name, or be retired.
    pub(super) fn get_or_register(&mut self, id: WorkerRank) -> Arc<Rank> {
        if let Some(rank) = self.get(id) {
            return rank;
        }
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.ids.push(None);
            // Each slot in use is a table of names: memory ends long before `u32` does.
            self.ids.len() as u32 - 1
        });
        self.ids[slot as usize] = Some(id);
        if self.banks.len() * SLOTS <= slot as usize {
            self.banks.push(Arc::new(Bank::new(self.floor)));
        }
        let stamp = Stamp::new(&self.banks[slot as usize / SLOTS], slot);
        let rank = Arc::new(Rank::new(id, slot, stamp));
        self.ranks.insert(id, Arc::clone(&rank));
        rank
    }

    /// Forgets a rank that holds nothing and never will again.
    pub(super) fn retire(&mut self, rank: &Rank) {
        self.ranks.remove(&rank.id);
        self.ids[rank.slot as usize] = None;
        self.free.insert(rank.slot);
        if self.ranks.is_empty() {
            let highest = self.banks.iter().map(|bank| bank.highest()).max().unwrap_or(0);
            *self = Self { floor: (highest | 1) + 1, ..Self::default() };
        }
    }
}
