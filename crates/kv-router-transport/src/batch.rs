//! What travels: the events of one rank, with the numbers that tell whether any are missing.

use std::fmt;

use kv_router_types::{KvEvent, WorkerRank};

/// One life of an engine process. A restarted engine has a new one, and events of an older one never apply.
///
/// Chosen by whoever publishes or subscribes; only ever compared: larger is newer.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u64);

impl Incarnation {
    /// Wraps a number that grows from life to life, for instance the start time.
    #[inline]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({})", self.0)
    }
}

/// Events of one worker rank, in the order that they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// Whose cache changed.
    pub from: WorkerRank,
    /// Which life of the engine says so.
    pub incarnation: Incarnation,
    /// Counts the batches of this rank and incarnation, from 0, without gaps.
    pub sequence: u64,
    /// What happened.
    pub events: Vec<KvEvent>,
}
