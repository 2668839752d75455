//! The replay itself: a queue of what happens, and what each of it brings about.

use std::sync::Arc;

use kv_router_transport::EventBatch;
use kv_router_types::WorkerRank;
use rustc_hash::FxHashMap;

use super::seat::Seat;
use super::{FleetConfig, Host, ReplayError};
use crate::engine::StepReport;
use crate::faults::{Faults, Outage};
use crate::metrics::{Outcome, Recorder};
use crate::policy::Policy;
use crate::progress::{Milestone, Progress};
use crate::queue::EventQueue;
use crate::random::SeededRandom;
use crate::request::SimRequest;
use crate::time::SimTime;
use crate::workload::Workload;

/// Replays a workload against a new fleet behind `policy`, until every request is done.
///
/// The same arguments give the same outcome, but for [`Outcome::decision`], which the host's clock decides.
/// Costs O(blocks of all prompts + steps x running requests) beside what the policy does.
///
/// # Errors
///
/// [`ReplayError`] when the fleet cannot be built, or when the policy picks a worker that is not in it.
pub fn replay(
    fleet: &FleetConfig,
    workload: &Workload,
    policy: &mut dyn Policy,
    host: &mut dyn Host,
) -> Result<Outcome, ReplayError> {
    replay_with(fleet, workload, &Faults::default(), policy, host)
}

/// The same, while things go wrong.
///
/// # Errors
///
/// Those of [`replay`], and an outage of an engine that is not in the fleet.
pub fn replay_with(
    fleet: &FleetConfig,
    workload: &Workload,
    faults: &Faults,
    policy: &mut dyn Policy,
    host: &mut dyn Host,
) -> Result<Outcome, ReplayError> {
    let mut replay = Replay::new(fleet, workload, faults)?;
    while let Some((now, happening)) = replay.queue.next() {
        match happening {
            Happening::Arrival { request } => replay.arrive(request, now, policy, host)?,
            Happening::Look { engine } => replay.look(engine, now, policy, host),
            Happening::Delivery(batch) => policy.on_events(batch),
            Happening::Death(outage) => replay.die(outage, now, host),
            Happening::Notice { engine } => replay.notice(engine, now, policy, host)?,
            Happening::Return { engine } => replay.come_back(engine, now, policy)?,
        }
        host.progress(replay.recorder.settled(), workload.len());
    }
    Ok(replay.finish())
}

enum Happening {
    Arrival {
        request: usize,
    },
    /// An engine may have something to do.
    Look {
        engine: usize,
    },
    Delivery(EventBatch),
    Death(Outage),
    Notice {
        engine: usize,
    },
    Return {
        engine: usize,
    },
}

struct Replay<'a> {
    fleet: &'a FleetConfig,
    workload: &'a Workload,
    faults: &'a Faults,
    seats: Vec<Seat>,
    position: FxHashMap<WorkerRank, usize>,
    queue: EventQueue<Happening>,
    recorder: Recorder,
    random: SeededRandom,
    /// Reused by every step.
    report: StepReport,
}

impl<'a> Replay<'a> {
    fn new(fleet: &'a FleetConfig, workload: &'a Workload, faults: &'a Faults) -> Result<Self, ReplayError> {
        fleet.check_size()?;
        let seats: Result<Vec<_>, _> = (0..fleet.engines).map(|index| Seat::new(fleet, index)).collect();
        let mut queue = EventQueue::new();
        for request in 0..workload.len() {
            queue.schedule(workload.arrival(request).unwrap_or_default(), Happening::Arrival { request });
        }
        for &outage in &faults.outages {
            if outage.engine >= fleet.engines {
                return Err(ReplayError::UnknownEngine { engine: outage.engine });
            }
            queue.schedule(outage.at, Happening::Death(outage));
        }
        let position =
            fleet.workers().into_iter().enumerate().map(|(index, worker)| (worker, index)).collect();
        Ok(Self {
            fleet,
            workload,
            faults,
            seats: seats.map_err(ReplayError::Engine)?,
            position,
            queue,
            recorder: Recorder::new(workload.len()),
            random: SeededRandom::new(faults.seed),
            report: StepReport::default(),
        })
    }

    fn arrive(
        &mut self,
        index: usize,
        now: SimTime,
        policy: &mut dyn Policy,
        host: &mut dyn Host,
    ) -> Result<(), ReplayError> {
        match self.workload.request(index) {
            Some(request) => self.place(Arc::new(request), now, policy, host),
            None => Ok(()),
        }
    }

