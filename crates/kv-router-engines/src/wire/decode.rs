//! The batch around the events: an array of two elements or more, or a map.

use kv_router_types::DpRank;

use super::WireBatch;
use crate::error::BatchError;
use crate::limits::DecodeLimits;
use crate::msgpack::Reader;

/// The largest rank accepted. Larger ones are a negative number gone wrong, never a fleet.
pub(crate) const MAX_RANK: u64 = 65_535;

impl WireBatch {
    /// Replaces what the batch held by what a MessagePack payload says.
    ///
    /// One pass over the bytes, and a second over those of an event that cannot be read. Stack and memory do not
    /// depend on nesting or on declared lengths.
    ///
    /// # Errors
    ///
    /// [`BatchError`] when nothing can be used; the batch is then empty. An event that alone cannot be read is no
    /// error: see [`WireBatch::faults`].
    pub fn decode(&mut self, payload: &[u8], limits: &DecodeLimits) -> Result<(), BatchError> {
        self.reset();
        let result = self.read(payload, limits);
        if result.is_err() {
            self.reset();
        }
        result
    }

    fn read(&mut self, payload: &[u8], limits: &DecodeLimits) -> Result<(), BatchError> {
        let limit = limits.bytes();
        if payload.len() > limit {
            return Err(BatchError::TooLong { bytes: payload.len(), limit });
        }
        let mut reader = Reader::new(payload);
        if let Some(length) = reader.array()? {
            self.read_array(&mut reader, length, limits)?;
        } else if let Some(length) = reader.map()? {
            self.read_map(&mut reader, length, limits)?;
        } else {
            return Err(BatchError::NotABatch);
        }
        match reader.left() {
            0 => Ok(()),
            _ => Err(BatchError::Trailing { at: reader.at() }),
        }
    }

    fn read_array(
        &mut self,
        reader: &mut Reader<'_>,
        length: usize,
        limits: &DecodeLimits,
    ) -> Result<(), BatchError> {
        if length < 2 {
            return Err(BatchError::Incomplete);
        }
        self.time = reader.number()?.ok_or(BatchError::BadTimestamp)?;
        self.read_events(reader, limits)?;
        if length > 2 {
            self.rank = rank(reader)?;
        }
        for _ in 3..length {
            reader.skip()?; // a later release appends
        }
        Ok(())
    }

    /// No released engine sends this form, but one commit of vLLM did.
    fn read_map(
        &mut self,
        reader: &mut Reader<'_>,
        length: usize,
        limits: &DecodeLimits,
    ) -> Result<(), BatchError> {
        let (mut timed, mut filled) = (false, false);
        for _ in 0..length {
            let Some(key) = reader.str()? else {
                reader.skip()?;
                reader.skip()?;
                continue;
            };
            match key {
                b"ts" => {
                    self.time = reader.number()?.ok_or(BatchError::BadTimestamp)?;
                    timed = true;
                }
                b"events" if !filled => {
                    self.read_events(reader, limits)?;
                    filled = true;
                }
                b"events" => return Err(BatchError::BadEvents), // a second list: which one counts?
                b"data_parallel_rank" | b"dp_rank" | b"attn_dp_rank" => {
                    self.rank = rank(reader)?.or(self.rank);
                }
                _ => reader.skip()?,
            }
        }
        if timed && filled { Ok(()) } else { Err(BatchError::Incomplete) }
    }

    fn read_events(&mut self, reader: &mut Reader<'_>, limits: &DecodeLimits) -> Result<(), BatchError> {
        let length = reader.array()?.ok_or(BatchError::BadEvents)?;
        if length > limits.events {
            return Err(BatchError::TooManyEvents { limit: limits.events });
        }
        let mut burst = None;
        for _ in 0..length {
            if burst.as_ref().is_some_and(|burst| self.read_repeated(burst, reader, limits)) {
                continue;
            }
            let start = reader.at();
            let was_read = self.read_event(reader, limits)?;
            burst = if was_read { self.burst(reader, start) } else { None };
        }
        Ok(())
    }
}

fn rank(reader: &mut Reader<'_>) -> Result<Option<DpRank>, BatchError> {
    if reader.nil()? {
        return Ok(None);
    }
    let rank = reader.int()?.and_then(|int| int.unsigned()).filter(|&rank| rank <= MAX_RANK);
    rank.map(|rank| Some(DpRank::new(rank as u32))).ok_or(BatchError::BadRank)
}
