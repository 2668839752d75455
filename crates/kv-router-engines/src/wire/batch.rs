//! A decoded payload: tables that are filled again and again, and events that point into them.

use kv_router_types::DpRank;

use super::event::{RawEvent, RawExtra, Span};
use super::repeat::HashLists;
use super::{RawHash, WireEvent};
use crate::error::EventFaults;

/// What one payload said. Made once and filled many times: decoding allocates nothing once its tables have grown to
/// the size of the largest payload seen.
///
/// ```
/// use kv_router_engines::{DecodeLimits, WireBatch};
///
/// let payload = [0x92, 0x00, 0x91, 0x91, 0xb0, b'A', b'l', b'l', b'B', b'l', b'o', b'c', b'k', b's',
///     b'C', b'l', b'e', b'a', b'r', b'e', b'd'];
/// let mut batch = WireBatch::new();
/// batch.decode(&payload, &DecodeLimits::default())?;
/// assert!(batch.clears());
/// assert_eq!(batch.rank(), None); // not on the wire: take the subscription's
/// # Ok::<(), kv_router_engines::BatchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WireBatch {
    pub(super) time: f64,
    pub(super) rank: Option<DpRank>,
    pub(crate) faults: EventFaults,
    pub(crate) events: Vec<RawEvent>,
    pub(crate) hashes: Vec<RawHash>,
    /// Tokens of all events; two an element where an event has pairs.
    pub(crate) tokens: Vec<u32>,
    /// Strings of all events, one behind the other.
    pub(crate) text: String,
    /// Digests, embedding digests, and extra keys that are no strings.
    pub(crate) bytes: Vec<u8>,
    pub(super) extra: Vec<RawExtra>,
    /// Extra keys of each block that has an entry for them.
    pub(super) extra_blocks: Vec<Option<Span>>,
    pub(super) lookahead: Vec<Span>,
    /// Of the event that is being read.
    pub(super) hash_lists: HashLists,
}

/// What a timestamp counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds since 1970: vLLM, SGLang, TensorRT-LLM.
    Seconds,
    /// Milliseconds since 1970: Mooncake.
    Milliseconds,
}

impl WireBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// The timestamp as it stood on the wire: any number, not a number included. Never order by it.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// What [`WireBatch::time`] counts. Told by its size: as seconds it would be after the year 5138.
    pub fn time_unit(&self) -> TimeUnit {
        if self.time > 1e11 { TimeUnit::Milliseconds } else { TimeUnit::Seconds }
    }

    /// When the engine wrote the batch, in seconds since 1970; `None` when that is no moment, or before 1970.
    pub fn seconds(&self) -> Option<f64> {
        let seconds = match self.time_unit() {
            TimeUnit::Seconds => self.time,
            TimeUnit::Milliseconds => self.time / 1_000.0,
        };
        (seconds >= 0.0 && seconds.is_finite()).then_some(seconds)
    }

    /// The rank that the batch names; `None` when it names none, and the subscription decides.
    pub fn rank(&self) -> Option<DpRank> {
        self.rank
    }

    /// The events that could be read, in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = WireEvent<'_>> {
        self.events.iter().map(|raw| WireEvent::new(self, raw))
    }

    /// The events that could not, by reason.
    pub fn faults(&self) -> &EventFaults {
        &self.faults
    }

    /// Whether an event was lost: the batch is then `lossy` to a sequence machine, and the rank suspect.
    pub fn is_lossy(&self) -> bool {
        self.faults.total() > 0
    }

    /// Whether the batch forgets all blocks of its rank: a sequence machine wants to know before it is applied.
    pub fn clears(&self) -> bool {
        self.events().any(|event| event.kind() == super::EventKind::Cleared)
    }

    pub(crate) fn reset(&mut self) {
        let Self {
            time,
            rank,
            faults,
            events,
            hashes,
            tokens,
            text,
            bytes,
            extra,
            extra_blocks,
            lookahead,
            hash_lists,
        } = self;
        (*time, *rank, *faults, *hash_lists) = (0.0, None, EventFaults::default(), HashLists::default());
        events.clear();
        hashes.clear();
        tokens.clear();
        text.clear();
        bytes.clear();
        extra.clear();
        extra_blocks.clear();
        lookahead.clear();
    }

    /// Keeps a string, if it is UTF-8.
    pub(crate) fn keep_text(&mut self, bytes: &[u8]) -> Option<Span> {
        let text = std::str::from_utf8(bytes).ok()?;
        let start = self.text.len();
        self.text.push_str(text);
        Some(Span::new(start, self.text.len()))
    }

    pub(crate) fn keep_bytes(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span::new(start, self.bytes.len())
    }

    pub(crate) fn text(&self, span: Span) -> &str {
        let start = span.start as usize;
        self.text.get(start..start + span.length as usize).unwrap_or_default()
    }
}
