//! A prompt hashed only as far as somebody asks.

use std::num::NonZeroUsize;

use kv_router_types::LocalBlockHash;

use crate::{BlockHasher, Prompt};

/// The local hashes of one prompt, computed in chunks as they are asked for.
///
/// Worth it where a lookup may stop early: a prompt of 2,000 blocks of which the first is nowhere cached costs one
/// chunk. It is bound to one prompt with its options, so a prompt under other options is another `LazyHashes`; the
/// buffers outlive it and are used again.
///
/// ```
/// use kv_router_hash::{BlockHasher, HashScheme, Prompt, Window};
/// use kv_router_types::BlockSize;
///
/// let mut hasher = BlockHasher::new(HashScheme::new(BlockSize::new(16)?, Window::Plain));
/// let tokens = vec![7; 16 * 1_000];
/// let mut buffer = Vec::new();
///
/// let mut hashes = hasher.lazy(Prompt::new(&tokens), &mut buffer);
/// assert_eq!(hashes.prefix(3).len(), 3);
/// assert_eq!(hashes.hashed().len(), 64); // one chunk
/// assert_eq!(hashes.total(), 1_000);
/// # Ok::<(), kv_router_types::BlockSizeError>(())
/// ```
#[derive(Debug)]
pub struct LazyHashes<'a> {
    hasher: &'a mut BlockHasher,
    prompt: Prompt<'a>,
    /// The leading blocks hashed so far: never more than `total`.
    hashed: &'a mut Vec<LocalBlockHash>,
    total: usize,
    chunk: NonZeroUsize,
}

impl<'a> LazyHashes<'a> {
    /// Blocks hashed at a time, unless [`LazyHashes::in_chunks_of`] says otherwise.
    pub const CHUNK: NonZeroUsize = NonZeroUsize::new(64).unwrap();

    pub(crate) fn new(
        hasher: &'a mut BlockHasher,
        prompt: Prompt<'a>,
        hashed: &'a mut Vec<LocalBlockHash>,
    ) -> Self {
        hashed.clear();
        let total = hasher.scheme().blocks_in(prompt.tokens().len());
        Self { hasher, prompt, hashed, total, chunk: Self::CHUNK }
    }

    /// The same, hashing `blocks` blocks at a time.
    #[must_use]
    pub fn in_chunks_of(self, blocks: NonZeroUsize) -> Self {
        Self { chunk: blocks, ..self }
    }

    /// Blocks that the whole prompt has.
    #[inline]
    pub fn total(&self) -> usize {
        self.total
    }

    /// The hashes of the leading blocks that have been computed so far.
    #[inline]
    pub fn hashed(&self) -> &[LocalBlockHash] {
        self.hashed
    }

    /// The hashes of the first `blocks` blocks, or of all when there are fewer. Computes what is missing, rounded up
    /// to whole chunks.
    #[inline]
    pub fn prefix(&mut self, blocks: usize) -> &[LocalBlockHash] {
        let wanted = blocks.min(self.total);
        if wanted > self.hashed.len() {
            self.extend_to(wanted);
        }
        &self.hashed[..wanted]
    }

    /// All hashes.
    pub fn all(&mut self) -> &[LocalBlockHash] {
        self.prefix(self.total)
    }

    fn extend_to(&mut self, wanted: usize) {
        let rounded = wanted.checked_next_multiple_of(self.chunk.get()).unwrap_or(self.total);
        let first = self.hashed.len();
        self.hashed.resize(rounded.min(self.total), LocalBlockHash::default());
        self.hasher.fill(&self.prompt, first, &mut self.hashed[first..]);
    }
}
