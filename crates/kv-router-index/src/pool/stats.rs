//! What a pool has done, thread by thread.

use std::time::Duration;

use super::Lag;
use crate::{Applied, ApplyError};

/// What one writer thread has done and has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadStats {
    /// Messages that wait now; the one under way is not among them.
    pub depth: usize,
    /// Workers that belong to this thread now.
    pub workers: usize,
    /// Events and removals of workers that were applied.
    pub events: u64,
    /// What they did.
    pub applied: Applied,
    /// Stores that were refused because the rank does not hold their parent: an earlier store was lost.
    pub unknown_parents: u64,
    /// Stores that were refused for another reason.
    pub refused: u64,
    /// Events that made the index panic. Each is a bug; see its message on stderr.
    pub panicked: u64,
    /// How long events took from being enqueued to being done with, in whatever way.
    pub lag: Lag,
}

/// What a pool has done, thread by thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// One for each thread.
    pub threads: Vec<ThreadStats>,
}

impl PoolStats {
    /// All threads together.
    pub fn total(&self) -> ThreadStats {
        let mut total = ThreadStats::default();
        for thread in &self.threads {
            total.depth += thread.depth;
            total.workers += thread.workers;
            total.events += thread.events;
            total.applied += thread.applied;
            total.unknown_parents += thread.unknown_parents;
            total.refused += thread.refused;
            total.panicked += thread.panicked;
            total.lag.merge(&thread.lag);
        }
        total
    }
}

/// How a message ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Applied(Applied),
    Refused(ApplyError),
    Panicked,
}

impl ThreadStats {
    pub(super) fn count(&mut self, outcome: Outcome, lag: Duration) {
        match outcome {
            Outcome::Applied(applied) => {
                self.events += 1;
                self.applied += applied;
            }
            Outcome::Refused(ApplyError::UnknownParent { .. }) => self.unknown_parents += 1,
            Outcome::Refused(_) => self.refused += 1,
            Outcome::Panicked => self.panicked += 1,
        }
        self.lag.add(lag);
    }
}
