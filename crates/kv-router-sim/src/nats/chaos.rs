//! Everything goes wrong at random, then it is quiet: every router must hold what the workers hold, and know of no
//! load that is not there.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::rig::{Rig, RigConfig};
use super::{Exactness, NatsRunError};
use crate::random::SeededRandom;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct NatsChaosConfig {
    /// What caches do, and which faults there are. When they strike depends on the machine. Default: 1.
    pub seed: u64,
    /// Workers, with two ranks each. Default: 4.
    pub workers: u64,
    /// Routers. Default: 2.
    pub routers: u64,
    /// How long faults strike. Default: 5 s.
    pub lasts: Duration,
    /// From one fault to the next, about. Default: 300 ms.
    pub every: Duration,
    /// Batches a second and rank. Default: 100.
    pub rate: u32,
    /// Longest time from quiet to exact. Default: 60 s.
    pub patience: Duration,
}

impl Default for NatsChaosConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            workers: 4,
            routers: 2,
            lasts: Duration::from_secs(5),
            every: Duration::from_millis(300),
            rate: 100,
            patience: Duration::from_secs(60),
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NatsFault {
    /// The server is killed, and comes back.
    BrokerRestart,
    /// A router is cut off.
    RouterPartition,
    /// All workers are cut off.
    WorkerPartition,
    /// A router takes nothing for a while.
    SlowRouter,
    /// A router ends, and another takes its place at once.
    RouterRestart,
    /// An engine starts again, at once.
    WorkerRestart,
    /// A worker takes leave, and comes back.
    WorkerLeave,
    /// A worker ends without a word, and comes back.
    WorkerCrash,
}

impl NatsFault {
    /// Each as often as it stands here.
    const ALL: [Self; 11] = [
        Self::BrokerRestart,
        Self::RouterPartition,
        Self::RouterPartition,
        Self::WorkerPartition,
        Self::SlowRouter,
        Self::SlowRouter,
        Self::RouterRestart,
        Self::RouterRestart,
        Self::WorkerRestart,
        Self::WorkerLeave,
        Self::WorkerCrash,
    ];
}

/// How it went.
#[derive(Clone, Debug)]
pub struct NatsChaosReport {
    /// What went wrong, how often.
    pub faults: BTreeMap<NatsFault, u64>,
    /// Requests placed, by routers that started again too.
    pub routed: u64,
    /// How it ended.
    pub end: Exactness,
}

impl fmt::Display for NatsChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.faults.values().sum();
        writeln!(f, "faults: {total} in all: {:?}; {} requests placed", self.faults, self.routed)?;
        writeln!(f, "{}", self.end)
    }
}

/// What ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cure {
    Broker,
    Router(usize),
    Workers,
    Worker(usize),
}

/// Runs it. Takes the time that faults last, and what it then takes to be exact. The server keeps its things in
/// `folder`. `now` is `Instant::now`.
///
/// # Errors
///
/// [`NatsRunError`] when there was nothing to see. That a router is not exact is in the report.
pub fn run(
    config: &NatsChaosConfig,
    folder: &Path,
    now: fn() -> Instant,
) -> Result<NatsChaosReport, NatsRunError> {
    let rig = RigConfig {
        seed: config.seed,
        workers: config.workers,
        gateways: config.routers,
        // Little, so that routers drop what they are too slow for.
        waiting_messages: 128,
        // All of a run: a worker that every router took for gone is known to nobody but its relay.
        replay_bytes: 64 << 20,
        patience: config.patience,
        ..RigConfig::default()
    };
    let mut storm = Storm {
        rig: Rig::start(rig, folder, now)?,
        random: SeededRandom::new(config.seed),
        cures: Vec::new(),
        faults: BTreeMap::new(),
    };
    let (end, pause) = (now() + config.lasts, Duration::from_secs(1) / config.rate.max(1));
    let (mut step_at, mut fault_at, mut routed) = (now(), now() + config.every, 0);
    while now() < end {
        if now() >= step_at {
            step_at += pause;
            storm.rig.steps(1)?;
        }
        storm.cure(now())?;
        if now() >= fault_at {
            fault_at = now() + config.every / 2 + storm.upto(config.every);
            storm.strike(now())?;
        }
        storm.rig.turn()?;
        for gateway in storm.rig.seats.iter_mut().filter_map(|seat| seat.gateway.as_mut()) {
            routed += u64::from(gateway.serve());
        }
    }
    let quiet = now();
    while let Some((_, cure)) = storm.cures.pop() {
        storm.end(cure)?;
    }
    let rig = &mut storm.rig;
    rig.seats.iter_mut().filter_map(|seat| seat.gateway.as_mut()).for_each(super::gateway::Gateway::finish);
    rig.settle()?;
    let calm = now() - quiet;
    let mut end = rig.becomes_exact("everything at random")?;
    end.routers.iter_mut().flatten().for_each(|time| *time += calm);
    Ok(NatsChaosReport { faults: storm.faults, routed, end })
}

