//! What can be set.

use std::error::Error;
use std::fmt;

/// Options and limits of a [`PositionalIndexer`](super::PositionalIndexer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PositionalConfig {
    /// Blocks that a lookup jumps over at most before it looks again. Default: 64.
    ///
    /// More means fewer probes of deep matches and more to search where a rank drops out. 1 visits every
    /// block; 0 is refused. No answer depends on it.
    pub jump: u32,
    /// Names that one rank may hold; a store that would exceed it is refused whole with
    /// [`RankFull`](crate::ApplyError::RankFull). Default: unlimited.
    pub max_names_per_rank: usize,
    /// Prefixes that the index may hold; a store that would exceed it is refused whole with
    /// [`IndexFull`](crate::ApplyError::IndexFull). Default: unlimited.
    ///
    /// Stores of several ranks that run at the same time are checked each alone, so together they may pass
    /// the limit by what they add.
    pub max_nodes: usize,
}

impl Default for PositionalConfig {
    fn default() -> Self {
        Self { jump: 64, max_names_per_rank: usize::MAX, max_nodes: usize::MAX }
    }
}

/// Why a [`PositionalConfig`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PositionalConfigError {
    /// [`PositionalConfig::jump`] is 0.
    ZeroJump,
}

impl fmt::Display for PositionalConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroJump => f.write_str("a jump of 0 blocks gets nowhere: use 1 to visit every block"),
        }
    }
}

impl Error for PositionalConfigError {}
