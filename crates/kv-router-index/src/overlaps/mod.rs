//! The answer of a lookup: who holds how many leading blocks, and where.

mod sets;

use std::fmt;

use kv_router_types::{Tier, WorkerRank};

use crate::Certainty;
use crate::candidates::Scratch;
use crate::concurrent_radix::Watch;
use crate::{paged, positional};

pub(crate) use sets::{Edition, Sets};

/// How many leading blocks of a request one worker rank holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overlap {
    worker: WorkerRank,
    blocks: u32,
    /// Blocks credited at each tier below the device, which has the rest. As it is, it takes half a cache line.
    lower: [u32; Tier::COUNT - 1],
}

const _: () = assert!(size_of::<Overlap>() == 32 && Tier::Device.index() == 0);

impl Overlap {
    /// An overlap from its blocks by best tier, in the order of [`Tier::ALL`].
    pub fn new(worker: WorkerRank, by_tier: [u32; Tier::COUNT]) -> Self {
        let [_, lower @ ..] = by_tier;
        Self { worker, blocks: by_tier.iter().sum(), lower }
    }

    /// An overlap of `blocks` blocks, all in device memory.
    pub fn on_device(worker: WorkerRank, blocks: u32) -> Self {
        Self { worker, blocks, lower: [0; Tier::COUNT - 1] }
    }

    /// The rank.
    #[inline]
    pub fn worker(self) -> WorkerRank {
        self.worker
    }

    /// Reach: the longest prefix, in blocks, of which every block is in at least one tier.
    #[inline]
    pub fn blocks(self) -> u32 {
        self.blocks
    }

    /// Blocks of the reach whose best copy is in `tier`; the four sum to [`blocks`](Self::blocks).
    #[inline]
    pub fn credited_at(self, tier: Tier) -> u32 {
        self.by_tier()[tier.index()]
    }

    /// Blocks by best tier, in the order of [`Tier::ALL`].
    #[inline]
    pub fn by_tier(self) -> [u32; Tier::COUNT] {
        let [a, b, c] = self.lower;
        [self.blocks - (a + b + c), a, b, c]
    }
}

/// Every worker rank that holds a prefix of one request. Opaque and reusable.
///
/// Filled by [`PrefixIndex::find_into`](crate::PrefixIndex::find_into); keep one a thread and pass it again.
pub struct Overlaps {
    /// Shallowest first, so that an index can push a rank when it drops out.
    entries: Vec<Overlap>,
    /// What an index answers in sets instead: then there are no entries.
    pub(crate) sets: Sets,
    use_counts: Vec<u32>,
    query_blocks: usize,
    certainty: Certainty,
    lower_bound: bool,
    /// Buffers that an index of this crate needs during a lookup, kept so that it allocates nothing.
    pub(crate) scratch: Scratch,
    /// More of them, for an index that is written to during the lookup.
    pub(crate) watch: Watch,
    /// The same for lookups that jump.
    pub(crate) jumps: positional::Buffers,
    /// The same for lookups in pages.
    pub(crate) paged: Option<Box<paged::Scratch>>,
}

impl Overlaps {
    /// An empty result.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            sets: Sets::default(),
            use_counts: Vec::new(),
            query_blocks: 0,
            certainty: Certainty::Exact,
            lower_bound: false,
            scratch: Scratch::default(),
            jumps: positional::Buffers::default(),
            watch: Watch::default(),
            paged: None,
        }
    }

    /// What `worker` holds; `None` when it does not hold the first block. Costs a scan: to visit many
    /// workers, use [`iter`](Self::iter).
    pub fn get(&self, worker: WorkerRank) -> Option<Overlap> {
        self.iter().find(|overlap| overlap.worker == worker)
    }

    /// Leading blocks that `worker` holds, 0 when none.
    pub fn blocks(&self, worker: WorkerRank) -> u32 {
        self.get(worker).map_or(0, Overlap::blocks)
    }

    /// Deepest first; the order inside one depth is not specified.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Overlap> {
        self.sets.iter().chain(self.entries.iter().rev().copied())
    }

    /// A deepest overlap.
    pub fn best(&self) -> Option<Overlap> {
        self.iter().next()
    }

    /// How many ranks hold at least the first block.
    pub fn len(&self) -> usize {
        self.entries.len() + self.sets.len()
    }

    /// Whether no rank holds the first block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks that were asked for.
    pub fn query_blocks(&self) -> usize {
        self.query_blocks
    }

    /// What the index that answered promises.
    pub fn certainty(&self) -> Certainty {
        self.certainty
    }

    /// Whether the lookup stopped early, so that the one deepest score may be too low. It is still above all
    /// others, and those are as promised.
    pub fn is_lower_bound(&self) -> bool {
        self.lower_bound
    }

    /// Recent uses of each matched block, from the root, this lookup included. Empty unless the lookup asked
    /// for it ([`FindOptions::use_at`](crate::FindOptions::use_at)) and the index tracks uses.
    pub fn use_counts(&self) -> &[u32] {
        &self.use_counts
    }
}

/// For implementers of [`PrefixIndex`](crate::PrefixIndex).
impl Overlaps {
    /// Starts a new answer to a query of `query_blocks` blocks.
    pub fn begin(&mut self, query_blocks: usize, certainty: Certainty) {
        self.entries.clear();
        self.sets.clear();
        self.use_counts.clear();
        self.query_blocks = query_blocks;
        self.certainty = certainty;
        self.lower_bound = false;
    }

    /// Adds a rank. Each rank once, each with at least one block, shallowest first.
    #[inline]
    pub fn push(&mut self, overlap: Overlap) {
        debug_assert!(overlap.blocks > 0, "a rank without overlap is not reported");
        debug_assert!(
            self.entries.last().is_none_or(|last| last.blocks <= overlap.blocks),
            "shallowest first"
        );
        self.entries.push(overlap);
    }

    /// Says that the deepest score may be too low.
    pub fn mark_lower_bound(&mut self) {
        self.lower_bound = true;
    }

    /// Adds the recent uses of the next matched block.
    pub fn push_use_count(&mut self, uses: u32) {
        self.use_counts.push(uses);
    }
}

impl Default for Overlaps {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Overlaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlaps")
            .field("query_blocks", &self.query_blocks)
            .field("certainty", &self.certainty)
            .field("lower_bound", &self.lower_bound)
            .field("deepest_first", &self.iter().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use kv_router_types::WorkerId;

    use super::*;

    fn rank(worker: u64) -> WorkerRank {
        WorkerId::new(worker).into()
    }

    #[test]
    fn deepest_first_and_reusable() {
        let mut out = Overlaps::new();
        out.begin(9, Certainty::Exact);
        out.push(Overlap::on_device(rank(1), 2));
        out.push(Overlap::new(rank(2), [1, 3, 0, 0]));
        out.push_use_count(5);
        out.mark_lower_bound();
        assert_eq!(out.iter().map(Overlap::blocks).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(out.best().map(Overlap::worker), Some(rank(2)));
        assert_eq!(out.get(rank(2)).map(|overlap| overlap.credited_at(Tier::Host)), Some(3));
        assert_eq!((out.blocks(rank(1)), out.blocks(rank(3))), (2, 0));
        assert_eq!((out.len(), out.query_blocks(), out.use_counts()), (2, 9, &[5][..]));

        out.begin(0, Certainty::Guess);
        assert!(out.is_empty() && !out.is_lower_bound() && out.use_counts().is_empty());
        assert_eq!((out.certainty(), out.best()), (Certainty::Guess, None));
    }
}
