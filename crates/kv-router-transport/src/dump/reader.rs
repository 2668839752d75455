//! Reads a dump.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;

use kv_router_types::WorkerRank;

use super::{DumpFingerprint, DumpReadError, DumpRecord};
use crate::wire::frame::{self, FrameKind, Input};
use crate::wire::layout::{ChunkHead, DumpEnd, DumpStart, HEADER_BYTES};
use crate::wire::record::{self, Record};
use crate::{DecodeError, WireField, WireLimits};

/// Reads a dump record by record, as an iterator.
///
/// `None` means that the end was read and everything was there; every other end is an error, after which the
/// iterator gives `None` too. Each chunk is checked whole before its first record is given. Reads are of whole
/// frames, a header and a body each; nothing behind the end frame is read. Memory is bounded by one frame and the
/// names of the ranks that have a watermark, which take less than their watermarks did in the dump.
///
/// What was given before an error is a part, and a part of a state is not a state: restore into an empty index
/// and put that in place after the last record, or forget the ranks again on an error. Only a rank with a
/// watermark can join its stream ([`StreamSequencer::restored`](crate::StreamSequencer::restored)).
pub struct DumpReader<R> {
    source: R,
    limits: WireLimits,
    fingerprint: DumpFingerprint,
    /// The frame being read, header included; it grows with what came, not with what was announced.
    frame: Vec<u8>,
    /// Where in `frame` the next record begins.
    at: usize,
    /// Where in the dump `frame` begins.
    offset: u64,
    rank: Option<WorkerRank>,
    /// The ranks whose watermark was read.
    marked: BTreeSet<WorkerRank>,
    totals: DumpEnd,
    /// Whether the end, or an error, was met.
    over: bool,
}

impl<R: Read> DumpReader<R> {
    /// Reads the start of a dump, with default limits.
    ///
    /// # Errors
    ///
    /// [`DumpReadError`] when the source fails, or this is no dump.
    pub fn new(source: R) -> Result<Self, DumpReadError> {
        Self::with_limits(source, WireLimits::default())
    }

    /// Reads the start of a dump whose frames keep to `limits`.
    ///
    /// # Errors
    ///
    /// [`DumpReadError`] when the limits contradict each other, the source fails, or this is no dump.
    pub fn with_limits(source: R, limits: WireLimits) -> Result<Self, DumpReadError> {
        limits.validate()?;
        let mut reader = Self {
            source,
            limits,
            fingerprint: DumpFingerprint::default(),
            frame: Vec::new(),
            at: 0,
            offset: 0,
            rank: None,
            marked: BTreeSet::new(),
            totals: DumpEnd { chunks: 0, events: 0, watermarks: 0 },
            over: false,
        };
        let kind = reader.next_frame(WireField::DumpStart)?;
        reader.within(|reader, input| {
            if kind != FrameKind::DumpStart {
                return Err(misplaced(kind));
            }
            let start = input.take::<DumpStart>(WireField::DumpStart)?;
            reader.fingerprint = DumpFingerprint::new(start.fingerprint);
            input.end(WireField::Body)
        })?;
        Ok(reader)
    }

    /// What the writer said has to be equal. Compare it before the first record.
    pub fn fingerprint(&self) -> DumpFingerprint {
        self.fingerprint
    }

    /// The source. Behind a dump that was read to its end it stands at the first byte after it.
    pub fn into_inner(self) -> R {
        self.source
    }

