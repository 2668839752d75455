//! One fault at a time, on whole routers over a real server: each ends exact, without anybody's help.

use std::path::Path;
use std::time::{Duration, Instant};

use super::rig::{Rig, RigConfig};
use super::{Exactness, NatsRunError};

/// What the fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The server is killed and started again, while workers go on.
    BrokerRestart,
    /// A router is cut off, and comes back.
    RouterPartition,
    /// All workers are cut off, for longer than they live in the registry, and come back.
    WorkerPartition,
    /// A router takes nothing for so long that most is dropped.
    SlowConsumer,
    /// A worker dies, and starts again in a new life.
    WorkerRestart,
    /// A router comes new to a fleet of this many blocks, of which relays have only the last.
    FreshReplica {
        /// How many, about.
        blocks: u64,
    },
}

impl Scenario {
    /// All of them, with a fresh replica of this many blocks.
    pub fn all(blocks: u64) -> Vec<Self> {
        use Scenario::*;
        vec![
            BrokerRestart,
            RouterPartition,
            WorkerPartition,
            SlowConsumer,
            WorkerRestart,
            FreshReplica { blocks },
        ]
    }

    /// Plays it on a fleet of its own. The server keeps its things in `folder`. `now` is `Instant::now`.
    ///
    /// # Errors
    ///
    /// [`NatsRunError`] when there was nothing to see. That a router is not exact is in the result.
    pub fn play(self, folder: &Path, now: fn() -> Instant) -> Result<Exactness, NatsRunError> {
        if let Self::FreshReplica { blocks } = self {
            return fresh_replica(blocks, folder, now);
        }
        let waiting_messages = if self == Self::SlowConsumer { 32 } else { 8192 };
        let config = RigConfig { waiting_messages, ..RigConfig::default() };
        let mut rig = Rig::start(config, folder, now)?;
        rig.steps(200)?;
        let before = rig.becomes_exact("before it")?;
        if !before.is_exact() {
            return Ok(before);
        }
        rig.strike(self)?;
        let mut after = rig.becomes_exact(&format!("{self:?}"))?;
        let unsent: u64 = rig.workers.iter().map(|worker| worker.unsent()).sum();
        after.notes.push(format!("{unsent} batches were never sent"));
        Ok(after)
    }
}

impl Rig {
    /// The fault, up to when it is over.
    fn strike(&mut self, scenario: Scenario) -> Result<(), NatsRunError> {
        match scenario {
            Scenario::BrokerRestart => {
                self.broker.kill();
                // More than may wait to be sent, so that some of it is never sent.
                self.steps(1500)?;
                self.until("noticing that the server is gone", |rig| {
                    !rig.worker_link.is_up() && rig.seats.iter().all(|seat| !seat.link.is_up())
                })?;
                self.broker.restart()?;
            }
            Scenario::RouterPartition => {
                self.seats[0].network.stall();
                self.steps(500)?;
                self.until("noticing the partition", |rig| !rig.seats[0].link.is_up())?;
                self.seats[0].network.heal();
            }
            Scenario::WorkerPartition => {
                self.near_workers.stall();
                self.steps(500)?;
                self.until("taking workers for gone", |rig| {
                    rig.seats.iter().all(|seat| {
                        let gone = seat.gateway.as_ref().map(|gateway| gateway.counters().leaves);
                        gone.is_some_and(|gone| gone >= rig.config.workers)
                    })
                })?;
                self.near_workers.heal();
            }
            Scenario::SlowConsumer => {
                self.seats[0].stands_still_until = Some((self.now)() + self.config.patience);
                self.steps(800)?;
                self.seats[0].stands_still_until = None;
            }
            Scenario::WorkerRestart => {
                self.workers[0].crash();
                self.steps(100)?;
                self.workers[0].start(&self.worker_link);
                self.settle()?;
                self.steps(100)?;
            }
            Scenario::FreshReplica { .. } => {}
        }
        Ok(())
    }
}

fn fresh_replica(blocks: u64, folder: &Path, now: fn() -> Instant) -> Result<Exactness, NatsRunError> {
    const CHAIN: u64 = 64;
    let config = RigConfig {
        workers: 8,
        gateways: 1,
        blocks: usize::MAX,
        replay_bytes: 64 << 10,
        snapshot_every: Duration::from_millis(1500),
        ..RigConfig::default()
    };
    let mut rig = Rig::start(config, folder, now)?;
    let rounds = blocks / (config.workers * u64::from(config.ranks) * CHAIN);
    for _ in 0..rounds {
        for worker in &mut rig.workers {
            worker.store(CHAIN)?;
        }
        rig.turn()?;
    }
    let first = rig.becomes_exact("the first router")?;
    if !first.is_exact() {
        return Ok(first);
    }
    let written =
        |rig: &Rig| rig.seats[0].gateway.as_ref().map_or(0, |gateway| gateway.counters().duty.written);
    // Two, because the next one may have begun before the last block.
    let enough = written(&rig) + 2;
    rig.until("writing a snapshot", |rig| written(rig) >= enough)?;
    rig.steps(20)?;

    let truth = rig.truth();
    rig.add_gateway(1)?;
    rig.until("connecting", |rig| rig.seats[1].link.is_up())?;
    rig.seats[1].gateway = None;
    let (start, end) = (now(), now() + config.patience);
    let looks_exact =
        |rig: &Rig| rig.seats[1].gateway.as_ref().is_some_and(|gateway| gateway.looks_exact(&truth));
    // The first router stands still meanwhile: on one thread its snapshots would count.
    while !looks_exact(&rig) && now() < end {
        rig.turn_seat(1)?;
    }
    let time = now() - start;
    let what = format!("{:?}", Scenario::FreshReplica { blocks });
    let Some(gateway) = &rig.seats[1].gateway else {
        return Err(NatsRunError::Stuck { what: "starting a router", wait: config.patience });
    };
    let is_exact = gateway.is_exact(&truth);
    let mut notes = vec![format!("{:?}", gateway.counters())];
    notes.extend((!is_exact).then(|| gateway.differences(&truth)));
    Ok(Exactness { what, routers: vec![is_exact.then_some(time)], blocks: truth.holdings.len(), notes })
}
