//! What can be set.

/// Limits of a [`ConcurrentRadixTree`](crate::ConcurrentRadixTree).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConcurrentRadixConfig {
    /// Names that one rank may hold; a store that would exceed it is refused whole with
    /// [`RankFull`](crate::ApplyError::RankFull). Default: unlimited.
    ///
    /// Set it to the blocks that the engine's memory has, over all tiers, plus slack: a rank above that has
    /// lost removals.
    pub max_names_per_rank: usize,
    /// Nodes that the tree may have; a store that would exceed it is refused whole with
    /// [`IndexFull`](crate::ApplyError::IndexFull). Default: unlimited.
    ///
    /// Each store is checked before it starts, so stores that run at the same time can exceed the limit by
    /// the blocks that they add together. A node costs about 110 bytes, and each of its holders about 25 to
    /// 50 in the rank's table.
    pub max_nodes: usize,
}

impl Default for ConcurrentRadixConfig {
    fn default() -> Self {
        Self { max_names_per_rank: usize::MAX, max_nodes: usize::MAX }
    }
}