    fn next_record(&mut self) -> Result<Option<DumpRecord>, DumpReadError> {
        loop {
            if self.at == self.frame.len() && self.next_chunk()? {
                return Ok(None);
            }
            let record = self.within(|reader, input| {
                if input.left() == 0 {
                    return Ok(None);
                }
                match record::take_record(input, &reader.limits)? {
                    Record::Rank(rank) => {
                        reader.rank = Some(rank);
                        Ok(None)
                    }
                    Record::Event(event) => {
                        let from = reader.rank.ok_or(DecodeError::Missing { field: WireField::Rank })?;
                        reader.totals.events += 1;
                        Ok(Some(DumpRecord::Event { from, event }))
                    }
                    Record::Note(bytes) => {
                        let from = reader.rank.ok_or(DecodeError::Missing { field: WireField::Rank })?;
                        reader.totals.events += 1;
                        Ok(Some(DumpRecord::Note { from, bytes }))
                    }
                    Record::Watermark(from, watermark) => {
                        if !reader.marked.insert(from) {
                            return Err(DecodeError::RepeatedWatermark { rank: from });
                        }
                        reader.totals.watermarks += 1;
                        Ok(Some(DumpRecord::Watermark { from, watermark }))
                    }
                }
            })?;
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// Reads the next chunk's head, or the end and says so.
    fn next_chunk(&mut self) -> Result<bool, DumpReadError> {
        let kind = self.next_frame(WireField::DumpEnd)?;
        self.within(|reader, input| match kind {
            FrameKind::DumpChunk => {
                let head = input.take::<ChunkHead>(WireField::ChunkIndex)?;
                same(WireField::ChunkIndex, head.index, reader.totals.chunks)?;
                reader.totals.chunks += 1;
                reader.rank = None;
                Ok(false)
            }
            FrameKind::DumpEnd => {
                let stated = input.take::<DumpEnd>(WireField::DumpEnd)?;
                input.end(WireField::Body)?;
                same(WireField::ChunkCount, stated.chunks, reader.totals.chunks)?;
                same(WireField::EventCount, stated.events, reader.totals.events)?;
                same(WireField::WatermarkCount, stated.watermarks, reader.totals.watermarks)?;
                Ok(true)
            }
            FrameKind::Batch | FrameKind::DumpStart => Err(misplaced(kind)),
        })
    }

    /// Reads and checks one frame. Where there is none, `wanted` is what is missing.
    fn next_frame(&mut self, wanted: WireField) -> Result<FrameKind, DumpReadError> {
        self.offset += self.frame.len() as u64;
        self.frame.clear();
        self.at = 0;
        self.fill(HEADER_BYTES)?;
        if self.frame.is_empty() {
            let needed = HEADER_BYTES as u64;
            return Err(self.malformed(0, DecodeError::Truncated { field: wanted, needed, left: 0 }));
        }
        let header = match frame::check_header(&self.frame, &self.limits) {
            Ok(header) => header,
            Err(error) => return Err(self.malformed(0, error)),
        };
        self.fill(header.body_bytes)?;
        let left = self.frame.len() - HEADER_BYTES;
        if left < header.body_bytes {
            let (needed, left) = (header.body_bytes as u64, left as u64);
            return Err(self.malformed(0, DecodeError::Truncated { field: WireField::Body, needed, left }));
        }
        header.verify(&self.frame).map_err(|error| self.malformed(0, error))?;
        self.at = HEADER_BYTES;
        Ok(header.kind)
    }

    /// Appends up to `count` bytes to the frame: fewer where the source ends.
    fn fill(&mut self, count: usize) -> Result<(), DumpReadError> {
        let read = self.source.by_ref().take(count as u64).read_to_end(&mut self.frame);
        let offset = self.offset + self.frame.len() as u64;
        read.map(drop).map_err(|source| DumpReadError::Io { offset, source })
    }

    /// Decodes from the rest of the frame and moves on by what was taken.
    fn within<T>(
        &mut self,
        decode: impl FnOnce(&mut Self, &mut Input<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, DumpReadError> {
        let frame = std::mem::take(&mut self.frame);
        let mut input = Input::new(&frame[self.at..]);
        let decoded = decode(self, &mut input);
        let at = std::mem::replace(&mut self.at, frame.len() - input.left());
        self.frame = frame;
        decoded.map_err(|error| self.malformed(at, error))
    }

    fn malformed(&self, at: usize, source: DecodeError) -> DumpReadError {
        DumpReadError::Malformed { offset: self.offset + at as u64, source }
    }
}

fn misplaced(kind: FrameKind) -> DecodeError {
    DecodeError::InvalidValue { field: WireField::Kind, found: kind as u64 }
}

fn same(field: WireField, stated: u64, counted: u64) -> Result<(), DecodeError> {
    if stated == counted { Ok(()) } else { Err(DecodeError::CountMismatch { field, stated, counted }) }
}

impl<R: Read> Iterator for DumpReader<R> {
    type Item = Result<DumpRecord, DumpReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let record = self.next_record().transpose();
        self.over = !matches!(record, Some(Ok(_)));
        record
    }
}

impl<R: Read> std::iter::FusedIterator for DumpReader<R> {}

impl<R> fmt::Debug for DumpReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DumpReader")
            .field("fingerprint", &self.fingerprint)
            .field("offset", &(self.offset + self.at as u64))
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