/// A fleet that things go wrong with.
struct Storm {
    rig: Rig,
    random: SeededRandom,
    /// What goes on, and when it ends.
    cures: Vec<(Instant, Cure)>,
    faults: BTreeMap<NatsFault, u64>,
}

impl Storm {
    /// One more thing goes wrong, unless that is so already.
    fn strike(&mut self, now: Instant) -> Result<(), NatsRunError> {
        let fault = NatsFault::ALL[self.random.below(NatsFault::ALL.len())];
        let router = self.random.below(self.rig.seats.len());
        let worker = self.random.below(self.rig.workers.len());
        let lasts = Duration::from_millis(100) + self.upto(Duration::from_millis(1500));
        let cure = match fault {
            NatsFault::BrokerRestart => Some(Cure::Broker),
            NatsFault::RouterPartition => Some(Cure::Router(router)),
            NatsFault::WorkerPartition => Some(Cure::Workers),
            NatsFault::WorkerLeave | NatsFault::WorkerCrash => Some(Cure::Worker(worker)),
            NatsFault::SlowRouter | NatsFault::RouterRestart | NatsFault::WorkerRestart => None,
        };
        let is_on = |cure: Cure| self.cures.iter().any(|&(_, other)| other == cure);
        if cure.is_some_and(is_on) || fault == NatsFault::WorkerRestart && is_on(Cure::Worker(worker)) {
            return Ok(());
        }
        match fault {
            NatsFault::BrokerRestart => self.rig.broker.kill(),
            NatsFault::RouterPartition => self.rig.seats[router].network.stall(),
            NatsFault::WorkerPartition => self.rig.near_workers.stall(),
            NatsFault::SlowRouter => self.rig.seats[router].stands_still_until = Some(now + lasts),
            NatsFault::RouterRestart => self.rig.seats[router].gateway = None,
            NatsFault::WorkerRestart => self.rig.workers[worker].start(&self.rig.worker_link),
            NatsFault::WorkerLeave => self.rig.workers[worker].leave(),
            NatsFault::WorkerCrash => self.rig.workers[worker].crash(),
        }
        self.cures.extend(cure.map(|cure| (now + lasts, cure)));
        *self.faults.entry(fault).or_default() += 1;
        Ok(())
    }

    /// Ends what has lasted long enough.
    fn cure(&mut self, now: Instant) -> Result<(), NatsRunError> {
        while let Some(at) = self.cures.iter().position(|&(end, _)| now >= end) {
            let (_, cure) = self.cures.swap_remove(at);
            self.end(cure)?;
        }
        Ok(())
    }

    fn end(&mut self, cure: Cure) -> Result<(), NatsRunError> {
        match cure {
            Cure::Broker => self.rig.broker.restart()?,
            Cure::Router(router) => self.rig.seats[router].network.heal(),
            Cure::Workers => self.rig.near_workers.heal(),
            Cure::Worker(worker) => self.rig.workers[worker].start(&self.rig.worker_link),
        }
        Ok(())
    }

    fn upto(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.random.below(most.as_millis() as usize) as u64)
    }
}
