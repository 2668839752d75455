//! The plainest cache-aware policy there is: a yardstick for tests, not a router.

use kv_router_index::{ApplyEvents, FindOptions, Overlaps, PrefixIndex, RadixTree};
use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::{KvEvent, WorkerRank};
use rustc_hash::FxHashMap;

use super::least_loaded::cheapest;
use super::roster::Roster;
use super::{Policy, PolicyError};
use crate::progress::{Milestone, Progress};
use crate::random::SeededRandom;
use crate::request::SimRequest;
use crate::time::SimTime;

/// The fewest blocks to compute: those queued ahead plus those of this prompt that the worker does not hold in any
/// tier, ties at random.
///
/// It does not look at memory, at tiers, or at what is being decoded. A gap in a worker's events makes it forget that
/// worker's cache, as the router does.
#[derive(Debug)]
pub struct BestPrefix {
    roster: Roster,
    seats: Vec<Seat>,
    index: RadixTree,
    /// Reused by each decision.
    overlaps: Overlaps,
    /// Blocks booked for requests that wait for their first token.
    booked: FxHashMap<u32, u64>,
    random: SeededRandom,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    /// Sum of what is booked here.
    queued_blocks: u64,
    life: Incarnation,
    /// Number of the batch that comes next.
    expected: u64,
}

impl BestPrefix {
    /// Chooses among `workers`; `seed` decides ties.
    pub fn new(workers: &[WorkerRank], seed: u64) -> Self {
        Self {
            roster: Roster::new(workers),
            seats: vec![Seat::default(); workers.len()],
            index: RadixTree::new(),
            overlaps: Overlaps::new(),
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
        let Self { roster, seats, index, overlaps, .. } = self;
        let prompt = request.blocks();
        index.find_into(prompt, FindOptions::new(), overlaps);
        let mut missing = vec![prompt.len() as u64; seats.len()];
        for overlap in overlaps.iter() {
            if let Some(index) = roster.position(overlap.worker()) {
                missing[index] -= u64::from(overlap.blocks());
            }
        }
        let costs = seats.iter().zip(&missing).map(|(seat, missing)| seat.queued_blocks + missing);
        let costs = costs.enumerate().map(|(index, cost)| (roster.is_down(index), cost));
        let chosen = cheapest(costs, &mut self.random).ok_or(PolicyError::NoWorkers)?;
        let worker = roster.up_at(chosen).ok_or(PolicyError::NoWorkers)?;
        seats[chosen].queued_blocks += missing[chosen];
        self.booked.insert(request.index(), missing[chosen]);
        Ok(worker)
    }

    fn on_events(&mut self, batch: EventBatch) {
        let Some(index) = self.roster.position(batch.from) else { return };
        let seat = &mut self.seats[index];
        if batch.incarnation < seat.life {
            return;
        }
        if batch.incarnation > seat.life {
            (seat.life, seat.expected) = (batch.incarnation, 0);
            let _ = self.index.apply(batch.from, &KvEvent::Cleared);
        }
        if batch.sequence < seat.expected {
            return; // overtaken
        }
        if batch.sequence > seat.expected {
            let _ = self.index.apply(batch.from, &KvEvent::Cleared);
        }
        seat.expected = batch.sequence + 1;
        for event in &batch.events {
            // What is refused continues something that was forgotten.
            let _ = self.index.apply(batch.from, event);
        }
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        use Progress::{Lost, PrefillCompleted, Refused};
        let done = matches!(milestone.progress, PrefillCompleted | Refused | Lost);
        if done
            && let Some(blocks) = self.booked.remove(&milestone.request.index())
            && let Some(index) = self.roster.position(milestone.worker)
        {
            self.seats[index].queued_blocks -= blocks;
        }
    }

    fn on_worker_lost(&mut self, worker: WorkerRank, _: SimTime) {
        self.roster.lost(worker);
        let _ = self.index.apply(worker, &KvEvent::Cleared);
    }

    fn on_worker_back(&mut self, worker: WorkerRank, life: Incarnation, _: SimTime) {
        self.roster.back(worker);
        if let Some(index) = self.roster.position(worker) {
            (self.seats[index].life, self.seats[index].expected) = (life, 0);
        }
    }
}
