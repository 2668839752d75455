//! What one rank calls its blocks.

use std::hash::{Hash, Hasher};

use kv_router_types::{TierSet, WorkerRank};

use super::node::Node;
use super::stamps::Stamp;
use crate::names::{self, Twins};
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
    pub(super) homes: names::Names<NodeRef>,
    pub(super) twins: Twins<NodeRef>,
    /// Set once the rank has left the roster: whoever came for it meanwhile must look there again.
    pub(super) retired: bool,
}

/// A node, told from others by its address. A reference keeps the node alive, so no other has that.
#[derive(Clone)]
pub(super) struct NodeRef(pub(super) Arc<Node>);

impl PartialEq for NodeRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for NodeRef {}

impl Hash for NodeRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.homes.len()
    }

    /// Of the tiers that one name leaves, those in which no other name of the rank denotes the node.
    pub(super) fn without_twins(&mut self, node: &NodeRef, tiers: TierSet) -> TierSet {
        if self.twins.len() == 0 {
            return tiers;
        }
        tiers.iter().filter(|&tier| !self.twins.drop_one(node.clone(), tier)).collect()
    }
}
