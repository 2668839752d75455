//! Several routers over one fleet, and a network that loses, repeats and reorders what they tell each other.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kv_router::{
    Booking, BuildError, Capacity, JournalConfig, PeerEnvelope, PeerLimits, PeerMessage, PeerOutcome,
    QueueConfig, Recipient, ReplicaId, ReplicaLife, RouteRequest, Router, RouterConfig, SessionId,
    Stickiness, SyncConfig, SyncOutcome, WorkerLoad, WorkerSpec,
};
use kv_router_load::BookingName;
use proptest::prelude::*;

use crate::support::{Fleet, TestClock, rank, worker};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn fleet_of(
    replica: u64,
    life: u64,
    workers: u64,
    change: impl FnOnce(&mut RouterConfig),
) -> Fleet {
    let capacity = Capacity { batched_tokens: NonZeroU32::new(64), total_blocks: None };
    Fleet::with(workers, capacity, |config| {
        config.journal = Some(JournalConfig::new(ReplicaLife { replica: ReplicaId::new(replica), life }));
        change(config);
    })
}

/// A prompt of 80 tokens, five blocks, that no other shares.
pub(crate) fn tokens(number: u32) -> Vec<u32> {
    (0..80).map(|token| number * 1_000 + token).collect()
}

pub(crate) fn loads(fleet: &Fleet, workers: u64) -> Vec<Option<WorkerLoad>> {
    (0..workers).map(|id| fleet.router.load(rank(id))).collect()
}

/// Carries messages as bytes, no more than a broker does.
pub(crate) fn carried(message: &PeerMessage) -> PeerMessage {
    let mut bytes = Vec::new();
    message.encode(&PeerLimits::default(), &mut bytes).unwrap();
    let back = PeerMessage::decode(&bytes, &PeerLimits::default()).unwrap();
    assert_eq!(&back, message);
    back
}

pub(crate) fn is_for(envelope: &PeerEnvelope, replica: usize) -> bool {
    match envelope.to {
        Recipient::Everyone => true,
        Recipient::Only(only) => only == ReplicaId::new(replica as u64),
    }
}

/// One round in which nothing gets lost. Routers number themselves from 0.
pub(crate) fn exchange(fleets: &[&Fleet]) {
    for (from, fleet) in fleets.iter().enumerate() {
        for envelope in fleet.router.poll_peers() {
            for (to, other) in fleets.iter().enumerate() {
                if to != from && is_for(&envelope, to) {
                    other.router.receive_peer(carried(&envelope.message));
                }
            }
        }
    }
    fleets.iter().for_each(|fleet| fleet.clock.advance(TICK));
}

#[test]
fn section_10_what_one_books_the_other_sees() {
    let (one, two) = (fleet_of(0, 1, 3, |_| ()), fleet_of(1, 1, 3, |_| ()));
    let held: Vec<_> =
        (0..9).map(|number| one.router.route(&RouteRequest::from_tokens(&tokens(number))).unwrap()).collect();
    exchange(&[&one, &two]);
    assert_eq!(loads(&one, 3), loads(&two, 3));
    assert_eq!(two.router.stats().peers.bookings, 9);
    // The other decides by it: three each, so that the fourth of each goes round again.
    held[0].booking().prefill_completed(one.now());
    held[0].booking().set_output_blocks(7, one.now());
    exchange(&[&one, &two]);
    assert_eq!(loads(&one, 3), loads(&two, 3));
    let emptier = two.router.route(&RouteRequest::from_tokens(&tokens(20))).unwrap();
    assert_eq!(two.router.load(emptier.worker()).unwrap().requests, 4);
    drop((held, emptier));
    exchange(&[&one, &two]);
    assert_eq!(loads(&two, 3), vec![Some(WorkerLoad::default()); 3]);
    assert_eq!(loads(&one, 3), loads(&two, 3));
}

#[test]
fn section_10_a_joiner_asks_for_everything() {
    let one = fleet_of(0, 1, 2, |_| ());
    let held: Vec<_> =
        (0..4).map(|number| one.router.route(&RouteRequest::from_tokens(&tokens(number))).unwrap()).collect();
    drop(one.router.poll_peers()); // nobody was there to hear it
    let late = fleet_of(1, 1, 2, |_| ());
    (0..4).for_each(|_| exchange(&[&one, &late]));
    assert_eq!(loads(&one, 2), loads(&late, 2));
    assert_eq!(late.router.stats().peers.snapshots, 1);
    // A worker that the late one learns of later brings what was booked on it.
    one.router.join(worker(7), WorkerSpec::new(one.router.scheme().block_size())).unwrap();
    let pinned = (0..5)
        .map(|number| one.router.route(&RouteRequest::from_tokens(&tokens(30 + number))).unwrap())
        .collect::<Vec<_>>();
    exchange(&[&one, &late]);
    assert!(late.router.stats().peers.refused > 0);
    late.router.join(worker(7), WorkerSpec::new(one.router.scheme().block_size())).unwrap();
    (0..4).for_each(|_| exchange(&[&one, &late]));
    assert_eq!(one.router.load(rank(7)), late.router.load(rank(7)));
    drop((held, pinned));
    exchange(&[&one, &late]);
    assert_eq!(late.router.load(rank(7)), Some(WorkerLoad::default()));
}

