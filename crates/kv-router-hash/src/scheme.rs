//! How an engine cuts a prompt into blocks.

use std::num::NonZeroUsize;
use std::thread::Builder;

use kv_router_types::{BlockSize, LocalBlockHash};

use crate::{BlockHasher, Prompt, parallel};

/// Which tokens the hash of a block covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Window {
    /// The tokens of the block.
    #[default]
    Plain,
    /// The tokens of the block and the first one after it: the draft model of an EAGLE engine reads token pairs, so
    /// what it caches for a block depends on the next token too. The last block of a prompt has no next token and
    /// is dropped.
    Eagle,
}

/// How an engine cuts a prompt into blocks: its block size and the window it hashes.
///
/// Both sides of a router, requests and engine events, must use the scheme of the engine: under another one the
/// same tokens have other hashes, and nothing ever matches.
///
/// ```
/// use kv_router_hash::{HashScheme, Prompt, Window};
/// use kv_router_types::BlockSize;
///
/// let scheme = HashScheme::new(BlockSize::new(4)?, Window::Plain);
/// let tokens: Vec<u32> = (1..=12).collect();
/// let locals = scheme.hash(&Prompt::new(&tokens));
/// assert_eq!(locals.len(), 3);
/// assert_eq!(locals[0].get(), 14_643_705_804_678_351_452);
/// # Ok::<(), kv_router_types::BlockSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashScheme {
    block_size: BlockSize,
    window: Window,
}

impl HashScheme {
    /// The fewest tokens worth a thread of their own in [`HashScheme::hash_parallel_into`]. Measured on two cores:
    /// two threads draw level at half a million tokens of text, and save a third of the time at two million.
    pub const TOKENS_PER_THREAD: usize = 262_144;

    /// A scheme with the block size and the window that the engine was started with.
    #[inline]
    pub const fn new(block_size: BlockSize, window: Window) -> Self {
        Self { block_size, window }
    }

    /// Tokens from the start of one block to the start of the next.
    #[inline]
    pub const fn block_size(self) -> BlockSize {
        self.block_size
    }

    /// Which tokens the hash of a block covers.
    #[inline]
    pub const fn window(self) -> Window {
        self.window
    }

    /// Tokens that the hash of one block covers.
    #[inline]
    pub const fn window_tokens(self) -> usize {
        match self.window {
            Window::Plain => self.block_size.as_usize(),
            Window::Eagle => self.block_size.as_usize() + 1,
        }
    }

    /// Blocks that a prompt of `tokens` tokens has hashes for. The trailing partial window is dropped.
    #[inline]
    pub const fn blocks_in(self, tokens: usize) -> usize {
        match self.window {
            Window::Plain => self.block_size.blocks_in(tokens),
            Window::Eagle => self.block_size.blocks_in(tokens.saturating_sub(1)),
        }
    }

    /// The local hashes of a prompt, in a new vector. See [`HashScheme::hash_into`].
    pub fn hash(self, prompt: &Prompt<'_>) -> Vec<LocalBlockHash> {
        let mut out = Vec::new();
        self.hash_into(prompt, &mut out);
        out
    }

    /// Replaces `out` by the local hashes of a prompt, one a block.
    ///
    /// Cost: linear in the tokens; at most one buffer of the size of a block is allocated per call. A
    /// [`BlockHasher`] keeps even that one between calls.
    pub fn hash_into(self, prompt: &Prompt<'_>, out: &mut Vec<LocalBlockHash>) {
        BlockHasher::new(self).hash_into(prompt, out);
    }

    /// [`HashScheme::hash_into`] on up to `threads` threads, the caller's among them.
    ///
    /// Starting a thread and moving its share of the tokens into its cache costs what hashing a quarter of a million
    /// tokens costs, so a prompt gets one thread per [`TOKENS_PER_THREAD`](HashScheme::TOKENS_PER_THREAD) tokens at
    /// most, and one shorter than two of those is hashed by the caller alone. Where the system refuses a thread the
    /// caller does its share: the result is the same.
    pub fn hash_parallel_into(
        self,
        prompt: &Prompt<'_>,
        threads: NonZeroUsize,
        out: &mut Vec<LocalBlockHash>,
    ) {
        let worth_it = prompt.tokens().len() / Self::TOKENS_PER_THREAD;
        parallel::hash_into(self, prompt, threads.get().min(worth_it), Builder::new, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn blocks(window: Window, tokens: [usize; 6], expected: [usize; 6]) {
        let scheme = HashScheme::new(BlockSize::new(4).unwrap(), window);
        assert_eq!(tokens.map(|count| scheme.blocks_in(count)), expected);
    }

    #[test]
    fn the_partial_window_at_the_end_is_no_block() {
        blocks(Window::Plain, [0, 3, 4, 7, 8, 9], [0, 0, 1, 1, 2, 2]);
        blocks(Window::Eagle, [0, 4, 5, 8, 9, 12], [0, 0, 1, 1, 2, 2]);
    }
}
