//! The tree: events in, overlaps out.

use std::mem;
use std::time::Instant;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, TierSet, WorkerId, WorkerRank,
};

use super::RadixConfig;
use super::nodes::{NodeId, Nodes};
use super::ranks::{Rank, Ranks};
use super::uses::Uses;
use crate::candidates::Scratch;
use crate::names::Put;
use crate::sequence::SequenceCheck;
use crate::sync::Mutex;
use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Inspect, Occupancy, Overlap, Overlaps,
    PrefixIndex,
};

/// One tree of blocks shared by all ranks, for one writer. See the [module documentation](super).
///
/// # Guarantees
///
/// Exact under any history. Nothing recurses: chains may be as deep as memory allows. The tree has exactly
/// the nodes that a rank holds or that lead to one, and nothing at all when nobody holds anything.
///
/// # Cost
///
/// A lookup takes a step for each block until nobody is left: one node of 64 bytes, and one word for each 64
/// ranks that are still in. It allocates nothing when its [`Overlaps`] is reused. A stored or removed block
/// costs one probe of the rank's name table and one node; a node is allocated from a slab, and the sets of a
/// node only when more than five ranks share it or a lower tier has a copy.
///
/// Memory follows what is held, with two delays: the slab of nodes keeps its highest size until the tree is
/// empty, and a table of names is shrunk once it is at most an eighth full.
#[derive(Debug)]
pub struct RadixTree {
    pub(super) nodes: Nodes,
    pub(super) ranks: Ranks,
    sequence: SequenceCheck,
    /// Behind a lock because lookups count; only those that ask to take it.
    uses: Option<Mutex<Uses>>,
    max_names_per_rank: usize,
    max_nodes: usize,
}

impl RadixTree {
    /// An empty tree with the default configuration.
    pub fn new() -> Self {
        Self::with_config(&RadixConfig::default())
    }

    /// An empty tree.
    pub fn with_config(config: &RadixConfig) -> Self {
        Self {
            nodes: Nodes::new(),
            ranks: Ranks::default(),
            sequence: SequenceCheck::default(),
            uses: config.use_window.map(|window| Mutex::new(Uses::new(window))),
            max_names_per_rank: config.max_names_per_rank,
            max_nodes: config.max_nodes.min(RadixConfig::MAX_NODES),
        }
    }

