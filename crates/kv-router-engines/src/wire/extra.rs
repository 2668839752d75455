//! Extra keys: a list a block, of strings, (identifier, offset) pairs, bytes, and whatever a later release adds.

use super::WireBatch;
use super::event::{RawExtra, Span};
use super::fields::Stop;
use crate::error::EventFault;
use crate::msgpack::{Kind, Reader};

/// How deep a key of an unknown form may nest.
const LEVELS: usize = 32;

/// Keys, and entries of blocks, in one payload: they take more memory than bytes on the wire.
const MOST: usize = 1 << 20;

impl WireBatch {
    pub(super) fn read_extra_keys(&mut self, reader: &mut Reader<'_>) -> Result<Span, Stop> {
        let blocks = reader.array()?.ok_or(EventFault::BadExtraKeys)?;
        let first = self.extra_blocks.len();
        if blocks > MOST.saturating_sub(first) {
            return Err(EventFault::BadExtraKeys.into());
        }
        let mut left = blocks;
        while left > 0 {
            let nils = reader.nils(left); // as a rule all of them
            self.extra_blocks.extend(std::iter::repeat_n(None, nils));
            left -= nils;
            if left > 0 {
                let keys = self.read_block_keys(reader)?;
                self.extra_blocks.push(Some(keys));
                left -= 1;
            }
        }
        Ok(Span::new(first, self.extra_blocks.len()))
    }

    fn read_block_keys(&mut self, reader: &mut Reader<'_>) -> Result<Span, Stop> {
        let keys = reader.array()?.ok_or(EventFault::BadExtraKeys)?;
        let start = self.extra.len();
        if keys > MOST.saturating_sub(start) {
            return Err(EventFault::BadExtraKeys.into());
        }
        for _ in 0..keys {
            let key = self.read_key(reader)?;
            self.extra.push(key);
        }
        Ok(Span::new(start, self.extra.len()))
    }

    fn read_key(&mut self, reader: &mut Reader<'_>) -> Result<RawExtra, Stop> {
        match reader.kind()? {
            Kind::Str => {
                let text = reader.str()?.and_then(|bytes| self.keep_text(bytes));
                Ok(RawExtra::Text(text.ok_or(EventFault::BadExtraKeys)?))
            }
            Kind::Bin => {
                let bytes = reader.bin()?.ok_or(EventFault::BadExtraKeys)?;
                Ok(RawExtra::Bytes(self.keep_bytes(bytes)))
            }
            _ => {
                let start = reader.at();
                if let Some(media) = self.read_media(reader)? {
                    return Ok(media);
                }
                reader.rewind(start);
                if !reader.skip_shallow::<LEVELS>()? {
                    return Err(EventFault::BadExtraKeys.into());
                }
                Ok(RawExtra::Other(self.keep_bytes(reader.since(start))))
            }
        }
    }

    /// An identifier and an offset, if that is what the next value is. Moves in any case.
    fn read_media(&mut self, reader: &mut Reader<'_>) -> Result<Option<RawExtra>, Stop> {
        if reader.array()? != Some(2) {
            return Ok(None);
        }
        let Some(id) = reader.str()? else { return Ok(None) };
        let Some(offset) = reader.int()? else { return Ok(None) };
        let value = offset.bits.cast_signed();
        if offset.negative != (value < 0) {
            return Ok(None);
        }
        let Some(id) = self.keep_text(id) else { return Ok(None) };
        Ok(Some(RawExtra::Media { id, offset: value }))
    }
}
