//! The router: workers come and go, events come in, requests are placed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kv_router_hash::HashScheme;
use kv_router_index::{FindOptions, Occupancy, Overlaps};
use kv_router_load::{
    Demand, EngineReport, Expired, Hooks, LoadListener, LoadStats, LoadTracker, RankCapacity, WorkerLoad,
};
use kv_router_schedule::{
    Capacity, CustomRules, Explanation, QueueStats, RankBounds, Selector, SessionGossip, SessionId,
    SessionStats,
};
use kv_router_transport::EventBatch;
use kv_router_types::{DpRank, KvEvent, WorkerId, WorkerRank};
use parking_lot::{Mutex, RwLock};

use crate::admit::{Doorbell, Lobby, Ticket, admit, ring, ring_all};
use crate::clock::{Clock, SystemClock};
use crate::core::Core;
use crate::fleet::{Fleet, Rank};
use crate::ingest::{ApplyBatchError, BatchReport, RankStatus, Stream};
use crate::pool::Pool;
use crate::seed::Seeds;
use crate::sessions::{Merged, Sessions};
use crate::{
    AdmitError, BuildError, Decision, JoinError, LeaveError, RouteError, RouteRequest, RouterConfig,
    WorkerSpec,
};

/// Buffers kept for later decisions; more than the threads that a gateway routes on.
const IDLE_ROOMS: usize = 64;

/// Routes requests to the worker rank that already holds their prefix, unless it is too busy.
///
/// `Send + Sync`: share it behind an `Arc`. No method but [`dump`](Self::dump) holds a lock for long.
///
/// # Consistency
///
/// A decision sees the fleet, the index and the load as they are when it looks at each. When the rank that it chose
/// has left by then, or left and joined again, the decision is made again, a few times at most.
///
/// # Locking
///
/// Events of one rank apply one after the other, those of different ranks side by side. Lookups take no lock of the
/// paged index; the others say in their documentation what they take.
/// Candidates are scored without any lock. A request that waits is booked under the lock of the queue, after it was
/// decided on.
///
/// # Panics
///
/// Never, but for code of the caller's: clocks, wakers and custom rules.
pub struct Router {
    core: Arc<Core>,
}

/// Builds a [`Router`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct RouterBuilder {
    config: RouterConfig,
    seed: u64,
    clock: Box<dyn Clock>,
    custom: CustomRules,
}

impl RouterBuilder {
    /// The seed of all draws. Equal seeds and equal calls on one thread give equal decisions. Default 0; give each
    /// replica of a router its own, or they all break ties alike; where prompts come from strangers a random one, since
    /// it goes into the hash of the index too.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Where the time comes from. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Filters, scorers and a picker of the caller's own. They are called for every decision, on the thread that
    /// makes it, for a request that waits too; a panic of theirs comes out there. See [`CustomRules`] for the price.
    ///
    /// With a custom filter every request that waits is tried for itself, for it may be admitted where others are not.
    pub fn custom(mut self, rules: CustomRules) -> Self {
        self.custom = rules;
        self
    }

    /// A router without workers.
    ///
    /// # Errors
    ///
    /// The first setting out of range.
    pub fn build(self) -> Result<Router, BuildError> {
        let Self { config, seed, clock, custom } = self;
        let selector = Selector::new(config.cost.clone(), config.filters.clone())?.with_custom(custom)?;
        let doorbell = Arc::new(Doorbell::default());
        let lobby = config.queue.clone().map(Lobby::new).transpose()?;
        let listener: Option<Arc<dyn LoadListener>> =
            lobby.is_some().then(|| Arc::<Doorbell>::clone(&doorbell) as Arc<dyn LoadListener>);
        let load = LoadTracker::with_hooks(config.load.clone(), Hooks { listener, journal: config.journal })?;
        let replica = config.journal.map_or(seed, |journal| journal.life.replica.get());
        let sessions = Sessions::new(config.sessions.clone(), replica)?;
        let given = config.max_prompt_tokens;
        if given < config.scheme.block_size().as_usize() || given as u64 > Demand::MAX_PREFILL_TOKENS {
            return Err(BuildError::MaxPromptTokens { given });
        }
        let core = Arc::new(Core {
            selector,
            index: config.index.build(seed)?,
            load,
            fleet: RwLock::default(),
            membership: Mutex::new(()),
            rooms: Pool::new(IDLE_ROOMS),
            seeds: Seeds::new(seed),
            clock,
            unknown_rank_batches: AtomicU64::new(0),
            sessions,
            lobby,
            config,
        });
        doorbell.connect(&core);
        Ok(Router { core })
    }
}

