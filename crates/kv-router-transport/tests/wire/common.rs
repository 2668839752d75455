//! Arbitrary batches, and what every test of bytes needs.

use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same bytes each time: a failure is of the change that shows it.
pub(crate) fn seeded(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { rng_seed, failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

pub(crate) fn rank() -> impl Strategy<Value = WorkerRank> {
    // Few ranks too, so that neighbours in a dump often share one.
    let few = (0u64..3, 0u32..2);
    prop_oneof![few, any::<(u64, u32)>()]
        .prop_map(|(worker, rank)| WorkerRank::new(WorkerId::new(worker), DpRank::new(rank)))
}

pub(crate) fn event(blocks: usize) -> impl Strategy<Value = KvEvent> {
    let tier = || prop::sample::select(&Tier::ALL[..]);
    let name = || any::<u64>().prop_map(ExternalSequenceHash::new);
    let block = (name(), any::<u64>())
        .prop_map(|(external, local)| StoredBlock::new(external, LocalBlockHash::new(local)));
    prop_oneof![
        4 => (tier(), prop::option::of(name()), prop::collection::vec(block, 0..=blocks))
            .prop_map(|(tier, parent, blocks)| KvEvent::Stored { tier, parent, blocks }),
        4 => (tier(), prop::collection::vec(name(), 0..=blocks))
            .prop_map(|(tier, blocks)| KvEvent::Removed { tier, blocks }),
        1 => Just(KvEvent::Cleared),
    ]
}

pub(crate) fn batch(events: usize, blocks: usize) -> impl Strategy<Value = EventBatch> {
    (rank(), any::<u64>(), any::<u64>(), prop::collection::vec(event(blocks), 0..=events)).prop_map(
        |(from, incarnation, sequence, events)| EventBatch {
            from,
            incarnation: Incarnation::new(incarnation),
            sequence,
            events,
        },
    )
}

/// One change to some bytes: what a bad link, a bad disk or a bad peer makes of them.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Drop(prop::sample::Index),
    Insert(prop::sample::Index, u8),
    /// A length or count of the worst sizes.
    Number(prop::sample::Index, u32),
    Repeat(prop::sample::Index, prop::sample::Index),
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), 1u8..).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        1 => at().prop_map(Damage::Cut),
        1 => at().prop_map(Damage::Drop),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        2 => (at(), prop::sample::select(vec![0, 1, 0x7FFF_FFFF, 0x8000_0000, u32::MAX]))
            .prop_map(|(at, number)| Damage::Number(at, number)),
        1 => (at(), at()).prop_map(|(from, to)| Damage::Repeat(from, to)),
    ]
}

pub(crate) fn spoil(bytes: &mut Vec<u8>, damage: &Damage) {
    let len = bytes.len();
    if len == 0 {
        return;
    }
    match damage {
        Damage::Flip(at, mask) => bytes[at.index(len)] ^= mask,
        Damage::Cut(at) => bytes.truncate(at.index(len)),
        Damage::Drop(at) => {
            bytes.remove(at.index(len));
        }
        Damage::Insert(at, byte) => bytes.insert(at.index(len), *byte),
        Damage::Number(at, number) => {
            let at = at.index(len);
            let end = len.min(at + 4);
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
        }
        Damage::Repeat(from, to) => {
            let (from, to) = (from.index(len), to.index(len));
            let piece = bytes[from.min(to)..from.max(to)].to_vec();
            bytes.extend(piece);
        }
    }
}

/// The checksum of the format, computed bit by bit: the oracle of the one in the product.
pub(crate) fn crc32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    !bytes.into_iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 }
            },
        )
    })
}

/// Makes the length and the checksum of a single frame right again, so that what is wrong inside is reached.
pub(crate) fn reseal(frame: &mut [u8]) {
    if frame.len() < 16 {
        return;
    }
    let body_bytes = u32::try_from(frame.len() - 16).expect("a small frame");
    frame[8..12].copy_from_slice(&body_bytes.to_le_bytes());
    let checksum = crc32(frame[..12].iter().chain(&frame[16..]).copied());
    frame[12..16].copy_from_slice(&checksum.to_le_bytes());
}
