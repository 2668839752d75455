//! What all handles and bookings of a tracker share, and what has to be settled when a request comes or goes.

use std::hash::BuildHasher;
use std::sync::Arc;

use kv_router_types::WorkerRank;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxBuildHasher;

use crate::budget::Budget;
use crate::ids::Ids;
use crate::replica::Journal;
use crate::requests::{Origin, Request, RequestKey};
use crate::shard::{Freed, Shard};
use crate::{BookError, BookingName, Demand, LoadDelta, LoadListener, SharedBooking};

/// Enough that reports of a busy fleet seldom meet, few enough that a snapshot of a small one stays cheap.
pub(crate) const SHARDS: usize = 8;

pub(crate) struct Shared {
    pub(crate) shards: [RwLock<Shard>; SHARDS],
    /// The requests in flight that have an id: those of the shards, never more.
    pub(crate) ids: Mutex<Ids>,
    pub(crate) ranks: Budget,
    pub(crate) requests: Budget,
    pub(crate) prompt_blocks: Budget,
    pub(crate) max_requests: u32,
    pub(crate) max_ranks: u32,
    pub(crate) max_tombstones: usize,
    pub(crate) listener: Option<Arc<dyn LoadListener>>,
    pub(crate) journal: Option<Journal>,
}

impl Shared {
    pub(crate) fn shard(&self, worker: WorkerRank) -> &RwLock<Shard> {
        &self.shards[shard_of(worker)]
    }

    pub(crate) fn note_booked(&self, worker: WorkerRank, key: RequestKey, demand: &Demand<'_>) {
        if let Some(journal) = &self.journal {
            journal.push(LoadDelta::Booked(SharedBooking {
                name: name(shard_of(worker), key),
                worker,
                prefill_tokens: demand.prefill_tokens,
                prompt_blocks: demand.prompt_blocks.to_vec(),
                private_blocks: demand.private_blocks,
                output_blocks: 0,
            }));
        }
    }

    pub(crate) fn note_progress(&self, worker: WorkerRank, key: RequestKey, request: &Request) {
        if request.origin == Origin::Own
            && let Some(journal) = &self.journal
        {
            journal.push(LoadDelta::Progressed {
                name: name(shard_of(worker), key),
                prefill_tokens: request.prefill_tokens,
                output_blocks: request.output_blocks,
            });
        }
    }

    /// Stops counting a request. `false` when that happened before.
    pub(crate) fn free(&self, worker: WorkerRank, key: RequestKey) -> bool {
        let mut shard = self.shard(worker).write();
        let freed = shard.free(key);
        if let Some(freed) = &freed {
            self.settle(freed);
        }
        drop(shard);
        if freed.is_some() {
            self.tell(worker);
        }
        freed.is_some()
    }

    /// Tells the listener that a load fell. Never under a lock.
    pub(crate) fn tell(&self, worker: WorkerRank) {
        if let Some(listener) = &self.listener {
            listener.load_fell(worker);
        }
    }

    /// Takes room for one request, or nothing.
    pub(crate) fn take(&self, prompt_blocks: u64) -> Result<(), BookError> {
        if !self.requests.try_take(1) {
            return Err(BookError::TooManyRequests { limit: self.max_requests });
        }
        if !self.prompt_blocks.try_take(prompt_blocks) {
            self.requests.give_back(1);
            return Err(BookError::TooManyPromptBlocks {
                needed: prompt_blocks,
                limit: self.prompt_blocks.limit(),
            });
        }
        Ok(())
    }

    /// Gives back what a request took outside its shard. Runs while the lock of the shard is held, once for each
    /// request: whoever took it out of the shard.
    pub(crate) fn settle(&self, freed: &Freed) {
        if let Some(request) = freed.request {
            self.ids.lock().remove(request);
        }
        if freed.origin == Origin::Own
            && let Some(journal) = &self.journal
        {
            journal.push(LoadDelta::Released { name: name(shard_of(freed.worker), freed.key) });
        }
        self.requests.give_back(1);
        self.prompt_blocks.give_back(freed.stored_blocks);
    }
}

fn shard_of(worker: WorkerRank) -> usize {
    FxBuildHasher.hash_one(worker) as usize % SHARDS
}

/// Serial numbers are unique in their shard; this one is in the tracker.
pub(crate) fn name(shard: usize, key: RequestKey) -> BookingName {
    BookingName::new(key.serial() * SHARDS as u64 + shard as u64)
}