impl Router {
    /// Starts building a router.
    pub fn builder(config: RouterConfig) -> RouterBuilder {
        let custom = CustomRules::new();
        RouterBuilder { config, seed: 0, clock: Box::new(SystemClock), custom }
    }

    /// How prompts are cut and hashed.
    pub fn scheme(&self) -> HashScheme {
        self.core.config.scheme
    }

    /// Adds a worker with all its ranks. Each starts cold: nothing is known of its cache.
    ///
    /// # Errors
    ///
    /// [`JoinError`]; the fleet is then unchanged.
    pub fn join(&self, worker: WorkerId, spec: WorkerSpec) -> Result<(), JoinError> {
        let WorkerSpec { block_size, ranks, mut traits, capacity, incarnation } = spec;
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
        let joining =
            ids.clone().map(|id| Rank::new(&before, id, Arc::clone(&traits), Stream::new(incarnation)));
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
            rank.stream.lock().close();
        }
        self.core.index.remove_worker(worker);
    }

    /// Takes one batch of events. Batches of one rank must come in their order: one that is ahead makes a gap, for
    /// which everything known of the rank is forgotten. Those of different ranks may come on as many threads as there
    /// are. Incarnations only grow: a batch with a larger one makes all of a smaller one stale.
    ///
    /// # Errors
    ///
    /// [`ApplyBatchError`]; the batch is counted and nothing of it is applied. An event that the index refuses is
    /// no error: it is counted in the report, and its neighbours apply.
    pub fn apply(&self, batch: &EventBatch) -> Result<BatchReport, ApplyBatchError> {
        let unknown = || {
            self.core.unknown_rank_batches.fetch_add(1, Ordering::Relaxed);
            ApplyBatchError::UnknownRank { from: batch.from }
        };
        let fleet = self.core.fleet();
        let rank = fleet.get(batch.from).ok_or_else(unknown)?;
        let now = self.core.clock.now(); // the caller's code, so not under a lock of ours
        let mut stream = rank.stream.lock();
        let report = stream.apply(batch, now, &*self.core.index).ok_or_else(unknown)?;
        let is_judged_anew = rank.set_freshness(report.freshness);
        drop(stream);
        if is_judged_anew {
            ring(&self.core); // somebody may have waited for its cache to be known
        }
        Ok(report)
    }

    /// Chooses a rank for a request and books it there.
    ///
    /// # Errors
    ///
    /// [`RouteError`]; nothing is booked then.
    pub fn route(&self, request: &RouteRequest<'_>) -> Result<Decision, RouteError> {
        self.core.route(request)
    }

    /// Places a request as soon as a worker can take it. The [`Ticket`] is a future, and can be waited for on a plain
    /// thread; dropping it cancels the request.
    ///
    /// Without [`RouterConfig::queue`], and as long as nobody has to wait, this is [`route`](Self::route). Otherwise the
    /// request waits while every worker that it could go to is above
    /// [`FilterConfig::wait_prefill`](crate::FilterConfig::wait_prefill) or a busy threshold. Whenever load falls, or
    /// something else opens a way (a worker joins or catches up with its events, a session ends), the thread that made it
    /// so places those who can go, against the load and the caches of that moment.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]: what [`route`](Self::route) refuses for another reason than load, and a full queue.
    pub fn admit(&self, request: &RouteRequest<'_>) -> Result<Ticket, AdmitError> {
        admit(&self.core, request)
    }

    /// Says what [`route`](Self::route) would decide now and why, without booking. Uses up one draw.
    ///
    /// # Errors
    ///
    /// Those of the prompt. That nobody is eligible is part of the explanation.
    pub fn explain(&self, request: &RouteRequest<'_>) -> Result<Explanation, RouteError> {
        self.core.with_room(|room| {
            let (prompt_blocks, blocks) = self.core.hash(request, room)?;
            let select = self.core.select_request(request, prompt_blocks);
            self.core.look(room);
            Ok(room.explain(&select, blocks, None, &mut self.core.seeds.next()))
        })
    }

    /// Who holds how much of a prompt.
    ///
    /// # Errors
    ///
    /// Those of the prompt.
    pub fn overlaps(&self, request: &RouteRequest<'_>) -> Result<Overlaps, RouteError> {
        self.core.with_room(|room| {
            self.core.hash(request, room)?;
            let mut found = Overlaps::new();
            self.core.index.find_into(&room.locals, FindOptions::new(), &mut found);
            Ok(found)
        })
    }

    /// Releases requests that nothing was heard of for `ttl`. Call it on a timer: a gateway that loses track of a
    /// request, bookings included, otherwise leaves its load behind.
    ///
    /// The same timer ends the wait of tickets whose deadline has passed, and forgets reports of engines that have
    /// fallen silent for as long.
    pub fn expire_idle(&self, ttl: Duration) -> Vec<Expired> {
        let now = self.core.clock.now();
        let expired = self.core.load.expire_idle(now, ttl);
        self.core.load.expire_reports(now, ttl);
        self.core.sessions.expire(now);
        ring(&self.core);
        expired
    }

    /// What one rank is working on; `None` when it is not part of the fleet.
    pub fn load(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        self.core.load.load(worker)
    }

    /// The tracker of all load, to share it with other routers over the same fleet: drive a
    /// [`ReplicaSync`](kv_router_load::ReplicaSync) around a clone of it, and tell that of every worker that joins. Its
    /// ranks are this router's business.
    pub fn load_tracker(&self) -> &LoadTracker {
        &self.core.load
    }

    /// What other routers have to be told of sessions since the last call. The first call turns the keeping on.
    pub fn take_session_gossip(&self) -> Vec<SessionGossip> {
        self.core.sessions.take_gossip()
    }

    /// Takes in what another router tells of a session. `false` when something as young is known.
    pub fn merge_session(&self, gossip: SessionGossip) -> bool {
        let merged = self.core.sessions.merge(gossip, self.core.clock.now());
        if merged == Merged::Moved {
            ring(&self.core); // a request that was stuck to its rank can go elsewhere
        }
        merged != Merged::Known
    }

    /// Ends a session. `false` when it was bound nowhere.
    pub fn end_session(&self, session: SessionId) -> bool {
        let was_bound = self.core.sessions.unbind(session, self.core.clock.now());
        if was_bound {
            ring(&self.core); // a request that was stuck to its rank can go elsewhere
        }
        was_bound
    }

    /// Says what a rank can bear, for engines that tell it after they have joined. `false` when it is not part of the
    /// fleet.
    pub fn set_capacity(&self, worker: WorkerRank, capacity: Capacity) -> bool {
        let known = self.core.load.set_capacity(worker, rank_capacity(capacity));
        ring(&self.core); // somebody may have waited for it
        known
    }

    /// Takes in what an engine says of its own load. What is beyond our bookings counts as load of others, until the
    /// next report. `false` when the rank is not part of the fleet.
    pub fn report_load(&self, worker: WorkerRank, report: &EngineReport) -> bool {
        self.core.load.report(worker, report, self.core.clock.now())
    }

    /// How the event stream of each rank is doing, in the order of the ranks.
    pub fn streams(&self) -> Vec<RankStatus> {
        let fleet = self.core.fleet();
        let mut streams: Vec<_> = fleet.iter().map(|rank| rank.stream.lock().status(rank.id)).collect();
        streams.sort_unstable_by_key(|status| status.worker);
        streams
    }

    /// Gauges and counters of the router as a whole.
    pub fn stats(&self) -> RouterStats {
        RouterStats {
            ranks: self.core.fleet().len(),
            index: self.core.index.occupancy(),
            load: self.core.load.stats(),
            queue: self.core.lobby.as_ref().map(Lobby::stats).unwrap_or_default(),
            sessions: self.core.sessions.stats(),
            unknown_rank_batches: self.core.unknown_rank_batches.load(Ordering::Relaxed),
        }
    }

    /// Writes out the index as events: replayed, they give equal answers. Events wait until `emit` has had all, so
    /// it must be quick, and must not call the router.
    pub fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.core.index.dump(emit);
    }
}

/// The load tracker does not know the scheduler, so each has its own word for it.
fn rank_capacity(capacity: Capacity) -> RankCapacity {
    RankCapacity { batched_tokens: capacity.batched_tokens, total_blocks: capacity.total_blocks }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// What a router holds and has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouterStats {
    /// Worker ranks in the fleet.
    pub ranks: usize,
    /// What the index holds.
    pub index: Occupancy,
    /// What the load tracker holds.
    pub load: LoadStats,
    /// Who waits. All zero without a queue.
    pub queue: QueueStats,
    /// Sessions that are remembered.
    pub sessions: SessionStats,
    /// Batches refused because their rank had not joined.
    pub unknown_rank_batches: u64,
}
