//! The tree as events.

use kv_router_types::{KvEvent, LocalBlockHash, WorkerRank};
use rustc_hash::FxHashMap;

use super::ConcurrentRadixTree;
use super::names::{NodeRef, Rank};
use super::node::Node;
use crate::DumpEvents;
use crate::dump::{Held, PlaceId, dump_rank};
use crate::sync::Arc;

/// Each rank as it is at one moment, in runs of up to 1,024 blocks. Needs memory for the places of one rank
/// at a time, holds up that rank's events while it copies them, and no event while it emits.
impl DumpEvents for ConcurrentRadixTree {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        let ranks = self.roster.read().all();
        for rank in ranks {
            self.dump_one(&rank, &mut |event| emit(rank.id, event));
        }
    }

    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        let rank = self.roster.read().get(rank);
        if let Some(rank) = rank {
            self.dump_one(&rank, emit);
        }
    }
}

impl ConcurrentRadixTree {
    fn dump_one(&self, rank: &Rank, emit: &mut dyn FnMut(KvEvent)) {
        let (places, mut held) = Places::of(rank, &self.root);
        let up = |place: PlaceId| places.up[place as usize];
        dump_rank(&mut held, up, emit);
    }
}

/// The places that one rank holds or that lead to one, numbered.
struct Places {
    /// The place before each, and the local hash that leads from there.
    up: Vec<(Option<PlaceId>, LocalBlockHash)>,
    numbers: FxHashMap<NodeRef, PlaceId>,
}

impl Places {
    fn of(rank: &Rank, root: &Arc<Node>) -> (Self, Vec<Held>) {
        let mut places = Self { up: Vec::new(), numbers: FxHashMap::default() };
        // Under this lock the rank lets go of nothing: all its nodes stay alive, and all before them.
        let names = rank.names.read();
        let held = names.homes.iter();
        let held = held.map(|(name, home)| (places.number(&home.place.0, root), name, home.tiers)).collect();
        drop(names);
        (places, held)
    }

    /// The number of a node, after giving one to each node before it.
    fn number(&mut self, node: &Arc<Node>, root: &Arc<Node>) -> PlaceId {
        let mut trail = Vec::new();
        let mut at = Arc::clone(node);
        let mut before = None;
        while !Arc::ptr_eq(&at, root) {
            before = self.numbers.get(&NodeRef(Arc::clone(&at))).copied();
            if before.is_some() {
                break;
            }
            let Some(parent) = at.read().parent().cloned() else { break };
            trail.push(std::mem::replace(&mut at, parent));
        }
        while let Some(node) = trail.pop() {
            // Each place is a node in memory: memory ends before `u32` does.
            let number = self.up.len() as PlaceId;
            self.up.push((before, node.local));
            self.numbers.insert(NodeRef(node), number);
            before = Some(number);
        }
        // Only the root has none, and nobody holds it.
        before.unwrap_or_default()
    }
}
