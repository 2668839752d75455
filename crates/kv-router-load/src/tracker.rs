//! The tracker: ranks, bookings, expiry and reads.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_router_types::{RequestId, SequenceHash, WorkerId, WorkerRank};
use parking_lot::{Mutex, RwLock};

use crate::budget::Budget;
use crate::ids::{Home, Verdict};
use crate::replica::Journal;
use crate::requests::Origin;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::{
    AddRankError, AttemptEnd, BookError, Booking, Demand, Expired, Hooks, JournalConfig, LoadConfig,
    LoadConfigError, LoadSnapshot, LoadStats, SharedBooking, WorkerLoad,
};

/// Counts what every worker rank is working on. A handle: clones share one state.
///
/// # Consistency
///
/// Each call but the sweeps over several ranks ([`snapshot_into`](Self::snapshot_into),
/// [`expire_idle`](Self::expire_idle), [`remove_worker`](Self::remove_worker), [`stats`](Self::stats)) takes effect
/// at one moment. The sweeps take effect for a group of ranks after the other. The three numbers of a rank always
/// belong to one moment.
///
/// # Locking
///
/// Ranks are spread over eight reader-writer locks by their name. Ids have one mutex, taken while a rank lock is
/// held and never the other way round; no two rank locks are held at once. No caller's code runs under a lock: a
/// [`LoadListener`](crate::LoadListener) is called after it.
///
/// # Panics
///
/// Never.
#[derive(Clone)]
pub struct LoadTracker {
    shared: Arc<Shared>,
}

impl LoadTracker {
    /// A tracker without ranks.
    ///
    /// # Errors
    ///
    /// The first field of `config` outside its range.
    pub fn new(config: LoadConfig) -> Result<Self, LoadConfigError> {
        Self::with_hooks(config, Hooks::default())
    }

