//! Events as a reader sees them: borrowed from the batch, one accessor a field.

use kv_router_hash::MmHash;
use kv_router_types::DpRank;

use super::event::{RawEvent, RawExtra, RawLoraId, Span, TokenForm};
use super::hash::HashForm;
use super::keys::TextField;
use super::{EventKind, LoraId, RawHash, WireBatch, WireHash};

/// One event of a batch. A field that is not on the wire is `None` or empty.
#[derive(Clone, Copy, Debug)]
pub struct WireEvent<'a> {
    pub(crate) batch: &'a WireBatch,
    pub(crate) raw: &'a RawEvent,
}

/// Tokens as they stood on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireTokens<'a> {
    /// Nil, or not there: an offload placeholder, or a store without tokens.
    Absent,
    /// One token an element; a string stands as its [`string_token`].
    Flat(&'a [u32]),
    /// Pairs of an EAGLE engine.
    Pairs(&'a [[u32; 2]]),
}

/// One of the things besides its tokens that an engine hashes into a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraKey<'a> {
    /// An adapter's name, a cache salt, or (vLLM 0.17 and 0.18) a multimodal identifier: the wire does not say which.
    Text(&'a str),
    /// A multimodal item, and where it starts relative to its block.
    Media {
        /// Its identifier.
        id: &'a str,
        /// Tokens from the start of the block to the start of the item.
        offset: i64,
    },
    /// The digest of prompt embeddings.
    Bytes(&'a [u8]),
    /// Something else, as MessagePack.
    Other(&'a [u8]),
}

/// The token that stands for a string among tokens: 31 bits of a hash of its bytes, and the top bit, which no
/// vocabulary reaches. TensorRT-LLM puts digests of images there. The request side uses the same function.
pub fn string_token(text: &str) -> u32 {
    let hash = MmHash::from_identifier(text).map_or(0, MmHash::get);
    hash as u32 | 1 << 31
}

impl<'a> WireEvent<'a> {
    pub(super) fn new(batch: &'a WireBatch, raw: &'a RawEvent) -> Self {
        Self { batch, raw }
    }

    /// What the event says.
    pub fn kind(self) -> EventKind {
        self.raw.kind
    }

    /// The rank of this event, where one payload has events of several ranks: TensorRT-LLM's JSON.
    pub fn rank(self) -> Option<DpRank> {
        self.raw.rank.map(DpRank::new)
    }

    /// The blocks' names.
    pub fn hashes(self) -> Hashes<'a> {
        Hashes { batch: self.batch, raw: self.raw.hashes.of(&self.batch.hashes) }
    }

    /// The block that the first one continues; `None` at the root.
    pub fn parent(self) -> Option<WireHash<'a>> {
        self.raw.parent.map(|raw| self.batch.hash(raw))
    }

    /// The tokens of the whole span, of blocks that are not named included.
    pub fn tokens(self) -> WireTokens<'a> {
        let tokens = self.raw.tokens.of(&self.batch.tokens);
        match self.raw.token_form {
            TokenForm::Absent => WireTokens::Absent,
            TokenForm::Flat => WireTokens::Flat(tokens),
            TokenForm::Pairs => WireTokens::Pairs(tokens.as_chunks().0),
        }
    }

    /// Tokens a block, unchecked: 0 in placeholders.
    pub fn block_size(self) -> Option<u64> {
        self.raw.block_size
    }

    /// The adapter's number.
    pub fn lora_id(self) -> Option<LoraId<'a>> {
        match self.raw.lora_id {
            RawLoraId::None => None,
            RawLoraId::Number(number) => Some(LoraId::Number(number)),
            RawLoraId::Text(span) => Some(LoraId::Text(self.batch.text(span))),
        }
    }

    /// The adapter's name.
    pub fn lora_name(self) -> Option<&'a str> {
        self.text(TextField::LoraName)
    }

    /// Where the copies are, in the engine's own word.
    pub fn medium(self) -> Option<&'a str> {
        self.text(TextField::Medium)
    }

    /// The cache salt, where the event names it: SGLang.
    pub fn cache_salt(self) -> Option<&'a str> {
        self.text(TextField::CacheSalt)
    }

    /// The cache group of a hybrid model.
    pub fn group(self) -> Option<u32> {
        self.raw.group
    }

    /// What kind of cache the group is.
    pub fn spec_kind(self) -> Option<&'a str> {
        self.text(TextField::SpecKind)
    }

    /// The group's window, in tokens.
    pub fn sliding_window(self) -> Option<u64> {
        self.raw.window
    }

    /// `LOCAL` or `REMOTE`.
    pub fn locality(self) -> Option<&'a str> {
        self.text(TextField::Locality)
    }

    /// Which secondary tier owns the copies.
    pub fn ownership(self) -> Option<&'a str> {
        self.text(TextField::Ownership)
    }

    /// Whose request stored the blocks.
    pub fn session_id(self) -> Option<&'a str> {
        self.text(TextField::SessionId)
    }

    /// Mooncake's tenant.
    pub fn tenant_id(self) -> Option<&'a str> {
        self.text(TextField::TenantId)
    }

    /// Mooncake's backend.
    pub fn backend_id(self) -> Option<&'a str> {
        self.text(TextField::BackendId)
    }

    /// Mooncake's own name for the object.
    pub fn object_key(self) -> Option<&'a str> {
        self.text(TextField::ObjectKey)
    }

    /// What besides their tokens distinguishes the blocks, one entry a block.
    pub fn extra_keys(self) -> Option<ExtraKeys<'a>> {
        self.raw.extra.map(|span| ExtraKeys { batch: self.batch, blocks: span.of(&self.batch.extra_blocks) })
    }

    /// Whether a block has multimodal keys in TensorRT-LLM's form, which do not say where in the block an item
    /// starts.
    pub fn has_media_keys(self) -> bool {
        self.raw.media_keys
    }

    /// Whether a store tells of copies that are there already, and makes none: a full report of vLLM that says so.
    pub fn is_reused(self) -> bool {
        self.raw.reused
    }

    /// Tokens after each block that its name depends on: vLLM with a draft model.
    pub fn lookahead(self) -> Option<Lookahead<'a>> {
        self.raw.lookahead.map(|span| Lookahead { batch: self.batch, blocks: span.of(&self.batch.lookahead) })
    }

    fn text(self, field: TextField) -> Option<&'a str> {
        self.raw.text(field).map(|span| self.batch.text(span))
    }
}

