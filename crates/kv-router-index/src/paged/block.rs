//! What a page keeps of a block, however the rank calls it.

use kv_router_types::{LocalBlockHash, StoredBlock};

/// A block of a store.
pub(super) trait Block {
    /// Its local hash.
    fn local(&self) -> u64;
}

impl Block for StoredBlock {
    #[inline(always)]
    fn local(&self) -> u64 {
        self.local.get()
    }
}

impl Block for LocalBlockHash {
    #[inline(always)]
    fn local(&self) -> u64 {
        self.get()
    }
}