    /// Asks the policy, and sends the request where it says.
    fn place(
        &mut self,
        request: Arc<SimRequest>,
        now: SimTime,
        policy: &mut dyn Policy,
        host: &mut dyn Host,
    ) -> Result<(), ReplayError> {
        policy.prepare(&request);
        let before = host.real_time();
        let choice = policy.choose(&request, now);
        self.recorder.decided(host.real_time().saturating_sub(before));
        let Ok(worker) = choice else {
            self.recorder.not_routed();
            return Ok(());
        };
        let unknown = ReplayError::UnknownWorker { worker, request: request.index() as usize };
        let engine = *self.position.get(&worker).ok_or(unknown)?;
        let seat = &mut self.seats[engine];
        if !seat.is_up {
            seat.lost.push(request);
        } else if seat.engine.enqueue(Arc::clone(&request)).is_err() {
            let refusal = Milestone { request, worker, at: now, progress: Progress::Refused };
            self.recorder.milestone(&refusal);
            policy.on_progress(&refusal);
        } else if seat.engine.is_idle() {
            // Wakes after everything else that arrives at this moment.
            self.look_at(engine, now);
        }
        Ok(())
    }

    /// Schedules a look at an engine, unless there is an earlier one.
    fn look_at(&mut self, engine: usize, at: SimTime) {
        let due = &mut self.seats[engine].due;
        if due.is_none_or(|due| at < due) {
            *due = Some(at);
            self.queue.schedule(at, Happening::Look { engine });
        }
    }

    fn look(&mut self, engine: usize, now: SimTime, policy: &mut dyn Policy, host: &mut dyn Host) {
        let seat = &mut self.seats[engine];
        if seat.due != Some(now) {
            return; // an earlier look came between, or the engine died
        }
        seat.due = None;
        seat.engine.advance(now, &mut self.report);
        if let Some(next) = self.report.next {
            self.look_at(engine, next);
        }
        if let Some(batch) = self.report.batch.take() {
            host.published(&batch);
            self.send(batch, now, policy);
        }
        for milestone in &self.report.milestones {
            self.recorder.milestone(milestone);
            policy.on_progress(milestone);
        }
    }

    fn send(&mut self, batch: EventBatch, now: SimTime, policy: &mut dyn Policy) {
        let link = &self.faults.link;
        if link.is_perfect() {
            policy.on_events(batch);
        } else if let Some(at) = link.arrival(now, &mut self.random) {
            self.queue.schedule(at, Happening::Delivery(batch));
        }
    }

    fn die(&mut self, outage: Outage, now: SimTime, host: &mut dyn Host) {
        let engine = outage.engine as usize;
        let seat = &mut self.seats[engine];
        if !seat.die() {
            return;
        }
        host.died(seat.worker);
        self.queue.schedule(now + outage.noticed_after, Happening::Notice { engine });
        let away = outage.back_after.max(outage.noticed_after);
        self.queue.schedule(now + away, Happening::Return { engine });
    }

    /// Everybody knows now: what was lost is sent again.
    fn notice(
        &mut self,
        engine: usize,
        now: SimTime,
        policy: &mut dyn Policy,
        host: &mut dyn Host,
    ) -> Result<(), ReplayError> {
        let worker = self.seats[engine].worker;
        let lost = std::mem::take(&mut self.seats[engine].lost);
        for request in &lost {
            let loss = Milestone { request: Arc::clone(request), worker, at: now, progress: Progress::Lost };
            self.recorder.milestone(&loss);
            policy.on_progress(&loss);
        }
        policy.on_worker_lost(worker, now);
        lost.into_iter().try_for_each(|request| self.place(request, now, policy, host))
    }

    fn come_back(&mut self, engine: usize, now: SimTime, policy: &mut dyn Policy) -> Result<(), ReplayError> {
        let seat = &mut self.seats[engine];
        let life = seat.revive(self.fleet).map_err(ReplayError::Engine)?;
        policy.on_worker_back(seat.worker, life, now);
        Ok(())
    }

    fn finish(self) -> Outcome {
        debug_assert_eq!(self.recorder.settled(), self.workload.len(), "every request ends");
        let stats = self.seats.iter().map(Seat::stats).collect();
        self.recorder.outcome(stats)
    }
}