#[test]
fn section_10_a_dead_routers_bookings_expire_and_a_goodbye_ends_them_at_once() {
    let (one, two, watcher) =
        (fleet_of(0, 1, 1, |_| ()), fleet_of(1, 1, 1, |_| ()), fleet_of(2, 1, 1, |_| ()));
    let all = [&one, &two, &watcher];
    let held = [&one, &two].map(|fleet| fleet.router.route(&RouteRequest::from_tokens(&tokens(1))).unwrap());
    let last_words = two.router.poll_peers();
    for envelope in &last_words {
        watcher.router.receive_peer(envelope.message.clone());
    }
    exchange(&all);
    assert_eq!(watcher.router.load(rank(0)).unwrap().requests, 2);
    assert!(watcher.router.forget_peer(ReplicaId::new(1)));
    assert!(!watcher.router.forget_peer(ReplicaId::new(1)));
    assert_eq!(watcher.router.load(rank(0)).unwrap().requests, 1);
    // What is late does not undo it.
    let late = watcher.router.receive_peer(last_words[0].message.clone());
    assert_eq!(late, PeerOutcome::Load(SyncOutcome::Stale));
    assert_eq!(watcher.router.load(rank(0)).unwrap().requests, 1);
    watcher.clock.advance(9 * SECOND);
    drop(watcher.router.poll_peers());
    assert_eq!(watcher.router.load(rank(0)).unwrap().requests, 1);
    watcher.clock.advance(SECOND);
    drop(watcher.router.poll_peers());
    assert_eq!(loads(&watcher, 1), [Some(WorkerLoad::default())]);
    assert_eq!(watcher.router.stats().peers.expired, 1);
    drop(held);
}

#[test]
fn a_new_life_of_a_router_voids_the_old_one() {
    let (old, watcher) = (fleet_of(0, 1, 1, |_| ()), fleet_of(1, 1, 1, |_| ()));
    let held = old.router.route(&RouteRequest::from_tokens(&tokens(1))).unwrap();
    let stale = old.router.poll_peers();
    for envelope in &stale {
        watcher.router.receive_peer(envelope.message.clone());
    }
    assert_eq!(watcher.router.load(rank(0)).unwrap().requests, 1);
    let new = fleet_of(0, 2, 1, |_| ());
    exchange(&[&new, &watcher]);
    assert_eq!(loads(&watcher, 1), [Some(WorkerLoad::default())]);
    let late = watcher.router.receive_peer(stale[0].message.clone());
    assert_eq!(late, PeerOutcome::Load(SyncOutcome::Stale));
    drop(held);
}

#[test]
fn a_router_without_a_journal_is_alone() {
    let (alone, other) = (Fleet::new(1), fleet_of(1, 1, 1, |_| ()));
    assert_eq!(alone.router.poll_peers(), []);
    let messages = other.router.poll_peers();
    assert_eq!(messages.len(), 1, "a heartbeat");
    assert_eq!(alone.router.receive_peer(messages[0].message.clone()), PeerOutcome::Alone);
    // Its own words, and questions that are not for it, are nothing to it either.
    let own = other.router.receive_peer(messages[0].message.clone());
    assert_eq!(own, PeerOutcome::Load(SyncOutcome::Stale));
    let (me, you) = (ReplicaId::new(1), ReplicaId::new(5));
    let none = BookingName::new(5)..BookingName::new(5);
    for (from, of, names) in [(you, you, BookingName::ALL), (me, me, BookingName::ALL), (you, me, none)] {
        let asked = other.router.receive_peer(PeerMessage::WantBookings { from, of, names });
        assert_eq!(asked, PeerOutcome::NotAnswered);
    }
    let asks = PeerMessage::WantBookings { from: you, of: me, names: BookingName::ALL };
    assert_eq!(other.router.receive_peer(asks), PeerOutcome::Asked);
    let answer = other.router.poll_peers().pop().unwrap();
    assert_eq!(answer.to, Recipient::Only(you));
    assert!(matches!(answer.message, PeerMessage::Bookings(_)));

    let mut config = RouterConfig::new(other.router.scheme().block_size());
    config.journal = Some(JournalConfig::new(ReplicaLife { replica: me, life: 1 }));
    config.sync = SyncConfig { max_replicas: 0, ..SyncConfig::default() };
    assert!(matches!(Router::builder(config).build(), Err(BuildError::Sync(_))));
}

