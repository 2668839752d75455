//! The load of every rank, copied for one decision.

use kv_router_types::{SequenceHash, WorkerRank};

use crate::shard::Shard;
use crate::shared::SHARDS;
use crate::{RankCapacity, WorkerLoad};

/// One rank in a [`LoadSnapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankLoad {
    /// The rank.
    pub worker: WorkerRank,
    /// What it is working on.
    pub load: WorkerLoad,
    /// Leading blocks of the prompt that requests in flight on the rank hold already: booking the prompt there
    /// adds that many blocks less.
    pub shared_blocks: u32,
    /// What the rank can bear.
    pub capacity: RankCapacity,
}

/// Names a set of ranks in their order: equal values mean the same ranks at the same positions.
///
/// What a caller computes for each rank (its taints, its capacity, its place in another table) can therefore be
/// kept by position until the membership changes, instead of being looked up by name in every decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Membership([u64; SHARDS]);

/// The load of every rank at the moment of a decision. A buffer to be used again: it allocates only to grow, and a
/// fill copies only what changed since the one before.
///
/// # Consistency
///
/// The three numbers of a rank, and its shared blocks, belong to one moment. Two ranks may be read at two moments,
/// all within the call that filled the snapshot.
#[derive(Clone, Debug, Default)]
pub struct LoadSnapshot {
    membership: Membership,
    workers: Vec<WorkerRank>,
    loads: Vec<WorkerLoad>,
    capacities: Vec<RankCapacity>,
    /// 0 everywhere but at `sharers`.
    shared_blocks: Vec<u32>,
    sharers: Vec<u32>,
    /// How many changes of each shard the columns include, as long as its membership is the same.
    seen: [u64; SHARDS],
    changed: Vec<u32>,
    /// Positions that the fill in progress has come to.
    filled: usize,
}

impl LoadSnapshot {
    /// An empty snapshot, to be filled by [`LoadTracker::snapshot_into`](crate::LoadTracker::snapshot_into).
    pub fn new() -> Self {
        Self::default()
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Whether there is no rank.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    /// Which ranks there are, as one comparable value.
    pub fn membership(&self) -> Membership {
        self.membership
    }

    /// The ranks by position. The order says nothing.
    pub fn workers(&self) -> &[WorkerRank] {
        &self.workers
    }

    /// The rank at a position below [`len`](Self::len).
    #[inline]
    pub fn get(&self, position: usize) -> Option<RankLoad> {
        Some(RankLoad {
            worker: *self.workers.get(position)?,
            load: *self.loads.get(position)?,
            shared_blocks: *self.shared_blocks.get(position)?,
            capacity: *self.capacities.get(position)?,
        })
    }

    /// All ranks by position.
    pub fn iter(&self) -> impl Iterator<Item = RankLoad> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Positions whose load or capacity differs from what the fill before left in this same buffer; all of them when the
    /// [`membership`](Self::membership) differs. What a caller derives from the load of a rank is good for as long as
    /// its position does not come up here.
    pub fn changed(&self) -> impl Iterator<Item = usize> {
        self.changed.iter().map(|&position| position as usize)
    }

    /// The [`shared_blocks`](RankLoad::shared_blocks) of all ranks by position.
    pub fn shared_blocks(&self) -> &[u32] {
        &self.shared_blocks
    }

    /// Positions whose [`shared_blocks`](RankLoad::shared_blocks) are not 0, each once.
    pub fn sharers(&self) -> impl Iterator<Item = usize> {
        self.sharers.iter().map(|&position| position as usize)
    }

    /// Starts a fill. The columns stay: most of them will do for the next snapshot too.
    pub(crate) fn begin(&mut self) {
        self.changed.clear();
        self.filled = 0;
        for position in self.sharers.drain(..) {
            self.shared_blocks[position as usize] = 0;
        }
    }

    /// Copies one shard. Shards come in order, each once, after [`begin`](Self::begin).
    pub(crate) fn append(&mut self, index: usize, shard: &Shard, prompt: &[SequenceHash]) {
        let start = self.filled;
        let end = start + shard.loads().len();
        self.filled = end;
        // A shard that changed moves those behind it: the columns are cut there and copied again. The cut leaves the
        // later shards without entries, so they must look changed too.
        if self.membership.0[index] == shard.membership() && self.workers.len() >= end {
            for range in shard.changed_since(self.seen[index]) {
                let there = shard.loads()[range.clone()].iter().zip(shard.capacities(range.clone()));
                for (position, (&load, capacity)) in (start + range.start..).zip(there) {
                    // Most neighbours of a rank that changed did not.
                    if self.loads[position] != load || self.capacities[position] != capacity {
                        (self.loads[position], self.capacities[position]) = (load, capacity);
                        self.changed.push(position as u32);
                    }
                }
            }
        } else {
            self.workers.truncate(start);
            self.workers.extend_from_slice(shard.workers());
            self.loads.truncate(start);
            self.loads.extend_from_slice(shard.loads());
            self.capacities.truncate(start);
            self.capacities.extend(shard.capacities(0..shard.loads().len()));
            self.shared_blocks.truncate(start);
            self.shared_blocks.resize(end, 0);
            self.membership.0[index] = shard.membership();
            // Also those before it: the caller's own columns have to be built anew. Those behind it come here too.
            self.changed.clear();
            self.changed.extend(0..end as u32); // fits: `LoadConfig::max_ranks` is a u32
        }
        self.seen[index] = shard.changes();
        shard.for_each_share(prompt, |position, blocks| {
            let position = start + position;
            let entry = &mut self.shared_blocks[position];
            if *entry == 0 && blocks > 0 {
                self.sharers.push(position as u32); // fits: `LoadConfig::max_ranks` is a u32
            }
            *entry = entry.saturating_add(blocks);
        });
    }
}
