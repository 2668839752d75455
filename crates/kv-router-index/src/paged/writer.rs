//! The one writer of a rank.

use std::error::Error;
use std::fmt;

use kv_router_types::{KvEvent, WorkerRank};

use super::shared::{LaneCell, Shared};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::{Applied, ApplyError};

/// Applies the events of one rank. Give it to the thread that receives them; dropping it lets another be made.
pub struct RankWriter {
    shared: Arc<Shared>,
    cell: Arc<LaneCell>,
    rank: WorkerRank,
}

impl RankWriter {
    pub(super) fn new(shared: Arc<Shared>, rank: WorkerRank) -> Result<Self, WriterTaken> {
        loop {
            let cell = shared.cell_or_new(rank);
            let lane = cell.lane.lock();
            if lane.is_dead {
                continue;
            }
            if cell.is_taken.swap(true, Ordering::AcqRel) {
                return Err(WriterTaken { rank });
            }
            drop(lane);
            return Ok(Self { shared, cell, rank });
        }
    }

    /// The rank.
    pub fn rank(&self) -> WorkerRank {
        self.rank
    }

    /// Applies one event, as [`ApplyEvents::apply`](crate::ApplyEvents::apply) does.
    ///
    /// # Errors
    ///
    /// As there; the index is unchanged then.
    pub fn apply(&mut self, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.shared.apply(&mut self.cell.lane.lock(), event)
    }
}

impl Drop for RankWriter {
    fn drop(&mut self) {
        let mut lane = self.cell.lane.lock();
        self.cell.is_taken.store(false, Ordering::Release);
        self.shared.release_if_empty(&self.cell, &mut lane);
    }
}

impl fmt::Debug for RankWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankWriter").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// The rank has a writer already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterTaken {
    /// The rank.
    pub rank: WorkerRank,
}

impl fmt::Display for WriterTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} has a writer already: use that one, or drop it first", self.rank)
    }
}

impl Error for WriterTaken {}
