//! The caches of the fleet in a file, with the place in each stream up to which they go.

mod error;

use std::io::{Read, Write};

use kv_router_engines::{Ingest, IngestLoader};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::Applied;
use kv_router_transport::{DumpFingerprint, DumpReader, DumpRecord, DumpWriter, Watermark};
use kv_router_types::{KvEvent, WorkerRank};
use rustc_hash::FxHashMap;

pub use error::{RestoreError, SnapshotError};

use crate::ingest::{EventCounters, Heard, settle};
use crate::{EventSource, Router};

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotReport {
    /// Ranks that can be restored.
    pub ranks: usize,
    /// Blocks that they hold, a block in two tiers or under two names twice.
    pub blocks: u64,
    /// Ranks left out, because what is known of them is not all they hold: cold, suspect, or not heard of.
    pub left_out: usize,
}

/// What was made of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Ranks that go on from the snapshot.
    pub ranks: usize,
    /// Blocks that they hold, a block in two tiers or under two names twice.
    pub blocks: u64,
    /// Ranks in it that are not in the fleet.
    pub unknown: usize,
    /// Ranks that were heard of or restored already: what is known of them is younger.
    pub live: usize,
    /// Ranks that are fed another way than when the snapshot was taken: by [batches](Router::apply), by an
    /// [engine's stream](Router::engine_stream), or not at all, because their workers have no events.
    pub fed_otherwise: usize,
    /// Ranks that did not find room in the index. Nothing of them is kept.
    pub refused: usize,
}

/// One rank of a snapshot.
#[derive(Debug, Default)]
struct Staged {
    watermark: Option<Watermark>,
    events: Vec<KvEvent>,
    notes: Vec<Vec<u8>>,
}

impl Router {
    /// Writes down what every rank caches, with the last batch that is in it: a fresh router that
    /// [restores](Self::restore) it goes on with the live streams. `docs/wire.md` has every byte.
    ///
    /// Each rank is copied at one moment: its blocks, what its ingest remembers, and its place in the stream agree. Ranks
    /// are copied one after the other, and no two of them have to agree, because each goes on from its own place in its
    /// own stream. Events of a rank wait while it is copied, some hundreds of nanoseconds a block; those of others do not,
    /// nor does any decision, but for one that finds that very rank to have fallen silent. Nothing waits for `sink`. The
    /// copy takes some 60 bytes a block of the largest rank.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]; what was written is refused by every reader then.
    pub fn snapshot(&self, sink: &mut impl Write) -> Result<SnapshotReport, SnapshotError> {
        let fleet = self.core.fleet();
        let mut ranks: Vec<_> = fleet.iter().collect();
        ranks.sort_unstable_by_key(|rank| rank.id);
        let mut report = SnapshotReport::default();
        let mut writer = DumpWriter::new(sink, fingerprint(self.scheme()))?;
        let mut staged = Staged::default();
        for rank in ranks {
            staged.events.clear();
            staged.notes.clear();
            {
                // Before the locks of the index, as everywhere.
                let stream = rank.stream.lock();
                staged.watermark = stream.order.watermark().filter(|_| !stream.is_closed());
                if staged.watermark.is_some() {
                    if let Some(engine) = &stream.engine {
                        engine.ingest.save(&mut |piece| staged.notes.push(piece.to_vec()));
                    }
                    self.core.index.dump_rank(rank.id, &mut |event| staged.events.push(event));
                }
            }
            let Some(watermark) = staged.watermark else {
                report.left_out += 1;
                continue;
            };
            writer.watermark(rank.id, watermark)?;
            report.blocks += held(&staged.events);
            for event in &staged.events {
                writer.event(rank.id, event)?;
            }
            for note in &staged.notes {
                writer.note(rank.id, note)?;
            }
            report.ranks += 1;
        }
        writer.finish()?;
        Ok(report)
    }

