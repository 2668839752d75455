//! Writes a dump.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;

use kv_router_types::{KvEvent, WorkerRank};

use super::{DumpFingerprint, DumpWriteError};
use crate::wire::FRAME_OVERHEAD;
use crate::wire::frame::{self, FrameKind};
use crate::wire::layout::{self, BLOCK_BYTES, ChunkHead, DumpEnd, DumpStart};
use crate::wire::record;
use crate::{EncodeError, Watermark, WireLimits};

/// A chunk is written once it has this many bytes. Larger ones are hardly faster and hold more memory.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a dump record by record, in chunks, so the sink needs no buffer of its own.
///
/// Take each rank's watermark ([`StreamSequencer::watermark`](crate::StreamSequencer::watermark)) before its
/// events: what is applied while the dump is written may be in it or not, replaying it changes nothing.
///
/// [`finish`](Self::finish) writes the end. Without it there is no dump, on purpose: a writer that is dropped
/// half-way, or a program that dies, leaves bytes that no reader takes for whole.
///
/// ```
/// use kv_router_transport::{DumpFingerprint, DumpReader, DumpRecord, DumpWriter, Incarnation, Watermark};
/// use kv_router_types::{KvEvent, WorkerId, WorkerRank};
///
/// let rank = WorkerRank::from(WorkerId::new(7));
/// let watermark = Watermark::new(Incarnation::new(1), 41);
/// let mut writer = DumpWriter::new(Vec::new(), DumpFingerprint::new(16))?;
/// writer.watermark(rank, watermark)?;
/// writer.event(rank, &KvEvent::Cleared)?;
/// let bytes = writer.finish()?;
///
/// let reader = DumpReader::new(&bytes[..])?;
/// assert_eq!(reader.fingerprint(), DumpFingerprint::new(16));
/// let records = reader.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(records[0], DumpRecord::Watermark { from: rank, watermark });
/// assert_eq!(records[1], DumpRecord::Event { from: rank, event: KvEvent::Cleared });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dump that is not finished is none"]
pub struct DumpWriter<W> {
    sink: W,
    limits: WireLimits,
    /// The chunk being filled, its header still open. Empty between chunks.
    chunk: Vec<u8>,
    /// Whose records are being written, in this chunk.
    rank: Option<WorkerRank>,
    /// The ranks whose watermark was written.
    marked: BTreeSet<WorkerRank>,
    totals: DumpEnd,
    broken: bool,
}

impl<W: Write> DumpWriter<W> {
    /// Starts a dump, with default limits.
    ///
    /// # Errors
    ///
    /// [`DumpWriteError::Io`] when the sink fails.
    pub fn new(sink: W, fingerprint: DumpFingerprint) -> Result<Self, DumpWriteError> {
        Self::with_limits(sink, fingerprint, WireLimits::default())
    }

    /// Starts a dump whose frames keep to `limits`, for a reader with less room.
    ///
    /// # Errors
    ///
    /// [`DumpWriteError::Limits`] when the limits contradict each other, [`DumpWriteError::Io`] when the sink
    /// fails.
    pub fn with_limits(
        sink: W,
        fingerprint: DumpFingerprint,
        limits: WireLimits,
    ) -> Result<Self, DumpWriteError> {
        limits.validate()?;
        let totals = DumpEnd { chunks: 0, events: 0, watermarks: 0 };
        let (chunk, marked) = (Vec::new(), BTreeSet::new());
        let mut writer = Self { sink, limits, chunk, rank: None, marked, totals, broken: false };
        frame::open(&mut writer.chunk);
        layout::put(&DumpStart { fingerprint: fingerprint.get() }, &mut writer.chunk);
        writer.write_frame(FrameKind::DumpStart)?;
        Ok(writer)
    }

    /// Writes an event. One with more blocks than the limit is split into several of the same effect.
    ///
    /// # Errors
    ///
    /// [`DumpWriteError`]; the dump is lost then.
    pub fn event(&mut self, from: WorkerRank, event: &KvEvent) -> Result<(), DumpWriteError> {
        if event.block_count() <= self.limits.blocks {
            return self.whole_event(from, event);
        }
        match event {
            KvEvent::Stored { tier, parent, blocks } => {
                let mut parent = *parent;
                for piece in blocks.chunks(self.limits.blocks) {
                    let event = KvEvent::Stored { tier: *tier, parent, blocks: piece.to_vec() };
                    self.whole_event(from, &event)?;
                    parent = piece.last().map(|block| block.external);
                }
            }
            KvEvent::Removed { tier, blocks } => {
                for piece in blocks.chunks(self.limits.blocks) {
                    self.whole_event(from, &KvEvent::Removed { tier: *tier, blocks: piece.to_vec() })?;
                }
            }
            KvEvent::Cleared => self.whole_event(from, event)?,
        }
        Ok(())
    }

