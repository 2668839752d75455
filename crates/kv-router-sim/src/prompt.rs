//! What a prompt says, without any text: 512-token pieces named by ids, as the public traces publish them.
//!
//! Equal ids at equal positions are equal prefixes. Everything else follows from `(id, index)` alone: local
//! block hashes at any engine block size, and tokens when a router wants to hash for itself.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use kv_router_types::{BlockSize, LocalBlockHash};

use crate::random::mix2;

/// Tokens that one id of a trace stands for.
pub const PIECE_TOKENS: u32 = 512;

/// Separate the families of derived words, so that a token never equals the hash of a block by construction.
const BLOCK_DOMAIN: u64 = 0x626c_6f63_6b00_0001;
const TOKEN_DOMAIN: u64 = 0x746f_6b65_6e00_0001;

/// Tokens of a derived prompt stay below this, the size of a common vocabulary.
const VOCABULARY: u64 = 128_000;

/// An engine block size into which the pieces of a trace divide: a power of two from 16 to 512 tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceBlockSize(BlockSize);

impl TraceBlockSize {
    /// The smallest block size accepted, in tokens. Smaller ones multiply events without telling more.
    pub const MIN: u32 = 16;

    /// Checks a block size that came from outside.
    ///
    /// # Errors
    ///
    /// [`TraceBlockSizeError`] unless `tokens` is a power of two from 16 to 512.
    pub const fn new(tokens: u32) -> Result<Self, TraceBlockSizeError> {
        if !tokens.is_power_of_two() || tokens < Self::MIN || tokens > PIECE_TOKENS {
            return Err(TraceBlockSizeError { tokens });
        }
        match BlockSize::new(tokens) {
            Ok(size) => Ok(Self(size)),
            Err(_) => Err(TraceBlockSizeError { tokens }),
        }
    }

    /// The block size.
    #[inline]
    pub const fn get(self) -> BlockSize {
        self.0
    }

    /// Blocks in one whole piece.
    #[inline]
    pub const fn blocks_per_piece(self) -> u32 {
        PIECE_TOKENS / self.0.get()
    }
}

/// A block size that does not divide the pieces of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceBlockSizeError {
    /// The refused value, in tokens.
    pub tokens: u32,
}

impl fmt::Display for TraceBlockSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens } = self;
        write!(f, "block size {tokens} does not divide a {PIECE_TOKENS}-token piece of the trace: ")?;
        f.write_str("use 16, 32, 64, 128, 256 or 512")
    }
}

impl Error for TraceBlockSizeError {}

/// The content of one prompt. Cloning it shares the ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Exactly `tokens.div_ceil(PIECE_TOKENS)` of them.
    ids: Arc<[u64]>,
    /// Above 0.
    tokens: u32,
}

impl Prompt {
    /// A prompt of `tokens` tokens; the last id may cover fewer than 512 of them.
    ///
    /// # Errors
    ///
    /// [`PromptError`] when there are no tokens, or when the ids do not cover them exactly.
    pub fn new(ids: Vec<u64>, tokens: u32) -> Result<Self, PromptError> {
        if tokens == 0 {
            return Err(PromptError::Empty);
        }
        let needed = tokens.div_ceil(PIECE_TOKENS) as usize;
        if ids.len() != needed {
            return Err(PromptError::Coverage { needed, found: ids.len() });
        }
        Ok(Self { ids: ids.into(), tokens })
    }

    /// Length in tokens, above 0.
    #[inline]
    pub fn token_count(&self) -> u32 {
        self.tokens
    }

    /// The ids of the pieces.
    #[inline]
    pub fn piece_ids(&self) -> &[u64] {
        &self.ids
    }

    /// Whole blocks; the trailing partial block is none.
    #[inline]
    pub fn block_count(&self, size: TraceBlockSize) -> u32 {
        self.tokens / size.get().get()
    }

