//! Snapshots, the registry of workers, and gossip.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]

use std::time::{Duration, Instant};

use kv_router_nats::{
    ConfigError, GossipConfig, GossipReceiver, GossipSender, GroupName, Heard, Registry, RegistryConfig,
    RelayConfig, RequestError, SnapshotConfig, SnapshotName, SnapshotStore, Topic, WorkerEvent, WorkerWatch,
};
use kv_router_transport::Standing;
use kv_router_types::WorkerId;

use crate::model::{Engine, Model, PATIENCE, becomes_exact, link, poll, rank, until};
use crate::server::Server;
use crate::streams::{fleet, follower};

#[test]
fn a_snapshot_comes_back_as_it_was_and_the_latest_wins() {
    let server = Server::start();
    let link = link(&server.url());
    let mut config = SnapshotConfig::default();
    config.most_bytes = 3 << 20;
    let store = SnapshotStore::new(&link, config).unwrap();
    let (fleet, other) = (SnapshotName::fleet(), SnapshotName::new("group-a").unwrap());
    assert_eq!(store.get(&fleet).unwrap(), None, "no bucket yet");
    // Several messages of the store, and none at all.
    let large: Vec<u8> = (0..(3 << 20)).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    store.put(&fleet, vec![1, 2, 3]).unwrap();
    store.put(&fleet, large.clone()).unwrap();
    store.put(&other, vec![]).unwrap();
    assert!(store.get(&fleet).unwrap() == Some(large.clone()));
    assert_eq!(store.get(&other).unwrap(), Some(vec![]));
    assert_eq!(store.get(&SnapshotName::new("absent").unwrap()).unwrap(), None);

    let refused = store.put(&fleet, vec![0; (3 << 20) + 1]).unwrap_err();
    assert!(matches!(refused, RequestError::TooLarge { found: 3_145_729, limit: 3_145_728 }), "{refused}");
    config.most_bytes = 1000;
    let refused = SnapshotStore::new(&link, config).unwrap().get(&fleet).unwrap_err();
    assert!(matches!(refused, RequestError::TooLarge { limit: 1000, .. }), "{refused}");
}

#[test]
fn a_fresh_replica_starts_warm_and_goes_on_live() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut first, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 3);
    engines.iter_mut().for_each(|engine| engine.steps(200));
    becomes_exact("first replica", &mut first, &mut model, &engines);
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    store.put(&SnapshotName::fleet(), model.dump(first.ranks())).unwrap();
    engines.iter_mut().for_each(|engine| engine.steps(20));

    let (mut second, mut model) = (follower(&link), Model::default());
    assert_eq!(second.warm(Instant::now(), &mut model).unwrap(), 3);
    becomes_exact("warm replica", &mut second, &mut model, &engines);
    assert!(second.counters().replayed <= 3 * 25, "only what came after the snapshot: {second:?}");
    engines.iter_mut().for_each(|engine| engine.steps(20));
    becomes_exact("warm replica, live", &mut second, &mut model, &engines);
    assert_eq!(second.standing(rank(7, 2)), Standing::Fresh);
}

#[test]
fn a_fresh_replica_of_a_million_blocks_starts_warm() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut first, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 8);
    for engine in &mut engines {
        (0..500).for_each(|_| engine.store(250));
    }
    becomes_exact("a million blocks live", &mut first, &mut model, &engines);
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    store.put(&SnapshotName::fleet(), model.dump(first.ranks())).unwrap();
    engines.iter_mut().for_each(|engine| engine.steps(20));

    let (mut second, mut model) = (follower(&link), Model::default());
    let start = Instant::now();
    assert_eq!(second.warm(start, &mut model).unwrap(), 8);
    becomes_exact("a million blocks, then live", &mut second, &mut model, &engines);
    println!("a fresh replica of a million blocks: exact after {:?}", start.elapsed());
}

