//! The load of every rank, copied for one decision.

use kv_router_types::{SequenceHash, WorkerRank};

use crate::WorkerLoad;
use crate::shard::Shard;
use crate::tracker::SHARDS;

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
}

/// Names a set of ranks in their order: equal values mean the same ranks at the same positions.
///
/// What a caller computes for each rank (its taints, its capacity, its place in another table) can therefore be
/// kept by position until the membership changes, instead of being looked up by name in every decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Membership([u64; SHARDS]);

/// The load of every rank at the moment of a decision. A buffer to be used again: it allocates only to grow.
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
    shared_blocks: Vec<u32>,
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
    pub fn get(&self, position: usize) -> Option<RankLoad> {
        Some(RankLoad {
            worker: *self.workers.get(position)?,
            load: *self.loads.get(position)?,
            shared_blocks: *self.shared_blocks.get(position)?,
        })
    }

    /// All ranks by position.
    pub fn iter(&self) -> impl Iterator<Item = RankLoad> {
        let numbers = self.loads.iter().zip(&self.shared_blocks);
        self.workers.iter().zip(numbers).map(|(&worker, (&load, &shared_blocks))| RankLoad {
            worker,
            load,
            shared_blocks,
        })
    }

    /// Forgets the numbers. The names stay: most snapshots find the ranks of the one before.
    pub(crate) fn begin(&mut self) {
        self.loads.clear();
        self.shared_blocks.clear();
    }

    /// Copies one shard. Shards come in order, each once, after [`begin`](Self::begin).
    pub(crate) fn append(&mut self, index: usize, shard: &Shard, prompt: &[SequenceHash]) {
        let start = self.loads.len();
        self.loads.extend_from_slice(shard.loads());
        self.shared_blocks.resize(self.loads.len(), 0);
        shard.add_shared_blocks(prompt, &mut self.shared_blocks[start..]);
        // A shard that changed moves those behind it: names are cut there and copied again. The cut leaves the
        // later shards without names, so they must look changed too.
        if self.membership.0[index] != shard.membership() || self.workers.len() < self.loads.len() {
            self.workers.truncate(start);
            self.workers.extend_from_slice(shard.workers());
            self.membership.0[index] = shard.membership();
        }
    }
}
