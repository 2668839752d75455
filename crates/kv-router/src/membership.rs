//! Workers come and go.

use std::sync::Arc;

use kv_router_load::RankCapacity;
use kv_router_schedule::{Capacity, RankBounds, StreamFreshness};
use kv_router_types::{DpRank, WorkerId, WorkerRank};

use crate::admit::{ring, ring_all};
use crate::fleet::{Fleet, Rank};
use crate::ingest::Stream;
use crate::{JoinError, LeaveError, Router, WorkerSpec};

impl Router {
    /// Adds a worker with all its ranks. Each starts cold: nothing is known of its cache. One
    /// [without events](WorkerSpec::without_events) is guessed from the first request on.
    ///
    /// # Errors
    ///
    /// [`JoinError`]; the fleet is then unchanged.
    pub fn join(&self, worker: WorkerId, spec: WorkerSpec) -> Result<(), JoinError> {
        let WorkerSpec { block_size, ranks, mut traits, capacity, incarnation, events } = spec;
        let ours = self.scheme().block_size();
        if ranks == 0 || ranks > WorkerSpec::MAX_RANKS {
            return Err(JoinError::RankCount { worker, ranks });
        }
        if block_size != ours {
            return Err(JoinError::BlockSizeMismatch { worker, theirs: block_size, ours });
        }
        traits.ranks = RankBounds::new(DpRank::new(0), ranks);
        let traits = Arc::new(traits);

        let membership = self.core.membership.lock();
        let before = self.core.fleet();
        if before.contains(worker) {
            return Err(JoinError::AlreadyJoined { worker });
        }
        let ids = (0..ranks).map(|rank| WorkerRank::new(worker, DpRank::new(rank)));
        let joining = ids
            .clone()
            .map(|id| Rank::new(&before, id, Arc::clone(&traits), events, Stream::new(incarnation)));
        // The fleet first: a rank that has load but is not in the fleet is no candidate, the other way round is
        // no candidate either, and events are taken from here on.
        *self.core.fleet.write() = Arc::new(before.with(worker, joining.collect()));
        for id in ids {
            if let Err(error) = self.core.load.add_rank(id) {
                self.core.load.remove_worker(worker);
                self.forget(worker, &before);
                return Err(JoinError::FleetFull(error));
            }
            self.core.load.set_capacity(id, rank_capacity(capacity));
        }
        drop(membership);
        self.core.tell_peers_of_rank();
        ring(&self.core); // somebody may have waited for it
        Ok(())
    }

    /// Removes a worker: its blocks, its load, its ranks. Bookings on it stay valid and count for nothing.
    ///
    /// Once this returns, no event of it changes anything, however late it comes, until it joins again. To keep late
    /// events of its past life out after that too, join with [`WorkerSpec::incarnation`].
    ///
    /// # Errors
    ///
    /// [`LeaveError::UnknownWorker`].
    pub fn leave(&self, worker: WorkerId) -> Result<(), LeaveError> {
        let membership = self.core.membership.lock();
        let before = self.core.fleet();
        if !before.contains(worker) {
            return Err(LeaveError::UnknownWorker { worker });
        }
        self.core.load.remove_worker(worker);
        self.forget(worker, &Arc::new(before.without(worker)));
        self.core.sessions.unbind_worker(worker);
        drop(membership);
        ring_all(&self.core); // who waited for it alone need not wait any longer
        Ok(())
    }

    /// Puts `after` in place of the fleet, then forgets what the index has of `worker`. An event that is being
    /// applied is waited for, later ones find the stream closed: none can bring a block back.
    fn forget(&self, worker: WorkerId, after: &Arc<Fleet>) {
        let before = std::mem::replace(&mut *self.core.fleet.write(), Arc::clone(after));
        for rank in before.ranks_of(worker) {
            let mut stream = rank.stream.lock();
            stream.close();
            rank.set_freshness(StreamFreshness::Cold); // whoever has it in hand records no guess any more
        }
        self.core.index.remove_worker(worker);
        self.core.predictor.remove_worker(worker);
    }
}

/// The load tracker does not know the scheduler, so each has its own word for it.
pub(crate) fn rank_capacity(capacity: Capacity) -> RankCapacity {
    RankCapacity { batched_tokens: capacity.batched_tokens, total_blocks: capacity.total_blocks }
}
