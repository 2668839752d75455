//! The router: workers come and go, events come in, requests are placed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kv_router_hash::HashScheme;
use kv_router_index::{FindOptions, Overlaps};
use kv_router_load::{EngineReport, Expired, LoadTracker, WorkerLoad};
use kv_router_schedule::{Capacity, Explanation, SessionGossip, SessionId};
use kv_router_transport::EventBatch;
use kv_router_types::{KvEvent, WorkerRank};

use crate::admit::{Lobby, Ticket, admit, ring, ring_for_sessions};
use crate::core::Core;
use crate::fleet::Rank;
use crate::ingest::{ApplyBatchError, BatchReport, Heard, RankStatus, settle};
use crate::membership::rank_capacity;
use crate::{
    AdmitError, Decision, EventSource, RouteError, RouteRequest, RouterBuilder, RouterConfig, RouterStats,
};

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
    pub(crate) core: Arc<Core>,
}

impl Router {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Starts building a router.
    pub fn builder(config: RouterConfig) -> RouterBuilder {
        RouterBuilder::new(config)
    }

    /// How prompts are cut and hashed.
    pub fn scheme(&self) -> HashScheme {
        self.core.config.scheme
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
        if rank.events == EventSource::Off {
            self.core.events_off_batches.fetch_add(1, Ordering::Relaxed);
            return Err(ApplyBatchError::EventsOff { from: batch.from });
        }
        let now = self.core.clock.now(); // the caller's code, so not under a lock of ours
        let mut stream = rank.stream.lock();
        if stream.engine.is_some() {
            return Err(ApplyBatchError::HasEngineStream { from: batch.from });
        }
        let mut report = stream.apply(rank, batch, now, &*self.core.index).ok_or_else(unknown)?;
        let heard = if report.skipped.is_none() { Heard::News } else { Heard::Nothing };
        report.freshness = settle(&self.core, rank, stream, heard);
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

    /// Says what [`route`](Self::route) would decide now and why, without booking. Uses up the draws of a decision. Of
    /// a request that stays with its session, the rank of the session is the only candidate.
    ///
    /// # Errors
    ///
    /// Those of the prompt. That nobody is eligible is part of the explanation.
    pub fn explain(&self, request: &RouteRequest<'_>) -> Result<Explanation, RouteError> {
        self.core.with_room(|room| {
            let (prompt_blocks, blocks) = self.core.hash(request, room)?;
            let select = self.core.select_request(request, prompt_blocks);
            Ok(self.core.explain(request, &select, blocks, room))
        })
    }

    /// Who holds how much of a prompt, by their events. What is guessed of others is in [`guesses`](Self::guesses).
    ///
    /// # Errors
    ///
    /// Those of the prompt.
    pub fn overlaps(&self, request: &RouteRequest<'_>) -> Result<Overlaps, RouteError> {
        self.core.with_room(|room| {
            self.core.hash(request, room)?;
            let mut found = Overlaps::new();
            self.core.index.find_into(&room.prompt, FindOptions::new(), &mut found);
            Ok(found)
        })
    }

    /// Who probably holds how much of a prompt, of those that no events are heard of: [`Certainty::Guess`], and nobody
    /// who is in [`overlaps`](Self::overlaps) for a decision of this moment.
    ///
    /// # Errors
    ///
    /// Those of the prompt.
    ///
    /// [`Certainty::Guess`]: crate::Certainty::Guess
    pub fn guesses(&self, request: &RouteRequest<'_>) -> Result<Overlaps, RouteError> {
        self.core.with_room(|room| {
            self.core.hash(request, room)?;
            let mut found = Overlaps::new();
            self.core.predictor.find_into(room.locals(), self.core.clock.now(), &mut found);
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
        self.core.predictor.expire(now);
        ring(&self.core);
        expired
    }

    /// What one rank is working on; `None` when it is not part of the fleet.
    pub fn load(&self, worker: WorkerRank) -> Option<WorkerLoad> {
        self.core.load.load(worker)
    }

    /// The tracker of all load, to read it, and to end requests by their names. Its ranks and its journal are this
    /// router's business: to share load with other routers, see [`poll_peers`](Self::poll_peers).
    pub fn load_tracker(&self) -> &LoadTracker {
        &self.core.load
    }

    /// What other routers have to be told of sessions since the last call, for a router without a
    /// [`journal`](crate::RouterConfig::journal): one that has it tells them with [`poll_peers`](Self::poll_peers). The
    /// first call turns the keeping on.
    pub fn take_session_gossip(&self) -> Vec<SessionGossip> {
        self.core.sessions.take_gossip()
    }

    /// Takes in what another router tells of a session. `false` when something as young is known.
    pub fn merge_session(&self, gossip: SessionGossip) -> bool {
        let merged = self.core.sessions.merge(gossip, self.core.clock.now());
        ring_for_sessions(&self.core, merged.into_iter().flatten());
        merged.is_some()
    }

    /// Ends a session. `false` when it was bound nowhere.
    pub fn end_session(&self, session: SessionId) -> bool {
        let was_bound = self.core.sessions.unbind(session, self.core.clock.now());
        ring_for_sessions(&self.core, [was_bound.then_some(session)]);
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
        let status = |rank: &Arc<Rank>| {
            let status = rank.stream.lock().status(rank.id);
            RankStatus { freshness: rank.freshness(), ..status }
        };
        let mut streams: Vec<_> = fleet.iter().map(status).collect();
        streams.sort_unstable_by_key(|status| status.worker);
        streams
    }

    /// Gauges and counters of the router as a whole.
    pub fn stats(&self) -> RouterStats {
        let fleet = self.core.fleet();
        let guessed = fleet.iter().filter(|rank| rank.is_predicted()).count();
        RouterStats {
            ranks: fleet.len(),
            index: self.core.index.occupancy(),
            load: self.core.load.stats(),
            queue: self.core.lobby.as_ref().map(Lobby::stats).unwrap_or_default(),
            sessions: self.core.sessions.stats(),
            peers: self.core.peer_stats(),
            prediction: self.core.predictor.stats(guessed),
            events_off_batches: self.core.events_off_batches.load(Ordering::Relaxed),
            unknown_rank_batches: self.core.unknown_rank_batches.load(Ordering::Relaxed),
        }
    }

    /// Writes out the index as events: replayed, they give equal answers. Events wait until `emit` has had all, so
    /// it must be quick, and must not call the router.
    pub fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.core.index.dump(emit);
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
