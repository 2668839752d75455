//! Sessions stick, and never against a filter; several routers over one fleet.

use std::num::NonZeroU32;
use std::time::Duration;

use kv_router::SessionGossip;
use kv_router::{
    Capacity, Constraints, Decision, JournalConfig, Pin, QueueConfig, RouteError, RouteRequest, RouterConfig,
    SessionId, Stickiness, Taint, Ticket, WorkerId, WorkerSpec, WorkerTraits,
};
use kv_router_load::{ReplicaId, ReplicaLife, ReplicaSync, SyncConfig};
use kv_router_schedule::{BindingVersion, Preference};

use crate::support::{Fleet, rank, worker};

const SESSION: SessionId = SessionId::new(42);

fn tokens(number: u32) -> Vec<u32> {
    (0..80).map(|token| number * 1_000 + token).collect()
}

fn ask(fleet: &Fleet, number: u32, stickiness: Stickiness) -> Result<WorkerId, RouteError> {
    let tokens = tokens(number);
    let request = RouteRequest::from_tokens(&tokens).session(SESSION, stickiness);
    fleet.router.route(&request).map(|decision| decision.worker().worker)
}

#[test]
fn section_10_a_session_stays_where_it_was() {
    let fleet = Fleet::new(8);
    let home = ask(&fleet, 0, Stickiness::Advisory).unwrap();
    for number in 1..20 {
        // Somebody else holds the prompt, and is idle.
        fleet.store((home.get() + 1) % 8, &tokens(number), 5);
        assert_eq!(ask(&fleet, number, Stickiness::Advisory), Ok(home));
    }
    assert_eq!(fleet.router.stats().sessions.bound, 1);
    fleet.clock.advance(Duration::from_secs(601));
    fleet.router.expire_idle(Duration::from_secs(60));
    assert_eq!(fleet.router.stats().sessions.bound, 0);
}

#[test]
fn section_10_a_dead_worker_never_wins_by_affinity() {
    for stickiness in [Stickiness::Advisory, Stickiness::Strict] {
        let fleet = Fleet::new(2);
        let home = ask(&fleet, 0, stickiness).unwrap();
        fleet.router.leave(home).unwrap();
        assert_eq!(fleet.router.stats().sessions.bound, 0);
        let other = worker(1 - home.get());
        assert_eq!(ask(&fleet, 1, stickiness), Ok(other));
        // Late gossip of a router that has not noticed yet.
        let gossip = SessionGossip {
            session: SESSION,
            worker: Some(home.into()),
            version: BindingVersion { count: 99, replica: 9 },
            idle: Duration::ZERO,
        };
        assert!(fleet.router.merge_session(gossip));
        assert_eq!(ask(&fleet, 2, stickiness), Ok(other));
    }
}

#[test]
fn who_is_stuck_to_a_worker_that_is_gone_does_not_wait_beside_room() {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    let fleet = Fleet::with(2, capacity, |config| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
    });
    // Late gossip of a router that has not noticed yet.
    let gossip = SessionGossip {
        session: SESSION,
        worker: Some(rank(99)),
        version: BindingVersion { count: 9, replica: 9 },
        idle: Duration::ZERO,
    };
    assert!(fleet.router.merge_session(gossip));
    let tokens: Vec<_> = (0..3).map(tokens).collect();
    let held = [0, 1].map(|number| fleet.router.route(&RouteRequest::from_tokens(&tokens[number])).unwrap());
    let strict = RouteRequest::from_tokens(&tokens[2]).session(SESSION, Stickiness::Strict);
    let waits = fleet.router.admit(&strict).unwrap().try_take().expect_err("both are full");
    drop(held);
    assert!(waits.try_take().is_ok(), "both are idle");
}

/// Two workers, the session bound to the first of them, which is full, and a strict request of it that waits.
fn stuck(change: impl FnOnce(&mut RouterConfig)) -> (Fleet, Decision, Ticket) {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    let fleet = Fleet::with(2, capacity, |config| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
        change(config);
    });
    let tokens = tokens(0);
    let strict = RouteRequest::from_tokens(&tokens).session(SESSION, Stickiness::Strict);
    let home = fleet.router.route(&strict).unwrap();
    let waits = fleet.router.admit(&strict).unwrap().try_take().expect_err("its rank is full");
    (fleet, home, waits)
}

#[test]
fn who_is_stuck_to_a_session_that_had_to_make_room_goes_at_once() {
    let (fleet, home, waits) = stuck(|config| config.sessions.max_sessions = 1);
    let other = RouteRequest::from_tokens(&[9; 16]).session(SessionId::new(8), Stickiness::Advisory);
    let other = fleet.router.route(&other).unwrap();
    assert_ne!(other.worker(), home.worker());
    let went = waits.try_take().expect("its session is bound nowhere, and a worker has room").unwrap();
    assert_ne!(went.worker(), home.worker());

    // The same by gossip.
    let (fleet, home, waits) = stuck(|config| config.sessions.max_sessions = 1);
    let version = BindingVersion { count: 9, replica: 9 };
    let (session, worker) = (SessionId::new(8), Some(rank(0)));
    assert!(fleet.router.merge_session(SessionGossip { session, worker, version, idle: Duration::ZERO }));
    assert_ne!(waits.try_take().expect("it goes").unwrap().worker(), home.worker());
}

