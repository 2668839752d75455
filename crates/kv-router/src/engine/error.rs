//! Why an engine's stream is not opened, and why it is over.

use std::error::Error;
use std::fmt;

use kv_router_transport::SequencerConfigError;
use kv_router_types::WorkerRank;

/// Why a stream was not opened. The rank is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenStreamError {
    /// The rank has not joined, or has left.
    UnknownRank {
        /// Whose stream it was to be.
        worker: WorkerRank,
    },
    /// The worker joined as one without events.
    EventsOff {
        /// Whose stream it was to be.
        worker: WorkerRank,
    },
    /// The rank has a stream that is still in use.
    InUse {
        /// Whose stream it was to be.
        worker: WorkerRank,
    },
    /// The settings of the sequence machine contradict each other.
    Sequencer(SequencerConfigError),
}

impl fmt::Display for OpenStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRank { worker } => {
                write!(f, "{worker} has not joined: join the worker first, with enough ranks")
            }
            Self::EventsOff { worker } => {
                write!(f, "{worker} joined without events: let it join again with them")
            }
            Self::InUse { worker } => write!(f, "{worker} has a stream already: drop that one first"),
            Self::Sequencer(error) => error.fmt(f),
        }
    }
}

impl Error for OpenStreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sequencer(error) => Some(error),
            Self::UnknownRank { .. } | Self::EventsOff { .. } | Self::InUse { .. } => None,
        }
    }
}

impl From<SequencerConfigError> for OpenStreamError {
    fn from(error: SequencerConfigError) -> Self {
        Self::Sequencer(error)
    }
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineStreamError {
    /// The worker has left. If it has joined again, that is another life: open another stream.
    Left {
        /// Whose stream it was.
        worker: WorkerRank,
    },
}

impl fmt::Display for EngineStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left { worker } => write!(f, "{worker} has left: drop its stream"),
        }
    }
}

impl Error for EngineStreamError {}
