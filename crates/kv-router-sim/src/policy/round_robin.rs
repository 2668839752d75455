//! One after the other.

use kv_router_types::WorkerRank;

use super::{Policy, PolicyError};
use crate::request::SimRequest;
use crate::time::SimTime;

/// Everyone in turn, whatever they hold and whatever they do.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    workers: Vec<WorkerRank>,
    next: usize,
}

impl RoundRobin {
    /// Starts with the first of `workers`.
    pub fn new(workers: &[WorkerRank]) -> Self {
        Self { workers: workers.to_vec(), next: 0 }
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &str {
        "round-robin"
    }

    fn choose(&mut self, _: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        let worker = self.workers.get(self.next).copied().ok_or(PolicyError::NoWorkers)?;
        self.next = (self.next + 1) % self.workers.len();
        Ok(worker)
    }
}
