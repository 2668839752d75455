//! Batches from relays to followers, when nothing but messages fails.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]
#![expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]

use std::time::Duration;

use kv_router_nats::{Followed, Follower, FollowerConfig, Link, RelayConfig, SnapshotConfig, SnapshotStore};
use kv_router_transport::Standing;

use crate::model::{Engine, Model, becomes_exact, config, link, poll, rank, truth};
use crate::server::Server;

pub(crate) fn follower(link: &Link) -> Follower {
    let store = SnapshotStore::new(link, SnapshotConfig::default()).unwrap();
    Follower::start(link, store, FollowerConfig::default()).unwrap()
}

pub(crate) fn fleet(link: &Link, life: u64, ranks: u32) -> Vec<Engine> {
    (0..ranks).map(|r| Engine::start(link, rank(7, r), life, RelayConfig::default())).collect()
}

#[test]
fn a_follower_holds_what_the_engines_hold() {
    let server = Server::start();
    let (beside_engines, beside_router) = (link(&server.url()), link(&server.url()));
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    let mut engines = fleet(&beside_engines, 1, 4);
    for engine in &mut engines {
        engine.steps(200);
    }
    becomes_exact("live", &mut replica, &mut model, &engines);
    assert_eq!(replica.standing(rank(7, 0)), Standing::Fresh);
    assert_eq!(replica.counters().malformed, 0);
    beside_router.close(Duration::from_secs(2));
    beside_engines.close(Duration::from_secs(2));
}

#[test]
fn a_follower_that_comes_late_is_told_everything_even_by_an_idle_engine() {
    let server = Server::start();
    let beside_engines = link(&server.url());
    let mut engines = fleet(&beside_engines, 1, 3);
    for engine in &mut engines {
        engine.steps(300);
        engine.publisher.flush(Duration::from_secs(5)).unwrap();
    }
    let beside_router = link(&server.url());
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    becomes_exact("late and idle", &mut replica, &mut model, &engines);
    assert_eq!(replica.standing(rank(7, 2)), Standing::Fresh);
    assert!(replica.counters().replayed > 0);
}

#[test]
fn a_new_life_forgets_the_old_one() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 2);
    engines.iter_mut().for_each(|engine| engine.steps(50));
    becomes_exact("first life", &mut replica, &mut model, &engines);
    drop(engines);
    let mut engines = fleet(&link, 2, 2);
    engines.iter_mut().for_each(|engine| engine.steps(5));
    becomes_exact("second life", &mut replica, &mut model, &engines);
    assert_eq!(replica.sequencer_counters(rank(7, 0)).unwrap().new_lives, 1);
}

#[test]
fn what_a_slow_follower_drops_it_gets_back() {
    let server = Server::start();
    let beside_engines = link(&server.url());
    let mut small = config(&server.url());
    small.waiting_messages = 16;
    let beside_router = Link::connect(small).unwrap();
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    let mut engines = fleet(&beside_engines, 1, 2);
    for engine in &mut engines {
        engine.steps(500);
        engine.publisher.flush(Duration::from_secs(5)).unwrap();
    }
    // Nothing was polled meanwhile.
    becomes_exact("slow follower", &mut replica, &mut model, &engines);
    assert!(replica.counters().dropped + beside_router.counters().slow > 0, "{replica:?}");
}

#[test]
fn the_bytes_that_wait_are_bounded_too() {
    let server = Server::start();
    let beside_engines = link(&server.url());
    let mut small = config(&server.url());
    small.waiting_bytes = 2000;
    let beside_router = Link::connect(small).unwrap();
    let (mut replica, mut model) = (follower(&beside_router), Model::default());
    let mut engines = fleet(&beside_engines, 1, 2);
    for engine in &mut engines {
        engine.steps(100);
        engine.publisher.flush(Duration::from_secs(5)).unwrap();
    }
    becomes_exact("few bytes", &mut replica, &mut model, &engines);
    assert!(replica.counters().dropped > 0, "{replica:?}");
}

#[test]
fn a_long_replay_comes_in_pages_and_a_large_event_in_batches() {
    let server = Server::start();
    let link = link(&server.url());
    let mut relay = RelayConfig::default();
    (relay.frame_bytes, relay.page_bytes) = (1024, 4096);
    let mut engines = [Engine::start(&link, rank(7, 0), 1, relay)];
    engines[0].steps(300);
    engines[0].store(2000);
    engines[0].publisher.flush(Duration::from_secs(5)).unwrap();
    let (mut replica, mut model) = (follower(&link), Model::default());
    becomes_exact("in pages", &mut replica, &mut model, &engines);
    assert!(replica.counters().pages > 10, "{replica:?}");
    assert!(engines[0].publisher.counters().published > 330, "2,000 blocks do not fit a frame");
    assert_eq!(replica.standing(rank(7, 0)), Standing::Fresh);
}

