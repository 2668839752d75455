//! One after the other.

use kv_router_transport::Incarnation;
use kv_router_types::WorkerRank;

use super::roster::Roster;
use super::{Policy, PolicyError};
use crate::request::SimRequest;
use crate::time::SimTime;

/// Everyone in turn, whatever they hold and whatever they do.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    roster: Roster,
    next: usize,
}

impl RoundRobin {
    /// Starts with the first of `workers`.
    pub fn new(workers: &[WorkerRank]) -> Self {
        Self { roster: Roster::new(workers), next: 0 }
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &str {
        "round-robin"
    }

    fn choose(&mut self, _: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        for _ in 0..self.roster.len() {
            let turn = self.next;
            self.next = (turn + 1) % self.roster.len();
            if let Some(worker) = self.roster.up_at(turn) {
                return Ok(worker);
            }
        }
        Err(PolicyError::NoWorkers)
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, _: SimTime) {
        self.roster.lost(worker);
    }

    fn on_worker_back(&mut self, worker: WorkerRank, _: Incarnation, _: SimTime) {
        self.roster.back(worker);
    }
}
