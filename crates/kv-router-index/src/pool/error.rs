//! Why the pool would not take something.

use std::error::Error;
use std::fmt;
use std::io;

use kv_router_types::{KvEvent, WorkerRank};

/// An event was not enqueued; it comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The queue of this worker's thread is full.
    Full {
        /// Whose event it is.
        from: WorkerRank,
        /// The event.
        event: KvEvent,
    },
    /// The pool has been drained.
    Closed {
        /// Whose event it is.
        from: WorkerRank,
        /// The event.
        event: KvEvent,
    },
}

impl EnqueueError {
    /// Whether there may be room later.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// The event, and whose it is.
    pub fn into_event(self) -> (WorkerRank, KvEvent) {
        match self {
            Self::Full { from, event } | Self::Closed { from, event } => (from, event),
        }
    }
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { from, .. } => {
                write!(
                    f,
                    "the writer queue of {from} is full: wait, slow the source down, or resync the rank later"
                )
            }
            Self::Closed { from, .. } => {
                write!(f, "the writer pool is closed: events of {from} must go elsewhere")
            }
        }
    }
}

impl Error for EnqueueError {}

/// The pool has been drained and takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolClosed;

impl fmt::Display for PoolClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the writer pool is closed: start another one")
    }
}

impl Error for PoolClosed {}

/// The pool could not be started; the threads that were have ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The system refused a thread.
    Thread {
        /// How many had been started.
        started: usize,
        /// What the system says.
        source: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread { started, .. } => {
                write!(f, "the system refused writer thread {}: lower the number of threads", started + 1)
            }
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Thread { source, .. } => Some(source),
        }
    }
}
