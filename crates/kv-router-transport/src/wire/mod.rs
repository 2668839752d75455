//! The binary form of batches. `docs/wire.md` has every byte of it.
//!
//! One value has one encoding and one encoding has one value: decoding what was encoded gives the value back,
//! encoding what was decoded gives the bytes back. A frame is checked whole, by length and by checksum, before
//! anything in it is believed.

mod crc;
mod error;
pub(crate) mod frame;
pub(crate) mod layout;
mod limits;
pub(crate) mod record;

use kv_router_types::{DpRank, WorkerId, WorkerRank};

pub use crc::crc32;
pub use error::{DecodeError, EncodeError, WireField};
pub use limits::{WireLimits, WireLimitsError};

use self::frame::FrameKind;
use self::layout::BatchHead;
use crate::{EventBatch, Incarnation};

/// What a frame with one event has beside the event's blocks, at most: header, batch head, record head.
pub(crate) const FRAME_OVERHEAD: usize = 64;

/// Encodes and decodes batches, one a frame.
///
/// ```
/// use kv_router_transport::{BatchCodec, EventBatch, Incarnation};
/// use kv_router_types::{KvEvent, WorkerId, WorkerRank};
///
/// let codec = BatchCodec::default();
/// let batch = EventBatch {
///     from: WorkerRank::from(WorkerId::new(7)),
///     incarnation: Incarnation::new(1),
///     sequence: 42,
///     events: vec![KvEvent::Cleared],
/// };
/// let mut frame = Vec::new();
/// codec.encode(&batch, &mut frame)?;
/// assert_eq!(codec.decode(&frame)?, batch);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchCodec {
    limits: WireLimits,
}

impl BatchCodec {
    /// A codec with other limits than the default ones.
    ///
    /// # Errors
    ///
    /// [`WireLimitsError`] when the limits contradict each other.
    pub fn new(limits: WireLimits) -> Result<Self, WireLimitsError> {
        limits.validate()?;
        Ok(Self { limits })
    }

    /// Appends one frame to `out`.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] when the batch is above the limits; `out` is then as it was.
    pub fn encode(&self, batch: &EventBatch, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let at = out.len();
        let written = self.write(batch, out);
        if written.is_err() {
            out.truncate(at);
        }
        written
    }

    fn write(&self, batch: &EventBatch, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let found = batch.events.len();
        let limit = self.limits.events.min(u32::MAX as usize);
        let too_large =
            EncodeError::TooLarge { field: WireField::Events, found: found as u64, limit: limit as u64 };
        let events = u32::try_from(found).map_err(|_| too_large)?;
        if found > limit {
            return Err(too_large);
        }
        let at = frame::open(out);
        let head = BatchHead {
            worker: batch.from.worker.get(),
            rank: batch.from.rank.get(),
            incarnation: batch.incarnation.get(),
            sequence: batch.sequence,
            events,
        };
        layout::put(&head, out);
        for event in &batch.events {
            record::put_event(event, &self.limits, out)?;
            // A batch of many events must not grow without bound before it is refused.
            if out.len() - at > self.limits.frame_bytes {
                break;
            }
        }
        frame::close(FrameKind::Batch, at, &self.limits, out)
    }

    /// Decodes bytes that are exactly one frame. Allocates at most three times their length.
    ///
    /// # Errors
    ///
    /// [`DecodeError`], which names the field. There is no partial result.
    pub fn decode(&self, frame: &[u8]) -> Result<EventBatch, DecodeError> {
        let mut input = frame::check_frame(FrameKind::Batch, frame, &self.limits)?;
        let head = input.take::<BatchHead>(WireField::BatchHead)?;
        let count = input.count(head.events, layout::RECORD_BYTES, self.limits.events, WireField::Events)?;
        let mut events = Vec::with_capacity(count.get());
        for _ in 0..count.get() {
            events.push(record::take_event(&mut input, &self.limits)?);
        }
        input.end(WireField::Body)?;
        Ok(EventBatch {
            from: WorkerRank::new(WorkerId::new(head.worker), DpRank::new(head.rank)),
            incarnation: Incarnation::new(head.incarnation),
            sequence: head.sequence,
            events,
        })
    }
}
