//! One event: array or map, fields in any order, read into the batch's tables.

use super::event::{EventKind, RawEvent, RawLoraId, Span, TokenForm};
use super::hash::{HashForm, RawHash, digest_key};
use super::keys::{Field, TextField, named, positional};
use super::repeat::HashLists;
use super::{WireBatch, string_token};
use crate::error::{BatchError, EventFault};
use crate::limits::DecodeLimits;
use crate::msgpack::{Broken, Kind, Reader};

/// Lookahead lists in one payload: an empty one takes more memory than bytes on the wire.
const MOST_LOOKAHEAD: usize = 1 << 20;

/// Why reading stopped: for good, or for this event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    Batch(BatchError),
    Event(EventFault),
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Batch(broken.into())
    }
}

impl From<EventFault> for Stop {
    fn from(fault: EventFault) -> Self {
        Self::Event(fault)
    }
}

/// What a map has said about its tag so far: it may be the last key.
#[derive(Clone, Copy, Debug, Default)]
enum Tag {
    #[default]
    None,
    Loose(Option<EventKind>),
    Strict(Option<EventKind>),
}

impl WireBatch {
    /// Reads one event, or counts why not and passes over it. Whether it could be read.
    pub(super) fn read_event(
        &mut self,
        reader: &mut Reader<'_>,
        limits: &DecodeLimits,
    ) -> Result<bool, BatchError> {
        let start = reader.at();
        self.hash_lists = HashLists::default();
        let mut event = RawEvent::new(EventKind::Cleared); // made once and filled: it is large
        match self.try_event(reader, limits, &mut event) {
            Ok(()) => {
                self.events.push(event);
                Ok(true)
            }
            Err(Stop::Batch(error)) => Err(error),
            Err(Stop::Event(fault)) => {
                self.faults.add(fault);
                reader.rewind(start);
                reader.skip()?;
                Ok(false)
            }
        }
    }

    fn try_event(
        &mut self,
        reader: &mut Reader<'_>,
        limits: &DecodeLimits,
        event: &mut RawEvent,
    ) -> Result<(), Stop> {
        if let Some(length) = reader.array()? {
            self.array_event(reader, length, limits, event)
        } else if let Some(length) = reader.map()? {
            self.map_event(reader, length, limits, event)
        } else {
            Err(EventFault::NotAnEvent.into())
        }
    }

    fn array_event(
        &mut self,
        reader: &mut Reader<'_>,
        length: usize,
        limits: &DecodeLimits,
        event: &mut RawEvent,
    ) -> Result<(), Stop> {
        if length == 0 {
            return Err(EventFault::NoTag.into());
        }
        let tag = reader.str()?.ok_or(EventFault::NoTag)?;
        let kind = EventKind::from_tag(tag).ok_or(EventFault::UnknownTag)?;
        event.kind = kind;
        if kind != EventKind::Cleared && length < 2 {
            return Err(EventFault::NoHashes.into());
        }
        for index in 0..length - 1 {
            match positional(kind, index) {
                Field::Hashes => event.hashes = self.read_hashes(reader, limits)?,
                field => self.field(reader, field, event)?,
            }
        }
        Ok(())
    }

    fn map_event(
        &mut self,
        reader: &mut Reader<'_>,
        length: usize,
        limits: &DecodeLimits,
        event: &mut RawEvent,
    ) -> Result<(), Stop> {
        let mut tag = Tag::None;
        let (mut hashes, mut sequence_hashes) = (None, None);
        for _ in 0..length {
            let Some(key) = reader.str()? else {
                reader.skip()?;
                reader.skip()?;
                continue;
            };
            match named(key) {
                Field::Tag => {
                    let text = reader.str()?.ok_or(EventFault::NoTag)?;
                    tag = Tag::Strict(EventKind::from_tag(text));
                }
                Field::LooseTag => {
                    let text = reader.str()?.ok_or(EventFault::NoTag)?;
                    if !matches!(tag, Tag::Strict(_)) {
                        tag = Tag::Loose(EventKind::from_loose_tag(text));
                    }
                }
                Field::Hashes if !reader.nil()? => hashes = Some(self.read_hashes(reader, limits)?),
                Field::SequenceHashes if !reader.nil()? => {
                    sequence_hashes = Some(self.read_hashes(reader, limits)?);
                }
                Field::Hashes | Field::SequenceHashes => {}
                field => self.field(reader, field, event)?,
            }
        }
        event.kind = match tag {
            Tag::None => return Err(EventFault::NoTag.into()),
            Tag::Loose(kind) | Tag::Strict(kind) => kind.ok_or(EventFault::UnknownTag)?,
        };
        // Mooncake has no sequence hashes for a key that is no number.
        match sequence_hashes.filter(|span| span.length > 0).or(hashes).or(sequence_hashes) {
            Some(span) => event.hashes = span,
            None if event.kind == EventKind::Cleared => {}
            None => return Err(EventFault::NoHashes.into()),
        }
        Ok(())
    }