#[test]
fn what_no_relay_has_any_more_comes_from_a_snapshot() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut first, mut model) = (follower(&link), Model::default());
    let mut relay = RelayConfig::default();
    relay.replay_bytes = 4096;
    let mut engines = vec![Engine::start(&link, rank(7, 0), 1, relay)];
    for _ in 0..20 {
        engines[0].steps(10);
        becomes_exact("in step", &mut first, &mut model, &engines);
    }
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    store.put(&SnapshotName::fleet(), model.dump(first.ranks())).unwrap();
    engines[0].steps(3);

    let (mut second, mut model) = (follower(&link), Model::default());
    becomes_exact("by snapshot", &mut second, &mut model, &engines);
    assert_eq!(second.standing(rank(7, 0)), Standing::Fresh);
    assert_eq!(second.counters().restored, 1);
}

#[test]
fn a_damaged_snapshot_is_an_error_and_a_foreign_one_is_none() {
    let server = Server::start();
    let link = link(&server.url());
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    store.put(&SnapshotName::fleet(), b"no dump".to_vec()).unwrap();
    let (mut replica, mut model) = (follower(&link), Model::default());
    let refused = replica.warm(Instant::now(), &mut model).unwrap_err();
    assert!(matches!(refused, RequestError::Dump(_)), "{refused}");
    let mut engines = fleet(&link, 1, 1);
    engines[0].steps(10);
    becomes_exact("without a snapshot", &mut replica, &mut model, &engines);
}

fn news(watch: &mut WorkerWatch) -> Vec<WorkerEvent> {
    let mut events = vec![];
    assert!(until(PATIENCE, || {
        watch.poll(Instant::now(), Duration::from_millis(10), &mut events).unwrap();
        !events.is_empty()
    }));
    events
}

#[test]
fn workers_join_change_leave_and_expire() {
    let server = Server::start();
    let (beside_workers, beside_router) = (link(&server.url()), link(&server.url()));
    let mut config = RegistryConfig::default();
    config.ttl = Duration::from_secs(1);
    let registry = Registry::new(&beside_workers, config).unwrap();
    let [a, b] = [1, 2].map(WorkerId::new);
    let first = registry.announce(a, b"a".to_vec()).unwrap();
    let mut watch = Registry::new(&beside_router, config).unwrap().watch();
    assert_eq!(news(&mut watch), [WorkerEvent::Joined { worker: a, about: b"a".to_vec() }]);
    let second = registry.announce(b, b"b".to_vec()).unwrap();
    assert_eq!(news(&mut watch), [WorkerEvent::Joined { worker: b, about: b"b".to_vec() }]);
    drop(first);
    let first = registry.announce(a, b"A".to_vec()).unwrap();
    assert_eq!(news(&mut watch), [WorkerEvent::Changed { worker: a, about: b"A".to_vec() }]);
    // A process that goes last does not take the entry of the one that replaced it.
    let replacing = registry.announce(a, b"A".to_vec()).unwrap();
    assert!(matches!(first.leave(), Err(RequestError::Superseded)));
    replacing.leave().unwrap();
    assert_eq!(news(&mut watch), [WorkerEvent::Left { worker: a }]);
    // Renewed well beyond its time to live.
    let mut events = vec![];
    let start = Instant::now();
    while start.elapsed() < 3 * config.ttl {
        watch.poll(Instant::now(), Duration::from_millis(20), &mut events).unwrap();
    }
    assert_eq!(events, [], "a worker that renews does not expire");
    drop(second);
    assert_eq!(news(&mut watch), [WorkerEvent::Expired { worker: b }]);
    assert_eq!(watch.workers().count(), 0);
}

#[test]
fn a_router_that_was_busy_for_long_takes_nobody_for_gone() {
    /// More than wait to be polled.
    const WORKERS: u64 = 1_600;
    let server = Server::start();
    let (beside_workers, beside_router) = (link(&server.url()), link(&server.url()));
    let mut config = RegistryConfig::default();
    config.ttl = Duration::from_secs(6);
    let registry = Registry::new(&beside_workers, config).unwrap();
    let mut watch = Registry::new(&beside_router, config).unwrap().watch();
    let mut events = vec![];
    let mut poll = |watch: &mut WorkerWatch| {
        watch.poll(Instant::now(), Duration::from_millis(5), &mut events).unwrap();
        events.drain(..).filter(|event| !matches!(event, WorkerEvent::Joined { .. })).count()
    };
    let fleet: Vec<_> = (0..WORKERS)
        .map(|worker| {
            assert_eq!(poll(&mut watch), 0);
            registry.announce(WorkerId::new(worker), vec![]).unwrap()
        })
        .collect();
    assert!(until(PATIENCE, || poll(&mut watch) == 0 && watch.workers().count() as u64 == WORKERS));
    std::thread::sleep(config.ttl + config.ttl / 2);
    let start = Instant::now();
    while start.elapsed() < config.ttl * 2 {
        assert_eq!(poll(&mut watch), 0, "all of them renew");
    }
    drop(fleet);
    assert!(until(PATIENCE, || {
        poll(&mut watch);
        watch.workers().count() == 0
    }));
}

