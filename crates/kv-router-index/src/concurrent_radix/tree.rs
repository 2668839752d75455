//! The tree: events in.

use std::fmt;

use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier, TierSet, WorkerId, WorkerRank};

use super::ConcurrentRadixConfig;
use super::names::{Names, NodeRef, Rank};
use super::node::Node;
use super::roster::Roster;
use crate::names::Put;
use crate::sequence::SequenceCheck;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Ordered, rank};
use crate::{Applied, ApplyError, ApplyEvents, Inspect, Occupancy};

/// One tree of blocks shared by all ranks, for many readers and many writers.
/// See the [module documentation](super) for locks and for why answers are exact.
///
/// Lookups are [`PrefixIndex`](crate::PrefixIndex), on the caller's thread; events go in through
/// [`ApplyEvents`] of `&ConcurrentRadixTree`, on any thread. The events of one rank must come in order, so
/// from one thread at a time; [`WriterPool`](crate::WriterPool) sees to that.
///
/// ```
/// use kv_router_index::{ApplyEvents, ConcurrentRadixTree, PrefixIndex};
/// use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier};
/// use kv_router_types::{WorkerId, WorkerRank};
///
/// let tree = ConcurrentRadixTree::new();
/// std::thread::scope(|scope| {
///     for worker in 0..2 {
///         let mut writer = &tree;
///         scope.spawn(move || {
///             let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
///             let blocks = vec![block(1), block(2)];
///             let event = KvEvent::Stored { tier: Tier::Device, parent: None, blocks };
///             writer.apply(WorkerRank::from(WorkerId::new(worker)), &event)
///         });
///     }
/// });
/// assert_eq!(tree.find(&[1, 2, 3].map(LocalBlockHash::new)).len(), 2);
/// ```
///
/// # Consistency
///
/// Each score of an answer is the exact overlap of that rank at one moment during the lookup, events taken
/// whole: never a state in the middle of an event, and never parts of two states. Different ranks may be seen
/// at different moments. A thread that has applied an event sees it in each of its later lookups.
///
/// # Guarantees
///
/// Exact under any history. A lookup writes nothing but lock words and reference counts, and waits only for
/// the writers of nodes that it passes; if a rank changes twice during it, also for the one event of that
/// rank that is under way. Nothing recurses: chains may be as deep as memory allows. Whatever races, the tree
/// has exactly the nodes that a rank holds or that lead to one once all events have returned, and nothing at
/// all when nobody holds anything.
///
/// # Cost
///
/// A step of a lookup takes one lock and one reference count beyond what [`RadixTree`](crate::RadixTree)
/// does; a candidate costs two readings of its stamp. A stored or removed block costs two uncontended locks.
/// Removing a worker looks at every rank that holds something.
///
/// # Panics
///
/// Never, short of a failing allocator.
pub struct ConcurrentRadixTree {
    pub(super) root: Arc<Node>,
    pub(super) roster: Ordered<{ rank::ROSTER }, Roster>,
    /// Nodes that are linked, the root not counted.
    nodes: AtomicUsize,
    max_names_per_rank: usize,
    max_nodes: usize,
}

impl ConcurrentRadixTree {
    /// An empty tree with the default configuration.
    pub fn new() -> Self {
        Self::with_config(&ConcurrentRadixConfig::default())
    }

    /// An empty tree.
    pub fn with_config(config: &ConcurrentRadixConfig) -> Self {
        Self {
            root: Arc::new(Node::root()),
            roster: Ordered::new(Roster::default()),
            nodes: AtomicUsize::new(0),
            max_names_per_rank: config.max_names_per_rank,
            max_nodes: config.max_nodes,
        }
    }

    pub(super) fn rank(&self, id: WorkerRank) -> Option<Arc<Rank>> {
        self.roster.read().get(id)
    }