    fn field(&mut self, reader: &mut Reader<'_>, field: Field, event: &mut RawEvent) -> Result<(), Stop> {
        if field == Field::Unknown {
            return Ok(reader.skip()?);
        }
        if reader.nil()? {
            return Ok(()); // the same as not there
        }
        match field {
            Field::Parent => event.parent = Some(self.read_hash(reader)?),
            Field::Tokens => (event.token_form, event.tokens) = self.read_tokens(reader)?,
            Field::BlockSize => {
                let size = reader.int()?.and_then(|int| int.unsigned());
                event.block_size = Some(size.ok_or(EventFault::BadBlockSize)?);
            }
            Field::LoraId => event.lora_id = self.read_lora_id(reader)?,
            Field::LoraName => self.read_lora_name(reader, event)?,
            Field::ExtraKeys => event.extra = Some(self.read_extra_keys(reader)?),
            Field::Group => event.group = Some(reader.small()?.ok_or(EventFault::BadGroup)?),
            Field::Window => {
                let window = reader.int()?.and_then(|int| int.unsigned());
                event.window = Some(window.ok_or(EventFault::BadGroup)?);
            }
            Field::Lookahead => event.lookahead = Some(self.read_lookahead(reader)?),
            Field::MediaKeys => event.media_keys = any_inside(reader)?,
            Field::Origin => match reader.str()? {
                Some(origin) => event.reused = origin == b"REUSED",
                None => reader.skip()?,
            },
            Field::Text(field) => self.read_text(reader, field, event)?,
            Field::Tag | Field::LooseTag | Field::Hashes | Field::SequenceHashes | Field::Unknown => {}
        }
        Ok(())
    }

    fn read_text(
        &mut self,
        reader: &mut Reader<'_>,
        field: TextField,
        event: &mut RawEvent,
    ) -> Result<(), Stop> {
        let text = match reader.str()? {
            Some(bytes) => self.keep_text(bytes),
            None if field.decides() => None,
            None => return Ok(reader.skip()?),
        };
        if text.is_none() && field.decides() {
            return Err(EventFault::BadText.into());
        }
        event.set_text(field, text);
        Ok(())
    }

