//! The tree as events.

use kv_router_types::{KvEvent, WorkerRank};

use super::RadixTree;
use super::nodes::NodeId;
use super::ranks::Rank;
use crate::DumpEvents;
use crate::dump::{Held, dump_rank};

/// In runs of up to 1,024 blocks, rank by rank. Needs memory for the names of one rank at a time.
impl DumpEvents for RadixTree {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        for rank in self.ranks.iter() {
            self.dump_one(rank, &mut |event| emit(rank.id, event));
        }
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        if let Some(rank) = self.ranks.slot(rank).and_then(|slot| self.ranks.get(slot)) {
            self.dump_one(rank, emit);
        }
    }
}

impl RadixTree {
    fn dump_one(&self, rank: &Rank, emit: &mut dyn FnMut(KvEvent)) {
        let up = |place| {
            let node = self.nodes.get(NodeId::new(place));
            let parent = (node.parent != NodeId::ROOT).then_some(node.parent.get());
            (parent, node.local)
        };
        let mut held: Vec<Held> =
            rank.names.iter().map(|(name, home)| (home.place.get(), name, home.tiers)).collect();
        dump_rank(&mut held, up, emit);
    }
}
