//! Images, clips and whatever else stands behind placeholder tokens.

use std::error::Error;
use std::fmt;

use crate::xxh::xxh3;

/// Hash of what one multimodal item is, from the identifier that the engine knows it by.
///
/// Placeholder tokens are equal for every image; this is what tells blocks with different images apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MmHash(u64);

impl MmHash {
    /// Wraps a raw 64-bit value.
    #[inline]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw 64-bit value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The hash of an item's identifier, as requests and engine events carry it: a 64-digit digest, a short id that
    /// the user chose, or any other string.
    ///
    /// The identifier is opaque: it is hashed byte by byte and never parsed, so that upper and lower case, or a
    /// digest and its first digits, are different items. That costs a hit where a gateway and an engine spell one
    /// identifier differently; the other way round would serve one user another user's image.
    ///
    /// # Errors
    ///
    /// [`EmptyIdentifier`]: all unnamed items would count as one.
    pub fn from_identifier(identifier: &str) -> Result<Self, EmptyIdentifier> {
        if identifier.is_empty() { Err(EmptyIdentifier) } else { Ok(Self(xxh3(identifier.as_bytes()))) }
    }
}

impl fmt::Debug for MmHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MmHash({:016x})", self.0)
    }
}

impl fmt::Display for MmHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A multimodal item with an empty identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptyIdentifier;

impl fmt::Display for EmptyIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a multimodal identifier is empty: hash the content, or route the request without a prefix",
        )
    }
}

impl Error for EmptyIdentifier {}

/// The placeholder tokens of one item in a prompt: the request side.
///
/// [`Prompt::with_spans`](crate::Prompt::with_spans) checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmSpan {
    /// Index of the first placeholder token in the prompt.
    pub start: u32,
    /// How many placeholder tokens there are.
    pub tokens: u32,
    /// What stands behind them.
    pub content: MmHash,
}

impl MmSpan {
    /// A span of placeholder tokens.
    #[inline]
    pub const fn new(start: u32, tokens: u32, content: MmHash) -> Self {
        Self { start, tokens, content }
    }

    /// Index of the first token after the span. Saturates: such a span is refused when it is checked.
    #[inline]
    pub(crate) const fn end(&self) -> u32 {
        self.start.saturating_add(self.tokens)
    }
}

/// One item in one block: the event side, and what a [`MmSpan`] becomes in each block that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmPair {
    /// What the item is.
    pub content: MmHash,
    /// Tokens from the start of the block to the start of the item: negative in the blocks that an item continues
    /// into.
    pub offset: i32,
}

impl MmPair {
    /// An item at an offset from the start of its block.
    #[inline]
    pub const fn new(content: MmHash, offset: i32) -> Self {
        Self { content, offset }
    }
}

/// A list of spans that [`Prompt::with_spans`](crate::Prompt::with_spans) refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanError {
    /// A span without tokens stands nowhere.
    Empty {
        /// Which span.
        index: usize,
    },
    /// A span starts before the end of the one before it: the list is not in order, or two items share tokens.
    OutOfOrder {
        /// Which span.
        index: usize,
    },
    /// A span ends after the prompt, or beyond the 2^31 - 1 tokens that offsets can express.
    PastEnd {
        /// Which span.
        index: usize,
        /// Tokens in the prompt.
        tokens: usize,
    },
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { index } => write!(f, "multimodal span {index} has no tokens: leave it out"),
            Self::OutOfOrder { index } => write!(
                f,
                "multimodal span {index} starts before the previous one ends: sort spans by start, and give items \
                 that share tokens one span with one hash"
            ),
            Self::PastEnd { index, tokens } => write!(
                f,
                "multimodal span {index} ends after the {tokens} tokens of the prompt: use positions in the token \
                 list that is hashed"
            ),
        }
    }
}

impl Error for SpanError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_opaque_strings() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let forms = [digest, &digest[..16], &digest.to_uppercase(), "img-1", "img-2", "0", " "];
        let hashes: Vec<MmHash> = forms.iter().map(|form| MmHash::from_identifier(form).unwrap()).collect();
        for (i, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..i].contains(hash), "{:?} equals an earlier form", forms[i]);
        }
        assert_eq!(MmHash::from_identifier(""), Err(EmptyIdentifier));
    }
}
