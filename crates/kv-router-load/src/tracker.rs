//! The tracker: ranks, bookings, expiry and reads.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_router_types::{RequestId, SequenceHash, WorkerId, WorkerRank};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxBuildHasher;

use crate::budget::Budget;
use crate::ids::{Home, Ids, Verdict};
use crate::replica::Journal;
use crate::requests::{Origin, Request, RequestKey};
use crate::shard::{Freed, Shard};
use crate::{AddRankError, BookError, Booking, LoadConfig, LoadConfigError, LoadSnapshot};
use crate::{
    BookingName, BookingsSnapshot, DeltaBatch, JournalConfig, LoadDelta, ReplicaLife, SharedBooking,
};

/// Enough that reports of a busy fleet seldom meet, few enough that a snapshot of a small one stays cheap.
pub(crate) const SHARDS: usize = 8;

/// What a request will ask of the rank that it is booked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand<'a> {
    /// The gateway's name for the request, if it must be unique or released by name.
    pub request: Option<RequestId>,
    /// Which try of the request this is, from 0, for gateways that send it again when a worker fails. Tells a late end
    /// of one try from that of the next: see [`LoadTracker::end_attempt`].
    pub attempt: u32,
    /// Prompt tokens that the worker still has to compute, that is without those in its cache. At most
    /// [`MAX_PREFILL_TOKENS`](Self::MAX_PREFILL_TOKENS).
    pub prefill_tokens: u64,
    /// The whole blocks of the prompt, cached or not, as rolling hashes: element `i` names the prefix up to and
    /// including block `i`. Hashes that are not rolling cost accuracy, nothing else.
    pub prompt_blocks: &'a [SequenceHash],
    /// Blocks that no other request can share, for example the partial last block of the prompt.
    pub private_blocks: u32,
}

impl Demand<'_> {
    /// The longest prefill accepted, in tokens.
    pub const MAX_PREFILL_TOKENS: u64 = u32::MAX as u64;
}

/// What one worker rank is working on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerLoad {
    /// Prompt tokens of requests whose prefill has not completed. Foreign load, by engine reports, is part of this and
    /// of the other two: [`LoadTracker::report`].
    pub prefill_tokens: u64,
    /// Blocks held by requests: prompt blocks, each distinct one once; private and output blocks, each.
    pub blocks: u64,
    /// Requests in flight.
    pub requests: u32,
}

/// A request that [`LoadTracker::expire_idle`] gave up on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// The rank that carried it.
    pub worker: WorkerRank,
    /// Its id, if it had one.
    pub request: Option<RequestId>,
    /// How long nothing had been heard of it.
    pub idle: Duration,
}

/// What the tables of a tracker hold: all zero, but for the ranks, when nothing is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadStats {
    /// Ranks known. Limit: [`LoadConfig::max_ranks`].
    pub ranks: u64,
    /// Requests in flight. Limit: [`LoadConfig::max_requests`].
    pub requests: u64,
    /// Ids of those that have one.
    pub request_ids: u64,
    /// Attempts that ended before they were booked, and are kept out. Limit: [`LoadConfig::max_tombstones`].
    pub tombstones: u64,
    /// Prompt blocks stored. Limit: [`LoadConfig::max_prompt_blocks`].
    pub prompt_blocks: u64,
    /// Runs of prompt blocks between two forks, at most twice the requests.
    pub prompt_runs: u64,
}

/// Is told that a rank has less to do than before, so that whoever waits for that need not ask again and again.
pub trait LoadListener: fmt::Debug + Send + Sync {
    /// The load of a rank fell: a request ended, expired or came further, or an engine reported less. Called on the
    /// thread that made it fall, after the change can be seen and with no lock of the tracker held: it may call the
    /// tracker, but it delays whoever drops a booking. Not called for ranks that are added or removed and for new
    /// capacities, which whoever does that knows.
    fn load_fell(&self, worker: WorkerRank);
}

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
/// [`LoadListener`] is called after it.
///
/// # Panics
///
/// Never.
#[derive(Clone)]
pub struct LoadTracker {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) shards: [RwLock<Shard>; SHARDS],
    /// The requests in flight that have an id: those of the shards, never more.
    ids: Mutex<Ids>,
    ranks: Budget,
    requests: Budget,
    prompt_blocks: Budget,
    max_requests: u32,
    max_ranks: u32,
    max_tombstones: usize,
    listener: Option<Arc<dyn LoadListener>>,
    journal: Option<Journal>,
}

