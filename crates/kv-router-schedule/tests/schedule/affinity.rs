//! Sessions: idle time, bounds, gossip in any order, and workers that go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kv_router_schedule::{BindingVersion, NoSessions, SessionConfig, SessionGossip, SessionId, SessionTable};
use kv_router_types::{WorkerId, WorkerRank};
use proptest::prelude::*;

use crate::common::rank;

const TTL: u64 = 100;

#[expect(clippy::disallowed_methods, reason = "virtual time needs some origin")]
fn origin() -> Instant {
    // Far from the beginning of time, which some systems count from their start.
    Instant::now() + Duration::from_secs(100_000)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn table(max_sessions: usize, replica: u64) -> SessionTable {
    SessionTable::new(SessionConfig { max_sessions, idle_ttl: secs(TTL) }, replica).unwrap()
}

fn session(id: u128) -> SessionId {
    SessionId::new(id)
}

#[test]
fn section_10_a_session_is_bound_until_it_is_idle() {
    let start = origin();
    let mut table = table(10, 1);
    assert_eq!(table.get(session(1), start), None);
    assert!(table.bind(session(1), rank(7, 1), start).is_some());
    assert_eq!(table.get(session(1), start + secs(TTL - 1)), Some(rank(7, 1)));
    // To look is not to use.
    assert_eq!(table.get(session(1), start + secs(TTL)), None);
    assert_eq!((table.expire(start + secs(TTL - 1)), table.expire(start + secs(TTL))), (0, 1));
    // One that is used lives.
    for second in 0..500 {
        table.bind(session(2), rank(7, 1), start + secs(second));
        assert_eq!(table.expire(start + secs(second)), 0);
    }
    assert_eq!((table.stats().bound, table.stats().expired), (1, 1));
}

#[test]
fn others_are_told_what_is_new_and_what_they_would_take_for_idle() {
    let start = origin();
    let mut table = table(10, 1);
    assert!(table.bind(session(1), rank(7, 0), start).is_some());
    let told: Vec<u64> = (1..=60)
        .filter(|&second| table.bind(session(1), rank(7, 0), start + secs(second)).is_some())
        .collect();
    assert_eq!(told, [25, 50]);
    assert!(table.bind(session(1), rank(8, 0), start + secs(61)).is_some());
    assert!(table.unbind(session(1), start + secs(62)).is_some());
    assert_eq!(table.unbind(session(1), start + secs(62)), None);
    assert_eq!((table.stats().bound, table.stats().unbound), (0, 1));
}

#[test]
fn the_longest_idle_makes_room() {
    let start = origin();
    let mut table = table(3, 1);
    for (second, id) in [(0, 1), (1, 2), (2, 3), (3, 1), (4, 4)] {
        table.bind(session(id), rank(7, 0), start + secs(second));
    }
    assert_eq!((table.take_evicted(), table.take_evicted()), (Some(session(2)), None));
    let bound = |id| table.get(session(id), start + secs(5)).is_some();
    assert_eq!([1, 2, 3, 4].map(bound), [true, false, true, true]);
    assert_eq!((table.stats().bound, table.stats().evicted), (3, 1));
    let none = SessionConfig { max_sessions: 0, ..SessionConfig::default() };
    assert_eq!(SessionTable::new(none, 1).unwrap_err(), NoSessions);
}

#[test]
fn a_worker_that_goes_takes_its_bindings_and_no_others() {
    let start = origin();
    let mut table = table(10, 1);
    for (id, worker) in [(0, 7), (1, 8), (u128::MAX, 7), (3, 6)] {
        table.bind(session(id), rank(worker, id as u32), start);
    }
    assert_eq!((table.unbind_worker(WorkerId::new(7)), table.unbind_worker(WorkerId::new(7))), (2, 0));
    assert_eq!(table.get(session(u128::MAX), start), None);
    assert_eq!((table.get(session(1), start), table.stats().bound), (Some(rank(8, 1)), 2));
}

#[test]
fn the_last_writer_wins_and_a_tie_is_broken_by_who_wrote() {
    let now = origin();
    let gossip = |count, replica, worker: Option<WorkerRank>, idle| SessionGossip {
        session: session(1),
        worker,
        version: BindingVersion { count, replica },
        idle: secs(idle),
    };
    let mut table = table(10, 1);
    assert!(table.merge(gossip(5, 2, Some(rank(2, 0)), 0), now));
    assert!(!table.merge(gossip(5, 2, Some(rank(2, 0)), 0), now), "heard before");
    assert!(!table.merge(gossip(4, 9, Some(rank(4, 0)), 0), now), "older");
    assert!(table.merge(gossip(5, 3, Some(rank(3, 0)), 0), now));
    assert_eq!(table.get(session(1), now), Some(rank(3, 0)));
    assert!(table.merge(gossip(6, 2, None, 0), now));
    assert!(!table.merge(gossip(5, 9, Some(rank(9, 0)), 0), now), "unbound after that");
    assert_eq!(table.get(session(1), now), None);
    assert!(!table.merge(gossip(7, 2, Some(rank(2, 0)), TTL), now), "idle already");
    // What is decided here from now on is younger than all that was heard.
    let ours = table.bind(session(1), rank(1, 0), now).unwrap();
    assert_eq!(ours.version, BindingVersion { count: 8, replica: 1 });
}

#[test]
fn a_version_beyond_all_sense_does_not_end_what_routers_tell_each_other() {
    let now = origin();
    let (mut here, mut there) = (table(8, 1), table(8, 2));
    for id in [7, 8] {
        let version = BindingVersion { count: u64::MAX, replica: u64::MAX };
        let wild = SessionGossip { session: session(id), worker: Some(rank(9, 0)), version, idle: secs(0) };
        assert!(!here.merge(wild, now) && !there.merge(wild, now));
    }
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 { (&mut here, &mut there) } else { (&mut there, &mut here) };
        let gossip = from.bind(session(7), rank(turn, 0), now).unwrap();
        assert!(to.merge(gossip, now));
        assert_eq!(to.get(session(7), now), Some(rank(turn, 0)));
    }
}

