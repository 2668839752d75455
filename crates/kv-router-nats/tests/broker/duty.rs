//! Who writes snapshots of the fleet, who comes after, and what is taken away.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kv_router_nats::{
    Announcement, Link, Registry, RegistryConfig, Replica, ReplicaConfig, SnapshotConfig, SnapshotName,
    SnapshotSchedule, SnapshotStore,
};
use kv_router_transport::{
    Audience, DumpFingerprint, EventBatch, FleetSnapshot, FollowSink, ForgetReason, ReplicaSink, Standing,
    Watermark,
};
use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use crate::model::{Engine, Model, PATIENCE, link, truth, until};
use crate::server::{Server, folder};
use crate::streams::fleet;

/// A whole router's worth of state, in the most literal form. Workers say how many ranks they have.
#[derive(Default)]
pub(crate) struct Keeper {
    pub(crate) model: Model,
    marks: BTreeMap<WorkerRank, Watermark>,
    /// What it was told of each rank, in order.
    pub(crate) told: BTreeMap<WorkerRank, Vec<Standing>>,
    /// A message to everyone, told once.
    news: Option<Vec<u8>>,
}

impl FollowSink for Keeper {
    fn apply(&mut self, batch: EventBatch) {
        self.marks.insert(batch.from, Watermark::new(batch.incarnation, batch.sequence));
        self.model.apply(batch);
    }

    fn forget(&mut self, rank: WorkerRank, reason: ForgetReason) {
        self.marks.remove(&rank);
        self.model.forget(rank, reason);
    }

    fn restore(&mut self, rank: WorkerRank, watermark: Watermark, events: &[KvEvent]) {
        self.marks.insert(rank, watermark);
        self.model.restore(rank, watermark, events);
    }

    fn standing(&mut self, rank: WorkerRank, standing: Standing) {
        self.told.entry(rank).or_default().push(standing);
    }
}

impl ReplicaSink for Keeper {
    fn join(&mut self, _worker: WorkerId, about: &[u8]) -> u32 {
        about[0].into()
    }

    fn leave(&mut self, _worker: WorkerId) {}

    fn tell_peers(&mut self, tell: &mut dyn FnMut(Audience, Vec<u8>)) {
        tell(Audience::Everyone, vec![1]);
        tell(Audience::Replica(2), vec![2]);
        if let Some(news) = self.news.take() {
            tell(Audience::Everyone, news);
        }
    }

    fn hear_peer(&mut self, _message: &[u8]) {}

    fn snapshot(&mut self) -> Option<FleetSnapshot> {
        let bytes = self.model.dump(self.marks.iter().map(|(rank, mark)| (*rank, Some(*mark))));
        Some(FleetSnapshot { bytes, ranks: self.marks.len(), left_out: 0 })
    }
}

pub(crate) struct Rig {
    pub(crate) replica: Replica,
    pub(crate) keeper: Keeper,
}

const LEASE: Duration = Duration::from_millis(1200);

impl Rig {
    pub(crate) fn start(link: &Link, number: u64) -> Self {
        let mut config = ReplicaConfig::new(number, DumpFingerprint::default());
        config.registry = registry();
        config.snapshots.wait = Duration::from_millis(300);
        let mut schedule = SnapshotSchedule::default();
        (schedule.every, schedule.lease) = (Duration::from_millis(400), LEASE);
        config.schedule = Some(schedule);
        let replica = Replica::start(link, config, Instant::now()).unwrap();
        Self { replica, keeper: Keeper::default() }
    }

    pub(crate) fn poll(&mut self) {
        let mut taken = 1;
        while taken > 0 {
            taken = self.replica.poll(Instant::now(), Duration::from_millis(5), &mut self.keeper).unwrap();
        }
    }

    fn written(&self) -> u64 {
        self.replica.counters().duty.written
    }
}

pub(crate) fn registry() -> RegistryConfig {
    let mut config = RegistryConfig::default();
    config.ttl = Duration::from_secs(2);
    config
}

/// A worker with two ranks that hold something.
fn worker(link: &Link) -> (Vec<Engine>, Announcement) {
    let mut engines = fleet(link, 1, 2);
    engines.iter_mut().for_each(|engine| engine.steps(50));
    let announcement = Registry::new(link, registry()).unwrap().announce(WorkerId::new(7), vec![2]);
    (engines, announcement.unwrap())
}