/// What a tracker does besides counting. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Who is told when a load falls.
    pub listener: Option<Arc<dyn LoadListener>>,
    /// Makes the tracker note the changes of its own bookings, for other replicas.
    pub journal: Option<JournalConfig>,
}

/// What became of the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It was in flight on this rank, and is no longer counted.
    Released(WorkerRank),
    /// It is not booked yet, and will not be: its end overtook it.
    Early,
    /// A later attempt of the request is in flight, and stays.
    Late,
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
    /// The first field of `config` outside its range.
    pub fn with_hooks(config: LoadConfig, hooks: Hooks) -> Result<Self, LoadConfigError> {
        config.validate()?;
        let shared = Shared {
            shards: std::array::from_fn(|_| RwLock::new(Shard::new())),
            journal: hooks.journal.map(Journal::new),
            ids: Mutex::default(),
            ranks: Budget::new(u64::from(config.max_ranks)),
            requests: Budget::new(u64::from(config.max_requests)),
            prompt_blocks: Budget::new(config.max_prompt_blocks),
            max_requests: config.max_requests,
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
        self.shared.take((demand.prompt_blocks.len() - fork.depth) as u64)?;
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

    /// Changes of our own bookings since the last call, at most `most` of them. Send them to every other replica, in
    /// their order if that is possible. Without changes the batch is a heartbeat, and should be sent now and then.
    /// `None` for a tracker without a journal.
    pub fn take_deltas(&self, most: usize) -> Option<DeltaBatch> {
        self.shared.journal.as_ref().map(|journal| journal.take(most))
    }

    /// Our own bookings, for a replica that needs them all. `None` for a tracker without a journal.
    ///
    /// Changes during the call may be in it or not. They come as deltas too, and change nothing then.
    pub fn bookings_snapshot(&self) -> Option<BookingsSnapshot> {
        let journal = self.shared.journal.as_ref()?;
        // Before the bookings are read: whatever is missing in them has a later number.
        let next = journal.next();
        let mut bookings = Vec::new();
        for (index, shard) in self.shared.shards.iter().enumerate() {
            bookings.extend(shard.read().own_requests().map(|(key, request, worker, prompt_blocks)| {
                SharedBooking {
                    name: name(index, key),
                    worker,
                    prefill_tokens: request.prefill_tokens,
                    prompt_blocks,
                    private_blocks: request.private_blocks,
                    output_blocks: request.output_blocks,
                }
            }));
        }
        Some(BookingsSnapshot { from: journal.life(), next, bookings })
    }

    pub(crate) fn life(&self) -> Option<ReplicaLife> {
        self.shared.journal.as_ref().map(Journal::life)
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
            prompt_blocks: self.shared.prompt_blocks.used(),
            ..LoadStats::default()
        };
        {
            let ids = self.shared.ids.lock();
            (stats.request_ids, stats.tombstones) = (ids.len() as u64, ids.tombstones() as u64);
        }
        for shard in &self.shared.shards {
            let shard = shard.read();
            stats.requests += shard.request_count() as u64;
            stats.prompt_runs += shard.run_count() as u64;
        }
        stats
    }
}

impl fmt::Debug for LoadTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadTracker").field("stats", &self.stats()).finish()
    }
}

impl Shared {
    pub(crate) fn shard(&self, worker: WorkerRank) -> &RwLock<Shard> {
        &self.shards[shard_of(worker)]
    }

    fn note_booked(&self, worker: WorkerRank, key: RequestKey, demand: &Demand<'_>) {
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
    fn take(&self, prompt_blocks: u64) -> Result<(), BookError> {
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
    fn settle(&self, freed: &Freed) {
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
fn name(shard: usize, key: RequestKey) -> BookingName {
    BookingName::new(key.serial() * SHARDS as u64 + shard as u64)
}