    /// Writes up to where a rank's state goes. At most one a rank; before or behind its events.
    ///
    /// # Errors
    ///
    /// [`DumpWriteError`]; the dump is lost then.
    pub fn watermark(&mut self, from: WorkerRank, watermark: Watermark) -> Result<(), DumpWriteError> {
        self.make_room(0)?;
        if !self.marked.insert(from) {
            self.broken = true;
            return Err(DumpWriteError::RepeatedWatermark { rank: from });
        }
        record::put_watermark(from, watermark, &mut self.chunk);
        self.totals.watermarks += 1;
        self.written()
    }

    /// Writes bytes that whoever feeds the rank has to remember, at most 16 for each block that an event may have. They
    /// come back as they are, in the order written.
    ///
    /// # Errors
    ///
    /// [`DumpWriteError`]; the dump is lost then.
    pub fn note(&mut self, from: WorkerRank, note: &[u8]) -> Result<(), DumpWriteError> {
        self.make_room(note.len().div_ceil(BLOCK_BYTES))?;
        self.set_rank(from);
        let put = record::put_note(note, &self.limits, &mut self.chunk);
        self.counted(put)
    }

    /// Writes the end, flushes the sink and gives it back. Whether it reaches the disk is the sink's affair.
    ///
    /// # Errors
    ///
    /// [`DumpWriteError`]; the dump is lost then.
    pub fn finish(mut self) -> Result<W, DumpWriteError> {
        self.end_chunk()?;
        frame::open(&mut self.chunk);
        layout::put(&self.totals, &mut self.chunk);
        self.write_frame(FrameKind::DumpEnd)?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn whole_event(&mut self, from: WorkerRank, event: &KvEvent) -> Result<(), DumpWriteError> {
        self.make_room(event.block_count())?;
        self.set_rank(from);
        let put = record::put_event(event, &self.limits, &mut self.chunk);
        self.counted(put)
    }

    /// A record that was refused is lacking: without it there is no dump.
    fn counted(&mut self, put: Result<(), EncodeError>) -> Result<(), DumpWriteError> {
        self.broken |= put.is_err();
        put?;
        self.totals.events += 1;
        self.written()
    }

    fn set_rank(&mut self, rank: WorkerRank) {
        if self.rank != Some(rank) {
            record::put_rank(rank, &mut self.chunk);
            self.rank = Some(rank);
        }
    }

    /// Opens a chunk in which a record of `blocks` blocks fits.
    fn make_room(&mut self, blocks: usize) -> Result<(), DumpWriteError> {
        if self.broken {
            return Err(DumpWriteError::Broken);
        }
        if self.chunk.len() + blocks * BLOCK_BYTES + FRAME_OVERHEAD > self.limits.frame_bytes {
            self.end_chunk()?;
        }
        if self.chunk.is_empty() {
            frame::open(&mut self.chunk);
            layout::put(&ChunkHead { index: self.totals.chunks }, &mut self.chunk);
            self.totals.chunks += 1;
            self.rank = None;
        }
        Ok(())
    }

    fn written(&mut self) -> Result<(), DumpWriteError> {
        if self.chunk.len() >= CHUNK_BYTES { self.end_chunk() } else { Ok(()) }
    }

    fn end_chunk(&mut self) -> Result<(), DumpWriteError> {
        if self.chunk.is_empty() && !self.broken {
            return Ok(());
        }
        self.write_frame(FrameKind::DumpChunk)
    }

    fn write_frame(&mut self, kind: FrameKind) -> Result<(), DumpWriteError> {
        // A frame that went out in part cannot be taken back: from here on there is no dump.
        if std::mem::replace(&mut self.broken, true) {
            return Err(DumpWriteError::Broken);
        }
        frame::close(kind, 0, &self.limits, &mut self.chunk)?;
        self.sink.write_all(&self.chunk)?;
        self.chunk.clear();
        self.broken = false;
        Ok(())
    }
}

impl<W> fmt::Debug for DumpWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DumpWriter").field("totals", &self.totals).finish_non_exhaustive()
    }
}
