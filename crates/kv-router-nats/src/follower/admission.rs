//! Which ranks are followed, and from where they start.

use std::collections::BTreeMap;
use std::time::Instant;

use kv_router_transport::{FollowSink, ForgetReason};
use kv_router_types::{DpRank, WorkerId, WorkerRank};

use super::Follower;
use super::fleet::Fleet;
use crate::error::RequestError;

impl Follower {
    /// Starts from the latest snapshot, and asks the relays for what came after it. Returns how many ranks it had.
    ///
    /// Call it once, before the first poll. Without a snapshot it does nothing, and ranks are learned by replay.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the store cannot be read or what is in it is damaged; going on without is sound.
    pub fn warm(&mut self, now: Instant, sink: &mut dyn FollowSink) -> Result<usize, RequestError> {
        self.stage()?;
        let ranks: Vec<_> = self.staged.keys().copied().collect();
        let before = self.counters.restored;
        for rank in ranks {
            self.admit(now, rank, sink);
        }
        self.unstage();
        Ok((self.counters.restored - before) as usize)
    }

    /// Loads the latest snapshot, for ranks that are [admitted](Self::admit) from here on: each goes on from what it
    /// says. Returns how many ranks it has; 0 without one, or with one of another fingerprint.
    ///
    /// It takes memory, some 30 bytes a block, for ranks that were not admitted until [`unstage`](Self::unstage).
    ///
    /// # Errors
    ///
    /// As [`warm`](Self::warm).
    pub fn stage(&mut self) -> Result<usize, RequestError> {
        let Some(bytes) = self.store.get(&self.config.name)? else { return Ok(0) };
        let fleet = Fleet::read(&bytes).inspect_err(|_| self.counters.failed_snapshots += 1)?;
        if fleet.fingerprint != self.config.fingerprint {
            self.counters.failed_snapshots += 1;
            return Ok(0);
        }
        self.counters.snapshots += 1;
        self.staged = fleet.ranks;
        Ok(self.staged.len())
    }

    /// Lets go of what was loaded and nobody was admitted for.
    pub fn unstage(&mut self) {
        self.staged = BTreeMap::new();
    }

    /// The rank is to be followed from here on: it goes on from what was [staged](Self::stage), if it was, and its relay
    /// is asked for the rest. Nothing happens when it is followed already.
    pub fn admit(&mut self, now: Instant, rank: WorkerRank, sink: &mut dyn FollowSink) {
        if self.ranks.contains_key(&rank) {
            return;
        }
        let staged = self.staged.remove(&rank);
        let Some(mut lane) = self.born() else { return };
        if let Some(state) = staged {
            sink.restore(rank, state.watermark, &state.events);
            self.counters.restored += 1;
            lane.sequencer.restored(now, state.watermark, &mut self.actions);
        }
        lane.sequencer.catch_up(now, &mut self.actions);
        self.put_back(rank, lane, sink);
    }

    /// The ranks of the worker are no longer followed: forgets them, and that there are any.
    ///
    /// Under [`Followed::Heard`](crate::Followed::Heard) a batch that is still under way would bring them back: [`retire`](Self::retire) them
    /// there.
    pub fn dismiss(&mut self, worker: WorkerId, sink: &mut dyn FollowSink) {
        let [first, last] = [0, u32::MAX].map(|rank| WorkerRank::new(worker, DpRank::new(rank)));
        let ranks: Vec<_> = self.ranks.range(first..=last).map(|(rank, _)| *rank).collect();
        for rank in ranks {
            self.ranks.remove(&rank);
            sink.forget(rank, ForgetReason::Retired);
        }
    }

    /// The worker is gone ([`WorkerEvent::Left`](crate::WorkerEvent::Left) or `Expired`): forgets its ranks, and what is
    /// still under way from this life of them.
    pub fn retire(&mut self, worker: WorkerId, sink: &mut dyn FollowSink) {
        self.each(sink, |rank, sequencer, out| {
            if rank.worker == worker {
                sequencer.retire(out);
            }
        });
    }

    /// The worker is there ([`WorkerEvent::Joined`](crate::WorkerEvent::Joined)): if it was retired, though its engine
    /// went on in the same life, its ranks are learned anew. Others are asked for what they may have said unheard.
    pub fn revive(&mut self, now: Instant, worker: WorkerId, sink: &mut dyn FollowSink) {
        self.each(sink, |rank, sequencer, out| {
            if rank.worker == worker {
                sequencer.revive();
                sequencer.catch_up(now, out);
            }
        });
    }

    /// What the sink holds of the rank is found to be wrong: forgets it and builds it anew, from the relay or else from
    /// the snapshot. `false` when there is nothing to build it from, or it is being built already.
    pub fn resync(&mut self, now: Instant, rank: WorkerRank, sink: &mut dyn FollowSink) -> bool {
        let Some(mut lane) = self.ranks.remove(&rank) else { return false };
        let begun = lane.sequencer.resync(now, &mut self.actions);
        self.put_back(rank, lane, sink);
        begun
    }
}