    /// Takes over what [`snapshot`](Self::snapshot) wrote, for ranks that have joined and were not heard of yet. Open
    /// the [streams](Self::engine_stream) of engines before, and tell them when they are
    /// [connected](crate::EngineStream::connected): batches up to the snapshot's are skipped, and what is missing behind
    /// it is asked for.
    ///
    /// A rank is [recovering](kv_router_schedule::StreamFreshness::Recovering), and its frames wait, until its engine has
    /// shown the last frame of the snapshot: if it started again meanwhile, however much it has published since, the
    /// rank is forgotten and built anew. Where no replay source can be asked, a number that goes backwards and
    /// [`forget`](crate::EngineStream::forget) are all that tells.
    ///
    /// # Errors
    ///
    /// [`RestoreError`]; nothing is restored then.
    pub fn restore(&self, source: &mut impl Read) -> Result<RestoreReport, RestoreError> {
        let staged = self.stage(source)?;
        let fleet = self.core.fleet();
        let mut report = RestoreReport::default();
        let mut ready: Vec<(_, Watermark, Vec<KvEvent>, Option<Ingest>)> = Vec::new();
        for (id, Staged { watermark, events, notes }) in staged {
            let Some(rank) = fleet.get(id) else {
                report.unknown += 1;
                continue;
            };
            let Some(watermark) = watermark else { return Err(RestoreError::NoWatermark { rank: id }) };
            let (is_untouched, loader) = {
                let stream = rank.stream.lock();
                (stream.is_untouched(), stream.engine.as_ref().map(|engine| engine.ingest.loader()))
            };
            let ingest = match loader {
                _ if rank.events == EventSource::Off => {
                    report.fed_otherwise += 1;
                    continue;
                }
                _ if !is_untouched => {
                    report.live += 1;
                    continue;
                }
                Some(loader) if !notes.is_empty() => {
                    Some(load(loader, &notes).map_err(|source| RestoreError::Ingest { rank: id, source })?)
                }
                None if notes.is_empty() => None,
                _ => {
                    report.fed_otherwise += 1;
                    continue;
                }
            };
            ready.push((rank, watermark, events, ingest));
        }
        let now = self.core.clock.now();
        for (rank, watermark, events, ingest) in ready {
            let mut stream = rank.stream.lock();
            if !stream.is_untouched() || stream.is_stale(watermark.incarnation) && watermark.frame.is_none() {
                report.live += 1; // it was heard of meanwhile, or is known to be in a later life
                continue;
            }
            if !stream.order.takes(watermark) {
                report.fed_otherwise += 1;
                continue;
            }
            let mut counters = EventCounters::default();
            for event in &events {
                counters.record(self.core.index.apply(rank.id, event));
            }
            let taken_up = match (&mut stream.engine, ingest) {
                (Some(engine), Some(ingest)) => {
                    engine.ingest = ingest;
                    true
                }
                (None, None) => true,
                _ => false, // a stream was opened meanwhile
            };
            if counters.refused() > 0 || !taken_up || !stream.restored(now, watermark) {
                // A clear is never refused.
                let _ = self.core.index.apply(rank.id, &KvEvent::Cleared);
                if let Some(engine) = &mut stream.engine {
                    engine.ingest.forget();
                }
                report.refused += 1;
                continue;
            }
            report.ranks += 1;
            report.blocks += match counters.applied {
                Applied { moved: 0, stored, removed, .. } => stored.saturating_sub(removed),
                // A name that moves leaves copies behind in tiers that nobody counts. No router writes that.
                _ => {
                    let mut events = Vec::new();
                    self.core.index.dump_rank(rank.id, &mut |event| events.push(event));
                    held(&events)
                }
            };
            settle(&self.core, rank, stream, Heard::Nothing);
        }
        Ok(report)
    }

    /// Reads a snapshot whole, so that a damaged one changes nothing.
    fn stage(&self, source: &mut impl Read) -> Result<FxHashMap<WorkerRank, Staged>, RestoreError> {
        let ours = fingerprint(self.scheme());
        let reader = DumpReader::new(source)?;
        if reader.fingerprint() != ours {
            return Err(RestoreError::OtherScheme { theirs: reader.fingerprint(), ours });
        }
        let limit = self.core.config.max_restore_bytes;
        let mut left = limit;
        let mut staged: FxHashMap<WorkerRank, Staged> = FxHashMap::default();
        for record in reader {
            let record = record?;
            let (from, bytes) = match &record {
                DumpRecord::Event { from, event } => (from, 64 + 16 * event.block_count()),
                DumpRecord::Watermark { from, .. } => (from, 128),
                DumpRecord::Note { from, bytes } => (from, 32 + bytes.len()),
            };
            left = left.checked_sub(bytes).ok_or(RestoreError::TooLarge { limit })?;
            let entry = staged.entry(*from).or_default();
            match record {
                DumpRecord::Event { event, .. } => entry.events.push(event),
                DumpRecord::Watermark { watermark, .. } => entry.watermark = Some(watermark),
                DumpRecord::Note { bytes, .. } => entry.notes.push(bytes),
            }
        }
        Ok(staged)
    }
}

/// Blocks that a rank holds, whose dump this is: what is stored to keep the place of a hole is removed behind all else.
fn held(dump: &[KvEvent]) -> u64 {
    dump.iter().fold(0, |held, event| match event {
        KvEvent::Stored { blocks, .. } => held + blocks.len() as u64,
        KvEvent::Removed { blocks, .. } => held.saturating_sub(blocks.len() as u64),
        KvEvent::Cleared => 0,
    })
}

fn load(mut loader: IngestLoader, notes: &[Vec<u8>]) -> Result<Ingest, kv_router_engines::IngestStateError> {
    notes.iter().try_for_each(|note| loader.piece(note))?;
    loader.finish()
}

/// What has to be equal for a hash of one router to mean anything to another.
pub(crate) fn fingerprint(scheme: HashScheme) -> DumpFingerprint {
    let window = match scheme.window() {
        Window::Plain => 0,
        Window::Eagle => 1 << 32,
    };
    DumpFingerprint::new(window | u64::from(scheme.block_size().get()))
}