#[test]
fn those_who_ask_are_bounded() {
    let fleet = fleet_of(0, 1, 1, |config| config.sync.max_replicas = 2);
    let ask = |from| {
        let (from, of) = (ReplicaId::new(from), ReplicaId::new(0));
        fleet.router.receive_peer(PeerMessage::WantBookings { from, of, names: BookingName::ALL })
    };
    assert_eq!(
        [1, 2, 3, 1].map(ask),
        [PeerOutcome::Asked, PeerOutcome::Asked, PeerOutcome::NotAnswered, PeerOutcome::Asked]
    );
    let answers = fleet.router.poll_peers();
    let answers: Vec<_> =
        answers.iter().filter(|answer| matches!(answer.message, PeerMessage::Bookings(_))).collect();
    assert_eq!((answers.len(), answers[0].to), (1, Recipient::Everyone));
}

#[test]
fn section_11_a_busy_router_does_not_make_another_refuse() {
    let (busy, other) = (
        fleet_of(0, 1, 1, |_| ()),
        fleet_of(1, 1, 1, |config| {
            (config.load.max_requests, config.load.max_peer_requests) = (2, 4);
            (config.load.max_prompt_blocks, config.load.max_peer_prompt_blocks) = (10, 20);
        }),
    );
    let book = |fleet: &Fleet, number| fleet.router.route(&RouteRequest::from_tokens(&tokens(number)));
    let _theirs: Vec<_> = (0..9).map(|number| book(&busy, number).unwrap()).collect();
    exchange(&[&busy, &other]);
    let stats = other.router.stats();
    assert_eq!((stats.peers.bookings, stats.peers.refused), (4, 5));
    assert_eq!((stats.load.requests, stats.load.peer_requests), (0, 4));
    let own = [book(&other, 100).unwrap(), book(&other, 101).unwrap()];
    assert!(book(&other, 102).is_err(), "that is our own bound");
    drop(own);
}

#[test]
fn section_10_sessions_are_gossiped() {
    let (one, two) = (fleet_of(0, 1, 8, |_| ()), fleet_of(1, 1, 8, |_| ()));
    let session = SessionId::new(42);
    let ask = |fleet: &Fleet, number| {
        let tokens = tokens(number);
        let request = RouteRequest::from_tokens(&tokens).session(session, Stickiness::Advisory);
        fleet.router.route(&request).unwrap().worker()
    };
    // Also what was bound before the first poll.
    let home = ask(&one, 1);
    exchange(&[&one, &two]);
    assert_eq!(ask(&two, 2), home);
    assert!(two.router.end_session(session));
    exchange(&[&one, &two]);
    assert_eq!(one.router.stats().sessions.bound, 0);
}

/// Asks the router everything that takes a lock, from within a wake.
struct Nosy(Weak<Router>);

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        if let Some(router) = self.0.upgrade() {
            assert!(router.stats().peers.replicas > 0);
            drop(router.poll_peers());
            let (from, of) = (ReplicaId::new(9), ReplicaId::new(9));
            let nothing = PeerMessage::WantBookings { from, of, names: BookingName::ALL };
            assert_eq!(router.receive_peer(nothing), PeerOutcome::NotAnswered);
        }
    }
}

