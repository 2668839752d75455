//! TensorRT-LLM's pulled events: JSON, as `get_kv_cache_events` and its HTTP server give them.

mod frames;
mod json;

pub use frames::PulledFrame;

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::error::{BatchError, EventFault};
use crate::limits::DecodeLimits;
use crate::wire::{
    EVERYWHERE, EventKind, MAX_RANK, RawEvent, RawHash, Span, TextField, TokenForm, WireBatch, string_token,
};
use json::{Block, Data, Event, Hash, Token};

/// Reads TensorRT-LLM's JSON into the same batches as the pushed streams of all engines. One for each worker: it
/// remembers the largest attention window, because only that one says how much of a prompt is cached, and the size of a
/// block, because one that is not full says nothing of it.
///
/// An event names its own rank: see [`WireEvent::rank`](crate::WireEvent::rank) and
/// [`Ingest::apply_rank`](crate::Ingest::apply_rank).
///
/// ```
/// use kv_router_engines::{DecodeLimits, TrtllmDecoder, WireBatch};
///
/// let json = br#"[{"event_id": 7, "data": {"type": "removed", "block_hashes": [1, 2]}, "window_size": 4096}]"#;
/// let mut batch = WireBatch::new();
/// TrtllmDecoder::new().decode(json, &DecodeLimits::default(), &mut batch)?;
/// assert_eq!(batch.events().next().map(|event| event.hashes().len()), Some(2));
/// # Ok::<(), kv_router_engines::BatchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TrtllmDecoder {
    /// By the rank that events name; bounded by [`MAX_RANK`].
    ranks: BTreeMap<Option<u32>, Life>,
}

/// What is known of the present life of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The `event_id` of the last event.
    last: Option<u64>,
    /// The largest window that an event named.
    window: u64,
    /// Tokens of the largest block.
    block: usize,
}

impl TrtllmDecoder {
    /// A decoder that has seen no event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what the batch held by what a list of events, or a single event, says. An event of a smaller window
    /// is passed over. When a larger window than ever turns up after events of a smaller one, they were of a group
    /// that does not count, so a clear comes first.
    ///
    /// One pass; each event is parsed alone, so that one of them can be wrong. Depth is limited to 128 levels.
    ///
    /// # Errors
    ///
    /// [`BatchError`] when the bytes are no such JSON; the batch is then empty.
    pub fn decode(
        &mut self,
        json: &[u8],
        limits: &DecodeLimits,
        batch: &mut WireBatch,
    ) -> Result<(), BatchError> {
        batch.reset();
        let limit = limits.bytes();
        if json.len() > limit {
            return Err(BatchError::TooLong { bytes: json.len(), limit });
        }
        let mut overflow = None;
        let result = json::each_event(json, |event| {
            overflow = overflow.or(self.event(event, limits, batch).err());
        });
        let result = match (overflow, result) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(fault(&error, json)),
            (None, Ok(())) => Ok(()),
        };
        if result.is_err() {
            batch.reset();
        }
        result
    }

    fn event(
        &mut self,
        raw: &RawValue,
        limits: &DecodeLimits,
        batch: &mut WireBatch,
    ) -> Result<(), BatchError> {
        match serde_json::from_str::<Event<'_>>(raw.get()) {
            Ok(event) => {
                if self.begins(&event) {
                    batch.events.push(stamped(RawEvent::new(EventKind::Cleared), &event));
                }
                self.parsed(&event, limits, batch)
            }
            Err(_) => {
                batch.faults.add(EventFault::NotAnEvent);
                Ok(())
            }
        }
    }

    /// Whether the event is of another life of its rank than the one before: its engine started again, perhaps with other
    /// windows and blocks.
    fn begins(&mut self, event: &Event<'_>) -> bool {
        let Some(life) = self.ranks.get_mut(&event.attention_dp_rank) else { return false };
        let begins = event.event_id.zip(life.last).is_some_and(|(id, last)| id < last);
        if begins {
            *life = Life::default();
        }
        begins
    }

    fn parsed(
        &mut self,
        event: &Event<'_>,
        limits: &DecodeLimits,
        batch: &mut WireBatch,
    ) -> Result<(), BatchError> {
        if event.attention_dp_rank.is_some_and(|rank| u64::from(rank) > MAX_RANK) {
            batch.faults.add(EventFault::NotAnEvent);
            return Ok(());
        }
        let life = self.ranks.entry(event.attention_dp_rank).or_default();
        let window = event.window_size.unwrap_or(0);
        life.last = event.event_id.or(life.last);
        if window < life.window {
            return Ok(());
        }
        if life.window > 0 && window > life.window {
            batch.events.push(stamped(RawEvent::new(EventKind::Cleared), event));
        }
        life.window = window;
        match event.data.kind.as_ref() {
            "created" => {}
            "stored" => stored(event, &mut life.block, batch),
            "removed" => removed(event, batch),
            "updated" => updated(event, batch),
            _ => batch.faults.add(EventFault::UnknownTag),
        }
        if batch.events.len() > limits.events {
            return Err(BatchError::TooManyEvents { limit: limits.events });
        }
        if batch.hashes.len() > limits.hashes {
            return Err(BatchError::TooManyHashes { limit: limits.hashes });
        }
        Ok(())
    }
}

