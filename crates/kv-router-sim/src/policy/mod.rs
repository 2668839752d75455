//! Routing policies: who gets the next request.

mod best_prefix;
mod clock;
mod knobs;
mod kv_aware;
mod least_loaded;
mod random;
mod registry;
mod roster;
mod round_robin;
mod several;
mod shared_load;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;

use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::WorkerRank;

pub use best_prefix::BestPrefix;
pub use knobs::{KnobError, Knobs};
pub use kv_aware::KvAware;
pub use least_loaded::LeastLoaded;
pub use random::Random;
pub use registry::{BEST_PREFIX, POLICIES, PolicyContext, PolicyEntry};
pub use round_robin::RoundRobin;
pub use several::Several;
pub use shared_load::SharedLoad;

use crate::progress::Milestone;
use crate::request::SimRequest;
use crate::time::SimTime;

/// Decides which worker rank computes a request. It learns by what it is told here and by nothing else.
pub trait Policy {
    /// What reports call it.
    fn name(&self) -> &str;

    /// What a gateway has done before it asks: it has the tokens of the prompt. Not part of the decision's time.
    fn prepare(&mut self, request: &SimRequest) {
        let _ = request;
    }

    /// Picks a worker rank of the fleet. The request is on its way there when this returns.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] when it will not route the request: that is then counted as refused, and the replay
    /// goes on.
    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError>;

    /// A cache changed. Those who do not look at caches have nothing to do.
    fn on_events(&mut self, _batch: EventBatch) {}

    /// A request came further. Those who do not look at load have nothing to do.
    fn on_progress(&mut self, _milestone: &Milestone) {}

    /// A worker is known to be dead, its cache is gone, and its requests have been reported as lost. It must not be
    /// chosen until it is back.
    fn on_worker_lost(&mut self, _worker: WorkerRank, _now: SimTime) {}

    /// A worker is back, with an empty cache, in a new life.
    fn on_worker_back(&mut self, _worker: WorkerRank, _life: Incarnation, _now: SimTime) {}
}

/// Why a policy could not be built, or would not route a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// There is nobody to choose from.
    NoWorkers,
    /// The router behind the policy said no.
    Router(Box<dyn Error + Send + Sync>),
}

impl PolicyError {
    /// Wraps the error of a router.
    pub fn router(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Router(Box::new(error))
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorkers => f.write_str("no worker to choose from: give the policy a fleet"),
            Self::Router(source) => write!(f, "the router refused: {source}"),
        }
    }
}

impl Error for PolicyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoWorkers => None,
            Self::Router(source) => Some(source.as_ref()),
        }
    }
}
