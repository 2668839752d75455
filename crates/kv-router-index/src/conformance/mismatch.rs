//! How an index differs from the oracle.

use std::error::Error;
use std::fmt;

use kv_router_types::{KvEvent, LocalBlockHash, WorkerRank};

use crate::{Applied, ApplyError, Certainty, Occupancy, Overlap};

/// The first difference between an index and the oracle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mismatch {
    /// How many operations had been done.
    pub after_ops: usize,
    /// What differs.
    pub what: Box<What>,
}

/// What differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// The result of an event; `None` for the removal of a worker.
    Result {
        /// Whose event.
        from: WorkerRank,
        /// The event.
        event: Option<KvEvent>,
        /// The oracle's result.
        expected: Result<Applied, ApplyError>,
        /// The index's.
        found: Result<Applied, ApplyError>,
    },
    /// A full answer.
    Answer {
        /// What was asked.
        query: Vec<LocalBlockHash>,
        /// The oracle's answer, by rank.
        expected: Vec<Overlap>,
        /// The index's.
        found: Vec<Overlap>,
    },
    /// An answer that is not in order, names a rank twice, or misstates the query's length or its own
    /// certainty.
    Form {
        /// What was asked.
        query: Vec<LocalBlockHash>,
        /// What the index promises.
        certainty: Certainty,
        /// The answer.
        found: Vec<Overlap>,
    },
    /// An answer that stopped early and is not what such an answer may be.
    EarlyExit {
        /// What was asked.
        query: Vec<LocalBlockHash>,
        /// The full answer, by rank.
        expected: Vec<Overlap>,
        /// The index's.
        found: Vec<Overlap>,
        /// Whether it says that it stopped early.
        lower_bound: bool,
    },
    /// What is held.
    Occupancy {
        /// By the oracle.
        expected: Occupancy,
        /// By the index.
        found: Occupancy,
    },
    /// Something is left after everything was removed.
    Leftover {
        /// By the index.
        found: Occupancy,
    },
    /// A dumped event that cannot be replayed.
    Replay {
        /// Whose event.
        from: WorkerRank,
        /// The event.
        event: KvEvent,
        /// Why.
        error: ApplyError,
    },
    /// A replayed dump that holds other names, places or tiers.
    Dump,
    /// A rank that is dumped otherwise when it is dumped alone.
    DumpOfRank {
        /// Which.
        from: WorkerRank,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} operations: {:#?}", self.after_ops, self.what)
    }
}

impl Error for Mismatch {}
