//! How a router is put together.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kv_router_load::{Demand, Hooks, LoadListener, LoadTracker};
use kv_router_schedule::{CustomRules, Selector};
use parking_lot::{Mutex, RwLock};

use crate::admit::{Doorbell, Lobby};
use crate::clock::{Clock, SystemClock};
use crate::core::Core;
use crate::peers::Peers;
use crate::pool::Pool;
use crate::predict::Predictor;
use crate::seed::Seeds;
use crate::sessions::{Outbox, Sessions};
use crate::{BuildError, Router, RouterConfig};

/// Buffers kept for later decisions; more than the threads that a gateway routes on.
const IDLE_ROOMS: usize = 64;

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
    pub(crate) fn new(config: RouterConfig) -> Self {
        Self { config, seed: 0, clock: Box::new(SystemClock), custom: CustomRules::new() }
    }

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
        let shared = if config.journal.is_some() { Outbox::Kept } else { Outbox::None };
        let sessions = Sessions::new(config.sessions.clone(), replica, shared)?;
        let peers =
            config.journal.map(|journal| Peers::new(&load, journal, config.sync.clone())).transpose()?;
        let predictor = Predictor::new(config.prediction, clock.now())?;
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
            events_off_batches: AtomicU64::new(0),
            streams_opened: AtomicU64::new(0),
            diagnosed_batches: AtomicU64::new(0),
            sessions,
            predictor,
            peers,
            doorbell: Arc::clone(&doorbell),
            lobby,
            config,
        });
        doorbell.connect(&core);
        Ok(Router::new(core))
    }
}
