//! The broker goes and comes back, the network stops: in the end every replica holds what the engines hold.
#![expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]

use std::time::{Duration, Instant};

use kv_router_nats::{FirstConnect, Link, Registry, RegistryConfig, RelayConfig, WorkerEvent};
use kv_router_types::WorkerId;

use crate::model::{Engine, Model, PATIENCE, becomes_exact, config, link, poll, rank, truth, until};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::streams::{fleet, follower};

#[test]
fn a_restart_of_the_broker_loses_nothing_for_good() {
    let mut server = Server::start();
    let (beside_engines, beside_router) = (link(&server.url()), link(&server.url()));
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    let mut engines = fleet(&beside_engines, 1, 4);
    for round in 0..3 {
        engines.iter_mut().for_each(|engine| engine.steps(50));
        server.kill();
        // More than may wait to be sent, so that some of it is never sent.
        engines.iter_mut().for_each(|engine| engine.steps(2500));
        assert!(until(PATIENCE, || !beside_router.is_up() && !beside_engines.is_up()));
        poll(&mut replica, &mut model);
        let start = Instant::now();
        server.restart();
        becomes_exact("broker restart", &mut replica, &mut model, &engines);
        println!("broker restart {round}: exact {:?} after the start", start.elapsed());
    }
    let unsent: u64 = engines.iter().map(|engine| engine.publisher.counters().unsent).sum();
    assert!(unsent > 0, "the test was to lose some");
    // The client tells of a connection after it used it: the last time may be told late.
    assert!(until(PATIENCE, || {
        poll(&mut replica, &mut model);
        replica.counters().catch_ups >= 3 && beside_router.counters().disconnects >= 3
    }));
}

#[test]
fn a_partition_of_a_replica_heals() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let (beside_engines, beside_router) = (link(&server.url()), link(&proxy.url()));
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    // Without beats, and with nothing published after it: only the replica's own question can heal it.
    let mut mute = RelayConfig::default();
    mute.beat = 10 * PATIENCE;
    let mut engines: Vec<Engine> =
        (0..4).map(|r| Engine::start(&beside_engines, rank(7, r), 1, mute)).collect();
    engines.iter_mut().for_each(|engine| engine.steps(50));
    becomes_exact("before the partition", &mut replica, &mut model, &engines);
    proxy.stall();
    engines.iter_mut().for_each(|engine| engine.steps(500));
    assert!(until(PATIENCE, || {
        poll(&mut replica, &mut model);
        !beside_router.is_up()
    }));
    assert!(!model.equals(&truth(&engines)), "nothing came through");
    proxy.heal();
    becomes_exact("partition of a replica", &mut replica, &mut model, &engines);
}

#[test]
fn a_partition_of_the_engines_heals() {
    let server = Server::start();
    let proxy = Proxy::to(server.address());
    let (beside_engines, beside_router) = (link(&proxy.url()), link(&server.url()));
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    let mut engines = fleet(&beside_engines, 1, 4);
    engines.iter_mut().for_each(|engine| engine.steps(50));
    becomes_exact("before the partition", &mut replica, &mut model, &engines);
    proxy.stall();
    engines.iter_mut().for_each(|engine| engine.steps(3000));
    assert!(until(PATIENCE, || !beside_engines.is_up()));
    proxy.heal();
    becomes_exact("partition of the engines", &mut replica, &mut model, &engines);
    // The beat of a rank that then says nothing is enough; a step more is no worse.
    engines.iter_mut().for_each(Engine::step);
    becomes_exact("and after it", &mut replica, &mut model, &engines);
}

#[test]
fn an_outage_of_the_broker_expires_nobody_who_is_there() {
    let mut server = Server::start();
    let (beside_workers, beside_router) = (link(&server.url()), link(&server.url()));
    let mut lives = RegistryConfig::default();
    lives.ttl = Duration::from_secs(2);
    let registry = Registry::new(&beside_workers, lives).unwrap();
    let [stays, goes] = [1, 2].map(WorkerId::new);
    let _stays = registry.announce(stays, vec![1]).unwrap();
    let leaving = registry.announce(goes, vec![2]).unwrap();
    let mut watch = Registry::new(&beside_router, lives).unwrap().watch();
    let mut events = vec![];
    let mut look = |events: &mut Vec<WorkerEvent>| {
        watch.poll(Instant::now(), Duration::from_millis(10), events).unwrap();
    };
    assert!(until(PATIENCE, || {
        look(&mut events);
        events.len() == 2
    }));
    events.clear();
    server.kill();
    drop(leaving);
    let down = Instant::now();
    while down.elapsed() < 2 * lives.ttl {
        look(&mut events);
    }
    assert_eq!(events, [], "nobody can be heard, so nobody is gone");
    server.restart();
    assert!(until(PATIENCE, || {
        look(&mut events);
        !events.is_empty()
    }));
    assert_eq!(events, [WorkerEvent::Expired { worker: goes }]);
    let back = Instant::now();
    while back.elapsed() < 2 * lives.ttl {
        look(&mut events);
    }
    assert_eq!(events.len(), 1, "the other renews: {events:?}");
}

#[test]
fn a_link_may_begin_before_its_broker() {
    let mut server = Server::start();
    server.kill();
    let mut patient = config(&server.url());
    patient.first_connect = FirstConnect::Background;
    let link = Link::connect(patient).unwrap();
    assert!(!link.is_up());
    server.restart();
    assert!(until(PATIENCE, || link.is_up()));
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 1);
    engines[0].steps(10);
    becomes_exact("broker after link", &mut replica, &mut model, &engines);
}