proptest! {
    /// Three routers decide, and hear of each other in any order, some of it twice: in the end they agree.
    #[test]
    fn gossip_converges(
        decisions in prop::collection::vec((0..3usize, 0..4u128, prop::option::weighted(0.8, 0..5u64), 0..6usize), 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let now = origin();
        let mut tables: Vec<_> = (0..3).map(|replica| table(100, replica)).collect();
        let mut said: Vec<SessionGossip> = Vec::new();
        let mut picks = order.iter();
        for (at, id, worker, hear) in decisions {
            let gossip = match worker {
                Some(worker) => tables[at].bind(session(id), rank(worker, 0), now),
                None => tables[at].unbind(session(id), now),
            };
            said.extend(gossip);
            for pick in picks.by_ref().take(hear.min(said.len())) {
                let gossip = said[pick.index(said.len())];
                tables[pick.index(3)].merge(gossip, now);
            }
        }
        let latest = said.iter().fold(BTreeMap::new(), |mut latest: BTreeMap<_, SessionGossip>, gossip| {
            let entry = latest.entry(gossip.session).or_insert(*gossip);
            if gossip.version > entry.version {
                *entry = *gossip;
            }
            latest
        });
        for (at, table) in tables.iter_mut().enumerate() {
            let all: Vec<_> = if at == 1 { said.iter().rev().collect() } else { said.iter().collect() };
            for gossip in all {
                table.merge(*gossip, now);
            }
            for (session, gossip) in &latest {
                prop_assert_eq!(table.get(*session, now), gossip.worker);
            }
            let stats = table.stats();
            prop_assert_eq!(stats.bound + stats.unbound, latest.len());
            table.expire(now + secs(TTL));
            prop_assert_eq!((table.stats().bound, table.stats().unbound), (0, 0));
        }
    }
}
