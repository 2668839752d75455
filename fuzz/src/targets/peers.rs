//! What routers over one fleet tell each other.

use std::ops::Range;
use std::time::Duration;

use kv_router::{
    JournalConfig, PeerLimits, PeerMessage, ReplicaId, ReplicaLife, RouteRequest, Router, SessionConfig,
    SessionGossip, SessionId, WorkerId, WorkerRank,
};
use kv_router_load::{BookingName, BookingsPart, DeltaBatch, LoadDelta, SharedBooking};
use kv_router_schedule::BindingVersion;
use kv_router_types::{DpRank, SequenceHash};

use super::fleet::{Hours, router};
use crate::input::{Choices, framed};
use crate::memory::within;
use crate::{seal, seeds};

const LIMITS: PeerLimits = PeerLimits { max_bytes: 8 << 10, max_records: 1_024 };

/// One message, as it is and with its checksum put right. What is read is written as it was, to the byte.
pub(super) fn message(bytes: &[u8]) {
    for message in [bytes, &seal::frame(bytes)] {
        let _ = decoded(message);
    }
}

fn decoded(bytes: &[u8]) -> Option<PeerMessage> {
    // A change is 9 bytes at least, and kept in 72, in a list that doubles.
    let message = within(bytes.len(), 24, || PeerMessage::decode(bytes, &LIMITS)).ok()?;
    let mut written = Vec::new();
    match message.encode(&LIMITS, &mut written) {
        Ok(()) => assert_eq!(written, bytes, "what was read is written otherwise"),
        Err(error) => panic!("what was read cannot be written: {error}"),
    }
    Some(message)
}

const REPLICAS: usize = 3;
const AHEAD: usize = 4;
const SESSIONS: usize = 8;
const REQUESTS: u32 = 16;
const DEAD_AFTER: u64 = 10_000;

/// Messages of few routers about few bookings, in any order, to a router that has some of its own. Whatever they say,
/// they are forgotten, and then the load is what it was without them.
pub(super) fn talk(bytes: &[u8]) {
    let (router, time) = router(&[1, 7], |config| {
        let life = ReplicaLife { replica: ReplicaId::new(0), life: 1 };
        let max_message_bytes = LIMITS.max_bytes;
        config.journal = Some(JournalConfig { max_message_bytes, ..JournalConfig::new(life) });
        config.sync.max_replicas = REPLICAS;
        config.sync.max_ahead = AHEAD;
        config.sync.dead_after = Duration::from_millis(DEAD_AFTER);
        (config.load.max_requests, config.load.max_peer_requests) = (REQUESTS, REQUESTS);
        config.sessions = SessionConfig { max_sessions: SESSIONS, ..SessionConfig::default() };
    });
    let mut choices = Choices::new(bytes);
    let mut own = Vec::new();
    while !choices.is_over() {
        match choices.below(8) {
            0..=2 => {
                router.receive_peer(deltas(&mut choices));
            }
            3 => {
                router.receive_peer(bookings(&mut choices));
            }
            4 => {
                let (from, of) = (replica(&mut choices), replica(&mut choices));
                let names = names(&mut choices);
                router.receive_peer(PeerMessage::WantBookings { from, of, names });
                router.receive_peer(sessions(&mut choices));
            }
            5 => {
                if let Some(message) = decoded(&seal::frame(choices.bytes())) {
                    router.receive_peer(message);
                }
            }
            6 => match choices.below(3) {
                0 => own.extend(router.route(&RouteRequest::from_tokens(&[1; 40])).ok()),
                1 => drop(own.pop()),
                _ => drop(router.forget_peer(replica(&mut choices))),
            },
            _ => {
                time.advance(u64::from(choices.byte()) * 64);
                sent(&router);
            }
        }
        bounded(&router);
    }
    own.clear();
    settled(&router, &time);
}

/// What goes out passes the limits of whoever reads it.
fn sent(router: &Router) {
    for envelope in router.poll_peers() {
        let mut bytes = Vec::new();
        match envelope.message.encode(&LIMITS, &mut bytes) {
            Ok(()) => assert_eq!(decoded(&bytes), Some(envelope.message)),
            Err(error) => panic!("{error}"),
        }
    }
}

fn bounded(router: &Router) {
    let stats = router.stats();
    assert!(stats.peers.replicas <= REPLICAS && stats.peers.bookings <= REQUESTS as usize, "{stats:?}");
    let most = u64::from(REQUESTS);
    assert!(stats.load.requests <= most && stats.load.peer_requests <= most, "{stats:?}");
    assert!(stats.sessions.bound + stats.sessions.unbound <= SESSIONS, "{stats:?}");
}

