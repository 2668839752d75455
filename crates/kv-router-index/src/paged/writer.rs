//! The one writer of a rank.

use std::error::Error;
use std::fmt;

use kv_router_types::{KvEvent, WorkerRank};

use super::lane::Lane;
use super::shared::{LaneCell, Shared};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::{Applied, ApplyError};

/// Applies the events of one rank. Give it to the thread that receives them; dropping it lets another be made.
pub struct RankWriter {
    shared: Arc<Shared>,
    claim: Claim,
}

impl RankWriter {
    pub(super) fn new(shared: Arc<Shared>, rank: WorkerRank) -> Result<Self, WriterTaken> {
        let claim = Claim::new(&shared, rank, |lane| {
            if lane.len() == 0 {
                lane.ids = None;
            }
            if lane.ids.is_none() { Ok(()) } else { Err(TakenBy::Ids) }
        })?;
        Ok(Self { shared, claim })
    }

    /// The rank.
    pub fn rank(&self) -> WorkerRank {
        self.claim.rank
    }

    /// Applies one event, as [`ApplyEvents::apply`](crate::ApplyEvents::apply) does.
    ///
    /// # Errors
    ///
    /// As there; the index is unchanged then.
    pub fn apply(&mut self, event: &KvEvent) -> Result<Applied, ApplyError> {
        let shared = &*self.shared;
        shared.change(&mut self.claim.cell.lane.lock(), |lane| lane.apply(shared, event))
    }
}

impl Drop for RankWriter {
    fn drop(&mut self) {
        self.claim.release(&self.shared);
    }
}

impl fmt::Debug for RankWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankWriter").field("rank", &self.claim.rank).finish_non_exhaustive()
    }
}

/// A rank's lane, kept for one writer.
pub(super) struct Claim {
    pub(super) cell: Arc<LaneCell>,
    pub(super) rank: WorkerRank,
}

impl Claim {
    /// Takes the lane, made if need be, unless somebody has it or `prepare` refuses it.
    pub(super) fn new(
        shared: &Shared,
        rank: WorkerRank,
        prepare: impl Fn(&mut Lane) -> Result<(), TakenBy>,
    ) -> Result<Self, WriterTaken> {
        loop {
            let cell = shared.cell_or_new(rank);
            let mut lane = cell.lane.lock();
            if lane.is_dead {
                continue;
            }
            if cell.is_taken.load(Ordering::Acquire) {
                return Err(WriterTaken { rank, by: TakenBy::Writer });
            }
            prepare(&mut lane).map_err(|by| WriterTaken { rank, by })?;
            // Only under the lock of the lane.
            cell.is_taken.store(true, Ordering::Release);
            drop(lane);
            return Ok(Self { cell, rank });
        }
    }

    pub(super) fn release(&self, shared: &Shared) {
        let mut lane = self.cell.lane.lock();
        self.cell.is_taken.store(false, Ordering::Release);
        shared.release_if_empty(&self.cell, &mut lane);
    }
}

/// The rank cannot have that writer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterTaken {
    /// The rank.
    pub rank: WorkerRank,
    /// What is in the way.
    pub by: TakenBy,
}

/// What is in the way of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakenBy {
    /// Another writer.
    Writer,
    /// What the rank holds: it was stored by name.
    Names,
    /// What the rank holds: it was stored by number.
    Ids,
}

impl fmt::Display for WriterTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.rank;
        match self.by {
            TakenBy::Writer => write!(f, "rank {rank} has a writer already: use that one, or drop it first"),
            TakenBy::Names => {
                write!(f, "rank {rank} holds blocks by name: clear it before it goes on by number")
            }
            TakenBy::Ids => {
                write!(f, "rank {rank} holds blocks by number: clear it before it goes on by name")
            }
        }
    }
}

impl Error for WriterTaken {}
