//! The router: workers come and go, events come in, requests are placed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kv_router_hash::HashScheme;
use kv_router_index::{FindOptions, Occupancy, Overlaps, RadixTree};
use kv_router_load::{BookError, Demand, Expired, LoadStats, LoadTracker, WorkerLoad};
use kv_router_schedule::{Explanation, RankBounds, SelectRequest, Selection, Selector};
use kv_router_transport::EventBatch;
use kv_router_types::{DpRank, KvEvent, WorkerId, WorkerRank};
use parking_lot::{Mutex, RwLock};

use crate::clock::{Clock, SystemClock};
use crate::fleet::{Fleet, Rank};
use crate::index::{Locked, SharedIndex};
use crate::ingest::{ApplyBatchError, BatchReport, RankStatus, Stream};
use crate::pool::Pool;
use crate::request::Content;
use crate::room::Room;
use crate::seed::Seeds;
use crate::{
    BuildError, Decision, JoinError, LeaveError, RouteError, RouteRequest, RouterConfig, WorkerSpec,
};

/// How often a decision is made again because the selected rank left before it was booked.
const MOST_ATTEMPTS: usize = 4;

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
/// Events of one rank apply one after the other. Lookups take the index's read lock, an event its write lock.
/// Candidates are scored without any lock.
///
/// # Panics
///
/// Never.
pub struct Router {
    config: RouterConfig,
    selector: Selector,
    index: Box<dyn SharedIndex>,
    load: LoadTracker,
    fleet: RwLock<Arc<Fleet>>,
    /// Serialises joining and leaving. Taken before every other lock.
    membership: Mutex<()>,
    rooms: Pool<Box<Room>>,
    seeds: Seeds,
    clock: Box<dyn Clock>,
    unknown_rank_batches: AtomicU64,
}

/// Builds a [`Router`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct RouterBuilder {
    config: RouterConfig,
    seed: u64,
    clock: Box<dyn Clock>,
}

impl RouterBuilder {
    /// The seed of all draws. Equal seeds and equal calls on one thread give equal decisions. Default 0; give each
    /// replica of a router its own, or they all break ties alike.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Where the time comes from. Default: [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// A router without workers.
    ///
    /// # Errors
    ///
    /// The first setting out of range.
    pub fn build(self) -> Result<Router, BuildError> {
        let Self { config, seed, clock } = self;
        let selector = Selector::new(config.cost.clone(), config.filters.clone())?;
        let load = LoadTracker::new(config.load.clone())?;
        let given = config.max_prompt_tokens;
        if given < config.scheme.block_size().as_usize() || given as u64 > Demand::MAX_PREFILL_TOKENS {
            return Err(BuildError::MaxPromptTokens { given });
        }
        Ok(Router {
            selector,
            index: Box::new(Locked::new(RadixTree::with_config(&config.index))),
            load,
            fleet: RwLock::default(),
            membership: Mutex::new(()),
            rooms: Pool::new(IDLE_ROOMS),
            seeds: Seeds::new(seed),
            clock,
            unknown_rank_batches: AtomicU64::new(0),
            config,
        })
    }
}

impl Router {
    /// Starts building a router.
    pub fn builder(config: RouterConfig) -> RouterBuilder {
        RouterBuilder { config, seed: 0, clock: Box::new(SystemClock) }
    }

    /// How prompts are cut and hashed.
    pub fn scheme(&self) -> HashScheme {
        self.config.scheme
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

        let _membership = self.membership.lock();
        let before = self.fleet();
        if before.contains(worker) {
            return Err(JoinError::AlreadyJoined { worker });
        }
        let ids = (0..ranks).map(|rank| WorkerRank::new(worker, DpRank::new(rank)));
        let joining = ids
            .clone()
            .map(|id| Rank::new(&before, id, Arc::clone(&traits), capacity, Stream::new(incarnation)));
        // The fleet first: a rank that has load but is not in the fleet is no candidate, the other way round is
        // no candidate either, and events are taken from here on.
        *self.fleet.write() = Arc::new(before.with(worker, joining.collect()));
        for id in ids {
            if let Err(error) = self.load.add_rank(id) {
                self.load.remove_worker(worker);
                self.forget(worker, &before);
                return Err(JoinError::FleetFull(error));
            }
        }
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
        let _membership = self.membership.lock();
        let before = self.fleet();
        if !before.contains(worker) {
            return Err(LeaveError::UnknownWorker { worker });
        }
        self.load.remove_worker(worker);
        self.forget(worker, &Arc::new(before.without(worker)));
        Ok(())
    }