#[test]
fn a_worker_that_was_taken_for_gone_is_learned_anew() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 2);
    engines.iter_mut().for_each(|engine| engine.steps(50));
    becomes_exact("before", &mut replica, &mut model, &engines);
    let worker = rank(7, 0).worker;
    replica.retire(worker, &mut model);
    assert_eq!(model.blocks(), 0);
    engines.iter_mut().for_each(|engine| engine.steps(5));
    engines.iter().for_each(|engine| engine.publisher.flush(Duration::from_secs(5)).unwrap());
    assert!(crate::model::until(crate::model::PATIENCE, || {
        poll(&mut replica, &mut model);
        replica.sequencer_counters(rank(7, 1)).unwrap().stale >= 5
    }));
    assert_eq!(model.blocks(), 0, "what was under way does not bring its blocks back");
    replica.revive(std::time::Instant::now(), worker, &mut model);
    becomes_exact("after", &mut replica, &mut model, &engines);
    assert_eq!(replica.standing(rank(7, 1)), Standing::Fresh);

    // An index that went wrong is built anew in the same way.
    model = Model::default();
    assert!(replica.resync(std::time::Instant::now(), rank(7, 0), &mut model));
    assert!(replica.resync(std::time::Instant::now(), rank(7, 1), &mut model));
    becomes_exact("resync", &mut replica, &mut model, &engines);
}

/// Requests of a lane are numbered from the start, so the number alone does not tell whose answer it is.
#[test]
fn a_page_that_was_asked_for_in_the_life_before_is_not_taken() {
    let server = Server::start();
    let link = link(&server.url());
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    let mut config = FollowerConfig::default();
    // One page at a time: the second question is sent once the answer to the first was looked at.
    (config.followed, config.pages, config.snapshot) = (Followed::Admitted, 1, None);
    let mut relay = RelayConfig::default();
    relay.beat = Duration::from_secs(600);
    let mut engine = Engine::start(&link, rank(7, 0), 1, relay);
    engine.store(20);
    engine.publisher.flush(Duration::from_secs(5)).unwrap();
    // From here on nothing comes live: what is heard of the engine is what it is asked for.
    let mut replica = Follower::start(&link, store, config).unwrap();
    let mut model = Model::default();

    let now = std::time::Instant::now();
    replica.admit(now, rank(7, 0), &mut model);
    assert!(crate::model::until(crate::model::PATIENCE, || engine.publisher.counters().pages > 0));
    drop(engine);
    replica.dismiss(rank(7, 0).worker, &mut model);
    replica.admit(now, rank(7, 0), &mut model);
    assert!(crate::model::until(crate::model::PATIENCE, || {
        poll(&mut replica, &mut model);
        assert_eq!(model.blocks(), 0, "of an engine that is gone");
        replica.counters().failed_pages > 0
    }));
    assert_eq!(replica.counters().replayed, 0);
}

#[test]
fn ranks_that_retired_make_room_for_new_ones() {
    let server = Server::start();
    let link = link(&server.url());
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    let mut config = FollowerConfig::default();
    config.ranks = 2;
    let (mut replica, mut model) = (Follower::start(&link, store, config).unwrap(), Model::default());
    for worker in 1..5 {
        let mut engines = [Engine::start(&link, rank(worker, 0), 1, RelayConfig::default())];
        engines[0].steps(20);
        becomes_exact("one of many", &mut replica, &mut model, &engines);
        replica.retire(rank(worker, 0).worker, &mut model);
    }
    assert_eq!(model.blocks(), 0);
    assert_eq!(replica.ranks().count(), 2);
}

#[test]
fn a_batch_that_comes_twice_applies_once() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut relay = RelayConfig::default();
    relay.beat = Duration::from_millis(20);
    let mut engines = vec![Engine::start(&link, rank(7, 0), 1, relay)];
    engines[0].steps(20);
    becomes_exact("before the beats", &mut replica, &mut model, &engines);
    let beats = engines[0].publisher.counters().beats;
    assert!(crate::model::until(crate::model::PATIENCE, || {
        poll(&mut replica, &mut model);
        replica.sequencer_counters(rank(7, 0)).unwrap().duplicates >= 3
    }));
    assert!(engines[0].publisher.counters().beats > beats);
    assert!(model.equals(&truth(&engines)));
    assert_eq!(replica.sequencer_counters(rank(7, 0)).unwrap().applied, 21, "and the beginning");
}

#[test]
fn without_what_is_missing_a_rank_is_cold_and_live() {
    let server = Server::start();
    let link = link(&server.url());
    let mut relay = RelayConfig::default();
    relay.replay_bytes = 1;
    let mut engines = [Engine::start(&link, rank(7, 0), 1, relay)];
    engines[0].steps(30);
    engines[0].publisher.flush(Duration::from_secs(5)).unwrap();
    let (mut replica, mut model) = (follower(&link), Model::default());
    assert!(crate::model::until(crate::model::PATIENCE, || {
        poll(&mut replica, &mut model);
        replica.counters().failed_snapshots > 0
    }));
    assert_eq!(replica.standing(rank(7, 0)), Standing::Cold);
    let before = replica.sequencer_counters(rank(7, 0)).unwrap().applied;
    engines[0].steps(10);
    assert!(crate::model::until(crate::model::PATIENCE, || {
        poll(&mut replica, &mut model);
        replica.sequencer_counters(rank(7, 0)).unwrap().applied >= before + 10
    }));
}

#[test]
fn a_server_that_is_not_there_is_an_error_that_says_so() {
    let mut server = Server::start();
    server.kill();
    let refused = Link::connect(config(&server.url())).unwrap_err();
    assert!(refused.to_string().contains("check"), "{refused}");
}
