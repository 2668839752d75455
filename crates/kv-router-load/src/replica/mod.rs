//! What replicas of a router tell each other of their bookings. Plain data: how it travels is the caller's business.

mod journal;
mod parts;
mod peer;
mod ranges;
mod sync;

use std::fmt;
use std::ops::Range;

use kv_router_types::{SequenceHash, WorkerRank};

use crate::LoadTracker;

pub(crate) use journal::Journal;
pub use journal::JournalConfig;
pub use parts::BookingsParts;
pub use sync::{BookingsWish, ReplicaSync, SyncConfig, SyncConfigError, SyncOutcome, SyncStats};

/// One router among several over one fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(u64);

impl ReplicaId {
    /// Wraps a number that no other replica has.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a replica. A restart is a new life with a larger number, for example its time of birth; bookings of an
/// older one are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaLife {
    /// Who.
    pub replica: ReplicaId,
    /// Which life.
    pub life: u64,
}

/// Names a booking among those of one life of a replica. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BookingName(u64);

impl BookingName {
    /// All names: no booking has the last number.
    pub const ALL: Range<Self> = Self(0)..Self(u64::MAX);

    /// Wraps a number that came over the wire.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A booking, as a replica tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBooking {
    /// Its name.
    pub name: BookingName,
    /// The rank that carries it.
    pub worker: WorkerRank,
    /// Prompt tokens left to compute; 0 once the prefill has completed.
    pub prefill_tokens: u64,
    /// The whole blocks of the prompt, as rolling hashes; of one that is too long for a message, the first of them.
    pub prompt_blocks: Vec<SequenceHash>,
    /// Blocks that no other request can share, or that do not fit a message.
    pub private_blocks: u32,
    /// Blocks that its output fills.
    pub output_blocks: u32,
}

/// One change of the bookings of a replica. Each says how things are and not by how much they changed, so one that
/// comes on top of a younger part, or out of turn, does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadDelta {
    /// A request was booked.
    Booked(SharedBooking),
    /// It has come this far.
    Progressed {
        /// Which.
        name: BookingName,
        /// Prompt tokens left to compute.
        prefill_tokens: u64,
        /// Blocks that its output fills.
        output_blocks: u32,
    },
    /// It is no longer counted.
    Released {
        /// Which.
        name: BookingName,
    },
}

/// Changes in their order. Each has a number, one more than the one before; the first of a life is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaBatch {
    /// Whose bookings changed.
    pub from: ReplicaLife,
    /// The number of the first change, or of the next one when there is none in here: a heartbeat, from which the
    /// others see that the sender lives, and whether they missed its last words.
    pub first: u64,
    /// The changes.
    pub deltas: Vec<LoadDelta>,
}

/// All bookings of a replica that have a name in some range, for others that have just started or missed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingsPart {
    /// Whose bookings.
    pub from: ReplicaLife,
    /// The number of the first change that is not in here. Some later ones may be.
    pub next: u64,
    /// Their names. One that is not in here is not booked.
    pub names: Range<BookingName>,
    /// The bookings.
    pub bookings: Vec<SharedBooking>,
}

impl LoadTracker {
    /// Changes of our own bookings since the last call, at most `most` of them, and fewer when they would not fit a
    /// message: call it until there is none. Send them to every other replica, in
    /// their order if that is possible. Without changes the batch is a heartbeat, and should be sent now and then.
    /// `None` for a tracker without a journal.
    pub fn take_deltas(&self, most: usize) -> Option<DeltaBatch> {
        self.shared().journal.as_ref().map(|journal| journal.take(most))
    }

    pub(crate) fn life(&self) -> Option<ReplicaLife> {
        self.shared().journal.as_ref().map(Journal::life)
    }
}
