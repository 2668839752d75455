//! Routers that were cut off, came late or started anew, with more to tell than a message carries.

use std::time::Duration;

use kv_router::{
    Booking, LocalBlockHash, PeerEnvelope, PeerLimits, PeerMessage, ReplicaId, RouteRequest, RouterConfig,
    SessionId, Stickiness, WorkerLoad, WorkerSpec,
};
use kv_router_load::BookingName;
use kv_router_schedule::{Entropy, SplitMix64};
use proptest::prelude::*;

use crate::peers::{carried, exchange, fleet_of, is_for, loads, tokens};
use crate::support::{Fleet, worker};

#[test]
fn section_10_a_joiner_learns_of_a_thousand_long_prompts() {
    const REQUESTS: u64 = 1_024;
    let busy = fleet_of(0, 1, 4, |_| ());
    let mut locals: Vec<_> = (0..8_192).map(LocalBlockHash::new).collect();
    let held: Vec<Booking> = (0..REQUESTS)
        .map(|request| {
            // 128k tokens each, that share nothing.
            locals[0] = LocalBlockHash::new(1_000_000 + request);
            busy.router.route(&RouteRequest::from_hashes(&locals, 131_072)).unwrap().into_booking()
        })
        .collect();
    drop(busy.router.poll_peers()); // nobody was there to hear it
    let late = fleet_of(1, 1, 4, |_| ());
    for _ in 0..12 {
        exchange(&[&busy, &late]);
    }
    assert_eq!(loads(&busy, 4), loads(&late, 4));
    let stats = late.router.stats().peers;
    assert_eq!((stats.bookings as u64, stats.behind, stats.snapshots), (REQUESTS, 0, 1));
    assert!(stats.parts > 64, "{stats:?}");
    drop(held);
    exchange(&[&busy, &late]);
    assert_eq!(loads(&late, 4), vec![Some(WorkerLoad::default()); 4]);
}

#[test]
fn nothing_that_is_said_is_larger_than_a_message_may_be() {
    let fleet = fleet_of(0, 1, 2, small);
    let mut held = Vec::new();
    for number in 0..40 {
        let long: Vec<u32> = (0..16 * 150).map(|token| number * 10_000 + token).collect();
        let session = SessionId::new(number.into());
        for tokens in [&long[..], &long[..80]] {
            let request = RouteRequest::from_tokens(tokens).session(session, Stickiness::Advisory);
            held.push(fleet.router.route(&request).unwrap());
        }
    }
    let (from, of) = (ReplicaId::new(1), ReplicaId::new(0));
    let asks = PeerMessage::WantBookings { from, of, names: BookingName::ALL };
    fleet.router.receive_peer(asks);
    let (mut sessions, mut bookings) = (0, 0);
    for _ in 0..20 {
        for PeerEnvelope { message, .. } in fleet.router.poll_peers() {
            let mut bytes = Vec::new();
            message.encode(&PeerLimits::default(), &mut bytes).unwrap();
            assert!(bytes.len() <= 1_024, "{}", bytes.len());
            match message {
                PeerMessage::Sessions(gossip) => sessions += gossip.len(),
                PeerMessage::Bookings(part) => bookings += part.bookings.len(),
                _ => {}
            }
        }
    }
    assert_eq!((sessions, bookings), (40, 80));
    assert_eq!(fleet.router.stats().peers.shortened, 40);
}

/// Messages as small as they may be, and a journal that is soon full.
fn small(config: &mut RouterConfig) {
    let journal = config.journal.as_mut().unwrap();
    (journal.max_message_bytes, journal.max_pending) = (1_024, 8);
}

