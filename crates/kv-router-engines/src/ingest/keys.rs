//! What besides its tokens decides what a block is: adapter, salt, multimodal items.

use kv_router_hash::{MmHash, MmPair};

use super::skip::Skip;
use crate::wire::{ExtraKey, WireEvent};

/// What the extra keys of a store say.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreKeys {
    /// Multimodal items of all blocks.
    pairs: Vec<MmPair>,
    /// Where the items of each block end; empty when no block has any.
    ends: Vec<usize>,
    /// Blocks that can be hashed, from the first on.
    pub(super) blocks: usize,
    /// Why not all.
    pub(super) rest: Option<Skip>,
}

impl StoreKeys {
    /// Reads the extra keys of a store of `blocks` blocks under `adapter`, and returns the salt, which stands at the
    /// first block of a chain alone.
    pub(super) fn read<'a>(
        &mut self,
        event: WireEvent<'a>,
        adapter: &str,
        blocks: usize,
    ) -> Result<Option<&'a str>, Skip> {
        self.pairs.clear();
        self.ends.clear();
        (self.blocks, self.rest) = (blocks, None);
        let Some(keys) = event.extra_keys() else { return Ok(None) };
        if keys.len() != blocks {
            return Err(Skip::ExtraKeysLength);
        }
        if keys.are_nil() {
            return Ok(None);
        }
        let mut salt = None;
        for index in 0..blocks {
            let at_root = index == 0 && event.parent().is_none();
            let start = self.pairs.len();
            let (mut texts, mut clear, mut named) = (0, true, adapter.is_empty());
            for key in keys.block(index).into_iter().flatten() {
                match key {
                    ExtraKey::Text(text) if !named && text == adapter => named = true, // the adapter comes first
                    ExtraKey::Text(text) => {
                        texts += 1;
                        salt = at_root.then_some(text);
                        clear &= at_root;
                    }
                    ExtraKey::Media { id, offset } => match pair(id, offset) {
                        Some(pair) => self.pairs.push(pair),
                        None => clear = false,
                    },
                    ExtraKey::Bytes(_) | ExtraKey::Other(_) => clear = false,
                }
            }
            // Two strings at the root are identifiers without offsets, and perhaps a salt: vLLM 0.17 and 0.18.
            if !clear || texts > 1 {
                self.pairs.truncate(start);
                (self.blocks, self.rest) = (index, Some(Skip::UnclearKeys));
                break;
            }
            self.pairs[start..].sort_by_key(|pair| pair.offset);
            self.ends.push(self.pairs.len());
        }
        if self.pairs.is_empty() {
            self.ends.clear();
        }
        Ok(salt.filter(|_| self.blocks > 0))
    }

    /// Whether any block has a multimodal item.
    pub(super) fn has_media(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The multimodal items of a block, by offset.
    pub(super) fn pairs(&self, block: usize) -> &[MmPair] {
        let start = block.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(block).and_then(|&end| self.pairs.get(start..end)).unwrap_or_default()
    }

    /// Gives up the blocks from the first with a multimodal item on.
    pub(super) fn stop_at_media(&mut self, reason: Skip) {
        if let Some(block) = self.ends.iter().position(|&end| end > 0) {
            (self.blocks, self.rest) = (block, Some(reason));
            self.ends.clear();
            self.pairs.clear();
        }
    }
}

fn pair(id: &str, offset: i64) -> Option<MmPair> {
    Some(MmPair::new(MmHash::from_identifier(id).ok()?, i32::try_from(offset).ok()?))
}
