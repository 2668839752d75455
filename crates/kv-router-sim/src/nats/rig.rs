//! A fleet: a server, workers behind one network, and gateways, each behind one of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use kv_router_nats::{
    Backoff, FirstConnect, Link, LinkConfig, RegistryConfig, RelayConfig, ReplicaConfig, SnapshotSchedule,
};

use kv_router_transport::DumpFingerprint;

use super::gateway::{Gateway, Truth};
use super::worker::{Worker, WorkerConfig};
use super::{Broker, Exactness, NatsRunError, Partition};
use crate::random::mix2;

/// What a fleet is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct RigConfig {
    pub(super) seed: u64,
    pub(super) workers: u64,
    /// Ranks of a worker.
    pub(super) ranks: u32,
    pub(super) gateways: u64,
    /// Blocks of a rank, at most about.
    pub(super) blocks: usize,
    /// Bytes that a relay keeps of a rank.
    pub(super) replay_bytes: usize,
    /// Messages that may wait in a gateway.
    pub(super) waiting_messages: usize,
    /// The longest time from one snapshot to the next.
    pub(super) snapshot_every: Duration,
    /// Longest wait for anything.
    pub(super) patience: Duration,
}

impl Default for RigConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            workers: 4,
            ranks: 2,
            gateways: 2,
            blocks: 2_000,
            replay_bytes: 8 << 20,
            waiting_messages: 8192,
            snapshot_every: Duration::from_secs(1),
            patience: Duration::from_secs(60),
        }
    }
}

pub(super) struct Rig {
    pub(super) config: RigConfig,
    pub(super) broker: Broker,
    pub(super) near_workers: Partition,
    pub(super) worker_link: Link,
    pub(super) workers: Vec<Worker>,
    pub(super) seats: Vec<Seat>,
    pub(super) now: fn() -> Instant,
}

/// The place of a gateway.
pub(super) struct Seat {
    pub(super) network: Partition,
    pub(super) link: Link,
    config: ReplicaConfig,
    pub(super) gateway: Option<Gateway>,
    life: u64,
    /// Not polled before.
    pub(super) stands_still_until: Option<Instant>,
}

impl Rig {
    /// A fleet whose workers and gateways run. The server keeps its things in `folder`.
    pub(super) fn start(
        config: RigConfig,
        folder: &Path,
        now: fn() -> Instant,
    ) -> Result<Self, NatsRunError> {
        let broker = Broker::start(folder, &[])?;
        let near_workers = Partition::to(broker.address())?;
        let worker_link = Link::connect(link_config(&near_workers, config.seed))?;
        let mut rig = Self { config, broker, near_workers, worker_link, workers: vec![], seats: vec![], now };
        for id in 0..config.workers {
            let worker_config = WorkerConfig {
                seed: config.seed,
                ranks: config.ranks,
                blocks: config.blocks,
                relay: relay_config(config.replay_bytes),
                registry: registry_config(),
            };
            let mut worker = Worker::new(id, &rig.worker_link, worker_config)?;
            worker.start(&rig.worker_link);
            rig.workers.push(worker);
        }
        for number in 0..config.gateways {
            rig.add_gateway(number)?;
        }
        rig.settle()?;
        Ok(rig)
    }

    /// Another gateway, that starts with the next turn.
    pub(super) fn add_gateway(&mut self, number: u64) -> Result<(), NatsRunError> {
        let network = Partition::to(self.broker.address())?;
        let mut link = link_config(&network, mix2(self.config.seed, number));
        link.waiting_messages = self.config.waiting_messages;
        let link = Link::connect(link)?;
        // Its fingerprint comes with the router.
        let mut config = ReplicaConfig::new(number + 1, DumpFingerprint::default());
        config.registry = registry_config();
        config.snapshots.wait = Duration::from_secs(20);
        config.follower.heal_after = Some(Duration::from_millis(500));
        config.gossip_every = Duration::from_millis(50);
        let mut schedule = SnapshotSchedule::default();
        (schedule.every, schedule.lease) = (self.config.snapshot_every, Duration::from_secs(2));
        config.schedule = Some(schedule);
        let (gateway, stands_still_until) = (None, None);
        self.seats.push(Seat { network, link, config, gateway, life: 0, stands_still_until });
        Ok(())
    }