#[test]
fn who_is_stuck_to_a_session_that_expires_goes_at_the_next_sweep_or_with_the_next_room() {
    let (fleet, home, waits) = stuck(|_| ());
    fleet.clock.advance(Duration::from_secs(599));
    fleet.router.expire_idle(Duration::from_secs(3_600));
    let waits = waits.try_take().expect_err("it is bound, and its rank is full");
    fleet.clock.advance(Duration::from_secs(1));
    fleet.router.expire_idle(Duration::from_secs(3_600));
    assert_ne!(waits.try_take().expect("it goes").unwrap().worker(), home.worker());

    let (fleet, home, waits) = stuck(|_| ());
    fleet.clock.advance(Duration::from_secs(600));
    let short = fleet.router.route(&RouteRequest::from_tokens(&[9; 16])).unwrap();
    assert_ne!(short.worker(), home.worker());
    drop(short);
    assert_ne!(waits.try_take().expect("it goes").unwrap().worker(), home.worker());
}

#[test]
fn section_10_affinity_never_outvotes_a_filter() {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    let fleet = Fleet::with(2, capacity, |config| config.filters.busy_prefill = Some(1.0));
    let home = ask(&fleet, 0, Stickiness::Strict).unwrap();
    let pin = Constraints { pin: Some(Pin::Worker(home)), ..Constraints::default() };
    let tokens = tokens(1);
    let busy = fleet.router.route(&RouteRequest::from_tokens(&tokens).constraints(pin)).unwrap();
    let refused = ask(&fleet, 2, Stickiness::Strict).unwrap_err();
    assert!(refused.to_string().contains("busy"), "{refused}");
    let other = worker(1 - home.get());
    assert_eq!(ask(&fleet, 2, Stickiness::Advisory), Ok(other));
    // And is bound there now.
    drop(busy);
    assert_eq!(ask(&fleet, 3, Stickiness::Advisory), Ok(other));
    assert!(fleet.router.end_session(SESSION) && !fleet.router.end_session(SESSION));
}

#[test]
fn section_10_affinity_never_outvotes_a_preferred_taint() {
    let fleet = Fleet::new(1);
    let tokens = tokens(1);
    let preferred = [Taint::new("spot")];
    let constraints = Constraints { preferred_taints: &preferred, ..Constraints::default() };
    let request = RouteRequest::from_tokens(&tokens).session(SESSION, Stickiness::Advisory);
    let request = request.constraints(constraints);
    let join = |id, taints: &[Taint]| {
        let mut traits = WorkerTraits::default();
        traits.taints.extend_from_slice(taints);
        let spec = WorkerSpec::new(fleet.router.scheme().block_size()).with_traits(traits);
        fleet.router.join(worker(id), spec).unwrap();
    };
    // While nobody has the taint, the session stays where it is.
    let home = fleet.router.route(&request).unwrap();
    join(1, &[]);
    assert_eq!(fleet.router.route(&request).unwrap().worker(), home.worker());
    join(2, &preferred);
    let moved = fleet.router.route(&request).unwrap();
    assert_eq!((moved.worker(), moved.selection().preference), (rank(2), Preference::Met));
    assert_eq!(fleet.router.route(&request).unwrap().worker(), rank(2));
}

#[test]
fn what_is_explained_is_what_is_decided_for_a_session() {
    let fleet = Fleet::new(2);
    let tokens = tokens(1);
    let home = fleet.router.route(&RouteRequest::from_tokens(&tokens)).unwrap();
    for stickiness in [Stickiness::Advisory, Stickiness::Strict] {
        let request = RouteRequest::from_tokens(&tokens).session(SESSION, stickiness);
        let bound = fleet.router.route(&request).unwrap();
        assert_ne!(bound.worker(), home.worker());
        // Without the session both are as good.
        for _ in 0..20 {
            let told = fleet.router.explain(&request).unwrap();
            assert_eq!(told.outcome.unwrap().worker, bound.worker());
        }
    }
}

#[test]
fn section_10_routers_share_load_and_sessions() {
    let with = |replica| {
        Fleet::with(4, Capacity::default(), |config| {
            let life = ReplicaLife { replica: ReplicaId::new(replica), life: 1 };
            config.journal = Some(JournalConfig::new(life));
        })
    };
    let (one, two) = (with(1), with(2));
    one.router.take_session_gossip();
    let mut sync = ReplicaSync::new(two.router.load_tracker().clone(), SyncConfig::default()).unwrap();
    let prompts: Vec<Vec<u32>> = (0..8).map(tokens).collect();
    let request =
        |number: usize| RouteRequest::from_tokens(&prompts[number]).session(SESSION, Stickiness::Advisory);
    let held: Vec<_> = (0..8).map(|number| one.router.route(&request(number)).unwrap()).collect();
    sync.receive(one.router.load_tracker().take_deltas(100).unwrap(), two.now());
    for gossip in one.router.take_session_gossip() {
        assert!(two.router.merge_session(gossip));
    }
    (0..4).for_each(|id| assert_eq!(one.router.load(rank(id)), two.router.load(rank(id))));
    assert_eq!(ask(&two, 9, Stickiness::Advisory), Ok(held[0].worker().worker));
    drop(held);
    sync.receive(one.router.load_tracker().take_deltas(100).unwrap(), two.now());
    (0..4).for_each(|id| assert_eq!(two.router.load(rank(id)), Some(Default::default())));
}