impl WireBatch {
    fn hash(&self, raw: RawHash) -> WireHash<'_> {
        match raw.form {
            HashForm::Unsigned => WireHash::Unsigned(raw.key),
            HashForm::Negative => WireHash::Negative(raw.key.cast_signed()),
            HashForm::Digest { at, length } => {
                WireHash::Digest(Span { start: at, length: u32::from(length) }.of(&self.bytes))
            }
        }
    }
}

/// Names of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Hashes<'a> {
    batch: &'a WireBatch,
    pub(crate) raw: &'a [RawHash],
}

impl<'a> Hashes<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        self.raw.len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// The names, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = WireHash<'a>> {
        self.raw.iter().map(move |&raw| self.batch.hash(raw))
    }
}

/// Extra keys of an event: a list a block, or nothing.
#[derive(Clone, Copy, Debug)]
pub struct ExtraKeys<'a> {
    batch: &'a WireBatch,
    blocks: &'a [Option<Span>],
}

impl<'a> ExtraKeys<'a> {
    /// Blocks that have an entry. Should be as many as the event names.
    pub fn len(self) -> usize {
        self.blocks.len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether no block has an entry that says anything.
    pub(crate) fn are_nil(self) -> bool {
        self.blocks.iter().all(Option::is_none)
    }

    /// The keys of a block; `None` when its entry is nil, or when it has none.
    pub fn block(self, index: usize) -> Option<impl ExactSizeIterator<Item = ExtraKey<'a>>> {
        let keys = (*self.blocks.get(index)?)?.of(&self.batch.extra);
        Some(keys.iter().map(move |&key| match key {
            RawExtra::Text(span) => ExtraKey::Text(self.batch.text(span)),
            RawExtra::Media { id, offset } => ExtraKey::Media { id: self.batch.text(id), offset },
            RawExtra::Bytes(span) => ExtraKey::Bytes(span.of(&self.batch.bytes)),
            RawExtra::Other(span) => ExtraKey::Other(span.of(&self.batch.bytes)),
        }))
    }
}

/// Lookahead tokens of an event, a list a block.
#[derive(Clone, Copy, Debug)]
pub struct Lookahead<'a> {
    batch: &'a WireBatch,
    blocks: &'a [Span],
}

impl<'a> Lookahead<'a> {
    /// The tokens after each block.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u32]> {
        self.blocks.iter().map(move |span| span.of(&self.batch.tokens))
    }
}
