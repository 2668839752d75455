//! An array that grows and never moves: what a reader once found stays where it is.

use super::sizes::{MID, TOP};
use crate::sync::OnceLock;

/// The chunks under one entry of the top table.
type Table<T> = Box<[OnceLock<Box<[T]>>]>;

/// Fixed chunks, allocated when first needed and kept until the whole is dropped.
///
/// Two steps lead to a chunk, so that an empty array costs a few KiB and a full one has room for 262,144 chunks.
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
