//! What one rank calls its blocks.

use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::mem;

use kv_router_types::{ExternalSequenceHash, Tier, TierSet, WorkerRank};
use rustc_hash::FxHashMap;

use super::node::{HeldChild, Node};
use super::stamps::Stamp;
use crate::Applied;
use crate::sync::{Arc, Ordered, rank};

/// One rank that holds something, or is about to.
pub(super) struct Rank {
    pub(super) id: WorkerRank,
    /// The bit that stands for this rank in the holders of a node.
    pub(super) slot: u32,
    /// Odd while an event of this rank is under way; written under the lock of `names` alone.
    pub(super) stamp: Stamp,
    /// Locked for writing during a whole event, so that a rank's events never mix.
    pub(super) names: Ordered<{ rank::NAMES }, Names>,
}

impl Rank {
    pub(super) fn new(id: WorkerRank, slot: u32, stamp: Stamp) -> Self {
        Self { id, slot, stamp, names: Ordered::new(Names::default()) }
    }
}

/// The names of one rank.
#[derive(Default)]
pub(super) struct Names {
    homes: FxHashMap<ExternalSequenceHash, Home>,
    /// Where several names denote one node in one tier: how many there are beyond the first. Expected to be
    /// empty; the rank holds the node there until the last of the names goes.
    twins: FxHashMap<(NodeKey, Tier), u32>,
    /// Set once the rank has left the roster: whoever came for it meanwhile must look there again.
    pub(super) retired: bool,
}

/// Where the block that a name denotes is.
pub(super) struct Home {
    pub(super) node: Arc<Node>,
    /// Never empty.
    pub(super) tiers: TierSet,
}

/// The address of a node. The names that are counted under it keep the node alive, so no other has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeKey(usize);

impl NodeKey {
    pub(super) fn of(node: &Arc<Node>) -> Self {
        Self(Arc::as_ptr(node) as usize)
    }
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.homes.len()
    }

    pub(super) fn twins(&self) -> usize {
        self.twins.len()
    }

    pub(super) fn get(&self, name: ExternalSequenceHash) -> Option<&Home> {
        self.homes.get(&name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ExternalSequenceHash, &Home)> {
        self.homes.iter().map(|(&name, home)| (name, home))
    }

    /// Notes that `name` denotes a node which the rank holds in `tier` now. Gives back where the name was
    /// before, when that is another node: the caller must let go of it.
    pub(super) fn put(
        &mut self,
        name: ExternalSequenceHash,
        held: &HeldChild,
        tier: Tier,
        applied: &mut Applied,
    ) -> Option<Home> {
        let here = Home { node: Arc::clone(&held.node), tiers: TierSet::only(tier) };
        let moved = match self.homes.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(here);
                applied.stored += 1;
                None
            }
            Entry::Occupied(mut entry) => {
                let home = entry.get_mut();
                if !Arc::ptr_eq(&home.node, &held.node) {
                    applied.moved += 1;
                    Some(mem::replace(home, here))
                } else if home.tiers.contains(tier) {
                    applied.already_held += 1;
                    return None;
                } else {
                    home.tiers = home.tiers.with(tier);
                    applied.stored += 1;
                    None
                }
            }
        };
        if !held.newly {
            *self.twins.entry((NodeKey::of(&held.node), tier)).or_insert(0) += 1;
        }
        moved
    }

    /// Takes one copy of a name away and gives back the node; `None` when there is no such copy.
    pub(super) fn take(&mut self, name: ExternalSequenceHash, tier: Tier) -> Option<Arc<Node>> {
        let Entry::Occupied(mut entry) = self.homes.entry(name) else { return None };
        let home = entry.get_mut();
        if !home.tiers.contains(tier) {
            return None;
        }
        home.tiers = home.tiers.without(tier);
        if home.tiers.is_empty() { Some(entry.remove().node) } else { Some(Arc::clone(&home.node)) }
    }

    /// Hands over all names.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Home> + use<> {
        mem::take(&mut self.homes).into_values()
    }

    /// Of the tiers that one name leaves, those in which no other name of the rank denotes the node.
    pub(super) fn without_twins(&mut self, node: &Arc<Node>, tiers: TierSet) -> TierSet {
        if self.twins.is_empty() {
            return tiers;
        }
        tiers.iter().filter(|&tier| !self.drop_twin(NodeKey::of(node), tier)).collect()
    }

    /// Takes one of several names away; false when there was but one.
    fn drop_twin(&mut self, node: NodeKey, tier: Tier) -> bool {
        match self.twins.get_mut(&(node, tier)) {
            None => return false,
            Some(1) => {
                self.twins.remove(&(node, tier));
            }
            Some(further) => *further -= 1,
        }
        true
    }

    /// Gives memory back after removals.
    pub(super) fn shrink(&mut self) {
        shrink_sparse(&mut self.homes);
    }
}

/// Gives memory back once a table is at most one eighth full. Amortised, since it is then left half full.
pub(super) fn shrink_sparse<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) {
    if table.capacity() > 64 && table.len() * 8 < table.capacity() {
        table.shrink_to(table.len() * 2);
    }
}
