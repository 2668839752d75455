//! Why a dump was not written or not read.

use std::error::Error;
use std::fmt;
use std::io;

use kv_router_types::WorkerRank;

use crate::{DecodeError, EncodeError, WireLimitsError};

/// Why a dump was not written. What was written up to here is no dump: it has no end.
#[derive(Debug)]
#[non_exhaustive]
pub enum DumpWriteError {
    /// The sink failed.
    Io(io::Error),
    /// A record does not fit the limits.
    Encode(EncodeError),
    /// The limits contradict each other.
    Limits(WireLimitsError),
    /// A rank got a second watermark: no reader takes two.
    RepeatedWatermark {
        /// Which one.
        rank: WorkerRank,
    },
    /// An earlier call failed.
    Broken,
}

impl fmt::Display for DumpWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the dump was not written: {error}; start a new one"),
            Self::Encode(error) => write!(f, "the dump was not written: {error}"),
            Self::Limits(error) => write!(f, "the dump was not started: {error}"),
            Self::RepeatedWatermark { rank } => {
                write!(f, "the dump was not written: {rank} has two watermarks, give it one")
            }
            Self::Broken => f.write_str("the dump was not written, an earlier call failed: start a new one"),
        }
    }
}

impl Error for DumpWriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Encode(error) => Some(error),
            Self::Limits(error) => Some(error),
            Self::RepeatedWatermark { .. } | Self::Broken => None,
        }
    }
}

impl From<io::Error> for DumpWriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<EncodeError> for DumpWriteError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl From<WireLimitsError> for DumpWriteError {
    fn from(error: WireLimitsError) -> Self {
        Self::Limits(error)
    }
}

/// Why a dump was not read to its end. What was read before is a part of a state, not a state.
#[derive(Debug)]
#[non_exhaustive]
pub enum DumpReadError {
    /// The source failed.
    Io {
        /// Bytes read before.
        offset: u64,
        /// How it failed.
        source: io::Error,
    },
    /// The bytes are no dump, or are cut off or damaged.
    Malformed {
        /// Where, in bytes from the start: the frame, or in a frame that is whole the record.
        offset: u64,
        /// How.
        source: DecodeError,
    },
    /// The limits contradict each other. Nothing was read.
    Limits(WireLimitsError),
}

impl DumpReadError {
    /// Where, in bytes from the start.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Io { offset, .. } | Self::Malformed { offset, .. } => *offset,
            Self::Limits(_) => 0,
        }
    }
}

impl fmt::Display for DumpReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { offset, source } => write!(f, "the dump was not read beyond byte {offset}: {source}"),
            Self::Malformed { offset, source } => write!(f, "the dump is bad at byte {offset}: {source}"),
            Self::Limits(error) => write!(f, "the dump was not read: {error}"),
        }
    }
}

impl Error for DumpReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Malformed { source, .. } => Some(source),
            Self::Limits(error) => Some(error),
        }
    }
}

impl From<WireLimitsError> for DumpReadError {
    fn from(error: WireLimitsError) -> Self {
        Self::Limits(error)
    }
}
