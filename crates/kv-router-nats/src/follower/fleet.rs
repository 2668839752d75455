//! A dump, taken apart by rank.

use std::collections::BTreeMap;

use kv_router_transport::{DumpFingerprint, DumpReadError, DumpReader, DumpRecord, Watermark};
use kv_router_types::{KvEvent, WorkerRank};

/// The ranks of a dump that can join their streams.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) fingerprint: DumpFingerprint,
    pub(crate) ranks: BTreeMap<WorkerRank, Restored>,
}

#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) watermark: Watermark,
    pub(crate) events: Vec<KvEvent>,
}

impl Fleet {
    /// Reads all of it. A rank without a watermark is left out: nobody could tell which batches it is missing.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DumpReadError> {
        let reader = DumpReader::new(bytes)?;
        let fingerprint = reader.fingerprint();
        let (mut events, mut watermarks) = (BTreeMap::<WorkerRank, Vec<KvEvent>>::new(), BTreeMap::new());
        for record in reader {
            match record? {
                DumpRecord::Event { from, event } => events.entry(from).or_default().push(event),
                DumpRecord::Watermark { from, watermark } => drop(watermarks.insert(from, watermark)),
                // What an ingest remembers: the relay's ingest stands before us.
                DumpRecord::Note { .. } => {}
            }
        }
        let ranks = watermarks.into_iter().map(|(rank, watermark)| {
            (rank, Restored { watermark, events: events.remove(&rank).unwrap_or_default() })
        });
        Ok(Self { fingerprint, ranks: ranks.collect() })
    }
}
