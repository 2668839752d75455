//! What can be set.

use std::time::Duration;

/// Limits and options of a [`RadixTree`](crate::RadixTree).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RadixConfig {
    /// Track how often each block is matched within this window, for lookups that ask with
    /// [`FindOptions::use_at`](crate::FindOptions::use_at). Default: `None`, nothing is tracked.
    ///
    /// Uses are counted in eight steps of the window each: a use counts for at least seven eighths of the
    /// window and at most all of it. A block that was ever used costs about 60 bytes until it is freed, and
    /// lookups that count take one lock each, after their walk. A window below 8 ns is taken as 8 ns, and a
    /// time before the latest that was given as that one.
    pub use_window: Option<Duration>,
    /// Names that one rank may hold; a store that would exceed it is refused whole with
    /// [`RankFull`](crate::ApplyError::RankFull). Default: unlimited.
    ///
    /// Set it to the blocks that the engine's memory has, over all tiers, plus slack: a rank above that has
    /// lost removals.
    pub max_names_per_rank: usize,
    /// Nodes that the tree may have; a store that would exceed it is refused whole with
    /// [`IndexFull`](crate::ApplyError::IndexFull). Default, and at most: [`RadixConfig::MAX_NODES`].
    ///
    /// A node costs 64 bytes, and each of its holders about 20 to 35 in the rank's table.
    pub max_nodes: usize,
}

impl RadixConfig {
    /// The most nodes that 32-bit node ids can tell apart, beside the root.
    pub const MAX_NODES: usize = u32::MAX as usize - 1;
}

impl Default for RadixConfig {
    fn default() -> Self {
        Self { use_window: None, max_names_per_rank: usize::MAX, max_nodes: Self::MAX_NODES }
    }
}
