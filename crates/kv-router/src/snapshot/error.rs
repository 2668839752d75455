//! Why a snapshot is not written, or not restored.

use std::error::Error;
use std::fmt;

use kv_router_engines::IngestStateError;
use kv_router_transport::{DumpFingerprint, DumpReadError, DumpWriteError};
use kv_router_types::WorkerRank;

/// Why a snapshot was not written to its end. No reader takes what there is of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The sink failed, or a record does not fit.
    Write(DumpWriteError),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl Error for SnapshotError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Write(error) => Some(error),
        }
    }
}

impl From<DumpWriteError> for SnapshotError {
    fn from(error: DumpWriteError) -> Self {
        Self::Write(error)
    }
}

/// Why a snapshot was not restored. The router is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The source failed, or what it gives is no snapshot, or a damaged one.
    Read(DumpReadError),
    /// It was taken under another block size or window: nothing in it would ever match.
    OtherScheme {
        /// The window in bit 32, tokens a block below.
        theirs: DumpFingerprint,
        /// The same of this router.
        ours: DumpFingerprint,
    },
    /// It takes more memory than [`RouterConfig::max_restore_bytes`](crate::RouterConfig::max_restore_bytes).
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A rank has no place in its stream, so nobody could go on from it.
    NoWatermark {
        /// Which one.
        rank: WorkerRank,
    },
    /// What the ingest of a rank remembered makes no sense.
    Ingest {
        /// Which one.
        rank: WorkerRank,
        /// How.
        source: IngestStateError,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::OtherScheme { theirs, ours } => write!(
                f,
                "a snapshot of another hash scheme ({theirs:?}, ours is {ours:?}): start without it"
            ),
            Self::TooLarge { limit } => {
                write!(
                    f,
                    "a snapshot of more than {limit} bytes: raise max_restore_bytes, or start without it"
                )
            }
            Self::NoWatermark { rank } => {
                write!(f, "the snapshot does not say up to where {rank} goes: start without it")
            }
            Self::Ingest { rank, source } => {
                write!(f, "what the snapshot has of {rank} was not taken: {source}")
            }
        }
    }
}

impl Error for RestoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Ingest { source, .. } => Some(source),
            Self::OtherScheme { .. } | Self::TooLarge { .. } | Self::NoWatermark { .. } => None,
        }
    }
}

impl From<DumpReadError> for RestoreError {
    fn from(error: DumpReadError) -> Self {
        Self::Read(error)
    }
}
