//! The one writer of a rank whose blocks have numbers.

use std::fmt;

use kv_router_types::{LocalBlockHash, Tier, WorkerRank};

use super::id::{BlockId, BlockRun, IdError, IdEvent};
use super::ids::Ids;
use super::shared::Shared;
use super::writer::{Claim, TakenBy, WriterTaken};
use crate::Applied;
use crate::sync::Arc;

/// Applies what one rank did, told in numbers. Give it to the thread that receives it; dropping it lets another be made.
///
/// The numbers are the sender's to give: [`BlockIds`](super::BlockIds) makes them from an engine's names. They mean to
/// this rank what names mean to others, in every respect: a block has a number, or two of them; a store of one that is in
/// use is a replay at the same place, and a move from another one, as it is with names, so that what a relay sends twice
/// does no harm. Removals of free numbers are counted as unknown.
///
/// A dump gives each number as the name that it stands for.
pub struct IdWriter {
    shared: Arc<Shared>,
    claim: Claim,
}

impl IdWriter {
    pub(super) fn new(shared: Arc<Shared>, rank: WorkerRank) -> Result<Self, WriterTaken> {
        let claim = Claim::new(&shared, rank, |lane| {
            if lane.len() == 0 {
                lane.ids.get_or_insert_with(Ids::default);
            }
            if lane.ids.is_some() { Ok(()) } else { Err(TakenBy::Names) }
        })?;
        Ok(Self { shared, claim })
    }

    /// The rank.
    pub fn rank(&self) -> WorkerRank {
        self.claim.rank
    }

    /// Stores blocks, the first behind `parent`: all of them, or none.
    ///
    /// `runs` gives their numbers in order, a run after the other, and `locals` the content of each. A run costs about
    /// what a block costs; a further block of a run, some nanoseconds.
    ///
    /// # Errors
    ///
    /// What the event alone decides is checked first: [`Length`](IdError::Length),
    /// [`OutOfRange`](IdError::OutOfRange), [`Repeated`](IdError::Repeated); then
    /// [`UnknownParent`](IdError::UnknownParent), then the limits of the index.
    #[inline]
    pub fn store(
        &mut self,
        tier: Tier,
        parent: Option<BlockId>,
        runs: &[BlockRun],
        locals: &[LocalBlockHash],
    ) -> Result<Applied, IdError> {
        let shared = &*self.shared;
        let mut lane = self.claim.cell.lane.lock();
        shared.change(&mut lane, |lane| lane.store_numbered(shared, tier, parent, runs, locals))
    }

    /// Removes copies. Each number stands alone: those that the rank does not hold in that tier are unknown, those above
    /// the limit too.
    #[inline]
    pub fn remove(&mut self, tier: Tier, runs: &[BlockRun]) -> Applied {
        let shared = &*self.shared;
        let mut lane = self.claim.cell.lane.lock();
        shared.change(&mut lane, |lane| lane.remove_numbered(shared, tier, runs))
    }

    /// Forgets everything, at once for readers; every number is free then.
    pub fn clear(&mut self) -> Applied {
        let shared = &*self.shared;
        shared.change(&mut self.claim.cell.lane.lock(), |lane| lane.clear(shared))
    }

    /// Applies one event.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store).
    #[inline]
    pub fn apply(&mut self, event: &IdEvent) -> Result<Applied, IdError> {
        match event {
            IdEvent::Stored { tier, parent, runs, locals } => self.store(*tier, *parent, runs, locals),
            IdEvent::Removed { tier, runs } => Ok(self.remove(*tier, runs)),
            IdEvent::Cleared => Ok(self.clear()),
        }
    }
}

impl Drop for IdWriter {
    fn drop(&mut self) {
        self.claim.release(&self.shared);
    }
}

impl fmt::Debug for IdWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdWriter").field("rank", &self.claim.rank).finish_non_exhaustive()
    }
}