#[derive(Clone, Debug)]
enum Step {
    Route(usize, u32),
    Progress(usize, usize, u32),
    End(usize, usize),
    Poll(usize),
    /// Some message that is under way arrives, whichever was sent first.
    Arrive(usize),
    Wait(u32),
    /// A router hears nobody and is heard by nobody, until it is cut off no more.
    Cut(usize),
    Mend(usize),
    /// It starts anew and knows nothing.
    Restart(usize),
    /// One router takes a worker for gone, and notices later that it is not.
    Leave(usize, u64),
    Join(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let router = || 0..3_usize;
    let step = prop_oneof![
        8 => (router(), 0..12_u32).prop_map(|(router, prompt)| Step::Route(router, prompt)),
        4 => (router(), any::<usize>(), 0..5_u32).prop_map(|(router, at, blocks)| Step::Progress(router, at, blocks)),
        4 => (router(), any::<usize>()).prop_map(|(router, at)| Step::End(router, at)),
        4 => router().prop_map(Step::Poll),
        8 => any::<usize>().prop_map(Step::Arrive),
        2 => (0..2_000_u32).prop_map(Step::Wait),
        1 => router().prop_map(Step::Cut),
        1 => router().prop_map(Step::Mend),
        1 => router().prop_map(Step::Restart),
        1 => (router(), 0..4_u64).prop_map(|(router, id)| Step::Leave(router, id)),
        1 => (router(), 0..4_u64).prop_map(|(router, id)| Step::Join(router, id)),
    ];
    prop::collection::vec(step, 0..150)
}

struct World {
    fleets: Vec<Fleet>,
    lives: u64,
    held: Vec<Vec<Booking>>,
    wire: Vec<(usize, PeerMessage)>,
    is_cut: [bool; 3],
    /// Whether a message is lost, sent, or sent twice.
    luck: SplitMix64,
}

impl World {
    fn step(&mut self, step: Step) {
        let Self { fleets, held, .. } = self;
        match step {
            Step::Route(router, prompt) => {
                // Each block shared with half of the others.
                let tokens: Vec<u32> = (0..8).flat_map(|block| tokens(prompt >> block)).collect();
                let decision = fleets[router].router.route(&RouteRequest::from_tokens(&tokens));
                held[router].extend(decision.ok().map(|decision| decision.into_booking()));
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
            Step::Poll(from) => self.poll(from),
            Step::Arrive(at) if !self.wire.is_empty() => self.arrive(at),
            Step::Arrive(_) => {}
            Step::Wait(milliseconds) => self.wait(Duration::from_millis(milliseconds.into())),
            Step::Cut(router) => self.is_cut[router] = true,
            Step::Mend(router) => self.is_cut[router] = false,
            Step::Restart(router) => {
                self.lives += 1;
                held[router].clear();
                fleets[router] = fleet_of(router as u64, self.lives, 4, small);
            }
            Step::Leave(router, id) => {
                let _ = fleets[router].router.leave(worker(id));
            }
            Step::Join(router, id) => self.join(router, id),
        }
    }

    fn join(&self, router: usize, id: u64) {
        let router = &self.fleets[router].router;
        let _ = router.join(worker(id), WorkerSpec::new(router.scheme().block_size()));
    }

    fn poll(&mut self, from: usize) {
        for envelope in self.fleets[from].router.poll_peers() {
            for to in (0..3).filter(|&to| to != from && is_for(&envelope, to)) {
                let copies = match self.luck.next_u64() % 4 {
                    _ if self.is_cut[from] || self.is_cut[to] => 0,
                    0 => 0,
                    1 => 2,
                    _ => 1,
                };
                self.wire.extend((0..copies).map(|_| (to, envelope.message.clone())));
            }
        }
    }

    fn arrive(&mut self, at: usize) {
        let (to, message) = self.wire.swap_remove(at % self.wire.len());
        self.fleets[to].router.receive_peer(carried(&message));
    }

    fn wait(&self, by: Duration) {
        self.fleets.iter().for_each(|fleet| fleet.clock.advance(by));
    }

    /// All are connected for 20 seconds, over a network that loses, repeats and reorders as before.
    fn go_on(&mut self) {
        self.is_cut = [false; 3];
        for round in 0..200 {
            (0..3).for_each(|from| self.poll(from));
            while !self.wire.is_empty() {
                self.arrive(round * 7 + self.wire.len() / 2);
            }
            self.wait(Duration::from_millis(100));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever happened to three routers: they agree 20 seconds later, although a quarter of all messages gets lost, and
    /// all load ends at exactly zero.
    #[test]
    fn section_10_routers_heal_over_a_network_that_does_not(
        steps in steps(),
        seed in any::<u64>(),
    ) {
        let mut world = World {
            fleets: (0..3).map(|id| fleet_of(id, 1, 4, small)).collect(),
            lives: 1,
            held: vec![Vec::new(), Vec::new(), Vec::new()],
            wire: Vec::new(),
            is_cut: [false; 3],
            luck: SplitMix64::new(seed),
        };
        for step in steps {
            world.step(step);
        }
        (0..3).for_each(|router| (0..4).for_each(|id| world.join(router, id)));
        world.go_on();
        for other in 1..3 {
            prop_assert_eq!(loads(&world.fleets[0], 4), loads(&world.fleets[other], 4));
            prop_assert_eq!(world.fleets[other].router.stats().peers.behind, 0);
        }
        world.held.iter_mut().for_each(Vec::clear);
        world.go_on();
        for fleet in &world.fleets {
            prop_assert_eq!(loads(fleet, 4), vec![Some(WorkerLoad::default()); 4]);
            let load = fleet.router.stats().load;
            prop_assert_eq!((load.requests, load.peer_requests, load.prompt_blocks), (0, 0, 0));
        }
    }
}