#[test]
fn a_description_above_the_limit_and_a_short_life_are_refused() {
    let server = Server::start();
    let link = link(&server.url());
    let mut config = RegistryConfig::default();
    config.about_bytes = 3;
    let refused =
        Registry::new(&link, config).unwrap().announce(WorkerId::new(1), b"long".to_vec()).unwrap_err();
    assert!(matches!(refused, RequestError::TooLarge { found: 4, limit: 3 }), "{refused}");
    config.ttl = Duration::from_millis(10);
    assert!(matches!(Registry::new(&link, config), Err(ConfigError::TtlTooShort { .. })));
}

#[test]
fn gossip_reaches_whom_it_is_for() {
    let server = Server::start();
    let (one, two) = (link(&server.url()), link(&server.url()));
    let config = GossipConfig::default();
    let group = GroupName::new("west").unwrap();
    let topics = [Topic::Peers, Topic::Peer(2), Topic::Summaries, Topic::Peer(3)];
    let [mut all, mut own, mut summaries, mut others] =
        topics.map(|topic| GossipReceiver::open(&two, &topic, config).unwrap());
    let sender = GossipSender::new(&one, config).unwrap();
    sender.send(&Topic::Peers, b"deltas".to_vec()).unwrap();
    sender.send(&Topic::Peer(2), b"bookings".to_vec()).unwrap();
    sender.send(&Topic::Summary(group.clone()), b"changes".to_vec()).unwrap();
    let heard = |receiver: &mut GossipReceiver| receiver.recv(PATIENCE).unwrap().unwrap();
    assert_eq!(heard(&mut all).bytes, b"deltas");
    assert_eq!(heard(&mut own).bytes, b"bookings");
    let Heard { group: from, bytes, .. } = heard(&mut summaries);
    assert_eq!((from, bytes.as_slice()), (Some(group), b"changes".as_slice()));
    assert_eq!(others.recv(Duration::from_millis(1)).unwrap(), None);
    let refused = sender.send(&Topic::Peers, vec![0; config.most_bytes + 1]).unwrap_err();
    assert!(matches!(refused, RequestError::TooLarge { .. }), "{refused}");
    assert!(sender.send(&Topic::Summaries, vec![]).is_err(), "that is no group");
    two.close(Duration::from_secs(1));
    assert!(matches!(all.recv(PATIENCE), Err(RequestError::Closed)));
}

#[test]
fn a_message_that_is_too_large_hides_none_behind_it() {
    let server = Server::start();
    let link = link(&server.url());
    let sender = GossipSender::new(&link, GossipConfig::default()).unwrap();
    let mut config = GossipConfig::default();
    config.most_bytes = 10;
    let mut receiver = GossipReceiver::open(&link, &Topic::Peers, config).unwrap();
    sender.send(&Topic::Peers, vec![7; 11]).unwrap();
    sender.send(&Topic::Peers, vec![7; 10]).unwrap();
    let heard = receiver.recv(PATIENCE).unwrap().map(|heard| heard.bytes.len());
    assert_eq!((heard, receiver.dropped()), (Some(10), 1));
}

#[test]
fn a_closed_link_says_so_and_does_not_hang() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut replica, mut model) = (follower(&link), Model::default());
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    let engines = fleet(&link, 1, 1);
    poll(&mut replica, &mut model);
    link.close(Duration::from_secs(2));
    assert!(matches!(store.get(&SnapshotName::fleet()), Err(RequestError::Closed)));
    assert!(until(PATIENCE, || replica.poll(Instant::now(), Duration::ZERO, &mut model).is_err()));
    assert!(engines[0].publisher.flush(Duration::from_secs(1)).is_err());
    assert!(engines[0].publisher.publish(vec![]).is_ok(), "publishing never fails for the broker's sake");
}
