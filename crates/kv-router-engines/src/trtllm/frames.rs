//! Pulled events as the frames that a publisher would have sent: one an event, under the event's own number.

use super::json::{self, Event};
use super::{TrtllmDecoder, fault};
use crate::encode::{BatchEncoder, EventForm, RemoveFields, StoreFields};
use crate::error::BatchError;
use crate::limits::DecodeLimits;
use crate::wire::{EventKind, WireBatch, WireEvent};
use kv_router_types::DpRank;

/// One pulled event, for whatever takes the frames of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulledFrame<'a> {
    /// The rank that it names; `None` when it names none, and the engine has one.
    pub rank: Option<DpRank>,
    /// Its `event_id`: counts from 0 for each rank and in each life of the engine.
    pub sequence: u64,
    /// For [`WireBatch::decode`]. Without events when this one concerns a window that does not count; lossy when it could
    /// not be understood.
    pub payload: &'a [u8],
}

impl TrtllmDecoder {
    /// Calls `each` with every event of a list, in order, and says how many had no number and were left out: the next
    /// one then shows a gap.
    ///
    /// # Errors
    ///
    /// [`BatchError`] when the bytes are no such JSON, or from some place on: what was read before counts, and what was
    /// lost is a gap before the next event.
    pub fn frames(
        &mut self,
        json: &[u8],
        limits: &DecodeLimits,
        mut each: impl FnMut(PulledFrame<'_>),
    ) -> Result<u64, BatchError> {
        let limit = limits.bytes();
        if json.len() > limit {
            return Err(BatchError::TooLong { bytes: json.len(), limit });
        }
        let (mut batch, mut encoder) = (WireBatch::new(), BatchEncoder::new(EventForm::Map));
        let (mut payload, mut unnumbered, mut overflow) = (Vec::new(), 0, None);
        let result = json::each_event(json, |raw| {
            let event = serde_json::from_str::<Event<'_>>(raw.get()).ok();
            let Some((event, sequence)) = event.and_then(|event| event.event_id.map(|id| (event, id))) else {
                unnumbered += 1;
                return;
            };
            batch.reset();
            // The number says it to whoever takes the frame.
            let _begins = self.begins(&event);
            if let Err(error) = self.parsed(&event, limits, &mut batch) {
                overflow = overflow.or(Some(error));
                return;
            }
            batch.events().for_each(|event| again(event, &mut encoder));
            if batch.is_lossy() {
                encoder.unreadable();
            }
            payload.clear();
            encoder.finish(f64::NAN, None, &mut payload); // no moment is known
            each(PulledFrame { rank: event.attention_dp_rank.map(DpRank::new), sequence, payload: &payload });
        });
        match (overflow, result) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(fault(&error, json)),
            (None, Ok(())) => Ok(unnumbered),
        }
    }
}

/// Writes an event as it would have come from a publisher.
fn again(event: WireEvent<'_>, encoder: &mut BatchEncoder) {
    let hashes: Vec<_> = event.hashes().iter().collect();
    match event.kind() {
        EventKind::Stored => {
            let fields = StoreFields {
                hashes: &hashes,
                parent: event.parent(),
                tokens: event.tokens(),
                block_size: event.block_size(),
                medium: event.medium(),
                ..StoreFields::default()
            };
            if event.has_media_keys() {
                encoder.stored_with_media(&fields);
            } else {
                encoder.stored(&fields);
            }
        }
        EventKind::Removed => {
            encoder.removed(&RemoveFields { hashes: &hashes, medium: event.medium(), group: None });
        }
        EventKind::Cleared => encoder.cleared(),
    }
}
