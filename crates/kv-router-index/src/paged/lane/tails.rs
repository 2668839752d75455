//! Where a rank's chains ended lately: the engine names such a block as the parent of what comes next.

use crate::paged::names::Place;

const LEN: usize = 64;

/// Guesses for the places of names: 768 bytes that answer for the requests that are running. Whoever asks verifies.
#[derive(Debug)]
pub(super) struct Tails([Tail; LEN]);

/// Where a chain ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    pub(super) place: Place,
    /// The page of the place's record then, or the root if there was none.
    pub(super) page: u32,
    /// The line of memory with its local hash.
    pub(super) line: u32,
}

impl Default for Tails {
    fn default() -> Self {
        Self([Tail::default(); LEN])
    }
}

impl Tails {
    #[inline]
    fn index(name: u64) -> usize {
        (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LEN.ilog2())) as usize
    }

    /// Where a chain ends in the block with that name.
    #[inline]
    pub(super) fn note(&mut self, name: u64, tail: Tail) {
        self.0[Self::index(name)] = tail;
    }

    #[inline]
    pub(super) fn guess(&self, name: u64) -> Tail {
        self.0[Self::index(name)]
    }
}
