//! One event as it is kept in a batch: numbers, and places in the batch's tables.

use super::keys::TextField;
use super::{EventKind as Kind, RawHash};

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Blocks were stored.
    Stored,
    /// Copies were removed.
    Removed,
    /// The rank's prefix cache was reset.
    Cleared,
}

/// The medium of a removal from every tier that has a copy: TensorRT-LLM's pulled events do not say from which.
pub(crate) const EVERYWHERE: &str = "*";

impl EventKind {
    /// The tag on the wire.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::Stored => "BlockStored",
            Self::Removed => "BlockRemoved",
            Self::Cleared => "AllBlocksCleared",
        }
    }

    pub(super) fn from_tag(tag: &[u8]) -> Option<Self> {
        match tag {
            b"BlockStored" => Some(Self::Stored),
            b"BlockRemoved" => Some(Self::Removed),
            b"AllBlocksCleared" => Some(Self::Cleared),
            _ => None,
        }
    }

    /// Mooncake's own words.
    pub(super) fn from_loose_tag(tag: &[u8]) -> Option<Self> {
        match tag {
            b"stored" => Some(Self::Stored),
            b"removed" => Some(Self::Removed),
            b"cleared" => Some(Self::Cleared),
            _ => None,
        }
    }
}

/// An adapter's number. Deprecated by every engine in favour of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoraId<'a> {
    /// A number.
    Number(i64),
    /// A string where the number should be.
    Text(&'a str),
}

/// A part of one of the batch's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl Span {
    /// From `start` to the end of a table that is `end` long. Limits keep both within 32 bits.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Self { start: start as u32, length: (end - start) as u32 }
    }

    pub(crate) fn of<T>(self, table: &[T]) -> &[T] {
        let start = self.start as usize;
        table.get(start..start + self.length as usize).unwrap_or_default()
    }
}

/// How the tokens stood on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TokenForm {
    /// Nil, or not there.
    #[default]
    Absent,
    Flat,
    /// Two tokens an element.
    Pairs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RawLoraId {
    #[default]
    None,
    Number(i64),
    Text(Span),
}

/// One key of a block's extra keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawExtra {
    Text(Span),
    Media {
        id: Span,
        offset: i64,
    },
    /// A place in the batch's bytes.
    Bytes(Span),
    /// MessagePack, in the batch's bytes.
    Other(Span),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent {
    pub(crate) kind: Kind,
    pub(crate) hashes: Span,
    pub(crate) parent: Option<RawHash>,
    pub(crate) tokens: Span,
    pub(crate) token_form: TokenForm,
    pub(crate) block_size: Option<u64>,
    pub(crate) lora_id: RawLoraId,
    pub(crate) group: Option<u32>,
    pub(crate) window: Option<u64>,
    /// One entry a block.
    pub(crate) extra: Option<Span>,
    pub(crate) lookahead: Option<Span>,
    /// Whether a block has multimodal keys in TensorRT-LLM's form.
    pub(crate) media_keys: bool,
    /// Whether it tells of a copy that was stored before.
    pub(crate) reused: bool,
    /// A rank of its own, where one payload has events of several.
    pub(crate) rank: Option<u32>,
    texts: [Option<Span>; TextField::COUNT],
}

impl RawEvent {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            hashes: Span::default(),
            parent: None,
            tokens: Span::default(),
            token_form: TokenForm::Absent,
            block_size: None,
            lora_id: RawLoraId::None,
            group: None,
            window: None,
            extra: None,
            lookahead: None,
            media_keys: false,
            reused: false,
            rank: None,
            texts: [None; TextField::COUNT],
        }
    }

    /// The same about other blocks.
    pub(super) fn with_hashes(&self, hashes: Span) -> Self {
        Self { hashes, ..*self }
    }

    pub(crate) fn text(&self, field: TextField) -> Option<Span> {
        self.texts[field as usize]
    }

    pub(crate) fn set_text(&mut self, field: TextField, text: Option<Span>) {
        self.texts[field as usize] = text;
    }
}