    /// A tracker without ranks that does more than count.
    ///
    /// # Errors
    ///
    /// The first field of `config`, or of the journal in `hooks`, outside its range.
    pub fn with_hooks(config: LoadConfig, hooks: Hooks) -> Result<Self, LoadConfigError> {
        config.validate()?;
        if let Some(JournalConfig { max_message_bytes: given, .. }) = hooks.journal
            && !JournalConfig::MESSAGE_BYTES.contains(&given)
        {
            return Err(LoadConfigError::MaxMessageBytes { given });
        }
        let shared = Shared {
            shards: std::array::from_fn(|_| RwLock::new(Shard::new())),
            journal: hooks.journal.map(Journal::new),
            ids: Mutex::default(),
            ranks: Budget::new(u64::from(config.max_ranks)),
            requests: Budget::new(u64::from(config.max_requests)),
            prompt_blocks: Budget::new(config.max_prompt_blocks),
            peer_requests: Budget::new(u64::from(config.max_peer_requests)),
            peer_prompt_blocks: Budget::new(config.max_peer_prompt_blocks),
            max_requests: config.max_requests,
            max_peer_requests: config.max_peer_requests,
            max_ranks: config.max_ranks,
            max_tombstones: config.max_tombstones as usize,
            listener: hooks.listener,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Makes a rank known, with no load. A rank that is known keeps its load.
    ///
    /// # Errors
    ///
    /// [`AddRankError::TooManyRanks`] at the limit.
    pub fn add_rank(&self, worker: WorkerRank) -> Result<(), AddRankError> {
        let mut shard = self.shared.shard(worker).write();
        if !shard.contains(worker) {
            if !self.shared.ranks.try_take(1) {
                return Err(AddRankError::TooManyRanks { limit: self.shared.max_ranks });
            }
            shard.add(worker);
        }
        Ok(())
    }

    /// Forgets a rank and its requests, whose bookings then do nothing, also after the rank came back. Returns the
    /// load it had, `None` if it was unknown. Cost: one step for each request in its eighth of the fleet.
    pub fn remove_rank(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        let mut shard = self.shared.shard(worker).write();
        let load = shard.remove(worker, |freed| self.shared.settle(&freed))?;
        self.shared.ranks.give_back(1);
        Some(load)
    }

    /// Forgets all ranks of a worker, one after the other. Returns how many there were.
    pub fn remove_worker(&self, worker: WorkerId) -> usize {
        let mut removed = 0;
        for shard in &self.shared.shards {
            let ranks = shard.read().ranks_of(worker);
            removed += ranks.into_iter().filter(|&rank| self.remove_rank(rank).is_some()).count();
        }
        removed
    }

    /// Counts a request on a rank until the returned guard is dropped.
    ///
    /// Cost: one lock, a map probe for each fork among the prompts in flight that this one passes, and one copy of
    /// the blocks that no request near this rank has in flight.
    ///
    /// # Errors
    ///
    /// See [`BookError`]. A refused request changes no load.
    pub fn book(&self, worker: WorkerRank, demand: Demand<'_>, now: Instant) -> Result<Booking, BookError> {
        self.book_as(Origin::Own, worker, demand, now)
    }

    /// Counts a request of another replica. Its id is that replica's business.
    pub(crate) fn book_shared(&self, booking: &SharedBooking, now: Instant) -> Result<Booking, BookError> {
        let demand = Demand {
            request: None,
            attempt: 0,
            prefill_tokens: booking.prefill_tokens,
            prompt_blocks: &booking.prompt_blocks,
            private_blocks: booking.private_blocks,
        };
        let held = self.book_as(Origin::Replica, booking.worker, demand, now)?;
        let _ = held.set_progress(booking.prefill_tokens, booking.output_blocks, now);
        Ok(held)
    }

    fn book_as(
        &self,
        origin: Origin,
        worker: WorkerRank,
        demand: Demand<'_>,
        now: Instant,
    ) -> Result<Booking, BookError> {
        if demand.prefill_tokens > Demand::MAX_PREFILL_TOKENS {
            return Err(BookError::PrefillTooLong { tokens: demand.prefill_tokens });
        }
        let mut shard = self.shared.shard(worker).write();
        if !shard.contains(worker) {
            return Err(BookError::UnknownRank { worker });
        }
        // The id table stays locked until the booking is in both: an id is unique at every moment.
        let mut ids = demand.request.map(|request| (request, self.shared.ids.lock()));
        if let Some((request, ids)) = &mut ids {
            match ids.judge(*request, demand.attempt) {
                Verdict::Free => {}
                Verdict::InFlight(home) => {
                    return Err(BookError::DuplicateRequest { request: *request, worker: home.worker });
                }
                Verdict::Ended => {
                    return Err(BookError::AlreadyEnded { request: *request, attempt: demand.attempt });
                }
            }
        }
        let fork = shard.find_prompt(demand.prompt_blocks);
        let blocks = demand.prompt_blocks.len();
        self.shared.take(origin, blocks as u64, (blocks - fork.depth) as u64)?;
        let key = shard.book(worker, &demand, origin, fork, now).ok_or(BookError::UnknownRank { worker })?;
        if let Some((request, ids)) = &mut ids {
            ids.insert(*request, Home { worker, key, attempt: demand.attempt });
        }
        if origin == Origin::Own {
            self.shared.note_booked(worker, key, &demand);
        }
        Ok(Booking::new(Arc::clone(&self.shared), worker, demand.request, key))
    }

    /// Stops counting a request by its id, for gateways that learn of its end elsewhere than they keep its guard.
    /// Returns its rank; `None`, and nothing left behind, when no such request is in flight.
    pub fn release_request(&self, request: RequestId) -> Option<WorkerRank> {
        let home = self.shared.ids.lock().get(request)?;
        // In between it may have been released and booked again; the key then finds nothing.
        self.shared.free(home.worker, home.key).then_some(home.worker)
    }

    /// Stops counting one attempt of a request, for gateways that learn of its end in any order: an end that comes late
    /// does not touch the next attempt, and one that comes before its booking keeps that out
    /// ([`BookError::AlreadyEnded`]), until [`expire_idle`](Self::expire_idle) finds it older than its `ttl`.
    pub fn end_attempt(&self, request: RequestId, attempt: u32, now: Instant) -> AttemptEnd {
        let mut ids = self.shared.ids.lock();
        match ids.get(request) {
            Some(home) if home.attempt == attempt => {
                drop(ids);
                // In between it may have been released another way.
                self.shared.free(home.worker, home.key);
                AttemptEnd::Released(home.worker)
            }
            Some(home) if home.attempt > attempt => AttemptEnd::Late,
            _ => {
                ids.bury(request, attempt, now, self.shared.max_tombstones);
                AttemptEnd::Early
            }
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Stops counting the requests without activity for `ttl` or longer, however old they are, and names them.
    ///
    /// Call it on a timer, with a `ttl` well above the longest silence of a live request. Cost: one step for each
    /// request in flight, under shared locks.
    pub fn expire_idle(&self, now: Instant, ttl: Duration) -> Vec<Expired> {
        self.shared.ids.lock().expire(now, ttl);
        let mut expired: Vec<Expired> = Vec::new();
        for lock in &self.shared.shards {
            // Readers go on during the search; a request that shows life before the second look survives.
            let idle = lock.read().idle(now, ttl);
            if idle.is_empty() {
                continue;
            }
            let mut shard = lock.write();
            for freed in idle.into_iter().filter_map(|key| shard.free_idle(key, now, ttl)) {
                self.shared.settle(&freed);
                expired.push(Expired {
                    worker: freed.worker,
                    request: freed.request,
                    idle: now.saturating_duration_since(freed.last_activity),
                });
            }
        }
        expired.iter().for_each(|expired| self.shared.tell(expired.worker));
        expired
    }

    /// What one rank is working on; `None` if it is unknown.
    pub fn load(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        self.shared.shard(worker).read().load(worker)
    }

    /// Copies the load of every rank into `out`, and how many leading blocks of `prompt` each has in flight.
    ///
    /// Cost: one look for every 16 ranks, 384 bytes copied for each such group with a change since `out` was filled
    /// last, everything after a change of membership, and one write for each rank and each run of blocks that it
    /// shares with the prompt. Allocates only to grow `out`.
    pub fn snapshot_into(&self, prompt: &[SequenceHash], out: &mut LoadSnapshot) {
        out.begin();
        for (index, shard) in self.shared.shards.iter().enumerate() {
            out.append(index, &shard.read(), prompt);
        }
    }

    /// What the tables hold, for gauges and for finding leaks.
    pub fn stats(&self) -> LoadStats {
        let mut stats = LoadStats {
            ranks: self.shared.ranks.used(),
            requests: self.shared.requests.used(),
            peer_requests: self.shared.peer_requests.used(),
            prompt_blocks: self.shared.prompt_blocks.used(),
            peer_prompt_blocks: self.shared.peer_prompt_blocks.used(),
            ..LoadStats::default()
        };
        {
            let ids = self.shared.ids.lock();
            (stats.request_ids, stats.tombstones) = (ids.len() as u64, ids.tombstones() as u64);
        }
        for shard in &self.shared.shards {
            stats.prompt_runs += shard.read().run_count() as u64;
        }
        stats
    }
}

impl fmt::Debug for LoadTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadTracker").field("stats", &self.stats()).finish()
    }
}
