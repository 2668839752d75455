//! One block's bytes on their way into the hash: tokens, context, multimodal pairs.
//!
//! The layout is written down in the crate's documentation. The tokens are rewritten in place for each block, the
//! context stands behind them for the whole prompt, and the pairs, in the few blocks that have any, follow.

use kv_router_types::LocalBlockHash;

use crate::xxh::xxh3;
use crate::{HashContext, MmPair};

const SALT_TAG: u32 = u32::from_le_bytes(*b"salt");
const PAIRS_TAG: u32 = u32::from_le_bytes(*b"mmod");

// The first word behind the tokens is an adapter length or a tag, and must not be readable as the other.
const _: () = assert!(SALT_TAG as usize > HashContext::MAX_NAME_BYTES);
const _: () = assert!(PAIRS_TAG as usize > HashContext::MAX_NAME_BYTES && PAIRS_TAG != SALT_TAG);

/// Tokens copied at a time: one cache line. A copy of fixed size stays in registers; for one of any size the compiler
/// may call `memcpy`, which costs more than hashing 16 tokens does.
const LINE: usize = 16;

/// Blocks written before the first of them is hashed. Names and odd windows put the reads of XXH3 across the borders
/// of what has just been written; such a read waits until the writes have left the store buffer, unless other work
/// comes between. Takes two fifths off a block of 16 tokens with an adapter.
const LANES: usize = 4;

/// The longest block, in bytes, worth [`LANES`]: beyond it XXH3 takes longer than the wait.
const LONGEST_LANE: usize = 128;

/// A reusable buffer with one block's bytes.
#[derive(Default)]
pub(crate) struct BlockBytes {
    bytes: Vec<u8>,
    /// Where the tokens end.
    context_at: usize,
    /// Where the context ends.
    pairs_at: usize,
}

impl BlockBytes {
    /// Makes room for `window` tokens and writes the context behind them. The tokens themselves are not set.
    pub(crate) fn start(&mut self, window: usize, context: &HashContext<'_>) {
        self.context_at = window * size_of::<u32>();
        let names = context.adapter().map_or(0, str::len) + context.salt().map_or(0, str::len);
        let room = (self.context_at + names + 3 * size_of::<u32>()).max(LANES * LONGEST_LANE);
        self.bytes.reserve(room.saturating_sub(self.bytes.len())); // one allocation, not one a section
        self.bytes.resize(self.context_at, 0);
        if let Some(adapter) = context.adapter() {
            self.push_name(adapter);
        }
        if let Some(salt) = context.salt() {
            self.push_u32(SALT_TAG);
            self.push_name(salt);
        }
        self.pairs_at = self.bytes.len();
    }

    /// Sets the tokens: exactly as many as [`BlockBytes::start`] made room for.
    #[inline(always)]
    pub(crate) fn set_tokens(&mut self, tokens: &[u32]) {
        debug_assert_eq!(size_of_val(tokens), self.context_at);
        let (slots, _) = self.bytes[..self.context_at].as_chunks_mut();
        write_tokens(slots, tokens);
    }

    /// Sets the multimodal pairs; without any, the block has no such section.
    pub(crate) fn set_pairs(&mut self, pairs: impl ExactSizeIterator<Item = MmPair>) {
        self.bytes.truncate(self.pairs_at);
        if pairs.len() == 0 {
            return;
        }
        self.push_u32(PAIRS_TAG);
        // At most one pair a token: checked by whoever calls.
        self.push_u32(pairs.len() as u32);
        for pair in pairs {
            self.bytes.extend_from_slice(&pair.content.get().to_le_bytes());
            self.bytes.extend_from_slice(&pair.offset.to_le_bytes());
        }
    }

    /// The hash of what was set.
    #[inline(always)]
    pub(crate) fn hash(&self) -> LocalBlockHash {
        LocalBlockHash::new(xxh3(&self.bytes))
    }

    /// Fills `out` with the hashes of as many windows, which have no pairs. Call [`BlockBytes::start`] again after it.
    pub(crate) fn hash_windows<'t>(
        &mut self,
        mut windows: impl Iterator<Item = &'t [u32]>,
        out: &mut [LocalBlockHash],
    ) {
        let lane = self.bytes.len();
        if lane > LONGEST_LANE {
            for (slot, tokens) in out.iter_mut().zip(windows) {
                self.set_tokens(tokens);
                *slot = self.hash();
            }
            return;
        }
        for _ in 1..LANES {
            self.bytes.extend_from_within(..lane);
        }
        for slots in out.chunks_mut(LANES) {
            for (lane, tokens) in self.bytes.chunks_exact_mut(lane).zip(windows.by_ref().take(slots.len())) {
                let (slots, _) = lane[..self.context_at].as_chunks_mut();
                write_tokens(slots, tokens);
            }
            for (slot, lane) in slots.iter_mut().zip(self.bytes.chunks_exact(lane)) {
                *slot = LocalBlockHash::new(xxh3(lane));
            }
        }
    }

    fn push_u32(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// A name behind its length, which [`HashContext`] bounds.
    fn push_name(&mut self, name: &str) {
        self.push_u32(name.len() as u32);
        self.bytes.extend_from_slice(name.as_bytes());
    }
}

/// The hash of a block of text without a context, if it has one of the commonest sizes: without a buffer, and with a
/// length that the compiler knows.
#[inline(always)]
pub(crate) fn hash_common(tokens: &[u32]) -> Option<LocalBlockHash> {
    match tokens.len() {
        16 => tokens.first_chunk::<16>().map(hash_bare),
        32 => tokens.first_chunk::<32>().map(hash_bare),
        _ => None,
    }
}

#[inline(always)]
fn hash_bare<const SIZE: usize>(tokens: &[u32; SIZE]) -> LocalBlockHash {
    let mut bytes = [[0; 4]; SIZE];
    for (slot, token) in bytes.iter_mut().zip(tokens) {
        *slot = token.to_le_bytes();
    }
    LocalBlockHash::new(xxh3(bytes.as_flattened()))
}

/// Fills `out` with the hashes of blocks of text of `SIZE` tokens without a context.
pub(crate) fn hash_bare_blocks<const SIZE: usize>(tokens: &[u32], out: &mut [LocalBlockHash]) {
    let (blocks, _) = tokens.as_chunks::<SIZE>();
    for (slot, tokens) in out.iter_mut().zip(blocks) {
        *slot = hash_bare(tokens);
    }
}

#[inline(always)]
fn write_tokens(slots: &mut [[u8; 4]], tokens: &[u32]) {
    let (slot_lines, slot_rest) = slots.as_chunks_mut::<LINE>();
    let (token_lines, token_rest) = tokens.as_chunks::<LINE>();
    for (slots, tokens) in slot_lines.iter_mut().zip(token_lines) {
        *slots = tokens.map(u32::to_le_bytes);
    }
    for (slot, token) in slot_rest.iter_mut().zip(token_rest) {
        *slot = token.to_le_bytes();
    }
}
