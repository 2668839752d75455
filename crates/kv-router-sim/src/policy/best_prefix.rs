//! The plainest cache-aware policy there is: a yardstick for tests, not a router.

use kv_router_transport::EventBatch;
use kv_router_types::WorkerRank;
use rustc_hash::FxHashMap;

use super::least_loaded::cheapest;
use super::{Policy, PolicyError};
use crate::model::CacheModel;
use crate::progress::{Milestone, Progress};
use crate::random::SeededRandom;
use crate::request::SimRequest;
use crate::time::SimTime;

/// The fewest blocks to compute: those queued ahead plus those of this prompt that the worker does not hold,
/// ties at random. It replays events into one literal [`CacheModel`] a worker, so its lookups cost O(workers
/// x prompt blocks).
#[derive(Debug)]
pub struct BestPrefix {
    seats: Vec<Seat>,
    position: FxHashMap<WorkerRank, usize>,
    /// Blocks booked for requests that wait for their first token.
    booked: FxHashMap<u32, u64>,
    random: SeededRandom,
}

#[derive(Debug)]
struct Seat {
    worker: WorkerRank,
    cache: CacheModel,
    /// Sum of what is booked here.
    queued_blocks: u64,
}

impl BestPrefix {
    /// Chooses among `workers`; `seed` decides ties.
    pub fn new(workers: &[WorkerRank], seed: u64) -> Self {
        let seat = |&worker| Seat { worker, cache: CacheModel::new(), queued_blocks: 0 };
        Self {
            seats: workers.iter().map(seat).collect(),
            position: workers.iter().enumerate().map(|(index, &worker)| (worker, index)).collect(),
            booked: FxHashMap::default(),
            random: SeededRandom::new(seed),
        }
    }
}

impl Policy for BestPrefix {
    fn name(&self) -> &str {
        "best-prefix"
    }

    fn choose(&mut self, request: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        let prompt = request.blocks();
        let missing = |seat: &Seat| (prompt.len() - seat.cache.longest_prefix(prompt)) as u64;
        let costs: Vec<u64> = self.seats.iter().map(|seat| seat.queued_blocks + missing(seat)).collect();
        let chosen = cheapest(costs.iter(), &mut self.random).ok_or(PolicyError::NoWorkers)?;
        let seat = &mut self.seats[chosen];
        let blocks = missing(seat);
        seat.queued_blocks += blocks;
        self.booked.insert(request.index(), blocks);
        Ok(seat.worker)
    }

    fn on_events(&mut self, batch: EventBatch) {
        if let Some(&index) = self.position.get(&batch.from) {
            for event in &batch.events {
                let applied = self.seats[index].cache.apply(event);
                debug_assert_eq!(applied, Ok(()), "mock engines do not contradict themselves");
            }
        }
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        let done = matches!(milestone.progress, Progress::PrefillCompleted | Progress::Refused);
        if done
            && let Some(blocks) = self.booked.remove(&milestone.request.index())
            && let Some(&index) = self.position.get(&milestone.worker)
        {
            self.seats[index].queued_blocks -= blocks;
        }
    }
}
