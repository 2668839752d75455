//! Messages between routers as bytes: those that docs/wire.md shows, any others, and damaged ones.
//!
//! A change that makes the golden bytes fail is a breaking release with a new version number.

use std::time::Duration;

use kv_router::{
    BlockSize, PeerDecodeError, PeerEncodeError, PeerLimits, PeerMessage, ReplicaId, ReplicaLife,
    SessionGossip, SessionId, WorkerRank,
};
use kv_router_load::{BookingName, BookingsPart, DeltaBatch, LoadDelta, SharedBooking};
use kv_router_schedule::BindingVersion;
use kv_router_types::{DpRank, SequenceHash, WorkerId};
use proptest::prelude::*;

const WIRE: &str = include_str!("../../../../docs/wire.md");

/// The bytes of the code block marked `hex name`: two digits a byte, up to the comment of each line.
#[track_caller]
pub(crate) fn documented(name: &str) -> Vec<u8> {
    let fence = format!("```hex {name}\n");
    let start = WIRE.find(&fence).expect("the example is there") + fence.len();
    let block = &WIRE[start..start + WIRE[start..].find("```").expect("the example ends")];
    let digits = block.lines().filter_map(|line| line.split('#').next());
    digits
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"))
        .collect()
}

fn encode(message: &PeerMessage) -> Vec<u8> {
    let mut bytes = vec![7; 3]; // what was there is replaced
    message.encode(&PeerLimits::default(), &mut bytes).unwrap();
    bytes
}

fn decode(bytes: &[u8]) -> Result<PeerMessage, PeerDecodeError> {
    PeerMessage::decode(bytes, &PeerLimits::default())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

#[track_caller]
fn check(name: &str, message: &PeerMessage) {
    assert_eq!(hex(&encode(message)), hex(&documented(name)));
    assert_eq!(decode(&documented(name)).as_ref(), Ok(message));
}

fn booking() -> SharedBooking {
    SharedBooking {
        name: BookingName::new(9),
        worker: WorkerRank::new(WorkerId::new(7), DpRank::new(1)),
        prefill_tokens: 48,
        prompt_blocks: [1, 2].map(SequenceHash::new).to_vec(),
        private_blocks: 1,
        output_blocks: 0,
    }
}

fn part(bookings: Vec<SharedBooking>) -> BookingsPart {
    BookingsPart { from: life(), next: 17, names: BookingName::ALL, bookings }
}

fn life() -> ReplicaLife {
    ReplicaLife { replica: ReplicaId::new(3), life: 5 }
}

#[test]
fn deltas_are_as_documented() {
    let name = BookingName::new(9);
    let deltas = vec![
        LoadDelta::Booked(booking()),
        LoadDelta::Progressed { name, prefill_tokens: 0, output_blocks: 2 },
        LoadDelta::Released { name },
    ];
    check("peer-deltas", &PeerMessage::Deltas(DeltaBatch { from: life(), first: 16, deltas }));
}

#[test]
fn bookings_are_as_documented() {
    check("peer-bookings", &PeerMessage::Bookings(part(vec![booking()])));
}

#[test]
fn a_question_is_as_documented() {
    let (from, of) = (ReplicaId::new(4), ReplicaId::new(3));
    check("peer-want", &PeerMessage::WantBookings { from, of, names: BookingName::ALL });
}

#[test]
fn sessions_are_as_documented() {
    let version = BindingVersion { count: 6, replica: 3 };
    let bound = SessionGossip {
        session: SessionId::new(42),
        worker: Some(booking().worker),
        version,
        idle: Duration::from_micros(1),
    };
    let ended = SessionGossip { session: SessionId::new(1 << 64), worker: None, ..bound };
    check("peer-sessions", &PeerMessage::Sessions(vec![bound, ended]));
}

/// The same bytes with another checksum, so that what is behind it is looked at.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = kv_router_transport::crc32([&bytes[..12], &bytes[16..]]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn each_fault_is_told_apart() {
    let good = documented("peer-deltas");
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let is = |bytes: Vec<u8>, error| assert_eq!(decode(&bytes), Err(error));
    is(Vec::new(), PeerDecodeError::Truncated { missing: 16 });
    is(good[..20].to_vec(), PeerDecodeError::Truncated { missing: good.len() - 20 });
    is([&good[..], &[0, 0]].concat(), PeerDecodeError::TrailingBytes { extra: 2 });
    is(with(0, b'X'), PeerDecodeError::WrongMagic { found: *b"XVRP" });
    is(with(4, 1), PeerDecodeError::UnsupportedVersion { found: 1 });
    is(with(20, 99), PeerDecodeError::WrongChecksum);
    is(resealed(with(6, 9)), PeerDecodeError::UnknownKind { found: 9 });
    is(resealed(with(7, 1)), PeerDecodeError::ReservedNotZero);
    is(resealed(with(44, 3)), PeerDecodeError::UnknownRecord { found: 3 });
    // More changes than bytes, and bytes that no change takes.
    assert!(matches!(decode(&resealed(with(40, 200))), Err(PeerDecodeError::Truncated { .. })));
    assert!(matches!(decode(&resealed(with(40, 2))), Err(PeerDecodeError::TrailingBytes { .. })));
    // A prompt of four thousand million blocks.
    let mut long = good.clone();
    long[81..85].copy_from_slice(&[0xFF; 4]);
    assert!(matches!(decode(&resealed(long)), Err(PeerDecodeError::Truncated { .. })));
    // One that is unbound must not name a worker, and nothing is bound by halves.
    let mut sessions = documented("peer-sessions");
    let bound = 16 + 4 + 40;
    assert_eq!(sessions[bound], 1);
    for value in [0, 2] {
        sessions[bound] = value;
        assert_eq!(decode(&resealed(sessions.clone())), Err(PeerDecodeError::ReservedNotZero));
    }
}

