//! A fleet of engines behind one policy, replaying a workload in virtual time.
//!
//! Three things happen, each at a moment of virtual time and ties in the order scheduled: a request arrives,
//! an engine's step ends, an idle engine wakes. What an engine changes in its cache, and how far requests
//! have come, the policy hears at that moment, cache changes first. Real time never influences anything.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kv_router_transport::Incarnation;
use kv_router_types::{WorkerId, WorkerRank};
use rustc_hash::FxHashMap;

use crate::engine::{EngineConfig, EngineConfigError, EngineIdentity, MockEngine, Naming, StepReport};
use crate::metrics::{Outcome, Recorder};
use crate::policy::Policy;
use crate::progress::{Milestone, Progress};
use crate::queue::EventQueue;
use crate::random::mix2;
use crate::time::SimTime;
use crate::workload::Workload;

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

/// A fleet of equal engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// Engines, each a worker of its own with rank 0. Default 8, at most [`FleetConfig::MAX_ENGINES`].
    pub engines: u32,
    /// Each of them.
    pub engine: EngineConfig,
    /// How they name blocks. Default [`FleetNaming::Shared`].
    pub naming: FleetNaming,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self { engines: 8, engine: EngineConfig::default(), naming: FleetNaming::default() }
    }
}

impl FleetConfig {
    /// The largest fleet accepted.
    pub const MAX_ENGINES: u32 = 4_096;

    /// The worker ranks, in fleet order.
    pub fn workers(&self) -> Vec<WorkerRank> {
        (0..self.engines.min(Self::MAX_ENGINES)).map(worker).collect()
    }

    fn build(&self) -> Result<Vec<Seat>, ReplayError> {
        if self.engines == 0 || self.engines > Self::MAX_ENGINES {
            return Err(ReplayError::FleetSize { engines: self.engines });
        }
        let seat = |index| {
            let naming = match self.naming {
                FleetNaming::Shared => Naming::Content,
                FleetNaming::PerEngine(salt) => Naming::Salted(mix2(salt, u64::from(index))),
                FleetNaming::Serial => Naming::Serial,
            };
            let identity = EngineIdentity { worker: worker(index), incarnation: Incarnation::new(1), naming };
            let engine = MockEngine::new(identity, self.engine).map_err(ReplayError::Engine)?;
            Ok(Seat { engine, is_scheduled: false })
        };
        (0..self.engines).map(seat).collect()
    }
}

fn worker(index: u32) -> WorkerRank {
    WorkerRank::from(WorkerId::new(u64::from(index)))
}

/// What a replay asks of the program around it. Neither answer influences the simulation.
pub trait Host {
    /// Real time since any fixed moment: decisions are measured with it.
    fn real_time(&mut self) -> Duration;

    /// Called now and then: `settled` of `total` requests are done.
    fn progress(&mut self, settled: usize, total: usize);
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
    let mut replay = Replay::new(fleet, workload)?;
    while let Some((now, happening)) = replay.queue.next() {
        match happening {
            Happening::Arrival { request } => replay.arrive(request, now, policy, host)?,
            Happening::Step { engine } => replay.step(engine, now, policy),
        }
        host.progress(replay.recorder.settled(), workload.len());
    }
    Ok(replay.finish())
}

enum Happening {
    Arrival { request: usize },
    Step { engine: usize },
}

struct Seat {
    engine: MockEngine,
    /// A step of the engine is in the queue. There is never more than one.
    is_scheduled: bool,
}

struct Replay<'a> {
    workload: &'a Workload,
    seats: Vec<Seat>,
    position: FxHashMap<WorkerRank, usize>,
    queue: EventQueue<Happening>,
    recorder: Recorder,
    /// Reused by every step.
    report: StepReport,
}

impl<'a> Replay<'a> {
    fn new(fleet: &FleetConfig, workload: &'a Workload) -> Result<Self, ReplayError> {
        let seats = fleet.build()?;
        let mut queue = EventQueue::new();
        for request in 0..workload.len() {
            queue.schedule(workload.arrival(request).unwrap_or_default(), Happening::Arrival { request });
        }
        let position =
            fleet.workers().into_iter().enumerate().map(|(index, worker)| (worker, index)).collect();
        let recorder = Recorder::new(workload.len());
        Ok(Self { workload, seats, position, queue, recorder, report: StepReport::default() })
    }

    fn arrive(
        &mut self,
        index: usize,
        now: SimTime,
        policy: &mut dyn Policy,
        host: &mut dyn Host,
    ) -> Result<(), ReplayError> {
        let Some(request) = self.workload.request(index) else { return Ok(()) };
        policy.prepare(&request);
        let before = host.real_time();
        let choice = policy.choose(&request, now);
        self.recorder.decided(host.real_time().saturating_sub(before));
        let Ok(worker) = choice else {
            self.recorder.not_routed();
            return Ok(());
        };
        let engine =
            *self.position.get(&worker).ok_or(ReplayError::UnknownWorker { worker, request: index })?;
        let seat = &mut self.seats[engine];
        let request = Arc::new(request);
        if seat.engine.enqueue(Arc::clone(&request)).is_err() {
            let refusal = Milestone { request, worker, at: now, progress: Progress::Refused };
            self.recorder.milestone(&refusal);
            policy.on_progress(&refusal);
        } else if !seat.is_scheduled {
            // Wakes after everything else that arrives at this moment.
            seat.is_scheduled = true;
            self.queue.schedule(now, Happening::Step { engine });
        }
        Ok(())
    }

    fn step(&mut self, engine: usize, now: SimTime, policy: &mut dyn Policy) {
        let seat = &mut self.seats[engine];
        seat.engine.advance(now, &mut self.report);
        seat.is_scheduled = self.report.next.is_some();
        if let Some(next) = self.report.next {
            self.queue.schedule(next, Happening::Step { engine });
        }
        if let Some(batch) = self.report.batch.take() {
            policy.on_events(batch);
        }
        for milestone in &self.report.milestones {
            self.recorder.milestone(milestone);
            policy.on_progress(milestone);
        }
    }

    fn finish(self) -> Outcome {
        debug_assert_eq!(self.recorder.settled(), self.workload.len(), "every request ends");
        let stats = self.seats.iter().map(|seat| seat.engine.stats()).collect();
        self.recorder.outcome(stats)
    }
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
            Self::FleetSize { .. } | Self::UnknownWorker { .. } => None,
        }
    }
}