    /// Everybody does what there is to do.
    pub(super) fn turn(&mut self) -> Result<(), NatsRunError> {
        for worker in &mut self.workers {
            worker.settle(&self.worker_link);
        }
        for seat in 0..self.seats.len() {
            self.turn_seat(seat)?;
        }
        Ok(())
    }

    pub(super) fn turn_seat(&mut self, seat: usize) -> Result<(), NatsRunError> {
        let (now, seat) = (self.now, &mut self.seats[seat]);
        match &mut seat.gateway {
            _ if seat.stands_still_until.is_some_and(|until| now() < until) => {}
            Some(gateway) => gateway.poll(now)?,
            None if seat.link.is_up() => {
                seat.life += 1;
                // While the broker does not answer there is no starting: then with another turn.
                seat.gateway = Gateway::start(&seat.link, seat.config.clone(), seat.life, now()).ok();
            }
            None => {}
        }
        Ok(())
    }

    /// Takes turns until it is so.
    pub(super) fn until(
        &mut self,
        what: &'static str,
        mut so: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), NatsRunError> {
        let end = (self.now)() + self.config.patience;
        while !so(self) {
            if (self.now)() >= end {
                return Err(NatsRunError::Stuck { what, wait: self.config.patience });
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Workers do something this often, with turns between.
    pub(super) fn steps(&mut self, count: usize) -> Result<(), NatsRunError> {
        for step in 0..count {
            for worker in &mut self.workers {
                worker.step()?;
            }
            if step % 10 == 0 {
                self.turn()?;
            }
        }
        Ok(())
    }

    /// Takes turns until every worker that is to be there is.
    pub(super) fn settle(&mut self) -> Result<(), NatsRunError> {
        self.until("starting all workers", |rig| {
            let link = &rig.worker_link;
            rig.workers.iter_mut().all(|worker| worker.settle(link))
        })
    }

    /// What there has to be in every router.
    pub(super) fn truth(&self) -> Truth {
        let mut truth = Truth::default();
        for worker in self.workers.iter().filter(|worker| worker.is_up()) {
            worker.add_to(&mut truth.holdings);
            truth.ranks += self.config.ranks as usize;
        }
        truth
    }

    /// Takes turns until every router is exact, and says how long each took.
    pub(super) fn becomes_exact(&mut self, what: &str) -> Result<Exactness, NatsRunError> {
        let (start, truth) = ((self.now)(), self.truth());
        let mut routers = vec![None; self.seats.len()];
        while routers.iter().any(Option::is_none) && (self.now)() < start + self.config.patience {
            self.turn()?;
            for (seat, time) in self.seats.iter().zip(&mut routers).filter(|(_, time)| time.is_none()) {
                let at = (self.now)();
                let gateway = seat.gateway.as_ref().filter(|gateway| gateway.looks_exact(&truth));
                *time = gateway.filter(|gateway| gateway.is_exact(&truth)).map(|_| at - start);
            }
        }
        let notes = self.seats.iter().zip(&routers).flat_map(|(seat, time)| {
            let gateway = seat.gateway.as_ref();
            let wrong = gateway.filter(|_| time.is_none()).map(|gateway| gateway.differences(&truth));
            [gateway.map(|gateway| format!("{:?}", gateway.counters())), wrong].into_iter().flatten()
        });
        let notes = notes.collect();
        Ok(Exactness { what: what.to_owned(), routers, blocks: truth.holdings.len(), notes })
    }
}

/// A link that notices and forgives quickly.
fn link_config(network: &Partition, spread: u64) -> LinkConfig {
    let mut config = LinkConfig::default();
    config.servers = network.url();
    config.first_connect = FirstConnect::Background;
    config.ping_interval = Duration::from_millis(250);
    config.request_wait = Duration::from_secs(2);
    config.backoff = Backoff { most: Duration::from_millis(250), spread, ..Backoff::default() };
    config
}

fn registry_config() -> RegistryConfig {
    let mut config = RegistryConfig::default();
    config.ttl = Duration::from_secs(2);
    config
}

fn relay_config(replay_bytes: usize) -> RelayConfig {
    let mut config = RelayConfig::default();
    (config.replay_bytes, config.beat) = (replay_bytes, Duration::from_millis(300));
    config
}
