//! What each rank calls its blocks.

use std::collections::BTreeSet;

use kv_router_types::{WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use super::nodes::NodeId;
use crate::names::{Names, Twins};

/// One rank that holds something.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) id: WorkerRank,
    pub(super) names: Names<NodeId>,
    pub(super) twins: Twins<NodeId>,
}

/// The ranks that hold something, each under a dense number: its slot.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    by_slot: Vec<Option<Rank>>,
    slots: FxHashMap<WorkerRank, u32>,
    /// The lowest is used again first, so that sets of slots stay dense.
    free: BTreeSet<u32>,
}

impl Ranks {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn slot(&self, id: WorkerRank) -> Option<u32> {
        self.slots.get(&id).copied()
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&Rank> {
        self.by_slot.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Rank> {
        self.by_slot.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Rank> {
        self.by_slot.iter().flatten()
    }

    pub(super) fn of_worker(&self, worker: WorkerId) -> Vec<u32> {
        self.slots.iter().filter(|(id, _)| id.worker == worker).map(|(_, &slot)| slot).collect()
    }

    /// The rank's slot and state, new if need be. A new rank must get a name, or be removed.
    pub(super) fn get_or_insert(&mut self, id: WorkerRank) -> (u32, &mut Rank) {
        let slot = *self.slots.entry(id).or_insert_with(|| {
            self.free.pop_first().unwrap_or_else(|| {
                self.by_slot.push(None);
                // Each slot in use is a table of names: memory ends long before `u32` does.
                self.by_slot.len() as u32 - 1
            })
        });
        let rank = self.by_slot[slot as usize].get_or_insert_with(|| Rank {
            id,
            names: Names::default(),
            twins: Twins::default(),
        });
        (slot, rank)
    }

    /// Forgets a rank and hands over what it held.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Rank> {
        let rank = self.by_slot.get_mut(slot as usize)?.take()?;
        self.slots.remove(&rank.id);
        if self.slots.is_empty() {
            *self = Self::default();
        } else {
            self.free.insert(slot);
        }
        Some(rank)
    }
}
