//! Blocks by number: what a relay beside the engine sends instead of names.

use std::error::Error;
use std::fmt;

use kv_router_types::{LocalBlockHash, Tier};

/// A number that stands for an engine's name of a block, within one rank.
///
/// Whoever gives numbers out keeps them small and uses them again: the router keeps an array by number.
/// [`BlockIds`](super::BlockIds) does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

impl BlockId {
    /// The block with that number.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Blocks whose numbers follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRun {
    first: BlockId,
    len: u32,
}

impl BlockRun {
    /// `len` blocks from `first` on.
    pub const fn new(first: BlockId, len: u32) -> Self {
        Self { first, len }
    }

    /// The first block, if there is any.
    pub const fn first(self) -> BlockId {
        self.first
    }

    /// How many.
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// One more than the last number.
    pub const fn end(self) -> u64 {
        self.first.0 as u64 + self.len as u64
    }

    /// The numbers.
    pub fn ids(self) -> impl Iterator<Item = BlockId> {
        // The last is not representable as an exclusive end.
        (u64::from(self.first.0)..self.end()).map_while(|id| u32::try_from(id).ok().map(BlockId))
    }

    /// Whether a block is among them.
    pub const fn contains(self, id: BlockId) -> bool {
        self.first.0 <= id.0 && (id.0 as u64) < self.end()
    }
}

/// What a rank did, in numbers: a [`KvEvent`](kv_router_types::KvEvent) without names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdEvent {
    /// Blocks were stored, one behind the other.
    Stored {
        /// Where the copies are.
        tier: Tier,
        /// The block that the first one continues; `None` at the start of a prompt.
        parent: Option<BlockId>,
        /// Their numbers in order, a run after the other.
        runs: Vec<BlockRun>,
        /// Their content, as many as the runs have numbers.
        locals: Vec<LocalBlockHash>,
    },
    /// Copies are gone.
    Removed {
        /// Where they were.
        tier: Tier,
        /// Their numbers.
        runs: Vec<BlockRun>,
    },
    /// Everything of the rank is gone, and every number is free again.
    Cleared,
}

impl IdEvent {
    /// Runs of numbers in the event.
    pub fn run_count(&self) -> usize {
        match self {
            Self::Stored { runs, .. } | Self::Removed { runs, .. } => runs.len(),
            Self::Cleared => 0,
        }
    }
}

/// Why a store by number was refused. The index is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdError {
    /// The runs have another number of blocks than there are local hashes.
    Length {
        /// Blocks in `runs`.
        ids: u64,
        /// Hashes in `locals`.
        locals: usize,
    },
    /// A number is not below [`max_ids_per_rank`](super::PagedConfig::max_ids_per_rank).
    OutOfRange {
        /// The first such number.
        id: BlockId,
        /// The limit.
        limit: usize,
    },
    /// A block stands twice in the store, or is its own parent.
    Repeated {
        /// The first that equals the parent or a block before it.
        id: BlockId,
    },
    /// The rank does not hold the parent, in any tier.
    UnknownParent {
        /// The parent that the store named.
        parent: BlockId,
    },
    /// The store would take the rank above [`max_names_per_rank`](super::PagedConfig::max_names_per_rank).
    RankFull {
        /// The limit, in blocks.
        limit: usize,
    },
    /// The store would take the index above one of its limits.
    IndexFull {
        /// The limit, in nodes, in ranks, or in one of the other things that
        /// [`max_nodes`](super::PagedConfig::max_nodes) names.
        limit: usize,
    },
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { ids, locals } => {
                write!(f, "runs have {ids} blocks and locals {locals}: send one local hash a block")
            }
            Self::OutOfRange { id, limit } => {
                write!(
                    f,
                    "runs name {id}, numbers end at {limit}: use free ones again, or raise max_ids_per_rank"
                )
            }
            Self::Repeated { id } => {
                write!(f, "runs name {id} twice, or it is its own parent: number it anew")
            }
            Self::UnknownParent { parent } => {
                write!(
                    f,
                    "parent {parent} is not held by this rank: an event was lost, clear the rank and resync"
                )
            }
            Self::RankFull { limit } => {
                write!(
                    f,
                    "the rank would hold over {limit} blocks: removals are lost, or the limit is too low"
                )
            }
            Self::IndexFull { limit } => {
                write!(
                    f,
                    "the index would pass its limit of {limit}: removals are lost, or the limit is too low"
                )
            }
        }
    }
}

impl Error for IdError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_it_says_also_at_the_end_of_all_numbers() {
        let run = BlockRun::new(BlockId::new(u32::MAX - 1), u32::MAX);
        assert_eq!(run.end(), u64::from(u32::MAX) * 2 - 1);
        assert!(run.contains(BlockId::new(u32::MAX)) && !run.contains(BlockId::new(7)));
        assert!(BlockRun::new(BlockId::new(3), 0).is_empty() && !run.is_empty());
        assert!(!BlockRun::new(BlockId::new(3), 0).contains(BlockId::new(3)));
    }
}
