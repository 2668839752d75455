//! A fleet of engines behind one policy, replaying a workload in virtual time.
//!
//! Things happen at a moment of virtual time, and ties in the order scheduled: a request arrives, an engine's step
//! ends, an idle engine wakes, an engine dies or comes back. What an engine changes in its cache, and how far
//! requests have come, the policy hears at that moment, cache changes first; a [`Link`](crate::faults::Link) may make
//! it hear of the caches later. Real time never influences anything.

mod replay;
mod seat;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kv_router_transport::EventBatch;
use kv_router_types::{WorkerId, WorkerRank};

pub use replay::{replay, replay_with};

use crate::engine::{EngineConfig, EngineConfigError};

/// How the engines of a fleet name their blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FleetNaming {
    /// All by content, the same way.
    #[default]
    Shared,
    /// Each by content and a salt of its own, made from this one.
    PerEngine(u64),
    /// Each by a counter: the same names for different content.
    Serial,
}

/// A fleet of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// Engines, each a worker of its own with rank 0. Default 8, at most [`FleetConfig::MAX_ENGINES`].
    pub engines: u32,
    /// Each of them, or every first of two.
    pub engine: EngineConfig,
    /// Every second one, when they are not all equal. Its block size is that of `engine`. Default `None`.
    pub every_other: Option<EngineConfig>,
    /// How they name blocks. Default [`FleetNaming::Shared`].
    pub naming: FleetNaming,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            engines: 8,
            engine: EngineConfig::default(),
            every_other: None,
            naming: FleetNaming::default(),
        }
    }
}

impl FleetConfig {
    /// The largest fleet accepted.
    pub const MAX_ENGINES: u32 = 4_096;

    /// The worker ranks, in fleet order.
    pub fn workers(&self) -> Vec<WorkerRank> {
        (0..self.engines.min(Self::MAX_ENGINES)).map(worker).collect()
    }

    /// The engine at a place in the fleet.
    pub fn engine_at(&self, index: u32) -> EngineConfig {
        match self.every_other {
            Some(other) if index % 2 == 1 => EngineConfig { block_size: self.engine.block_size, ..other },
            _ => self.engine,
        }
    }

    /// Checks the number of engines.
    pub(crate) fn check_size(&self) -> Result<(), ReplayError> {
        if self.engines == 0 || self.engines > Self::MAX_ENGINES {
            return Err(ReplayError::FleetSize { engines: self.engines });
        }
        Ok(())
    }
}

fn worker(index: u32) -> WorkerRank {
    WorkerRank::from(WorkerId::new(u64::from(index)))
}

/// What a replay asks of the program around it, and tells it. No answer influences the simulation.
pub trait Host {
    /// Real time since any fixed moment: decisions are measured with it.
    fn real_time(&mut self) -> Duration;

    /// Called now and then: `settled` of `total` requests are done.
    fn progress(&mut self, settled: usize, total: usize);

    /// An engine changed its cache: the truth, before anything happens to it on the way to the policy.
    fn published(&mut self, _batch: &EventBatch) {}

    /// An engine died, and its cache with it.
    fn died(&mut self, _worker: WorkerRank) {}
}

/// A host without a clock and without an audience: decisions take no time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headless;

impl Host for Headless {
    fn real_time(&mut self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, _: usize, _: usize) {}
}

/// Why a replay could not start or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// No engine, or too many.
    FleetSize {
        /// Engines asked for.
        engines: u32,
    },
    /// The engines cannot be built.
    Engine(EngineConfigError),
    /// An outage names an engine that the fleet does not have.
    UnknownEngine {
        /// Its place.
        engine: u32,
    },
    /// The policy picked a worker rank that the fleet does not have.
    UnknownWorker {
        /// Its pick.
        worker: WorkerRank,
        /// For which request of the workload.
        request: usize,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FleetSize { engines } => {
                write!(f, "a fleet of {engines} engines: use 1 to {}", FleetConfig::MAX_ENGINES)
            }
            Self::Engine(source) => source.fmt(f),
            Self::UnknownEngine { engine } => {
                write!(f, "an outage of engine {engine}, which the fleet does not have: count from 0")
            }
            Self::UnknownWorker { worker, request } => write!(
                f,
                "request {request} was sent to {worker}, which the fleet does not have: build the policy on \
                 FleetConfig::workers"
            ),
        }
    }
}

impl Error for ReplayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Engine(source) => Some(source),
            Self::FleetSize { .. } | Self::UnknownEngine { .. } | Self::UnknownWorker { .. } => None,
        }
    }
}
