//! Why a channel refused.

use std::error::Error;
use std::fmt;

use crate::EventBatch;

/// Why a batch was not queued. The batch comes back.
///
/// Not `#[non_exhaustive]`: there is no third way, and a publisher must think of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The channel holds its whole capacity.
    Full(EventBatch),
    /// The receiver is gone and takes no batch ever again.
    Closed(EventBatch),
}

impl SendError {
    /// The batch that was refused.
    pub fn into_batch(self) -> EventBatch {
        match self {
            Self::Full(batch) | Self::Closed(batch) => batch,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(batch) => write!(
                f,
                "the channel is full, batch {} of {} was not queued: send it again, or drop it and let the gap rule recover",
                batch.sequence, batch.from
            ),
            Self::Closed(batch) => write!(
                f,
                "the receiver is gone, batch {} of {} was not queued: stop publishing here",
                batch.sequence, batch.from
            ),
        }
    }
}

impl Error for SendError {}

/// Why there is no batch.
///
/// Not `#[non_exhaustive]`: there is no third way, and a subscriber must think of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// Nothing is queued, or nothing came in time. More may come.
    Empty,
    /// All senders are gone and everything they queued was taken.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no batch is queued: tick the sequencers and try again",
            Self::Closed => "all senders are gone and nothing is queued: stop receiving here",
        })
    }
}

impl Error for RecvError {}
