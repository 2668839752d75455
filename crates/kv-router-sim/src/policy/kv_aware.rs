//! The router itself: the worker whose cache and load make the request cheapest.

use std::fmt;
use std::time::Instant;

use kv_router::{
    BlockSize, Booking, Clock, HashScheme, JournalConfig, LocalBlockHash, RouteRequest, Router, RouterConfig,
    Window, WorkerSpec,
};
use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::WorkerRank;
use rustc_hash::FxHashMap;

use super::clock::VirtualClock;
use super::{Knobs, Policy, PolicyContext, PolicyError};
use crate::progress::{Milestone, Progress};
use crate::prompt::{Prompt, TraceBlockSize};
use crate::request::SimRequest;
use crate::time::SimTime;

/// A [`Router`] as a gateway runs it: it is given tokens, hears what the engines publish and how far requests
/// have come, and knows nothing else.
///
/// The workload must be [`hashed_by`](crate::workload::Workload::hashed_by) [`KvAware::hash`], or the engines and
/// the router mean different things by a block.
pub struct KvAware {
    router: Router,
    clock: VirtualClock,
    block_size: BlockSize,
    /// The prompt of the request that is about to be routed.
    tokens: Vec<u32>,
    /// Of every request on its way, by its index.
    bookings: FxHashMap<u32, Booking>,
}

impl KvAware {
    /// A router with the settings for the first token, [`Knobs::default`], in front of the fleet.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Router`] when the router does not take the fleet.
    pub fn new(context: &PolicyContext<'_>) -> Result<Self, PolicyError> {
        Self::tuned(context, &Knobs::default(), None)
    }

    /// A router with settings of its own, that keeps a journal of its bookings when it is one of several.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Router`] when the router does not take the settings or the fleet.
    pub fn tuned(
        context: &PolicyContext<'_>,
        knobs: &Knobs,
        journal: Option<JournalConfig>,
    ) -> Result<Self, PolicyError> {
        let block_size = context.engine.block_size.get();
        let clock = VirtualClock::new();
        let mut config = RouterConfig::new(block_size);
        config.cost = knobs.cost().clone();
        config.spread = knobs.spread();
        config.journal = journal;
        let builder = Router::builder(config).seed(context.seed).clock(clock.clone());
        let router = builder.build().map_err(PolicyError::router)?;
        for worker in context.workers {
            router.join(worker.worker, WorkerSpec::new(block_size)).map_err(PolicyError::router)?;
        }
        Ok(Self { router, clock, block_size, tokens: Vec::new(), bookings: FxHashMap::default() })
    }

    /// The router's clock, set to a moment of the simulation.
    pub(super) fn at(&self, now: SimTime) -> Instant {
        self.clock.set(now);
        self.clock.now()
    }

    /// Hashes the tokens of a prompt as the router does.
    pub fn hash(prompt: &Prompt, block_size: TraceBlockSize) -> Vec<LocalBlockHash> {
        let tokens: Vec<u32> = prompt.tokens().collect();
        HashScheme::new(block_size.get(), Window::Plain).hash(&kv_router::Prompt::new(&tokens))
    }

    /// The router, to look at what it has learnt.
    pub fn router(&self) -> &Router {
        &self.router
    }
}

impl Policy for KvAware {
    fn name(&self) -> &str {
        "kv-aware"
    }

    fn prepare(&mut self, request: &SimRequest) {
        self.tokens.clear();
        self.tokens.extend(request.tokens());
    }

    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError> {
        self.clock.set(now);
        let question = RouteRequest::from_tokens(&self.tokens).id(request.id());
        let decision = self.router.route(&question).map_err(PolicyError::router)?;
        let worker = decision.worker();
        self.bookings.insert(request.index(), decision.into_booking());
        Ok(worker)
    }

    fn on_events(&mut self, batch: EventBatch) {
        // Every rank has joined, and what the index refuses is in the router's own counters.
        let _ = self.router.apply(&batch);
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        let now = self.at(milestone.at);
        let index = milestone.request.index();
        let Some(booking) = self.bookings.get(&index) else { return };
        match milestone.progress {
            // A gateway is not told of either.
            Progress::Admitted { .. } | Progress::Preempted => {}
            Progress::PrefillCompleted => {
                let _ = booking.prefill_completed(now);
            }
            Progress::OutputGrown { output_blocks } => {
                let _ = booking.set_output_blocks(output_blocks, now);
            }
            Progress::Finished | Progress::Refused | Progress::Lost => {
                self.bookings.remove(&index);
            }
        }
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, now: SimTime) {
        self.clock.set(now);
        let _ = self.router.leave(worker.worker); // it joined, or it would not be told here
    }

    fn on_worker_back(&mut self, worker: WorkerRank, life: Incarnation, now: SimTime) {
        self.clock.set(now);
        // Batches of the life before that are still on their way must not count.
        let spec = WorkerSpec::new(self.block_size).with_incarnation(life);
        let _ = self.router.join(worker.worker, spec);
    }
}

impl fmt::Debug for KvAware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvAware")
            .field("router", &self.router)
            .field("bookings", &self.bookings.len())
            .finish_non_exhaustive()
    }
}
