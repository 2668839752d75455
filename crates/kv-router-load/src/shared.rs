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
    /// Our own.
    pub(crate) requests: Budget,
    /// Blocks that are stored, whoever booked them. The limit is that of our own.
    pub(crate) prompt_blocks: Budget,
    pub(crate) peer_requests: Budget,
    /// Blocks of the prompts of others, each as often as it is booked: at least those of them that are stored.
    pub(crate) peer_prompt_blocks: Budget,
    pub(crate) max_requests: u32,
    pub(crate) max_peer_requests: u32,
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
            let (told, untold) = journal.told(demand.prompt_blocks);
            if untold > 0 {
                journal.note_shortened();
            }
            journal.push(LoadDelta::Booked(SharedBooking {
                name: name(shard_of(worker), key),
                worker,
                prefill_tokens: demand.prefill_tokens,
                prompt_blocks: told.to_vec(),
                private_blocks: demand.private_blocks.saturating_add(untold),
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

    /// Takes room for one request with so many blocks in its prompt, of which `new` are not stored yet; or nothing.
    ///
    /// What others have booked takes no room of ours. A block that we share with them is stored once, and it cannot be told
    /// who of us it is stored for: so ours may come to the limit and what theirs can be at most, which is never less than
    /// what ours alone would need.
    pub(crate) fn take(&self, origin: Origin, prompt: u64, new: u64) -> Result<(), BookError> {
        let (requests, limit) = match origin {
            Origin::Own => (&self.requests, self.max_requests),
            Origin::Replica => (&self.peer_requests, self.max_peer_requests),
        };
        if !requests.try_take(1) {
            return Err(BookError::TooManyRequests { limit });
        }
        let (has_room, needed, blocks) = match origin {
            Origin::Own => {
                let theirs = self.peer_prompt_blocks.used();
                (self.prompt_blocks.try_take_beyond(new, theirs), new, &self.prompt_blocks)
            }
            Origin::Replica => (self.peer_prompt_blocks.try_take(prompt), prompt, &self.peer_prompt_blocks),
        };
        if !has_room {
            requests.give_back(1);
            return Err(BookError::TooManyPromptBlocks { needed, limit: blocks.limit() });
        }
        if origin == Origin::Replica {
            self.prompt_blocks.add(new);
        }
        Ok(())
    }

    /// Whether a booking of others with so many blocks in its prompt could be counted.
    pub(crate) fn has_room_for_peers(&self, prompt: u64) -> bool {
        self.peer_requests.has_room(1) && self.peer_prompt_blocks.has_room(prompt)
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
        match freed.origin {
            Origin::Own => self.requests.give_back(1),
            Origin::Replica => {
                self.peer_requests.give_back(1);
                self.peer_prompt_blocks.give_back(freed.prompt_blocks);
            }
        }
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