    /// SGLang 0.5.18 and 0.5.19 have a map with the salt where vLLM has the adapter's name.
    fn read_lora_name(&mut self, reader: &mut Reader<'_>, event: &mut RawEvent) -> Result<(), Stop> {
        let Some(length) = reader.map()? else { return self.read_text(reader, TextField::LoraName, event) };
        for _ in 0..length {
            match reader.str()? {
                None => {
                    reader.skip()?;
                    reader.skip()?;
                }
                Some(b"cache_salt") => self.field(reader, Field::Text(TextField::CacheSalt), event)?,
                Some(b"lora_name") if reader.nil()? => {}
                Some(b"lora_name") => self.read_text(reader, TextField::LoraName, event)?,
                Some(_) => reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_lora_id(&mut self, reader: &mut Reader<'_>) -> Result<RawLoraId, Stop> {
        if let Some(text) = reader.str()? {
            return Ok(RawLoraId::Text(self.keep_text(text).ok_or(EventFault::BadAdapter)?));
        }
        let id = reader.int()?.ok_or(EventFault::BadAdapter)?;
        let number = id.bits.cast_signed();
        if id.negative == (number < 0) {
            Ok(RawLoraId::Number(number))
        } else {
            Err(EventFault::BadAdapter.into())
        }
    }

    fn read_hashes(&mut self, reader: &mut Reader<'_>, limits: &DecodeLimits) -> Result<Span, Stop> {
        let length = reader.array()?.ok_or(EventFault::NoHashes)?;
        let start = self.hashes.len();
        if length > limits.hashes.saturating_sub(start) {
            return Err(Stop::Batch(BatchError::TooManyHashes { limit: limits.hashes }));
        }
        self.hash_lists.add(reader.at());
        for _ in 0..length {
            let hash = match reader.wide() {
                Some(int) => RawHash::of(int),
                None => self.read_hash(reader)?,
            };
            self.hashes.push(hash);
        }
        Ok(Span::new(start, self.hashes.len()))
    }

    #[inline]
    pub(super) fn read_hash(&mut self, reader: &mut Reader<'_>) -> Result<RawHash, Stop> {
        if let Some(int) = reader.int()? {
            return Ok(RawHash::of(int));
        }
        let digest = reader.bin()?.ok_or(EventFault::BadHash)?;
        if digest.is_empty() || digest.len() > RawHash::MAX_DIGEST_BYTES {
            return Err(EventFault::BadHash.into());
        }
        let at = self.keep_bytes(digest).start;
        Ok(RawHash { key: digest_key(digest), form: HashForm::Digest { at, length: digest.len() as u8 } })
    }

    fn read_tokens(&mut self, reader: &mut Reader<'_>) -> Result<(TokenForm, Span), Stop> {
        let length = reader.array()?.ok_or(EventFault::BadTokens)?;
        let start = self.tokens.len();
        if length > 0 && reader.kind()? == Kind::Array {
            for _ in 0..length {
                let (2, first, second) = (reader.array()?.unwrap_or(0), reader.small()?, reader.small()?)
                else {
                    return Err(EventFault::BadTokens.into());
                };
                self.tokens
                    .extend([first.ok_or(EventFault::BadTokens)?, second.ok_or(EventFault::BadTokens)?]);
            }
            return Ok((TokenForm::Pairs, Span::new(start, self.tokens.len())));
        }
        // No more memory than four times the bytes that are left: the reader has checked the length against them.
        self.tokens.resize(start + length, 0);
        let mut filled = start;
        while filled < start + length {
            filled += reader.smalls(&mut self.tokens[filled..]);
            if let Some(slot) = self.tokens.get_mut(filled) {
                *slot = match reader.small()? {
                    Some(token) => token,
                    None => {
                        let text = reader.str()?.and_then(|bytes| std::str::from_utf8(bytes).ok());
                        string_token(text.ok_or(EventFault::BadTokens)?)
                    }
                };
                filled += 1;
            }
        }
        Ok((TokenForm::Flat, Span::new(start, self.tokens.len())))
    }

    fn read_lookahead(&mut self, reader: &mut Reader<'_>) -> Result<Span, Stop> {
        let blocks = reader.array()?.ok_or(EventFault::BadLookahead)?;
        let first = self.lookahead.len();
        if blocks > MOST_LOOKAHEAD.saturating_sub(first) {
            return Err(EventFault::BadLookahead.into());
        }
        for _ in 0..blocks {
            let start = self.tokens.len();
            if !reader.nil()? {
                for _ in 0..reader.array()?.ok_or(EventFault::BadLookahead)? {
                    self.tokens.push(reader.small()?.ok_or(EventFault::BadLookahead)?);
                }
            }
            self.lookahead.push(Span::new(start, self.tokens.len()));
        }
        Ok(Span::new(first, self.lookahead.len()))
    }
}

/// Passes over a list of lists and says whether any of them has something in it. What is no list counts as
/// something: it cannot be ruled out that it matters.
fn any_inside(reader: &mut Reader<'_>) -> Result<bool, Broken> {
    let Some(blocks) = reader.array()? else {
        reader.skip()?;
        return Ok(true);
    };
    let mut any = false;
    for _ in 0..blocks {
        let empty = reader.nil()? || {
            let start = reader.at();
            let empty = reader.array()? == Some(0);
            reader.rewind(start);
            reader.skip()?;
            empty
        };
        any |= !empty;
    }
    Ok(any)
}