    /// Puts `after` in place of the fleet, then forgets what the index has of `worker`. An event that is being
    /// applied is waited for, later ones find the stream closed: none can bring a block back.
    fn forget(&self, worker: WorkerId, after: &Arc<Fleet>) {
        let before = std::mem::replace(&mut *self.fleet.write(), Arc::clone(after));
        for rank in before.ranks_of(worker) {
            rank.stream.lock().close();
        }
        self.index.remove_worker(worker);
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
            self.unknown_rank_batches.fetch_add(1, Ordering::Relaxed);
            ApplyBatchError::UnknownRank { from: batch.from }
        };
        let fleet = self.fleet();
        let rank = fleet.get(batch.from).ok_or_else(unknown)?;
        let now = self.clock.now(); // the caller's code, so not under a lock of ours
        let mut stream = rank.stream.lock();
        let report = stream.apply(batch, now, &*self.index).ok_or_else(unknown)?;
        rank.set_freshness(report.freshness);
        Ok(report)
    }

    /// Chooses a rank for a request and books it there.
    ///
    /// # Errors
    ///
    /// [`RouteError`]; nothing is booked then.
    pub fn route(&self, request: &RouteRequest<'_>) -> Result<Decision, RouteError> {
        self.with_room(|room| {
            let (prompt_blocks, blocks) = self.hash(request, room)?;
            let select = self.select_request(request, prompt_blocks);
            let mut attempt = 1;
            loop {
                let (selection, explanation) = self.decide(request, &select, blocks, room)?;
                let worker = selection.worker;
                let winner = room.candidate(worker, blocks);
                let candidate = winner.ok_or(RouteError::Book(BookError::UnknownRank { worker }))?;
                let cost = self.selector.cost(&select, &candidate);
                // What the cost took off is not there to be computed.
                let saved = cost.overlap_credit * f64::from(select.block_size.get());
                let demand = Demand {
                    request: request.id,
                    prefill_tokens: (request.prompt_tokens() as u64).saturating_sub(saved as u64),
                    prompt_blocks: &room.sequence,
                    private_blocks: blocks - prompt_blocks,
                };
                let booking = match self.load.book(worker, demand, self.clock.now()) {
                    // It left after it was selected. Look again, at the fleet as it is now.
                    Err(BookError::UnknownRank { .. }) if attempt < MOST_ATTEMPTS => {
                        attempt += 1;
                        continue;
                    }
                    outcome => outcome.map_err(RouteError::Book)?,
                };
                // It left and came back meanwhile: what was decided on is not what was booked.
                let is_same = room.is_current(worker, &self.fleet());
                if !is_same && attempt < MOST_ATTEMPTS {
                    attempt += 1;
                    continue;
                }
                let overlap = room.overlaps.get(worker).copied();
                return Ok(Decision { selection, overlap, prompt_blocks, cost, booking, explanation });
            }
        })
    }

    /// Says what [`route`](Self::route) would decide now and why, without booking. Uses up one draw.
    ///
    /// # Errors
    ///
    /// Those of the prompt. That nobody is eligible is part of the explanation.
    pub fn explain(&self, request: &RouteRequest<'_>) -> Result<Explanation, RouteError> {
        self.with_room(|room| {
            let (prompt_blocks, blocks) = self.hash(request, room)?;
            let select = self.select_request(request, prompt_blocks);
            self.look(room);
            Ok(room.explain(&select, blocks, &mut self.seeds.next()))
        })
    }

    /// Who holds how much of a prompt.
    ///
    /// # Errors
    ///
    /// Those of the prompt.
    pub fn overlaps(&self, request: &RouteRequest<'_>) -> Result<Overlaps, RouteError> {
        self.with_room(|room| {
            self.hash(request, room)?;
            let mut found = Overlaps::new();
            self.index.find_into(&room.locals, FindOptions::new(), &mut found);
            Ok(found)
        })
    }

    /// Releases requests that nothing was heard of for `ttl`. Call it on a timer: a gateway that loses track of a
    /// request, bookings included, otherwise leaves its load behind.
    pub fn expire_idle(&self, ttl: Duration) -> Vec<Expired> {
        self.load.expire_idle(self.clock.now(), ttl)
    }

    /// What one rank is working on; `None` when it is not part of the fleet.
    pub fn load(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        self.load.load(worker)
    }

    /// How the event stream of each rank is doing, in the order of the ranks.
    pub fn streams(&self) -> Vec<RankStatus> {
        let fleet = self.fleet();
        let mut streams: Vec<_> = fleet.iter().map(|rank| rank.stream.lock().status(rank.id)).collect();
        streams.sort_unstable_by_key(|status| status.worker);
        streams
    }

    /// Gauges and counters of the router as a whole.
    pub fn stats(&self) -> RouterStats {
        RouterStats {
            ranks: self.fleet().len(),
            index: self.index.occupancy(),
            load: self.load.stats(),
            unknown_rank_batches: self.unknown_rank_batches.load(Ordering::Relaxed),
        }
    }

    /// Writes out the index as events: replayed, they give equal answers. Events wait until `emit` has had all, so
    /// it must be quick, and must not call the router.
    pub fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.index.dump(emit);
    }

    fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet.read())
    }

    fn with_room<R>(&self, work: impl FnOnce(&mut Room) -> R) -> R {
        self.rooms.with(|| Box::new(Room::new(self.config.scheme, self.selector.clone())), |room| work(room))
    }

    /// Hashes the prompt into `room`. Returns its whole blocks, and those that it takes up with its partial tail.
    fn hash(&self, request: &RouteRequest<'_>, room: &mut Room) -> Result<(u32, u32), RouteError> {
        let tokens = request.prompt_tokens();
        let limit = self.config.max_prompt_tokens;
        if tokens == 0 {
            return Err(RouteError::EmptyPrompt);
        }
        if tokens > limit {
            return Err(RouteError::PromptTooLong { tokens, limit });
        }
        if let Content::Hashed { locals, .. } = request.content {
            let blocks = self.config.scheme.blocks_in(tokens);
            if locals.len() > blocks {
                return Err(RouteError::HashesExceedPrompt { hashes: locals.len(), blocks });
            }
        }
        room.hash(&request.content);
        // Both fit: the limit on tokens is below u32::MAX.
        let taken = tokens.div_ceil(self.config.scheme.block_size().as_usize()) as u32;
        Ok((room.locals.len() as u32, taken))
    }

    fn select_request<'a>(&self, request: &RouteRequest<'a>, prompt_blocks: u32) -> SelectRequest<'a> {
        let block_size = self.config.scheme.block_size();
        SelectRequest { constraints: request.constraints, ..SelectRequest::new(prompt_blocks, block_size) }
    }

    /// Looks at overlap, load and fleet.
    fn look(&self, room: &mut Room) {
        // The fleet first: a rank that is another one by now is noticed before the decision is given out.
        let fleet = self.fleet();
        self.index.find_into(&room.locals, FindOptions::new(), &mut room.overlaps);
        self.load.snapshot_into(&room.sequence, &mut room.loads);
        room.line_up(&fleet);
    }

    fn decide(
        &self,
        request: &RouteRequest<'_>,
        select: &SelectRequest<'_>,
        blocks: u32,
        room: &mut Room,
    ) -> Result<(Selection, Option<Explanation>), RouteError> {
        self.look(room);
        if request.explain {
            let explanation = room.explain(select, blocks, &mut self.seeds.next());
            let selection = explanation.outcome.map_err(RouteError::Select)?;
            return Ok((selection, Some(explanation)));
        }
        let selection = room.select(select, blocks, &mut self.seeds.next());
        Ok((selection.map_err(RouteError::Select)?, None))
    }
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
    /// Batches refused because their rank had not joined.
    pub unknown_rank_batches: u64,
}