    fn store(
        &mut self,
        from: WorkerRank,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        if let Some(block) = self.sequence.first_repeat(parent, blocks) {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        let rank = self.ranks.slot(from).and_then(|slot| self.ranks.get(slot));
        let mut at = match parent {
            None => NodeId::ROOT,
            Some(parent) => {
                rank.and_then(|rank| rank.names.get(parent))
                    .ok_or(ApplyError::UnknownParent { parent })?
                    .place
            }
        };
        self.check_limits(rank, at, blocks)?;
        if blocks.is_empty() {
            return Ok(Applied::default());
        }

        let mut applied = Applied::default();
        let (slot, rank) = self.ranks.get_or_insert(from);
        for block in blocks {
            let node = self.nodes.child_or_insert(at, block.local);
            let put = rank.names.put(block.external, node, tier, &mut applied);
            at = node;
            if let Put::Held = put {
                continue;
            }
            if !self.nodes.hold(node, slot, tier) {
                rank.twins.add(node, tier);
            }
            // Only now: the old place may be what keeps the way to the new one alive.
            if let Put::Moved(old) = put {
                let uses = self.uses.as_mut().map(Mutex::get_mut);
                release(&mut self.nodes, uses, slot, rank, old.place, old.tiers);
            }
        }
        Ok(applied)
    }

    /// Whether the store fits; names and nodes that are there already do not count.
    fn check_limits(
        &self,
        rank: Option<&Rank>,
        at: NodeId,
        blocks: &[StoredBlock],
    ) -> Result<(), ApplyError> {
        let held = rank.map_or(0, |rank| rank.names.len());
        let limit = self.max_names_per_rank;
        if held.saturating_add(blocks.len()) > limit {
            let new = rank.map_or(blocks.len(), |rank| rank.names.count_new(blocks));
            if new > 0 && held.saturating_add(new) > limit {
                return Err(ApplyError::RankFull { limit });
            }
        }
        let limit = self.max_nodes;
        if self.nodes.len().saturating_add(blocks.len()) > limit {
            let mut end = Some(at);
            let there = blocks
                .iter()
                .take_while(|block| {
                    end = end.and_then(|at| self.nodes.get(at).child(block.local));
                    end.is_some()
                })
                .count();
            let new = blocks.len() - there;
            if new > 0 && self.nodes.len().saturating_add(new) > limit {
                return Err(ApplyError::IndexFull { limit });
            }
        }
        Ok(())
    }

    fn remove(&mut self, from: WorkerRank, tier: Tier, names: &[ExternalSequenceHash]) -> Applied {
        let all_unknown = Applied { unknown: names.len() as u64, ..Applied::default() };
        let Some(slot) = self.ranks.slot(from) else { return all_unknown };
        let Some(rank) = self.ranks.get_mut(slot) else { return all_unknown };

        let mut applied = Applied::default();
        for &name in names {
            let Some(node) = rank.names.take(name, tier) else {
                applied.unknown += 1;
                continue;
            };
            let uses = self.uses.as_mut().map(Mutex::get_mut);
            release(&mut self.nodes, uses, slot, rank, node, TierSet::only(tier));
            applied.removed += 1;
        }
        if rank.names.is_empty() {
            self.ranks.remove(slot);
        } else {
            rank.names.shrink();
        }
        applied
    }

    fn forget(&mut self, slot: u32) -> Applied {
        let Some(mut rank) = self.ranks.remove(slot) else { return Applied::default() };
        let mut uses = self.uses.as_mut().map(Mutex::get_mut);
        let mut applied = Applied::default();
        for home in rank.names.take_all() {
            release(&mut self.nodes, uses.as_deref_mut(), slot, &mut rank, home.place, home.tiers);
            applied.removed += home.tiers.iter().count() as u64;
        }
        applied
    }

    /// Walks down the query while somebody holds everything, and leaves the nodes in the trail if uses count.
    fn walk(
        &self,
        query: &[LocalBlockHash],
        options: FindOptions,
        scratch: &mut Scratch,
        out: &mut Overlaps,
    ) {
        let counts = options.use_at.is_some() && self.uses.is_some();
        let Scratch { candidates, trail } = scratch;
        trail.clear();
        let mut push = |slot, by_tier| {
            if let Some(rank) = self.ranks.get(slot) {
                out.push(Overlap::new(rank.id, by_tier));
            }
        };

        let mut node = self.nodes.get(NodeId::ROOT);
        let mut depth = 0;
        let mut stopped_early = false;
        for &local in query {
            let Some(child) = node.child(local) else { break };
            if options.early_exit && candidates.is_single() {
                stopped_early = true;
                break;
            }
            node = self.nodes.get(child);
            if depth == 0 {
                candidates.begin(&node.holders);
            } else {
                candidates.narrow(&node.holders, depth, &mut push);
            }
            if candidates.is_empty() {
                break;
            }
            if counts {
                trail.push(child.get());
            }
            depth += 1;
        }
        candidates.finish(depth, push);
        if stopped_early {
            out.mark_lower_bound();
        }
    }

    fn count_uses(&self, now: Instant, trail: &[u32], out: &mut Overlaps) {
        let Some(uses) = &self.uses else { return };
        let mut uses = uses.lock();
        uses.advance(now);
        for &node in trail {
            out.push_use_count(uses.count(NodeId::new(node)));
        }
    }
}

/// Takes one name's copies in `tiers` off a node. The rank stays a holder where another of its names is there
/// too.
fn release(
    nodes: &mut Nodes,
    mut uses: Option<&mut Uses>,
    slot: u32,
    rank: &mut Rank,
    node: NodeId,
    tiers: TierSet,
) {
    for tier in tiers.iter() {
        if !rank.twins.drop_one(node, tier) {
            nodes.let_go(node, slot, tier, |freed| {
                if let Some(uses) = uses.as_deref_mut() {
                    uses.forget(freed);
                }
            });
        }
    }
}

impl Default for RadixTree {
    fn default() -> Self {
        Self::new()
    }
}

impl PrefixIndex for RadixTree {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        out.begin(query.len(), Certainty::Exact);
        let mut scratch = mem::take(&mut out.scratch);
        self.walk(query, options, &mut scratch, out);
        if let Some(now) = options.use_at {
            self.count_uses(now, &scratch.trail, out);
        }
        out.scratch = scratch;
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ApplyEvents for RadixTree {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(from, *tier, *parent, blocks),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(from, *tier, blocks)),
            KvEvent::Cleared => {
                Ok(self.ranks.slot(from).map_or_else(Applied::default, |slot| self.forget(slot)))
            }
        }
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let mut applied = Applied::default();
        for slot in self.ranks.of_worker(worker) {
            applied += self.forget(slot);
        }
        applied
    }
}

impl Inspect for RadixTree {
    fn occupancy(&self) -> Occupancy {
        Occupancy {
            ranks: self.ranks.len(),
            names: self.ranks.iter().map(|rank| rank.names.len()).sum(),
            nodes: self.nodes.len(),
            side_entries: self.ranks.iter().map(|rank| rank.twins.len()).sum::<usize>()
                + self.uses.as_ref().map_or(0, |uses| uses.lock().len()),
        }
    }
}