    fn store(
        &self,
        from: WorkerRank,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        if let Some(block) = SequenceCheck::default().first_repeat(parent, blocks) {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        loop {
            let rank = match (self.rank(from), parent) {
                (Some(rank), _) => rank,
                (None, Some(parent)) => return Err(ApplyError::UnknownParent { parent }),
                (None, None) if blocks.is_empty() => return Ok(Applied::default()),
                (None, None) => self.roster.write().get_or_register(from),
            };
            let mut names = rank.names.write();
            if names.retired {
                // Another thread took the last name away before we had the lock: the rank starts anew.
                continue;
            }
            let result = self.store_under(&rank, &mut names, tier, parent, blocks);
            self.retire_if_empty(&rank, &mut names);
            return result;
        }
    }

    fn store_under(
        &self,
        rank: &Rank,
        names: &mut Names,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        // The root is never freed, and a node that this rank holds is not: nobody else releases it, and we
        // have the lock. The same goes for each block that we hold on the way down.
        let mut at = match parent {
            None => Arc::clone(&self.root),
            Some(parent) => {
                let home = names.homes.get(parent).ok_or(ApplyError::UnknownParent { parent })?;
                Arc::clone(&home.place.0)
            }
        };
        self.check_limits(names, &at, blocks)?;

        let mut applied = Applied::default();
        let _change = rank.stamp.change();
        for block in blocks {
            let held = Node::hold_child(&at, block.local, rank.slot, tier, &self.nodes);
            at = Arc::clone(&held.node);
            let put = names.homes.put(block.external, NodeRef(held.node), tier, &mut applied);
            if let Put::Held = put {
                continue;
            }
            if !held.newly {
                names.twins.add(NodeRef(Arc::clone(&at)), tier);
            }
            // Only now: the old place may be what keeps the way to the new one alive.
            if let Put::Moved(old) = put {
                self.release(rank, names, &old.place, old.tiers);
            }
        }
        Ok(applied)
    }

    /// Whether the store fits; names and nodes that are there already do not count.
    fn check_limits(&self, names: &Names, at: &Arc<Node>, blocks: &[StoredBlock]) -> Result<(), ApplyError> {
        let limit = self.max_names_per_rank;
        if names.len().saturating_add(blocks.len()) > limit {
            let new = names.homes.count_new(blocks);
            if new > 0 && names.len().saturating_add(new) > limit {
                return Err(ApplyError::RankFull { limit });
            }
        }
        let limit = self.max_nodes;
        if self.nodes.load(Ordering::Relaxed).saturating_add(blocks.len()) > limit {
            let mut end = Some(Arc::clone(at));
            let there = blocks
                .iter()
                .take_while(|block| {
                    end = end.take().and_then(|at| at.child(block.local));
                    end.is_some()
                })
                .count();
            let new = blocks.len() - there;
            if new > 0 && self.nodes.load(Ordering::Relaxed).saturating_add(new) > limit {
                return Err(ApplyError::IndexFull { limit });
            }
        }
        Ok(())
    }

    fn remove(&self, from: WorkerRank, tier: Tier, unwanted: &[ExternalSequenceHash]) -> Applied {
        let mut applied = Applied::default();
        let Some(rank) = self.rank(from) else {
            applied.unknown = unwanted.len() as u64;
            return applied;
        };
        let mut names = rank.names.write();
        let mut change = None;
        for &name in unwanted {
            match names.homes.take(name, tier) {
                None => applied.unknown += 1,
                Some(node) => {
                    change.get_or_insert_with(|| rank.stamp.change());
                    self.release(&rank, &mut names, &node, TierSet::only(tier));
                    applied.removed += 1;
                }
            }
        }
        drop(change);
        names.homes.shrink();
        self.retire_if_empty(&rank, &mut names);
        applied
    }

    fn clear(&self, from: WorkerRank) -> Applied {
        let mut applied = Applied::default();
        let Some(rank) = self.rank(from) else { return applied };
        let mut names = rank.names.write();
        {
            let _change = rank.stamp.change();
            for home in names.homes.take_all() {
                self.release(&rank, &mut names, &home.place, home.tiers);
                applied.removed += home.tiers.iter().count() as u64;
            }
        }
        self.retire_if_empty(&rank, &mut names);
        applied
    }

    /// Takes one name's copies in `tiers` off a node. The rank stays a holder where another of its names is
    /// there too.
    fn release(&self, rank: &Rank, names: &mut Names, node: &NodeRef, tiers: TierSet) {
        let tiers = names.without_twins(node, tiers);
        if !tiers.is_empty() {
            Node::let_go(&node.0, rank.slot, tiers, &self.nodes);
        }
    }

    /// Takes a rank without names off the roster. The caller has locked its names, and no change is under
    /// way.
    fn retire_if_empty(&self, rank: &Rank, names: &mut Names) {
        if names.len() == 0 && !names.retired {
            names.retired = true;
            self.roster.write().retire(rank);
        }
    }
}

impl Default for ConcurrentRadixTree {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ConcurrentRadixTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentRadixTree")
            .field("occupancy", &self.occupancy())
            .field("max_names_per_rank", &self.max_names_per_rank)
            .field("max_nodes", &self.max_nodes)
            .finish_non_exhaustive()
    }
}

impl Drop for ConcurrentRadixTree {
    fn drop(&mut self) {
        Node::take_apart(&self.root);
    }
}

/// From any thread; events of one rank in order.
impl ApplyEvents for &ConcurrentRadixTree {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(from, *tier, *parent, blocks),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(from, *tier, blocks)),
            KvEvent::Cleared => Ok(self.clear(from)),
        }
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let ranks = self.roster.read().of_worker(worker);
        let mut applied = Applied::default();
        ranks.into_iter().for_each(|rank| applied += self.clear(rank));
        applied
    }
}

/// Exact while no event is under way. Waits for the events that are, one rank at a time.
impl Inspect for ConcurrentRadixTree {
    fn occupancy(&self) -> Occupancy {
        let ranks = self.roster.read().all();
        let mut occupancy = Occupancy::default();
        for rank in ranks {
            let names = rank.names.read();
            occupancy.ranks += usize::from(names.len() > 0);
            occupancy.names += names.len();
            occupancy.side_entries += names.twins.len();
        }
        occupancy.nodes = self.nodes.load(Ordering::Relaxed);
        occupancy
    }
}