#[test]
fn one_replica_writes_and_when_it_is_gone_another_does() {
    let server = Server::start();
    let links = [0; 3].map(|_| link(&server.url()));
    let (engines, _announcement) = worker(&links[0]);
    let mut rigs = vec![Rig::start(&links[1], 1), Rig::start(&links[2], 2)];
    let poll = |rigs: &mut Vec<Rig>| {
        rigs.iter_mut().for_each(Rig::poll);
        let now = Instant::now();
        assert!(rigs.iter().filter(|rig| rig.replica.has_duty(now)).count() <= 1, "two have the duty");
    };
    let leads = |rigs: &[Rig]| rigs.iter().position(|rig| rig.replica.has_duty(Instant::now()));
    assert!(until(PATIENCE, || {
        poll(&mut rigs);
        leads(&rigs).is_some_and(|leader| rigs[leader].written() >= 2)
    }));
    let both = [0, 1].map(|n| rigs[n].replica.counters().heard);
    assert!(both.iter().all(|&heard| heard > 0), "{both:?}");
    if let Some(leader) = leads(&rigs) {
        rigs.remove(leader);
    }
    let before: Vec<_> = rigs.iter().map(Rig::written).collect();
    assert!(until(PATIENCE, || {
        poll(&mut rigs);
        rigs.iter().zip(&before).any(|(rig, before)| rig.written() > *before)
    }));

    // And what was written is good to start from.
    let mut fresh = Rig::start(&links[1], 3);
    assert!(until(PATIENCE, || {
        fresh.poll();
        fresh.keeper.model.equals(&truth(&engines))
    }));
    assert_eq!(fresh.replica.counters().follower.restored, 2);
}

#[test]
fn what_the_server_takes_from_nobody_is_not_told() {
    let file = folder("conf").join("server.conf");
    std::fs::write(&file, "max_payload: 16384\n").unwrap();
    let server = Server::with(&["--config", &file.to_string_lossy()]);
    let link = link(&server.url());
    let mut rig = Rig::start(&link, 1);
    rig.keeper.news = Some(vec![7; 20_000]);
    assert!(until(PATIENCE, || {
        rig.poll();
        rig.replica.counters().untold > 0
    }));
    assert!(
        until(PATIENCE, || rig.replica.counters().told.is_multiple_of(2)),
        "each time two, and not the third"
    );
    assert_eq!(rig.replica.counters().untold, 1);
}

#[test]
fn a_replica_that_knows_of_nobody_takes_nothing_away() {
    let server = Server::start();
    let links = [0; 2].map(|_| link(&server.url()));
    let store = SnapshotStore::new(&links[0], SnapshotConfig::default()).unwrap();
    store.put(&SnapshotName::fleet(), b"of a fleet".to_vec()).unwrap();
    let mut rig = Rig::start(&links[1], 1);
    // More often than it is put off before it is written without ranks.
    assert!(until(PATIENCE, || {
        rig.poll();
        rig.replica.counters().duty.put_off > 8
    }));
    assert_eq!(rig.written(), 0);
    assert_eq!(store.get(&SnapshotName::fleet()).unwrap(), Some(b"of a fleet".to_vec()));
}

#[test]
fn what_dead_writes_left_is_taken_away_and_what_counts_stays() {
    let server = Server::start();
    let links = [0; 2].map(|_| link(&server.url()));
    let store = SnapshotStore::new(&links[0], SnapshotConfig::default()).unwrap();
    let other = SnapshotName::new("summary-west").unwrap();
    store.put(&other, vec![7; 100]).unwrap();
    // A piece of an object whose end was never said.
    let (mut engines, _announcement) = worker(&links[0]);
    server.publish("$O.kvr_snapshots.C.dead", &[1; 1000]);
    let mut rig = Rig::start(&links[1], 1);
    assert!(until(PATIENCE, || {
        engines[0].step();
        rig.poll();
        rig.replica.counters().duty.pruned > 0
    }));
    let written = rig.written();
    assert!(until(PATIENCE, || {
        rig.poll();
        rig.written() > written
    }));
    assert_eq!(rig.replica.counters().duty.pruned, 1, "nothing else was dead");
    assert_eq!(store.get(&other).unwrap(), Some(vec![7; 100]));
    assert!(store.get(&SnapshotName::fleet()).unwrap().is_some());
}
