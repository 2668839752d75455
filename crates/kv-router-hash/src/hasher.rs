//! A reusable hasher: whole prompts for requests, single blocks for engine events.

use std::error::Error;
use std::fmt;

use kv_router_types::LocalBlockHash;

use crate::bytes::{BlockBytes, hash_bare_blocks, hash_common};
use crate::{HashContext, HashScheme, LazyHashes, MmPair, MmSpan, Prompt};

/// Hashes prompts and blocks with one buffer that it keeps: after the first call it allocates nothing.
///
/// It remembers no result and no option: what a call returns depends on its arguments alone. One per thread, or
/// one per event stream.
///
/// ```
/// use kv_router_hash::{BlockHasher, HashContext, HashScheme, MmHash, MmPair, MmSpan, Prompt, Window};
/// use kv_router_types::BlockSize;
///
/// let mut hasher = BlockHasher::new(HashScheme::new(BlockSize::new(4)?, Window::Plain));
/// let tokens = [1, 9, 9, 9, 9, 9, 2, 3];
/// let image = MmHash::from_identifier("img-1")?;
///
/// // A request: one image on tokens 1 to 5.
/// let spans = [MmSpan::new(1, 5, image)];
/// let mut locals = Vec::new();
/// hasher.hash_into(&Prompt::new(&tokens).with_spans(&spans)?, &mut locals);
///
/// // What the engine says once it has cached the second block: the image began 3 tokens before it.
/// let event = hasher.hash_block(&tokens[4..8], &HashContext::NONE, &[MmPair::new(image, -3)])?;
/// assert_eq!(event, locals[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BlockHasher {
    scheme: HashScheme,
    bytes: BlockBytes,
}

impl BlockHasher {
    /// A hasher for engines of one scheme. Allocates nothing yet.
    pub fn new(scheme: HashScheme) -> Self {
        Self { scheme, bytes: BlockBytes::default() }
    }

    /// The scheme it hashes under.
    #[inline]
    pub const fn scheme(&self) -> HashScheme {
        self.scheme
    }

    /// Replaces `out` by the local hashes of a prompt, one a block.
    pub fn hash_into(&mut self, prompt: &Prompt<'_>, out: &mut Vec<LocalBlockHash>) {
        out.clear();
        out.resize(self.scheme.blocks_in(prompt.tokens().len()), LocalBlockHash::default());
        self.fill(prompt, 0, out);
    }

    /// Hashes a prompt as far as somebody asks, into `out`, which is cleared first.
    pub fn lazy<'a>(&'a mut self, prompt: Prompt<'a>, out: &'a mut Vec<LocalBlockHash>) -> LazyHashes<'a> {
        LazyHashes::new(self, prompt, out)
    }

    /// The local hash of one block of an engine event.
    ///
    /// `tokens` are those of the window: [`HashScheme::window_tokens`] of them. `pairs` are the multimodal items that
    /// touch the window, in the order of their offsets, as the engine lists them. The result is what the request
    /// side computes for the same block.
    ///
    /// # Errors
    ///
    /// [`BlockError`] when an argument does not describe a block of this scheme.
    pub fn hash_block(
        &mut self,
        tokens: &[u32],
        context: &HashContext<'_>,
        pairs: &[MmPair],
    ) -> Result<LocalBlockHash, BlockError> {
        let window = self.scheme.window_tokens();
        if tokens.len() != window {
            return Err(BlockError::WrongLength { tokens: tokens.len(), expected: window });
        }
        check_pairs(pairs, window)?;
        if pairs.is_empty()
            && context.is_none()
            && let Some(hash) = hash_common(tokens)
        {
            return Ok(hash);
        }
        self.bytes.start(window, context);
        self.bytes.set_tokens(tokens);
        self.bytes.set_pairs(pairs.iter().copied());
        Ok(self.bytes.hash())
    }

    /// Fills `out` with the hashes of the blocks from `first` on. The prompt must have that many.
    pub(crate) fn fill(&mut self, prompt: &Prompt<'_>, first: usize, out: &mut [LocalBlockHash]) {
        let start = first * self.scheme.block_size().as_usize();
        let tokens = prompt.tokens().get(start..).unwrap_or_default();
        debug_assert!(out.len() <= self.scheme.blocks_in(tokens.len()));
        if prompt.spans().is_empty() {
            self.fill_text(prompt.context(), tokens, out);
        } else {
            self.fill_with_spans(prompt, start, tokens, out);
        }
    }

    /// Text. Without an adapter or a salt, which is most of the traffic, the commonest sizes have code of their own: it
    /// takes nearly half off a block of 16 tokens and two fifths off one of 32.
    fn fill_text(&mut self, context: &HashContext<'_>, tokens: &[u32], out: &mut [LocalBlockHash]) {
        let (window, stride) = (self.scheme.window_tokens(), self.scheme.block_size().as_usize());
        match (window, stride) {
            (16, 16) if context.is_none() => hash_bare_blocks::<16>(tokens, out),
            (32, 32) if context.is_none() => hash_bare_blocks::<32>(tokens, out),
            _ => {
                self.bytes.start(window, context);
                self.bytes.hash_windows(tokens.windows(window).step_by(stride), out);
            }
        }
    }

    /// `start` is the index in the prompt of the first of `tokens`.
    fn fill_with_spans(
        &mut self,
        prompt: &Prompt<'_>,
        mut start: usize,
        tokens: &[u32],
        out: &mut [LocalBlockHash],
    ) {
        let (window, stride) = (self.scheme.window_tokens(), self.scheme.block_size().as_usize());
        // The spans that end after `start`. Spans are in order and disjoint, so their ends are in order too.
        let mut spans = prompt.spans();
        spans = &spans[spans.partition_point(|span| span.end() as usize <= start)..];
        self.bytes.start(window, prompt.context());
        for (slot, tokens) in out.iter_mut().zip(tokens.windows(window).step_by(stride)) {
            let touching = spans.iter().take_while(|span| (span.start as usize) < start + window).count();
            self.bytes.set_tokens(tokens);
            self.bytes.set_pairs(spans[..touching].iter().map(|span| pair_in_block(span, start)));
            *slot = self.bytes.hash();

            start += stride;
            let passed = spans.iter().take_while(|span| span.end() as usize <= start).count();
            spans = &spans[passed..];
        }
    }
}

