//! The rolling hash over local hashes: names for whole prefixes.

use kv_router_types::{LocalBlockHash, SequenceHash};

use crate::xxh::xxh3;

/// The hash of the prefix that ends with a block, from the hash of the prefix before it (`None` at the root).
///
/// The hash of a one-block prefix is the block's local hash itself.
///
/// ```
/// use kv_router_hash::next_sequence_hash;
/// use kv_router_types::LocalBlockHash;
///
/// let first = next_sequence_hash(None, LocalBlockHash::new(14_643_705_804_678_351_452));
/// let second = next_sequence_hash(Some(first), LocalBlockHash::new(16_777_012_769_546_811_212));
/// assert_eq!(first.get(), 14_643_705_804_678_351_452);
/// assert_eq!(second.get(), 4_945_711_292_740_353_085);
/// ```
#[inline]
pub fn next_sequence_hash(parent: Option<SequenceHash>, local: LocalBlockHash) -> SequenceHash {
    let Some(parent) = parent else { return SequenceHash::new(local.get()) };
    let both = [parent.get().to_le_bytes(), local.get().to_le_bytes()];
    SequenceHash::new(xxh3(both.as_flattened()))
}

/// Replaces `out` by the sequence hashes of a prompt, one a block, from its local hashes.
///
/// Cost: one dependent XXH3 of 16 bytes a block.
pub fn sequence_hashes_into(locals: &[LocalBlockHash], out: &mut Vec<SequenceHash>) {
    out.clear();
    let mut hasher = SequenceHasher::new();
    out.extend(locals.iter().map(|&local| hasher.push(local)));
}

/// The rolling hash as a machine: feed it local hashes, from the root or from a prefix hashed earlier.
///
/// ```
/// use kv_router_hash::SequenceHasher;
/// use kv_router_types::LocalBlockHash;
///
/// let locals = [1, 2, 3].map(LocalBlockHash::new);
/// let mut whole = SequenceHasher::new();
/// let hashes = locals.map(|local| whole.push(local));
///
/// let mut continued = SequenceHasher::after(hashes[1]);
/// assert_eq!(continued.push(locals[2]), hashes[2]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceHasher {
    last: Option<SequenceHash>,
}

impl SequenceHasher {
    /// Starts at the root.
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// Continues after a prefix.
    pub const fn after(prefix: SequenceHash) -> Self {
        Self { last: Some(prefix) }
    }

    /// Adds a block; returns the hash of the prefix that now ends with it.
    #[inline]
    pub fn push(&mut self, local: LocalBlockHash) -> SequenceHash {
        let next = next_sequence_hash(self.last, local);
        self.last = Some(next);
        next
    }

    /// The hash of the prefix so far; `None` at the root.
    #[inline]
    pub const fn last(&self) -> Option<SequenceHash> {
        self.last
    }
}