    /// One local hash a whole block, derived from `(id, index inside the piece)`. Costs one bit mix a block.
    pub fn local_hashes(&self, size: TraceBlockSize) -> Vec<LocalBlockHash> {
        let per_piece = size.blocks_per_piece();
        let domain = BLOCK_DOMAIN ^ (u64::from(per_piece) << 8);
        let pieces = self.ids.iter().flat_map(|&id| {
            let piece = mix2(domain, id);
            (0..per_piece).map(move |index| LocalBlockHash::new(mix2(piece, u64::from(index))))
        });
        pieces.take(self.block_count(size) as usize).collect()
    }

    /// The tokens, derived from `(id, index inside the piece)`: the same at every block size, and equal where
    /// prompts share a prefix. Costs one bit mix a token.
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        let pieces = self.ids.iter().flat_map(|&id| {
            let piece = mix2(TOKEN_DOMAIN, id);
            (0..u64::from(PIECE_TOKENS)).map(move |index| (mix2(piece, index) % VOCABULARY) as u32)
        });
        pieces.take(self.tokens as usize)
    }
}

/// Ids and a length that are no prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PromptError {
    /// No tokens at all.
    Empty,
    /// Too few or too many ids.
    Coverage {
        /// Ids that the length calls for.
        needed: usize,
        /// Ids given.
        found: usize,
    },
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a prompt of 0 tokens has nothing to compute: drop the request"),
            Self::Coverage { needed, found } => write!(
                f,
                "{found} ids for a prompt that needs {needed}: give one id for every {PIECE_TOKENS} tokens begun"
            ),
        }
    }
}

impl Error for PromptError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(tokens: u32) -> TraceBlockSize {
        TraceBlockSize::new(tokens).unwrap()
    }

    #[test]
    fn only_sizes_that_divide_a_piece() {
        for tokens in [16, 32, 64, 128, 256, 512] {
            assert_eq!(size(tokens).get().get() * size(tokens).blocks_per_piece(), 512);
        }
        for tokens in [0, 1, 8, 15, 17, 24, 48, 511, 1024, u32::MAX] {
            assert_eq!(TraceBlockSize::new(tokens), Err(TraceBlockSizeError { tokens }));
        }
        assert!(TraceBlockSizeError { tokens: 24 }.to_string().contains("use 16, 32"));
    }

    #[test]
    fn ids_must_cover_the_length() {
        assert_eq!(Prompt::new(vec![], 0), Err(PromptError::Empty));
        assert_eq!(Prompt::new(vec![1], 513), Err(PromptError::Coverage { needed: 2, found: 1 }));
        assert_eq!(Prompt::new(vec![1, 2], 512), Err(PromptError::Coverage { needed: 1, found: 2 }));
        assert!(Prompt::new(vec![1, 2], 513).is_ok());
    }

    #[test]
    fn the_partial_tail_is_dropped_from_blocks_and_kept_in_tokens() {
        let prompt = Prompt::new(vec![5, 6], 512 + 47).unwrap();
        assert_eq!(prompt.local_hashes(size(16)).len(), 34); // 559 / 16
        assert_eq!(prompt.local_hashes(size(512)).len(), 1);
        assert_eq!(prompt.tokens().count(), 559);
    }

    #[test]
    fn a_shared_prefix_is_shared_at_every_size_and_nothing_else_is() {
        let long = Prompt::new(vec![1, 2, 3], 1_300).unwrap();
        let short = Prompt::new(vec![1, 2], 700).unwrap();
        let other = Prompt::new(vec![9, 2], 700).unwrap();
        for tokens in [16, 64, 512] {
            let [long, short, other] = [&long, &short, &other].map(|p| p.local_hashes(size(tokens)));
            assert_eq!(long[..short.len()], short[..]);
            assert_ne!(short[0], other[0]);
            assert_eq!(
                short[short.len().min(512 / tokens as usize)..],
                other[short.len().min(512 / tokens as usize)..]
            );
            let mut distinct = long.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), long.len());
        }
        assert!(short.tokens().eq(long.tokens().take(700)));
        assert!(long.tokens().all(|token| token < 128_000));
    }
}
