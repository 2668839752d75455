//! One place of a fleet: an engine, its lives, and when it is to be looked at next.

use std::sync::Arc;

use kv_router_transport::Incarnation;
use kv_router_types::WorkerRank;

use super::{FleetConfig, FleetNaming, worker};
use crate::engine::{EngineConfigError, EngineIdentity, EngineStats, MockEngine, Naming};
use crate::random::mix2;
use crate::request::SimRequest;
use crate::time::SimTime;

/// One place of a fleet.
pub(super) struct Seat {
    index: u32,
    pub(super) worker: WorkerRank,
    pub(super) engine: MockEngine,
    /// The earliest look at the engine that is in the queue. Later ones that come up are stale.
    pub(super) due: Option<SimTime>,
    pub(super) is_up: bool,
    /// What a dead engine had, and what was sent to it since.
    pub(super) lost: Vec<Arc<SimRequest>>,
    life: u64,
    /// What earlier lives did.
    past: EngineStats,
}

impl Seat {
    pub(super) fn new(fleet: &FleetConfig, index: u32) -> Result<Self, EngineConfigError> {
        let first = 1;
        Ok(Self {
            index,
            worker: worker(index),
            engine: engine(fleet, index, first)?,
            due: None,
            is_up: true,
            lost: Vec::new(),
            life: first,
            past: EngineStats::default(),
        })
    }

    /// The engine stops for good. False when it is dead already.
    pub(super) fn die(&mut self) -> bool {
        let was_up = std::mem::replace(&mut self.is_up, false);
        if was_up {
            self.due = None;
            self.lost.extend(self.engine.requests().map(Arc::clone));
            self.past += self.engine.stats();
        }
        was_up
    }

    /// A new life with an empty cache.
    pub(super) fn revive(&mut self, fleet: &FleetConfig) -> Result<Incarnation, EngineConfigError> {
        self.life += 1;
        self.engine = engine(fleet, self.index, self.life)?;
        self.is_up = true;
        Ok(Incarnation::new(self.life))
    }

    /// What all lives did together.
    pub(super) fn stats(&self) -> EngineStats {
        let mut stats = self.past;
        if self.is_up {
            stats += self.engine.stats();
        }
        stats
    }
}

fn engine(fleet: &FleetConfig, index: u32, life: u64) -> Result<MockEngine, EngineConfigError> {
    let naming = match fleet.naming {
        FleetNaming::Shared => Naming::Content,
        FleetNaming::PerEngine(salt) => Naming::Salted(mix2(salt, u64::from(index))),
        FleetNaming::Serial => Naming::Serial,
    };
    let identity = EngineIdentity { worker: worker(index), incarnation: Incarnation::new(life), naming };
    MockEngine::new(identity, fleet.engine_at(index))
}
