//! Anyone.

use kv_router_transport::Incarnation;
use kv_router_types::WorkerRank;

use super::roster::Roster;
use super::{Policy, PolicyError};
use crate::random::SeededRandom;
use crate::request::SimRequest;
use crate::time::SimTime;

/// Everyone with the same chance each time.
#[derive(Clone, Debug)]
pub struct Random {
    roster: Roster,
    random: SeededRandom,
}

impl Random {
    /// Draws from `workers` by `seed`.
    pub fn new(workers: &[WorkerRank], seed: u64) -> Self {
        Self { roster: Roster::new(workers), random: SeededRandom::new(seed) }
    }
}

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn choose(&mut self, _: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        let drawn = self.random.below(self.roster.up().count());
        self.roster.up().nth(drawn).ok_or(PolicyError::NoWorkers)
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, _: SimTime) {
        self.roster.lost(worker);
    }

    fn on_worker_back(&mut self, worker: WorkerRank, _: Incarnation, _: SimTime) {
        self.roster.back(worker);
    }
}
