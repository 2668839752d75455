//! Ranks whose engines have not stored anything: a replica knows that, and does not guess.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]

use std::time::Instant;

use kv_router_nats::{
    Announcement, Follower, Link, Registry, RelayConfig, SnapshotConfig, SnapshotName, SnapshotStore,
};
use kv_router_transport::{Incarnation, Standing, Watermark};
use kv_router_types::WorkerId;

use crate::duty::{Rig, registry};
use crate::model::{Engine, Model, PATIENCE, becomes_exact, link, poll, rank, truth, until};
use crate::server::Server;
use crate::streams::{fleet, follower};

/// Two ranks that say nothing twice: who was not there has to ask.
fn mute(link: &Link, life: u64) -> Vec<Engine> {
    let mut relay = RelayConfig::default();
    relay.beat = 10 * PATIENCE;
    let engines: Vec<_> = (0..2).map(|r| Engine::start(link, rank(7, r), life, relay)).collect();
    engines.iter().for_each(|engine| engine.publisher.flush(PATIENCE).unwrap());
    engines
}

fn announce(link: &Link, life: u8) -> Announcement {
    Registry::new(link, registry()).unwrap().announce(WorkerId::new(7), vec![2, life]).unwrap()
}

#[track_caller]
fn becomes_empty_and_fresh(replica: &mut Follower, model: &mut Model) {
    assert!(until(PATIENCE, || {
        poll(replica, model);
        [0, 1].iter().all(|&r| replica.standing(rank(7, r)) == Standing::Fresh) && model.blocks() == 0
    }));
}

#[test]
fn a_rank_that_published_nothing_is_known_to_hold_nothing() {
    let server = Server::start();
    let [beside_engines, beside_router] = [0; 2].map(|_| link(&server.url()));
    let mut engines = mute(&beside_engines, 1);
    let _announcement = announce(&beside_engines, 1);
    let mut rig = Rig::start(&beside_router, 1);
    let fresh = |rig: &Rig| [0, 1].map(|r| rig.replica.standing(rank(7, r))) == [Standing::Fresh; 2];
    assert!(until(PATIENCE, || {
        rig.poll();
        fresh(&rig)
    }));
    assert_eq!(rig.keeper.model.blocks(), 0);
    let follower = rig.replica.counters().follower;
    assert_eq!((follower.live, follower.replayed, follower.healings), (0, 2, 0), "the relay's answer told");

    // And its first event counts as any other.
    engines[0].store(3);
    assert!(until(PATIENCE, || {
        rig.poll();
        rig.keeper.model.equals(&truth(&engines))
    }));
    assert_eq!(rig.keeper.model.blocks(), 3);
    assert!(fresh(&rig));
    for r in [0, 1] {
        assert_eq!(rig.keeper.told[&rank(7, r)], [Standing::Recovering, Standing::Fresh]);
    }
    assert_eq!(rig.replica.counters().follower.pages, follower.pages, "nothing had to be asked for again");

    // A snapshot has both: also one that holds nothing has a place in its stream.
    let before = rig.replica.counters().duty.written;
    assert!(until(PATIENCE, || {
        rig.poll();
        rig.replica.counters().duty.written > before + 1
    }));
    let mut later = Rig::start(&beside_router, 2);
    assert!(until(PATIENCE, || {
        later.poll();
        fresh(&later) && later.keeper.model.equals(&truth(&engines))
    }));
    assert_eq!(later.replica.counters().follower.restored, 2);
}

#[test]
fn a_new_life_that_published_nothing_ends_the_old_one_at_once() {
    let server = Server::start();
    let link = link(&server.url());
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 2);
    engines.iter_mut().for_each(|engine| engine.steps(50));
    becomes_exact("first life", &mut replica, &mut model, &engines);
    assert!(model.blocks() > 0);
    drop(engines);
    let mut engines = mute(&link, 2);
    becomes_empty_and_fresh(&mut replica, &mut model);
    assert_eq!(replica.sequencer_counters(rank(7, 0)).unwrap().new_lives, 1);
    engines[1].store(5);
    becomes_exact("second life", &mut replica, &mut model, &engines);
    assert_eq!(replica.standing(rank(7, 1)), Standing::Fresh);
}

#[test]
fn a_snapshot_of_an_old_life_does_not_outlive_it() {
    let server = Server::start();
    let link = link(&server.url());
    let mut old = fleet(&link, 1, 2);
    old.iter_mut().for_each(|engine| engine.store(40));
    let store = SnapshotStore::new(&link, SnapshotConfig::default()).unwrap();
    let marks = (0..2).map(|r| (rank(7, r), Some(Watermark::new(Incarnation::new(1), 1))));
    store.put(&SnapshotName::fleet(), truth(&old).dump(marks)).unwrap();
    drop(old);
    let _engines = mute(&link, 2);
    let (mut replica, mut model) = (follower(&link), Model::default());
    assert_eq!(replica.warm(Instant::now(), &mut model).unwrap(), 2);
    assert_eq!(model.blocks(), 80);
    becomes_empty_and_fresh(&mut replica, &mut model);
}

#[test]
fn a_relay_that_comes_after_its_worker_says_so_itself() {
    let server = Server::start();
    let [beside_engines, beside_router] = [0; 2].map(|_| link(&server.url()));
    let _announcement = announce(&beside_engines, 1);
    let mut rig = Rig::start(&beside_router, 1);
    assert!(until(PATIENCE, || {
        rig.poll();
        rig.replica.counters().follower.failed_pages >= 2
    }));
    assert_eq!(rig.replica.standing(rank(7, 0)), Standing::Cold, "who does not answer may hold anything");
    let _engines = mute(&beside_engines, 1);
    assert!(until(PATIENCE, || {
        rig.poll();
        [0, 1].map(|r| rig.replica.standing(rank(7, r))) == [Standing::Fresh; 2]
    }));
    assert_eq!(rig.replica.counters().follower.live, 2, "without being asked");
}
