//! A whole state in a file or a stream: the events that rebuild it, and each rank's watermark.
//!
//! `docs/wire.md` has every byte. A dump is a start frame, chunks of records and an end frame that counts them,
//! so a dump that was cut off is never taken for a whole one, and each frame has a checksum, so a damaged one is
//! not either. Both sides stream: memory is bounded by one frame and the names of the ranks.

mod error;
mod reader;
mod writer;

use std::fmt;

use kv_router_types::{KvEvent, WorkerRank};

pub use error::{DumpReadError, DumpWriteError};
pub use reader::DumpReader;
pub use writer::DumpWriter;

use crate::Watermark;

/// What has to be equal for a dump to mean anything here: block size, hash options, whatever else the writer
/// puts into it. Chosen and compared by the caller; 0 when there is nothing to compare.
///
/// A dump restored under another block size does not fail, it only never matches.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DumpFingerprint(u64);

impl DumpFingerprint {
    /// Wraps a raw value.
    #[inline]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for DumpFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DumpFingerprint({:016x})", self.0)
    }
}

/// One record of a dump.
///
/// Not `#[non_exhaustive]` on purpose: code that forgets a kind of record must not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpRecord {
    /// Apply this, in the order read.
    Event {
        /// Whose cache.
        from: WorkerRank,
        /// What to apply.
        event: KvEvent,
    },
    /// The events of the rank, all those before and behind this record together, are its state as of this batch.
    Watermark {
        /// Whose state.
        from: WorkerRank,
        /// The last batch in it.
        watermark: Watermark,
    },
    /// What whoever feeds the rank has to remember beside its events. Opaque here.
    Note {
        /// Whose state.
        from: WorkerRank,
        /// As it was written.
        bytes: Vec<u8>,
    },
}