/// Leaves out the buffer: it holds the salt and the tokens of the last request.
impl fmt::Debug for BlockHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockHasher").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// What a span is in the block that starts at `start` and that it touches. The difference fits: both the span's end
/// and, being before it, the block's start are within `i32`, which [`Prompt`] checked.
fn pair_in_block(span: &MmSpan, start: usize) -> MmPair {
    MmPair::new(span.content, (i64::from(span.start) - start as i64) as i32)
}

/// Checks the pairs of a block of `window` tokens. A request never makes more than one pair a token, since its spans
/// are disjoint and not empty.
fn check_pairs(pairs: &[MmPair], window: usize) -> Result<(), BlockError> {
    if pairs.len() > window {
        return Err(BlockError::TooManyPairs { pairs: pairs.len(), limit: window });
    }
    let mut last = i32::MIN;
    for (index, pair) in pairs.iter().enumerate() {
        if i64::from(pair.offset) >= window as i64 {
            return Err(BlockError::PairPastEnd { index, offset: pair.offset, tokens: window });
        }
        if pair.offset < last {
            return Err(BlockError::PairsOutOfOrder { index });
        }
        last = pair.offset;
    }
    Ok(())
}

/// Arguments of [`BlockHasher::hash_block`] that describe no block of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// The engine's block size, or its window, is not the scheme's.
    WrongLength {
        /// Tokens given.
        tokens: usize,
        /// Tokens that a window of the scheme has.
        expected: usize,
    },
    /// More multimodal items than tokens.
    TooManyPairs {
        /// Pairs given.
        pairs: usize,
        /// The most that a block can have.
        limit: usize,
    },
    /// An item that starts after the block.
    PairPastEnd {
        /// Which pair.
        index: usize,
        /// Its offset, in tokens.
        offset: i32,
        /// Tokens that a window of the scheme has.
        tokens: usize,
    },
    /// An item that starts before the one listed before it.
    PairsOutOfOrder {
        /// Which pair.
        index: usize,
    },
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongLength { tokens, expected } => write!(
                f,
                "a block of {tokens} tokens where the scheme hashes {expected}: set the block size and the window \
                 of the engine"
            ),
            Self::TooManyPairs { pairs, limit } => {
                write!(f, "{pairs} multimodal items in a block of {limit} tokens: drop the event")
            }
            Self::PairPastEnd { index, offset, tokens } => write!(
                f,
                "multimodal item {index} starts at offset {offset}, after a block of {tokens} tokens: offsets count \
                 from the start of the block"
            ),
            Self::PairsOutOfOrder { index } => {
                write!(f, "multimodal item {index} starts before the previous one: list items by offset")
            }
        }
    }
}

impl Error for BlockError {}
