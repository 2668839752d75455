//! Anyone.

use kv_router_types::WorkerRank;

use super::{Policy, PolicyError};
use crate::random::SeededRandom;
use crate::request::SimRequest;
use crate::time::SimTime;

/// Everyone with the same chance each time.
#[derive(Clone, Debug)]
pub struct Random {
    workers: Vec<WorkerRank>,
    random: SeededRandom,
}

impl Random {
    /// Draws from `workers` by `seed`.
    pub fn new(workers: &[WorkerRank], seed: u64) -> Self {
        Self { workers: workers.to_vec(), random: SeededRandom::new(seed) }
    }
}

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn choose(&mut self, _: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        let drawn = self.random.below(self.workers.len());
        self.workers.get(drawn).copied().ok_or(PolicyError::NoWorkers)
    }
}
