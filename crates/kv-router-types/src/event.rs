//! What an engine says about its cache.

use crate::{ExternalSequenceHash, LocalBlockHash, Tier};

/// One block of a store event: the engine's name for it and our hash of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredBlock {
    /// The engine's name.
    pub external: ExternalSequenceHash,
    /// Hash of the content.
    pub local: LocalBlockHash,
}

impl StoredBlock {
    /// A block under a name.
    #[inline]
    pub const fn new(external: ExternalSequenceHash, local: LocalBlockHash) -> Self {
        Self { external, local }
    }
}

/// One change of one worker rank's cache. The events of a rank apply in the order sent.
///
/// Not `#[non_exhaustive]` on purpose: code that forgets a kind of event must not compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KvEvent {
    /// Blocks were stored in a tier, each under the one before it.
    Stored {
        /// The tier that now has a copy.
        tier: Tier,
        /// The block that `blocks[0]` continues; `None` at the root.
        parent: Option<ExternalSequenceHash>,
        /// A chain: block `i + 1` continues block `i`.
        blocks: Vec<StoredBlock>,
    },
    /// Copies left a tier. Each name stands alone.
    Removed {
        /// The tier that no longer has a copy.
        tier: Tier,
        /// The engine's names, in any order.
        blocks: Vec<ExternalSequenceHash>,
    },
    /// The rank forgot everything, in every tier.
    Cleared,
}

impl KvEvent {
    /// Blocks that the event names.
    pub fn block_count(&self) -> usize {
        match self {
            Self::Stored { blocks, .. } => blocks.len(),
            Self::Removed { blocks, .. } => blocks.len(),
            Self::Cleared => 0,
        }
    }
}