#[test]
fn limits_hold_on_both_sides() {
    let message = PeerMessage::Bookings(part(vec![booking(); 3]));
    let bytes = encode(&message);
    let refused = |limits: &PeerLimits| {
        let mut out = vec![1];
        let error = message.encode(limits, &mut out).unwrap_err();
        assert!(out.is_empty());
        (error, PeerMessage::decode(&bytes, limits).unwrap_err())
    };
    let few = PeerLimits { max_records: 2, ..PeerLimits::default() };
    assert_eq!(
        refused(&few),
        (
            PeerEncodeError::TooManyRecords { records: 3, limit: 2 },
            PeerDecodeError::TooManyRecords { records: 3, limit: 2 },
        )
    );
    let small = PeerLimits { max_bytes: bytes.len() - 1, ..PeerLimits::default() };
    assert_eq!(
        refused(&small),
        (
            PeerEncodeError::TooLarge { bytes: bytes.len(), limit: bytes.len() - 1 },
            PeerDecodeError::TooLarge { bytes: bytes.len(), limit: bytes.len() - 1 },
        )
    );
    let exact = PeerLimits { max_bytes: bytes.len(), max_records: 3 };
    assert_eq!(PeerMessage::decode(&bytes, &exact), Ok(message));
    assert!(BlockSize::new(16).is_ok());
}

fn messages() -> impl Strategy<Value = PeerMessage> {
    let life = (any::<u64>(), any::<u64>())
        .prop_map(|(replica, life)| ReplicaLife { replica: ReplicaId::new(replica), life });
    let names =
        (any::<u64>(), any::<u64>()).prop_map(|(start, end)| BookingName::new(start)..BookingName::new(end));
    let rank = (any::<u64>(), any::<u32>())
        .prop_map(|(worker, rank)| WorkerRank::new(WorkerId::new(worker), DpRank::new(rank)));
    let booking = (
        any::<u64>(),
        rank.clone(),
        any::<u64>(),
        prop::collection::vec(any::<u64>(), 0..5),
        any::<u32>(),
        any::<u32>(),
    )
        .prop_map(|(name, worker, prefill_tokens, blocks, private_blocks, output_blocks)| {
            SharedBooking {
                name: BookingName::new(name),
                worker,
                prefill_tokens,
                prompt_blocks: blocks.into_iter().map(SequenceHash::new).collect(),
                private_blocks,
                output_blocks,
            }
        });
    let delta = prop_oneof![
        booking.clone().prop_map(LoadDelta::Booked),
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(name, prefill_tokens, output_blocks)| {
            LoadDelta::Progressed { name: BookingName::new(name), prefill_tokens, output_blocks }
        }),
        any::<u64>().prop_map(|name| LoadDelta::Released { name: BookingName::new(name) }),
    ];
    let gossip = (any::<u128>(), prop::option::of(rank), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(session, worker, count, replica, idle)| SessionGossip {
            session: SessionId::new(session),
            worker,
            version: BindingVersion { count, replica },
            idle: Duration::from_nanos(idle),
        },
    );
    prop_oneof![
        (life.clone(), any::<u64>(), prop::collection::vec(delta, 0..5))
            .prop_map(|(from, first, deltas)| PeerMessage::Deltas(DeltaBatch { from, first, deltas })),
        (life, any::<u64>(), names.clone(), prop::collection::vec(booking, 0..5)).prop_map(
            |(from, next, names, bookings)| {
                PeerMessage::Bookings(BookingsPart { from, next, names, bookings })
            }
        ),
        (any::<u64>(), any::<u64>(), names).prop_map(|(from, of, names)| PeerMessage::WantBookings {
            from: ReplicaId::new(from),
            of: ReplicaId::new(of),
            names,
        }),
        prop::collection::vec(gossip, 0..5).prop_map(PeerMessage::Sessions),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(message in messages()) {
        let bytes = encode(&message);
        prop_assert_eq!(decode(&bytes), Ok(message));
    }

    /// One value has one encoding: damage that the checksum does not see, because it was sealed anew, is another message
    /// that is written the same way, or it is refused.
    #[test]
    fn damage_is_refused_or_another_message(message in messages(), at in any::<usize>(), bit in 0..8_u8, cut in any::<usize>()) {
        let mut bytes = encode(&message);
        let length = bytes.len();
        bytes[at % length] ^= 1 << bit;
        prop_assert!(decode(&bytes).is_err());
        let sealed = resealed(bytes.clone());
        if let Ok(other) = decode(&sealed) {
            prop_assert_eq!(encode(&other), sealed);
        }
        prop_assert!(decode(&bytes[..cut % length]).is_err());
    }

    #[test]
    fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..6_u8) {
        let mut framed = [&b"KVRP\x02\0"[..], &[kind, 0], &(bytes.len() as u32).to_le_bytes(), &[0; 4], &bytes].concat();
        framed = resealed(framed);
        if let Ok(message) = decode(&framed) {
            prop_assert_eq!(encode(&message), framed);
        }
        let _ = decode(&bytes);
    }
}