#[test]
fn room_that_another_router_makes_serves_who_waits_here_with_no_lock_held() {
    let waits = |config: &mut RouterConfig| {
        config.filters.wait_prefill = Some(1.0);
        config.queue = Some(QueueConfig::default());
    };
    let (one, two) = (fleet_of(0, 1, 1, |_| ()), fleet_of(1, 1, 1, waits));
    let held = one.router.route(&RouteRequest::from_tokens(&tokens(1))).unwrap();
    exchange(&[&one, &two]);
    let tokens = tokens(2);
    let ticket = two.router.admit(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert_eq!(two.router.stats().queue.waiting, 1);
    let router = Arc::new(two.router);
    let waker = Waker::from(Arc::new(Nosy(Arc::downgrade(&router))));
    let mut context = Context::from_waker(&waker);
    let mut ticket = pin!(ticket);
    assert!(ticket.as_mut().poll(&mut context).is_pending());
    drop(held);
    for envelope in one.router.poll_peers() {
        router.receive_peer(envelope.message);
    }
    let Poll::Ready(Ok(decision)) = ticket.as_mut().poll(&mut context) else { panic!("it has room") };
    assert_eq!(decision.worker(), rank(0));
}

#[derive(Clone, Debug)]
enum Step {
    Route(usize, u32),
    Progress(usize, usize, u32),
    End(usize, usize),
    /// A router polls; each message to each other is lost, sent, or sent twice.
    Poll(usize, Vec<u8>),
    /// Some message that is under way arrives, whichever was sent first.
    Arrive(usize),
    Wait(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize, 0..12_u32).prop_map(|(router, prompt)| Step::Route(router, prompt)),
        3 => (0..3_usize, any::<usize>(), 0..5_u32).prop_map(|(router, at, blocks)| Step::Progress(router, at, blocks)),
        3 => (0..3_usize, any::<usize>()).prop_map(|(router, at)| Step::End(router, at)),
        4 => (0..3_usize, prop::collection::vec(0..4_u8, 6)).prop_map(|(router, fates)| Step::Poll(router, fates)),
        8 => any::<usize>().prop_map(Step::Arrive),
        1 => (0..2_000_u32).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..120)
}

fn wait(clocks: &[TestClock], by: Duration) {
    clocks.iter().for_each(|clock| clock.advance(by));
}

proptest! {
    /// Three routers book, progress and end requests over four workers, and hear of each other what the network lets
    /// through. Once it lets everything through they agree, and in the end all load is exactly zero.
    #[test]
    fn section_10_routers_agree_whatever_the_network_does(steps in steps()) {
        let fleets: Vec<Fleet> = (0..3).map(|id| fleet_of(id, 1, 4, |_| ())).collect();
        let clocks: Vec<TestClock> = fleets.iter().map(|fleet| fleet.clock.clone()).collect();
        let all: Vec<&Fleet> = fleets.iter().collect();
        let mut held: Vec<Vec<Booking>> = vec![Vec::new(), Vec::new(), Vec::new()];
        let mut wire: Vec<(usize, PeerMessage)> = Vec::new();
        for step in steps {
            match step {
                Step::Route(router, prompt) => {
                    let tokens = tokens(prompt);
                    let request = RouteRequest::from_tokens(&tokens).session(SessionId::new(prompt.into()), Stickiness::Advisory);
                    held[router].push(fleets[router].router.route(&request).unwrap().into_booking());
                }
                Step::Progress(router, at, blocks) => {
                    let count = held[router].len();
                    if count > 0 {
                        let _ = held[router][at % count].set_output_blocks(blocks, fleets[router].now());
                    }
                }
                Step::End(router, at) => {
                    let count = held[router].len();
                    if count > 0 {
                        drop(held[router].swap_remove(at % count));
                    }
                }
                Step::Poll(from, fates) => {
                    let mut fates = fates.into_iter().cycle();
                    for envelope in fleets[from].router.poll_peers() {
                        for to in (0..3).filter(|&to| to != from && is_for(&envelope, to)) {
                            let copies = [0, 1, 1, 2][usize::from(fates.next().unwrap())];
                            wire.extend((0..copies).map(|_| (to, envelope.message.clone())));
                        }
                    }
                }
                Step::Arrive(at) if !wire.is_empty() => {
                    let (to, message) = wire.swap_remove(at % wire.len());
                    fleets[to].router.receive_peer(carried(&message));
                }
                Step::Arrive(_) => {}
                Step::Wait(milliseconds) => wait(&clocks, Duration::from_millis(milliseconds.into())),
            }
        }
        // Now the network heals. Questions are asked again after a second at most.
        for _ in 0..30 {
            exchange(&all);
        }
        prop_assert_eq!(loads(all[0], 4), loads(all[1], 4));
        prop_assert_eq!(loads(all[0], 4), loads(all[2], 4));
        let total: u32 = loads(all[0], 4).iter().flatten().map(|load| load.requests).sum();
        prop_assert_eq!(total as usize, held.iter().map(Vec::len).sum::<usize>());
        drop(held);
        exchange(&all);
        // What is still under way is old by now.
        for (to, message) in wire {
            fleets[to].router.receive_peer(message);
        }
        for fleet in &fleets {
            prop_assert_eq!(loads(fleet, 4), vec![Some(WorkerLoad::default()); 4]);
            prop_assert_eq!(fleet.router.stats().load.requests, 0);
        }
    }
}
