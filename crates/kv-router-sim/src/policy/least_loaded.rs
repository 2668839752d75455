//! Whoever has the fewest requests.

use kv_router_transport::Incarnation;
use kv_router_types::WorkerRank;

use super::roster::Roster;
use super::{Policy, PolicyError};
use crate::progress::{Milestone, Progress};
use crate::random::SeededRandom;
use crate::request::SimRequest;
use crate::time::SimTime;

/// The fewest requests chosen for and not finished, ties at random.
///
/// It counts requests, as most gateways do, not tokens: a long prompt weighs as much as a short one.
#[derive(Clone, Debug)]
pub struct LeastLoaded {
    roster: Roster,
    /// One a worker, in the same order.
    outstanding: Vec<u32>,
    random: SeededRandom,
}

impl LeastLoaded {
    /// Chooses among `workers`; `seed` decides ties.
    pub fn new(workers: &[WorkerRank], seed: u64) -> Self {
        Self {
            roster: Roster::new(workers),
            outstanding: vec![0; workers.len()],
            random: SeededRandom::new(seed),
        }
    }
}

impl Policy for LeastLoaded {
    fn name(&self) -> &str {
        "least-loaded"
    }

    fn choose(&mut self, _: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        let costs =
            self.outstanding.iter().enumerate().map(|(index, &count)| (self.roster.is_down(index), count));
        let chosen = cheapest(costs, &mut self.random).ok_or(PolicyError::NoWorkers)?;
        let worker = self.roster.up_at(chosen).ok_or(PolicyError::NoWorkers)?;
        self.outstanding[chosen] += 1;
        Ok(worker)
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        if matches!(milestone.progress, Progress::Finished | Progress::Refused | Progress::Lost)
            && let Some(index) = self.roster.position(milestone.worker)
        {
            self.outstanding[index] = self.outstanding[index].saturating_sub(1);
        }
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, _: SimTime) {
        self.roster.lost(worker);
    }

    fn on_worker_back(&mut self, worker: WorkerRank, _: Incarnation, _: SimTime) {
        self.roster.back(worker);
    }
}

/// Index of the smallest cost, each of equal ones with the same chance.
pub(super) fn cheapest<C: Ord>(costs: impl Iterator<Item = C>, random: &mut SeededRandom) -> Option<usize> {
    let mut best: Option<(C, usize)> = None;
    let mut ties = 0;
    for (index, cost) in costs.enumerate() {
        match &best {
            Some((least, _)) if cost > *least => {}
            Some((least, _)) if cost == *least => {
                ties += 1;
                if random.below(ties) == 0 {
                    best = Some((cost, index));
                }
            }
            _ => {
                ties = 1;
                best = Some((cost, index));
            }
        }
    }
    best.map(|(_, index)| index)
}