fn settled(router: &Router, time: &Hours) {
    time.advance(DEAD_AFTER);
    sent(router);
    let stats = router.stats();
    assert_eq!((stats.peers.replicas, stats.peers.bookings, stats.peers.ahead), (0, 0, 0));
    assert_eq!(
        (
            stats.load.requests,
            stats.load.peer_requests,
            stats.load.prompt_blocks,
            stats.load.peer_prompt_blocks,
            stats.load.prompt_runs
        ),
        (0, 0, 0, 0, 0),
        "{stats:?}"
    );
    for worker in [1, 7] {
        for rank in 0..2 {
            let rank = WorkerRank::new(WorkerId::new(worker), DpRank::new(rank));
            let load = router.load(rank).unwrap_or_default();
            assert_eq!((load.prefill_tokens, load.blocks, load.requests), (0, 0, 0), "{rank}");
        }
    }
}

fn replica(choices: &mut Choices<'_>) -> ReplicaId {
    ReplicaId::new(u64::from(choices.below(6)))
}

fn life(choices: &mut Choices<'_>) -> ReplicaLife {
    ReplicaLife { replica: replica(choices), life: choices.number() & 3 }
}

fn rank(choices: &mut Choices<'_>) -> WorkerRank {
    WorkerRank::new(WorkerId::new(choices.of(&[1, 7, 9])), DpRank::new(u32::from(choices.below(3))))
}

fn name(choices: &mut Choices<'_>) -> BookingName {
    BookingName::new(u64::from(choices.below(12)))
}

/// All of them, where the choices have run out.
fn names(choices: &mut Choices<'_>) -> Range<BookingName> {
    match choices.below(3) {
        0 => BookingName::ALL,
        1 => name(choices)..name(choices),
        _ => name(choices)..BookingName::ALL.end,
    }
}

fn booking(choices: &mut Choices<'_>) -> SharedBooking {
    let blocks = choices.below(5);
    SharedBooking {
        name: name(choices),
        worker: rank(choices),
        prefill_tokens: choices.number(),
        prompt_blocks: (0..blocks).map(|_| SequenceHash::new(u64::from(choices.below(6)))).collect(),
        private_blocks: choices.number() as u32,
        output_blocks: choices.number() as u32,
    }
}

fn deltas(choices: &mut Choices<'_>) -> PeerMessage {
    let (from, first, count) = (life(choices), choices.number(), choices.below(5));
    let deltas = (0..count).map(|_| match choices.below(4) {
        0 | 1 => LoadDelta::Booked(booking(choices)),
        2 => LoadDelta::Released { name: name(choices) },
        _ => LoadDelta::Progressed {
            name: name(choices),
            prefill_tokens: choices.number(),
            output_blocks: choices.number() as u32,
        },
    });
    PeerMessage::Deltas(DeltaBatch { from, first, deltas: deltas.collect() })
}

fn bookings(choices: &mut Choices<'_>) -> PeerMessage {
    let (from, next, count) = (life(choices), choices.number(), choices.below(6));
    let bookings = (0..count).map(|_| booking(choices)).collect();
    PeerMessage::Bookings(BookingsPart { from, next, names: names(choices), bookings })
}

fn sessions(choices: &mut Choices<'_>) -> PeerMessage {
    let count = choices.below(4);
    let sessions = (0..count).map(|_| SessionGossip {
        session: SessionId::new(u128::from(choices.below(12))),
        worker: (choices.below(3) > 0).then(|| rank(choices)),
        version: BindingVersion { count: choices.number(), replica: choices.number() },
        idle: Duration::from_nanos(choices.number()),
    });
    PeerMessage::Sessions(sessions.collect())
}

const EXAMPLES: [&str; 4] = ["peer-deltas", "peer-bookings", "peer-want", "peer-sessions"];

pub(super) fn message_seeds() -> Vec<Vec<u8>> {
    EXAMPLES.map(seeds::example).to_vec()
}

pub(super) fn talk_seeds() -> Vec<Vec<u8>> {
    let raw = EXAMPLES.map(|name| [vec![5], framed(&seeds::example(name))].concat()).concat();
    let booked: [u8; 14] = [0, 1, 1, 0, 1, 0, 2, 1, 0, 0, 48, 1, 2, 1];
    let all: [u8; 14] = [3, 2, 1, 4, 1, 2, 3, 0, 1, 20, 0, 1, 2, 1];
    let rest: [u8; 12] = [6, 0, 7, 20, 4, 1, 0, 1, 3, 0, 1, 5];
    vec![raw, [&booked[..], &all, &rest].concat(), [&all[..], &rest, &booked, &[7, 255, 6, 1]].concat()]
}
