//! Batch frames: round trips, cut and damaged bytes, hostile lengths.

use crate::common::{batch, damage, reseal, seeded, spoil};
use kv_router_transport::{
    BatchCodec, DecodeError, EncodeError, EventBatch, Incarnation, WireField, WireLimits, WireLimitsError,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

fn encoded(batch: &EventBatch) -> Vec<u8> {
    let mut frame = Vec::new();
    BatchCodec::default().encode(batch, &mut frame).unwrap();
    frame
}

/// A batch with one event of each kind.
fn sample() -> EventBatch {
    let name = ExternalSequenceHash::new;
    let block = |n| StoredBlock::new(name(n), LocalBlockHash::new(n + 100));
    EventBatch {
        from: WorkerRank::from(WorkerId::new(7)),
        incarnation: Incarnation::new(3),
        sequence: 42,
        events: vec![
            KvEvent::Stored { tier: Tier::Device, parent: Some(name(1)), blocks: vec![block(2), block(3)] },
            KvEvent::Removed { tier: Tier::Disk, blocks: vec![name(2)] },
            KvEvent::Cleared,
        ],
    }
}

/// Where the parts of `sample` begin.
const STORED: usize = 16 + 32;
const REMOVED: usize = STORED + 16 + 2 * 16;
const CLEARED: usize = REMOVED + 16 + 8;

/// Decodes the sample with some bytes overwritten and the checksum made right again.
#[track_caller]
fn refused(at: usize, bytes: &[u8], expected: DecodeError) {
    let mut frame = encoded(&sample());
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    reseal(&mut frame);
    assert_eq!(BatchCodec::default().decode(&frame), Err(expected));
}

#[test]
fn the_fields_are_where_they_should_be() {
    let frame = encoded(&sample());
    assert_eq!(frame.len(), CLEARED + 16);
    assert_eq!([frame[STORED], frame[REMOVED], frame[CLEARED]], [0, 1, 2]);
}

#[test]
fn a_frame_cut_anywhere_is_truncated() {
    let frame = encoded(&sample());
    let mut fields = vec![];
    for cut in 0..frame.len() {
        match BatchCodec::default().decode(&frame[..cut]) {
            Err(DecodeError::Truncated { field, needed, left }) => {
                assert!(needed > left);
                fields.push(field);
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
    fields.dedup();
    assert_eq!(fields, [WireField::Header, WireField::Body]);
}

/// As above with a header that agrees with the cut: what is inside must notice.
#[test]
fn a_body_cut_anywhere_is_truncated() {
    let frame = encoded(&sample());
    let mut fields = vec![];
    for cut in 16..frame.len() {
        let mut cut_frame = frame[..cut].to_vec();
        reseal(&mut cut_frame);
        match BatchCodec::default().decode(&cut_frame) {
            Err(DecodeError::Truncated { field, needed, left }) => {
                assert!(needed > left);
                fields.push(field);
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
    }
    fields.dedup();
    use WireField::{BatchHead, Blocks, Events, RecordHead};
    assert_eq!(fields, [BatchHead, Events, RecordHead, Blocks, RecordHead]);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let frame = encoded(&sample());
    for at in 0..frame.len() {
        for mask in 1..=u8::MAX {
            let mut frame = frame.clone();
            frame[at] ^= mask;
            assert!(BatchCodec::default().decode(&frame).is_err(), "byte {at} with {mask:02x}");
        }
    }
}

#[test]
fn a_foreign_or_newer_frame_is_named() {
    let decode = |bytes: &[u8]| BatchCodec::default().decode(bytes).unwrap_err();
    assert_eq!(decode(b"GET / HTTP/1.1\r\n"), DecodeError::BadMagic { found: *b"GET " });
    assert_eq!(decode(b"X"), DecodeError::BadMagic { found: [b'X', 0, 0, 0] });
    assert_eq!(decode(b"KV"), DecodeError::Truncated { field: WireField::Header, needed: 16, left: 2 });
    refused(4, &[3, 0], DecodeError::UnsupportedVersion { found: 3, supported: 2 });
    refused(6, &[9], DecodeError::InvalidTag { field: WireField::Kind, found: 9 });
    refused(6, &[2], DecodeError::InvalidValue { field: WireField::Kind, found: 2 });
    refused(7, &[1], DecodeError::InvalidValue { field: WireField::Flags, found: 1 });
}

#[test]
fn a_damaged_frame_is_named() {
    let mut frame = encoded(&sample());
    frame[20] ^= 1;
    let error = BatchCodec::default().decode(&frame).unwrap_err();
    assert!(matches!(error, DecodeError::ChecksumMismatch { stated, computed } if stated != computed));
    frame[20] ^= 1;
    frame.extend([0, 0]);
    let error = BatchCodec::default().decode(&frame).unwrap_err();
    assert_eq!(error, DecodeError::TrailingBytes { field: WireField::Frame, count: 2 });
}

#[test]
fn what_is_wrong_inside_is_named() {
    let value = |field, found| DecodeError::InvalidValue { field, found };
    let tag = |field, found| DecodeError::InvalidTag { field, found };
    refused(STORED, &[3], tag(WireField::RecordKind, 3));
    refused(STORED, &[16], tag(WireField::RecordKind, 16)); // a dump's record
    refused(STORED + 1, &[4], tag(WireField::Tier, 4));
    refused(STORED + 2, &[2], tag(WireField::HasParent, 2));
    refused(STORED + 2, &[0], value(WireField::Parent, 1));
    refused(STORED + 3, &[1], value(WireField::Reserved, 1));
    refused(REMOVED + 1, &[255], tag(WireField::Tier, 255));
    refused(REMOVED + 2, &[1], value(WireField::HasParent, 1));
    refused(REMOVED + 8, &[5], value(WireField::Parent, 5));
    refused(CLEARED + 1, &[1], value(WireField::Tier, 1));
    refused(CLEARED + 4, &[1], value(WireField::Blocks, 1));
    refused(CLEARED + 8, &[1], value(WireField::Parent, 1));
    // One event fewer than there are.
    refused(16 + 28, &[2], DecodeError::TrailingBytes { field: WireField::Body, count: 16 });
}

/// Counts are checked against the bytes that are there before anything is allocated for them, so even limits
/// that allow everything do not let a tiny frame claim much.
#[test]
fn a_tiny_frame_cannot_claim_much() {
    let huge = u32::MAX.to_le_bytes();
    let limits = WireLimits { frame_bytes: u32::MAX as usize, events: usize::MAX, blocks: 1 << 27 };
    let codec = BatchCodec::new(limits).unwrap();
    let claim = |at: usize, number: u32| {
        let mut frame = encoded(&sample());
        frame[at..at + 4].copy_from_slice(&number.to_le_bytes());
        reseal(&mut frame);
        codec.decode(&frame).unwrap_err()
    };
    let events = DecodeError::Truncated { field: WireField::Events, needed: (1 << 36) - 16, left: 88 };
    assert_eq!(claim(16 + 28, u32::MAX), events);
    let blocks = DecodeError::Truncated { field: WireField::Blocks, needed: 1 << 31, left: 72 };
    assert_eq!(claim(STORED + 4, 1 << 27), blocks);
    let blocks = DecodeError::Truncated { field: WireField::Blocks, needed: 1 << 30, left: 24 };
    assert_eq!(claim(REMOVED + 4, 1 << 27), blocks);
    // The frame's own length allocates nothing here, but is refused before it is waited for.
    let mut frame = encoded(&sample());
    frame[8..12].copy_from_slice(&huge);
    let error = BatchCodec::default().decode(&frame).unwrap_err();
    let (found, limit) = (u64::from(u32::MAX) + 16, 16 << 20);
    assert_eq!(error, DecodeError::TooLarge { field: WireField::Frame, found, limit });
}

#[test]
fn both_sides_keep_to_the_limits() {
    let codec = BatchCodec::new(WireLimits { frame_bytes: 160, events: 2, blocks: 3 }).unwrap();
    let with = |events: Vec<KvEvent>| EventBatch { events, ..sample() };
    let removed = |count: u64| KvEvent::Removed {
        tier: Tier::Host,
        blocks: (0..count).map(ExternalSequenceHash::new).collect(),
    };
    let stored = |count: u64| {
        let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
        KvEvent::Stored { tier: Tier::Host, parent: None, blocks: (0..count).map(block).collect() }
    };
    let check = |batch: EventBatch, field: WireField, found: u64, limit: u64| {
        let mut out = vec![1, 2, 3];
        assert_eq!(codec.encode(&batch, &mut out), Err(EncodeError::TooLarge { field, found, limit }));
        assert_eq!(out, [1, 2, 3], "nothing of a refused batch is written");
        let error = codec.decode(&encoded(&batch)).unwrap_err();
        assert_eq!(error, DecodeError::TooLarge { field, found, limit });
    };
    check(with(vec![KvEvent::Cleared; 3]), WireField::Events, 3, 2);
    check(with(vec![removed(4)]), WireField::Blocks, 4, 3);
    check(with(vec![stored(3), stored(3)]), WireField::Frame, 176, 160);

    let mut out = vec![1, 2, 3];
    let batch = with(vec![stored(3), removed(3)]);
    codec.encode(&batch, &mut out).unwrap();
    assert_eq!(codec.decode(&out[3..]), Ok(batch));
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let new = |frame_bytes, events, blocks| BatchCodec::new(WireLimits { frame_bytes, events, blocks }).err();
    assert_eq!(new(1000, 0, 1), Some(WireLimitsError::NoEvents));
    assert_eq!(new(1000, 1, 0), Some(WireLimitsError::NoBlocks));
    let needed = 64 + 16 * 100;
    assert_eq!(new(1663, 1, 100), Some(WireLimitsError::FrameTooSmall { frame_bytes: 1663, needed }));
    assert_eq!(new(1664, 1, 100), None);
    let frame_bytes = u32::MAX as usize + 1;
    assert_eq!(new(frame_bytes, 1, 1), Some(WireLimitsError::FrameAboveFormat { frame_bytes }));
    assert!(new(1000, 1, usize::MAX).is_some());
}

proptest! {
    #![proptest_config(seeded(2000))]

    #[test]
    fn what_is_encoded_decodes_to_the_same(batch in batch(8, 20)) {
        let frame = encoded(&batch);
        prop_assert_eq!(BatchCodec::default().decode(&frame), Ok(batch));
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(BatchCodec::default().decode(&bytes).is_err());
    }

    /// Arbitrary bodies in a proper envelope, mostly of small numbers, which are what the tags and counts are.
    #[test]
    fn arbitrary_bodies_never_panic(
        body in prop::collection::vec(prop_oneof![3 => 0u8..4, 1 => any::<u8>()], 0..200),
    ) {
        let mut frame = b"KVRT\x01\0\x01\0\0\0\0\0\0\0\0\0".to_vec();
        frame.extend(body);
        reseal(&mut frame);
        if let Ok(batch) = BatchCodec::default().decode(&frame) {
            prop_assert_eq!(encoded(&batch), frame);
        }
    }

    /// A damaged frame is refused, or the damage was undone.
    #[test]
    fn damage_is_noticed(batch in batch(4, 6), damages in prop::collection::vec(damage(), 1..4)) {
        let frame = encoded(&batch);
        let mut damaged = frame.clone();
        damages.iter().for_each(|damage| spoil(&mut damaged, damage));
        prop_assert_eq!(BatchCodec::default().decode(&damaged).is_ok(), damaged == frame);
    }

    /// With the checksum made right again the damage gets inside: no panic, and whatever decodes is the one value
    /// that these bytes stand for.
    #[test]
    fn damage_inside_never_panics(batch in batch(4, 6), damages in prop::collection::vec(damage(), 1..4)) {
        let mut damaged = encoded(&batch);
        damages.iter().for_each(|damage| spoil(&mut damaged, damage));
        reseal(&mut damaged);
        if let Ok(batch) = BatchCodec::default().decode(&damaged) {
            prop_assert_eq!(encoded(&batch), damaged);
        }
    }
}
