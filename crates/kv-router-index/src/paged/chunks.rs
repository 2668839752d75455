//! An array that grows and never moves: what a reader once found stays where it is.

use super::sizes::{MID, TOP};
use crate::sync::OnceLock;

/// The chunks under one entry of the top table.
type Table<T> = Box<[OnceLock<Box<[T]>>]>;

/// Fixed chunks, allocated when first needed and kept until the whole is dropped.
///
/// Two steps lead to a chunk, so that an empty array costs some 50 KiB and a full one has room for 1,048,576 chunks.
/// Nobody needs more: see [`limits`].
pub(super) struct Chunks<T> {
    top: Box<[OnceLock<Table<T>>]>,
    chunk_len: usize,
}

impl<T: Default> Chunks<T> {
    pub(super) fn new(chunk_len: usize) -> Self {
        Self { top: (0..TOP).map(|_| OnceLock::new()).collect(), chunk_len }
    }

    /// The chunk, if it was ever needed.
    #[inline]
    pub(super) fn get(&self, chunk: usize) -> Option<&[T]> {
        self.top.get(chunk / MID)?.get()?[chunk % MID].get().map(|items| &**items)
    }

    /// The chunk, allocated if need be.
    pub(super) fn ensure(&self, chunk: usize) -> &[T] {
        let mid = self.top[chunk / MID].get_or_init(|| (0..MID).map(|_| OnceLock::new()).collect());
        mid[chunk % MID].get_or_init(|| (0..self.chunk_len).map(|_| T::default()).collect())
    }

    /// Bytes allocated for chunks.
    pub(super) fn bytes(&self) -> usize {
        let mids = self.top.iter().filter_map(OnceLock::get);
        let chunks: usize = mids.map(|mid| mid.iter().filter(|chunk| chunk.get().is_some()).count()).sum();
        chunks * self.chunk_len * size_of::<T>()
    }
}

/// What keeps each array below its end. A model has arrays of a few chunks and not enough operations to fill one.
#[cfg(not(kv_router_loom))]
mod limits {
    use super::super::config::MAX_NODES;
    use super::super::lines::MAX_SLABS;
    use super::super::sizes::{BRANCH_CHUNK, CHUNK_SLABS, HEADER_CHUNK, MID, SLOT_CHUNK, TIER_CHUNK, TOP};
    use super::super::words::{MAX_SLOTS, MAX_TIER_RECORDS};

    const CHUNKS: usize = TOP * MID;

    // A page has a block. Whoever looks at the limit of blocks does not lock the others out: as many more can be on
    // their way.
    const _: () = assert!(CHUNKS * HEADER_CHUNK >= 2 * MAX_NODES);
    const _: () = assert!(CHUNKS * BRANCH_CHUNK >= 2 * MAX_NODES);
    // These give out no number above it.
    const _: () = assert!(CHUNKS * CHUNK_SLABS >= MAX_SLABS);
    const _: () = assert!(CHUNKS * TIER_CHUNK >= MAX_TIER_RECORDS as usize);
    const _: () = assert!(CHUNKS * SLOT_CHUNK >= MAX_SLOTS);
}
