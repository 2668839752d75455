//! The caches of the fleet in a file, with the place in each stream up to which they go.

mod error;

use std::io::{Read, Write};

use kv_router_engines::{Ingest, IngestLoader};
use kv_router_hash::{HashScheme, Window};
use kv_router_transport::{DumpFingerprint, DumpReader, DumpRecord, DumpWriter, Watermark};
use kv_router_types::{KvEvent, WorkerRank};
use rustc_hash::FxHashMap;

pub use error::{RestoreError, SnapshotError};

use crate::Router;
use crate::ingest::{EventCounters, Heard, settle};

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotReport {
    /// Ranks that can be restored.
    pub ranks: usize,
    /// Blocks written, a block in two tiers or under two names twice.
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
    /// Blocks that they hold.
    pub blocks: u64,
    /// Ranks in it that are not in the fleet.
    pub unknown: usize,
    /// Ranks that were heard of or restored already: what is known of them is younger.
    pub live: usize,
    /// Ranks that are fed another way than when the snapshot was taken: by [batches](Router::apply) or by an
    /// [engine's stream](Router::engine_stream).
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
    /// All ranks are copied at one moment. Events wait meanwhile, some tenths of a second for a million blocks, and
    /// decisions do not, but for one that finds a rank to have fallen silent; nothing waits for `sink`. The copy takes
    /// some 60 bytes a block until it is written.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]; what was written is refused by every reader then.
    pub fn snapshot(&self, sink: &mut impl Write) -> Result<SnapshotReport, SnapshotError> {
        let fleet = self.core.fleet();
        let mut ranks: Vec<_> = fleet.iter().collect();
        ranks.sort_unstable_by_key(|rank| rank.id);
        let mut staged: FxHashMap<WorkerRank, Staged> = FxHashMap::default();
        {
            // In the order of the ranks, and before the locks of the index, as everywhere.
            let streams: Vec<_> = ranks.iter().map(|rank| rank.stream.lock()).collect();
            for (rank, stream) in ranks.iter().zip(&streams).filter(|(_, stream)| !stream.is_closed()) {
                if let Some(watermark) = stream.sequencer.watermark() {
                    let entry = staged.entry(rank.id).or_default();
                    entry.watermark = Some(watermark);
                    if let Some(engine) = &stream.engine {
                        engine.ingest.save(&mut |piece| entry.notes.push(piece.to_vec()));
                    }
                }
            }
            self.core.index.dump(&mut |from, event| {
                if let Some(entry) = staged.get_mut(&from) {
                    entry.events.push(event);
                }
            });
        }
        let mut report = SnapshotReport { left_out: ranks.len() - staged.len(), ..SnapshotReport::default() };
        let mut writer = DumpWriter::new(sink, fingerprint(self.scheme()))?;
        for rank in ranks {
            let Some(Staged { watermark: Some(watermark), events, notes }) = staged.remove(&rank.id) else {
                continue;
            };
            writer.watermark(rank.id, watermark)?;
            for event in &events {
                report.blocks += event.block_count() as u64;
                writer.event(rank.id, event)?;
            }
            for note in &notes {
                writer.note(rank.id, note)?;
            }
            report.ranks += 1;
        }
        writer.finish()?;
        Ok(report)
    }

    /// Takes over what [`snapshot`](Self::snapshot) wrote, for ranks that have joined and were not heard of yet. Open
    /// the [streams](Self::engine_stream) of engines before, and have them [catch
    /// up](crate::EngineStream::catch_up) after: batches up to the snapshot's are skipped, and what is missing behind
    /// it is asked for.
    ///
    /// The snapshot must be of the life that the engine is in. A stream [with
    /// incarnations](crate::EngineStreamConfig::with_incarnations) sees to that itself. Of one without, whoever knows
    /// that an engine started again calls [`forget`](crate::EngineStream::forget); a number that goes backwards does it
    /// too.
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
            if !stream.is_untouched() || stream.is_stale(watermark.incarnation) && ingest.is_none() {
                report.live += 1; // it was heard of meanwhile, or is known to be in a later life
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
            if counters.refused() > 0 || !taken_up {
                // A clear is never refused.
                let _ = self.core.index.apply(rank.id, &KvEvent::Cleared);
                if let Some(engine) = &mut stream.engine {
                    engine.ingest.forget();
                }
                report.refused += 1;
                continue;
            }
            report.ranks += 1;
            report.blocks += counters.applied.stored - counters.applied.removed;
            stream.restored(now, watermark);
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

fn load(mut loader: IngestLoader, notes: &[Vec<u8>]) -> Result<Ingest, kv_router_engines::IngestStateError> {
    notes.iter().try_for_each(|note| loader.piece(note))?;
    loader.finish()
}

/// What has to be equal for a hash of one router to mean anything to another.
fn fingerprint(scheme: HashScheme) -> DumpFingerprint {
    let window = match scheme.window() {
        Window::Plain => 0,
        Window::Eagle => 1 << 32,
    };
    DumpFingerprint::new(window | u64::from(scheme.block_size().get()))
}
