//! Tokens per KV block, validated once at the edge.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;

/// Tokens per KV block: 1 to 65,536.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize(NonZeroU32);

impl BlockSize {
    /// The largest block size accepted. A larger value is a corrupted registration, not an engine.
    pub const MAX: u32 = 65_536;

    /// Checks a block size that came from outside.
    ///
    /// # Errors
    ///
    /// [`BlockSizeError`] when `tokens` is 0 or above [`BlockSize::MAX`].
    pub const fn new(tokens: u32) -> Result<Self, BlockSizeError> {
        match NonZeroU32::new(tokens) {
            Some(size) if tokens <= Self::MAX => Ok(Self(size)),
            _ => Err(BlockSizeError { tokens }),
        }
    }

    /// Tokens per block.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Tokens per block as an index type.
    #[inline]
    pub const fn as_usize(self) -> usize {
        self.0.get() as usize
    }

    /// Whole blocks in a prompt of `tokens` tokens; the trailing partial block is dropped.
    #[inline]
    pub const fn blocks_in(self, tokens: usize) -> usize {
        tokens / self.as_usize()
    }
}

impl fmt::Debug for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockSize({})", self.0)
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for BlockSize {
    type Error = BlockSizeError;

    fn try_from(tokens: u32) -> Result<Self, Self::Error> {
        Self::new(tokens)
    }
}

/// A block size outside 1..=65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizeError {
    /// The refused value, in tokens.
    pub tokens: u32,
}

impl fmt::Display for BlockSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "block size {} is outside 1..={} tokens: use the size the engine was started with",
            self.tokens,
            BlockSize::MAX
        )
    }
}

impl Error for BlockSizeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(tokens: u32) {
        assert_eq!(BlockSize::new(tokens), Err(BlockSizeError { tokens }));
    }

    #[test]
    fn bounds() {
        refused(0);
        refused(65_537);
        refused(70_000);
        refused(2_662_439_576); // a corrupted registration seen in the field
        assert_eq!(BlockSize::new(1).unwrap().get(), 1);
        assert_eq!(BlockSize::new(65_536).unwrap().get(), 65_536);
    }

    #[test]
    fn the_partial_tail_is_no_block() {
        let size = BlockSize::new(16).unwrap();
        assert_eq!([0, 15, 16, 31, 32].map(|tokens| size.blocks_in(tokens)), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn the_error_says_what_to_do() {
        let error = BlockSize::new(0).unwrap_err().to_string();
        assert!(error.contains("block size 0") && error.contains("1..=65536"), "{error}");
    }
}
