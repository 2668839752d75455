//! What a subscriber hands out, and how a replay is asked for.

use std::error::Error;
use std::fmt;

use kv_router_transport::{RecoveryId, ReplayFault};

use crate::{Connection, Payload, PublisherId, Topic};

/// Something that happened on a publisher's sockets.
///
/// Not `#[non_exhaustive]` on purpose: code that forgets a kind must not compile.
#[derive(Debug)]
pub enum Incoming {
    /// A connection stands. Comes before the first message on it.
    Connected {
        /// Whose.
        publisher: PublisherId,
        /// Which.
        connection: Connection,
    },
    /// A live batch.
    Live {
        /// Whose.
        publisher: PublisherId,
        /// On which connection it came.
        connection: Connection,
        /// Its topic.
        topic: Topic,
        /// Its number.
        sequence: u64,
        /// What an engine's decoder reads.
        payload: Payload,
    },
    /// A batch in answer to a replay request. They come in order, without holes but for the first.
    Replayed {
        /// Whose.
        publisher: PublisherId,
        /// Which request it answers.
        replay: RecoveryId,
        /// Its number.
        sequence: u64,
        /// What an engine's decoder reads.
        payload: Payload,
    },
    /// A replay is complete, or went as far as it was asked to.
    ReplayEnded {
        /// Whose.
        publisher: PublisherId,
        /// Which.
        replay: RecoveryId,
    },
    /// A replay did not come to its end.
    ReplayFailed {
        /// Whose.
        publisher: PublisherId,
        /// Which.
        replay: RecoveryId,
        /// Why.
        reason: ReplayFailure,
    },
}

impl Incoming {
    /// Whose socket it was.
    pub fn publisher(&self) -> PublisherId {
        match *self {
            Self::Connected { publisher, .. }
            | Self::Live { publisher, .. }
            | Self::Replayed { publisher, .. }
            | Self::ReplayEnded { publisher, .. }
            | Self::ReplayFailed { publisher, .. } => publisher,
        }
    }

    /// Bytes of payload in it.
    pub(crate) fn payload_bytes(&self) -> usize {
        match self {
            Self::Live { payload, .. } | Self::Replayed { payload, .. } => payload.len(),
            Self::Connected { .. } | Self::ReplayEnded { .. } | Self::ReplayFailed { .. } => 0,
        }
    }
}

/// Why a replay did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReplayFailure {
    /// The source never answered.
    Silent,
    /// The source stopped in the middle of its answer, each time it was asked.
    Stalled,
    /// The time for the whole replay was over.
    Deadline,
    /// The answer has a hole, each time it was asked for.
    Incomplete,
    /// Asked again, the source has another batch under the number of the last one, or none that late: another life of
    /// the engine.
    OtherLife,
    /// Asked again, the source no longer has the last batch, so nobody can tell whether it is the same life.
    AnchorGone,
    /// No socket could be made.
    NoSocket,
}

impl ReplayFailure {
    /// What it means for the stream.
    pub const fn fault(self) -> ReplayFault {
        match self {
            Self::OtherLife | Self::AnchorGone => ReplayFault::OtherLife,
            Self::Silent | Self::Stalled | Self::Deadline | Self::Incomplete | Self::NoSocket => {
                ReplayFault::Unanswered
            }
        }
    }
}

impl fmt::Display for ReplayFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "the replay endpoint never answers: check that the engine has one, and its port",
            Self::Stalled => "the replay stops half way: look at the engine's log",
            Self::Deadline => {
                "the replay takes longer than allowed: raise the total wait, or shorten the buffer"
            }
            Self::Incomplete => "the replay has holes: raise the engine's high-water mark",
            Self::OtherLife => "the engine started again: what it held before is to be forgotten",
            Self::AnchorGone => "the engine's replay buffer no longer reaches back: lengthen it",
            Self::NoSocket => "no socket for a replay: raise the limit of open files",
        })
    }
}

impl Error for ReplayFailure {}