/// The rank and the window, which stand outside of the event's data.
fn stamped(mut raw: RawEvent, event: &Event<'_>) -> RawEvent {
    raw.rank = event.attention_dp_rank;
    raw.window = event.window_size;
    raw
}

/// Runs of blocks that share a cache level, each an event of its own under the one before. `size` is that of the largest
/// block so far. The last block may be a partial one, at the end of a request: no prompt is compared with it.
fn stored(event: &Event<'_>, size: &mut usize, batch: &mut WireBatch) {
    let Data { blocks: Some(blocks), parent_hash, .. } = &event.data else {
        return batch.faults.add(EventFault::NoHashes);
    };
    let alike = |a: &Block<'_>, b: &Block<'_>| a.tokens.len() == b.tokens.len() && a.level() == b.level();
    let mut parent = *parent_hash;
    for run in blocks.chunk_by(alike) {
        let tokens = run.first().map_or(0, |block| block.tokens.len());
        if tokens < *size {
            return;
        }
        *size = tokens;
        let mut raw = stamped(RawEvent::new(EventKind::Stored), event);
        raw.parent = parent.map(name);
        raw.hashes = keep_hashes(batch, run.iter().map(|block| block.block_hash));
        let start = batch.tokens.len();
        batch.tokens.extend(run.iter().flat_map(|block| &block.tokens).map(token));
        raw.tokens = Span::new(start, batch.tokens.len());
        raw.token_form = TokenForm::Flat;
        raw.block_size = Some(tokens as u64);
        raw.media_keys = run.iter().any(Block::has_media);
        let level = run.first().map_or(0, Block::level);
        raw.set_text(TextField::Medium, medium(level, batch));
        batch.events.push(raw);
        parent = run.last().map(|block| block.block_hash);
    }
}

fn removed(event: &Event<'_>, batch: &mut WireBatch) {
    let Some(hashes) = &event.data.block_hashes else { return batch.faults.add(EventFault::NoHashes) };
    let mut raw = stamped(RawEvent::new(EventKind::Removed), event);
    raw.hashes = keep_hashes(batch, hashes.iter().copied());
    // The event does not say from where: from every level that has it.
    raw.set_text(TextField::Medium, batch.keep_text(EVERYWHERE.as_bytes()));
    batch.events.push(raw);
}

/// A block that moves between levels is stored at the new one, without tokens, and removed at the old one. A change
/// of priority alone changes nothing.
fn updated(event: &Event<'_>, batch: &mut WireBatch) {
    let Some(level) = &event.data.cache_level else { return };
    let Some(hash) = event.data.block_hash else { return batch.faults.add(EventFault::NoHashes) };
    for (kind, level) in [(EventKind::Stored, level.new_value), (EventKind::Removed, level.old_value)] {
        let mut raw = stamped(RawEvent::new(kind), event);
        raw.hashes = keep_hashes(batch, std::iter::once(hash));
        raw.set_text(TextField::Medium, medium(level, batch));
        batch.events.push(raw);
    }
}

fn keep_hashes(batch: &mut WireBatch, hashes: impl Iterator<Item = Hash>) -> Span {
    let start = batch.hashes.len();
    batch.hashes.extend(hashes.map(name));
    Span::new(start, batch.hashes.len())
}

fn name(hash: Hash) -> RawHash {
    RawHash::unsigned(hash.0)
}

/// A token that stands for something else than itself, an image's for instance, is another one.
fn token(token: &Token) -> u32 {
    match token.token_extra_id {
        0 => token.token_id,
        extra => string_token(&format!("{} {extra}", token.token_id)),
    }
}

fn medium(level: u64, batch: &mut WireBatch) -> Option<Span> {
    match level {
        0 => batch.keep_text(b"GPU"),
        1 => batch.keep_text(b"CPU"),
        _ => batch.keep_text(b"LEVEL"), // no such level today: an unknown medium
    }
}

fn fault(error: &serde_json::Error, json: &[u8]) -> BatchError {
    let line_start: usize = json
        .split_inclusive(|&byte| byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let at = line_start + error.column().saturating_sub(1);
    match error.classify() {
        serde_json::error::Category::Eof => BatchError::Truncated { at },
        serde_json::error::Category::Data => BatchError::NotABatch,
        _ if error.to_string().starts_with("trailing") => BatchError::Trailing { at },
        _ => BatchError::Malformed { at },
    }
}

#[cfg(test)]
mod tests;
