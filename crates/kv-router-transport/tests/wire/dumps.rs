//! Dumps: round trips, cut, damaged and shuffled files, bounded memory.

use std::io::{self, Read, Write};

use crate::common::{damage, event, rank, reseal, seeded, spoil};
use kv_router_transport::{
    DecodeError, DumpFingerprint, DumpReadError, DumpReader, DumpRecord, DumpWriteError, DumpWriter,
    FrameHash, Incarnation, Watermark, WireField, WireLimits,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

const FINGERPRINT: DumpFingerprint = DumpFingerprint::new(0xF00D);

fn put<W: Write>(writer: &mut DumpWriter<W>, record: &DumpRecord) -> Result<(), DumpWriteError> {
    match record {
        DumpRecord::Event { from, event } => writer.event(*from, event),
        DumpRecord::Watermark { from, watermark } => writer.watermark(*from, *watermark),
        DumpRecord::Note { from, bytes } => writer.note(*from, bytes),
    }
}

fn written(records: &[DumpRecord], limits: WireLimits) -> Vec<u8> {
    let mut writer = DumpWriter::with_limits(Vec::new(), FINGERPRINT, limits).unwrap();
    records.iter().for_each(|record| put(&mut writer, record).unwrap());
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<DumpRecord>, DumpReadError> {
    DumpReader::new(bytes)?.collect()
}

/// What went wrong, and where.
fn fault(bytes: &[u8]) -> (u64, DecodeError) {
    match read(bytes) {
        Err(DumpReadError::Malformed { offset, source }) => (offset, source),
        other => panic!("{other:?}"),
    }
}

fn small() -> WireLimits {
    WireLimits { frame_bytes: 64 + 16 * 6, events: 1, blocks: 6 }
}

fn record() -> impl Strategy<Value = DumpRecord> {
    let frame = prop::option::of(any::<u64>().prop_map(FrameHash::new));
    let mark = (rank(), any::<u64>(), any::<u64>(), frame).prop_map(|(from, life, sequence, frame)| {
        let watermark = Watermark { frame, ..Watermark::new(Incarnation::new(life), sequence) };
        DumpRecord::Watermark { from, watermark }
    });
    let event = (rank(), event(6)).prop_map(|(from, event)| DumpRecord::Event { from, event });
    let note = (rank(), prop::collection::vec(any::<u8>(), 0..=96));
    let note = note.prop_map(|(from, bytes)| DumpRecord::Note { from, bytes });
    prop_oneof![1 => mark, 6 => event, 2 => note]
}

/// Records of a dump that somebody could have written: a rank has one watermark.
fn records(most: usize) -> impl Strategy<Value = Vec<DumpRecord>> {
    prop::collection::vec(record(), 0..most).prop_map(|mut records| {
        let mut marked = std::collections::BTreeSet::new();
        records.retain(|record| match record {
            DumpRecord::Watermark { from, .. } => marked.insert(*from),
            _ => true,
        });
        records
    })
}

/// Enough records for several chunks under small limits.
fn sample() -> Vec<DumpRecord> {
    let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
    let event = |worker: u64, n| DumpRecord::Event {
        from: WorkerRank::from(WorkerId::new(worker)),
        event: KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block(n), block(n + 1)] },
    };
    let mark = |worker: u64| DumpRecord::Watermark {
        from: WorkerRank::from(WorkerId::new(worker)),
        watermark: Watermark::new(Incarnation::new(1), 10 * worker),
    };
    vec![mark(1), mark(2), event(1, 10), event(1, 20), event(2, 10), event(1, 30), event(2, 40)]
}

#[test]
fn a_note_above_the_limit_is_refused_by_both_sides() {
    let from = WorkerRank::from(WorkerId::new(1));
    let mut writer = DumpWriter::with_limits(Vec::new(), FINGERPRINT, small()).unwrap();
    assert!(matches!(writer.note(from, &[7; 97]), Err(DumpWriteError::Encode(_))));
    assert!(
        matches!(writer.note(from, &[7; 96]), Err(DumpWriteError::Broken)),
        "or the note would be lacking"
    );
    assert!(matches!(writer.finish(), Err(DumpWriteError::Broken)));
    let bytes = written(&[DumpRecord::Note { from, bytes: vec![7; 97] }], WireLimits::default());
    let error = DumpReader::with_limits(&bytes[..], small()).unwrap().next().unwrap().unwrap_err();
    let DumpReadError::Malformed { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source, DecodeError::TooLarge { field: WireField::Note, found: 97, limit: 96 });
}

/// Where each frame begins.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![];
    let mut at = 0;
    while at < bytes.len() {
        starts.push(at);
        at += 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    starts
}

#[test]
fn an_empty_dump_is_whole() {
    let bytes = written(&[], WireLimits::default());
    assert_eq!(frames(&bytes).len(), 2);
    let reader = DumpReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.fingerprint(), FINGERPRINT);
    assert_eq!(reader.count(), 0);
}

#[test]
fn a_dump_cut_anywhere_is_an_error_with_its_place() {
    let bytes = written(&sample(), small());
    let starts = frames(&bytes);
    assert!(starts.len() > 4, "several chunks");
    for cut in 0..bytes.len() {
        let (offset, error) = fault(&bytes[..cut]);
        let frame = *starts.iter().rfind(|&&start| start <= cut).unwrap();
        assert_eq!(offset, frame as u64, "cut at {cut}");
        let DecodeError::Truncated { field, .. } = error else { panic!("cut at {cut}: {error:?}") };
        let expected = match cut - frame {
            0 if frame == 0 => WireField::DumpStart,
            0 => WireField::DumpEnd,
            1..16 => WireField::Header,
            _ => WireField::Body,
        };
        assert_eq!(field, expected, "cut at {cut}");
    }
}

#[test]
fn a_writer_that_is_dropped_leaves_no_dump() {
    let mut bytes = Vec::new();
    let mut writer = DumpWriter::new(&mut bytes, FINGERPRINT).unwrap();
    sample().iter().for_each(|record| put(&mut writer, record).unwrap());
    drop(writer);
    assert_eq!(fault(&bytes).1, DecodeError::Truncated { field: WireField::DumpEnd, needed: 16, left: 0 });
}

#[test]
fn every_flipped_byte_is_noticed() {
    let bytes = written(&sample(), small());
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xFF] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            assert!(read(&bytes).is_err(), "byte {at} with {mask:02x}");
        }
    }
}

#[test]
fn chunks_lost_repeated_or_swapped_are_noticed() {
    let bytes = written(&sample(), small());
    let starts = frames(&bytes);
    let frame = |n: usize| &bytes[starts[n]..starts.get(n + 1).copied().unwrap_or(bytes.len())];
    let join = |order: &[usize]| order.iter().flat_map(|&n| frame(n).to_vec()).collect::<Vec<u8>>();
    let last = starts.len() - 1;
    let all: Vec<usize> = (0..=last).collect();
    assert_eq!(join(&all), bytes);

    let out_of_place =
        |stated, counted| DecodeError::CountMismatch { field: WireField::ChunkIndex, stated, counted };
    let without = |n| all.iter().copied().filter(|&m| m != n).collect::<Vec<_>>();
    assert_eq!(fault(&join(&without(1))).1, out_of_place(1, 0));
    let chunks = (last - 1) as u64;
    let lost_last =
        DecodeError::CountMismatch { field: WireField::ChunkCount, stated: chunks, counted: chunks - 1 };
    assert_eq!(fault(&join(&without(last - 1))).1, lost_last);
    assert_eq!(fault(&join(&[0, 1, 1])).1, out_of_place(0, 1));
    assert_eq!(fault(&join(&[0, 2, 1])).1, out_of_place(1, 0));
    let misplaced = |found| DecodeError::InvalidValue { field: WireField::Kind, found };
    assert_eq!(fault(&join(&[1])).1, misplaced(3));
    assert_eq!(fault(&join(&[last])).1, misplaced(4));
    assert_eq!(fault(&join(&[0, 0])).1, misplaced(2));
    assert_eq!(fault(b"PK\x03\x04").1, DecodeError::BadMagic { found: *b"PK\x03\x04" });
}

#[test]
fn a_record_before_its_rank_is_named_with_its_place() {
    let from = WorkerRank::from(WorkerId::new(1));
    let event = DumpRecord::Event { from, event: KvEvent::Cleared };
    let mut bytes = written(&vec![event; 20], small());
    // The second chunk: the rank of the first one is over with it.
    let [chunk, end] = frames(&bytes)[2..4] else { panic!("two chunks") };
    // Takes the rank record out of the chunk.
    let rank_at = chunk + 16 + 8;
    assert_eq!(bytes[rank_at], 16);
    bytes.drain(rank_at..rank_at + 16);
    reseal(&mut bytes[chunk..end - 16]);
    let (offset, error) = fault(&bytes);
    assert_eq!((offset, error), (rank_at as u64, DecodeError::Missing { field: WireField::Rank }));
}

#[test]
fn a_watermark_has_the_hash_of_a_frame_or_zeros() {
    let from = WorkerRank::from(WorkerId::new(1));
    let mark = |watermark| written(&[DumpRecord::Watermark { from, watermark }], WireLimits::default());
    let (with, without) =
        (mark(Watermark::of_frame(7, FrameHash::of(b"seven"))), mark(Watermark::new(Incarnation::new(3), 7)));
    let refused = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        let [chunk, end] = frames(&bytes)[1..3] else { panic!("one chunk") };
        bytes[chunk + 24 + at] = value;
        reseal(&mut bytes[chunk..end]);
        fault(&bytes).1
    };
    let has = |found| DecodeError::InvalidTag { field: WireField::HasFrame, found };
    assert_eq!((refused(&with, 2, 2), refused(&without, 2, 9)), (has(2), has(9)));
    let unused = DecodeError::InvalidValue { field: WireField::FrameHash, found: 5 << 8 };
    assert_eq!(refused(&without, 33, 5), unused);
}

/// A rank is in one place of its stream: of two watermarks nobody knows which one its events go up to.
#[test]
fn a_rank_has_one_watermark() {
    let [one, two] = [1, 2].map(|worker| WorkerRank::from(WorkerId::new(worker)));
    let mark = |sequence| Watermark::new(Incarnation::new(1), sequence);
    let mut writer = DumpWriter::new(Vec::new(), FINGERPRINT).unwrap();
    writer.watermark(one, mark(7)).unwrap();
    writer.event(one, &KvEvent::Cleared).unwrap();
    writer.watermark(two, mark(7)).unwrap();
    let refused = writer.watermark(one, mark(8)).unwrap_err();
    assert!(matches!(refused, DumpWriteError::RepeatedWatermark { rank } if rank == one), "{refused}");
    assert!(matches!(writer.finish(), Err(DumpWriteError::Broken)));

    let marks = [one, two].map(|from| DumpRecord::Watermark { from, watermark: mark(7) });
    for limits in [WireLimits::default(), small()] {
        let mut bytes = written(&marks, limits);
        assert_eq!(read(&bytes).unwrap(), marks);
        // The second one becomes one of the first rank, though in another chunk.
        let at = bytes.len() - 40 - 40;
        assert_eq!(bytes[at], 17);
        bytes[at + 8] = 1;
        let starts = frames(&bytes);
        let [.., chunk, end] = starts[..] else { panic!("a chunk and an end") };
        reseal(&mut bytes[chunk..end]);
        assert_eq!(fault(&bytes), (at as u64, DecodeError::RepeatedWatermark { rank: one }));
    }
}

#[test]
fn what_the_end_counts_must_be_there() {
    let bytes = written(&sample(), WireLimits::default());
    let end = *frames(&bytes).last().unwrap();
    for (field, at, stated) in
        [(WireField::ChunkCount, 16, 9), (WireField::EventCount, 24, 9), (WireField::WatermarkCount, 32, 9)]
    {
        let mut bytes = bytes.clone();
        bytes[end + at] = 9;
        reseal(&mut bytes[end..]);
        let (_, error) = fault(&bytes);
        assert!(
            matches!(error, DecodeError::CountMismatch { field: f, stated: s, .. } if f == field && s == stated)
        );
    }
}

#[test]
fn an_iterator_that_failed_is_over() {
    let bytes = written(&sample(), small());
    let mut reader = DumpReader::new(&bytes[..bytes.len() - 1]).unwrap();
    let outcomes: Vec<bool> = reader.by_ref().map(|record| record.is_ok()).collect();
    assert_eq!(outcomes.iter().filter(|ok| !**ok).count(), 1);
    assert_eq!(outcomes.last(), Some(&false));
    assert!(reader.next().is_none());
}

#[test]
fn what_is_behind_a_dump_stays_in_the_source() {
    let mut bytes = written(&sample(), WireLimits::default());
    bytes.extend(b"next");
    let mut reader = DumpReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).collect::<Vec<_>>(), sample());
    assert_eq!(reader.into_inner(), b"next");
}

#[test]
fn a_long_chain_is_split_and_means_the_same() {
    let name = ExternalSequenceHash::new;
    let block = |n| StoredBlock::new(name(n), LocalBlockHash::new(n));
    let from = WorkerRank::from(WorkerId::new(1));
    let stored = |parent, range: std::ops::Range<u64>| DumpRecord::Event {
        from,
        event: KvEvent::Stored { tier: Tier::Host, parent, blocks: range.map(block).collect() },
    };
    let removed = |range: std::ops::Range<u64>| DumpRecord::Event {
        from,
        event: KvEvent::Removed { tier: Tier::Disk, blocks: range.map(name).collect() },
    };
    let bytes = written(&[stored(Some(name(99)), 0..14), removed(0..7)], small());
    let expected = [
        stored(Some(name(99)), 0..6),
        stored(Some(name(5)), 6..12),
        stored(Some(name(11)), 12..14),
        removed(0..6),
        removed(6..7),
    ];
    assert_eq!(read(&bytes).unwrap(), expected);
    let reader = DumpReader::with_limits(&bytes[..], small()).unwrap();
    assert_eq!(reader.count(), 5, "no frame is above the limits it was written with");
}

/// A sink or source that fails after some bytes.
struct Failing<T>(T, usize);

impl<W: Write> Write for Failing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = bytes.len().min(self.1);
        if room == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.1 -= room;
        self.0.write(&bytes[..room])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<R: Read> Read for Failing<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let room = bytes.len().min(self.1);
        if room == 0 {
            return Err(io::Error::from(io::ErrorKind::ConnectionReset));
        }
        self.1 -= room;
        self.0.read(&mut bytes[..room])
    }
}

#[test]
fn a_sink_that_fails_breaks_the_dump_for_good() {
    let mut bytes = Vec::new();
    let mut writer = DumpWriter::with_limits(Failing(&mut bytes, 300), FINGERPRINT, small()).unwrap();
    let mut outcomes = sample().into_iter().map(|record| put(&mut writer, &record));
    assert!(matches!(outcomes.find(Result::is_err), Some(Err(DumpWriteError::Io(_)))));
    assert!(matches!(outcomes.next(), Some(Err(DumpWriteError::Broken))));
    drop(outcomes);
    assert!(matches!(writer.finish(), Err(DumpWriteError::Broken)));
    assert!(read(&bytes).is_err());
    assert!(matches!(DumpWriter::new(Failing(vec![], 3), FINGERPRINT), Err(DumpWriteError::Io(_))));
}

#[test]
fn a_source_that_fails_says_where() {
    let bytes = written(&sample(), small());
    for limit in [0, 7, 16, 100, bytes.len() - 1] {
        let error = DumpReader::new(Failing(&bytes[..], limit))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .unwrap_err();
        assert!(matches!(error, DumpReadError::Io { .. }), "{error}");
        assert_eq!(error.offset(), limit as u64);
    }
}

/// A frame that announces gigabytes is refused by its header; one that announces what is allowed gets a buffer
/// for what comes, not for what it says.
#[test]
fn a_tiny_dump_cannot_claim_much() {
    let mut bytes = written(&[], WireLimits::default());
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (found, limit) = (u64::from(u32::MAX) + 16, 16 << 20);
    assert_eq!(fault(&bytes), (0, DecodeError::TooLarge { field: WireField::Frame, found, limit }));
    bytes[8..12].copy_from_slice(&0x00FF_0000u32.to_le_bytes());
    let left = bytes.len() as u64 - 16;
    let truncated = DecodeError::Truncated { field: WireField::Body, needed: 0x00FF_0000, left };
    assert_eq!(fault(&bytes), (0, truncated));
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let limits = WireLimits { frame_bytes: 10, ..WireLimits::default() };
    let writer = DumpWriter::with_limits(Vec::new(), FINGERPRINT, limits);
    assert!(matches!(writer, Err(DumpWriteError::Limits(_))));
    let reader = DumpReader::with_limits(&b""[..], limits);
    assert!(matches!(reader, Err(DumpReadError::Limits(_))));
}

proptest! {
    #![proptest_config(seeded(1000))]

    #[test]
    fn what_is_written_reads_the_same(records in records(60), tight: bool) {
        let limits = if tight { small() } else { WireLimits::default() };
        let bytes = written(&records, limits);
        let frames = frames(&bytes);
        let longest = frames.windows(2).map(|pair| pair[1] - pair[0]).max();
        prop_assert!(longest <= Some(limits.frame_bytes));
        prop_assert_eq!(read(&bytes).unwrap(), records);
    }

    /// A damaged dump fails, or the damage was undone, or stands behind the end.
    #[test]
    fn damage_is_noticed(
        records in records(30), damages in prop::collection::vec(damage(), 1..4),
    ) {
        let whole = written(&records, small());
        let mut damaged = whole.clone();
        damages.iter().for_each(|damage| spoil(&mut damaged, damage));
        prop_assert_eq!(read(&damaged).is_ok(), damaged.starts_with(&whole));
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
    }

    /// Arbitrary bodies in proper envelopes, behind a proper start.
    #[test]
    fn arbitrary_bodies_never_panic(
        kind in 1u8..5,
        body in prop::collection::vec(prop_oneof![3 => 0u8..3, 1 => 16u8..18, 1 => any::<u8>()], 0..200),
    ) {
        let mut bytes = written(&[], WireLimits::default());
        bytes.truncate(frames(&bytes)[1]);
        let at = bytes.len();
        bytes.extend(b"KVRT\x01\0");
        bytes.extend([kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(body);
        reseal(&mut bytes[at..]);
        prop_assert!(read(&bytes).is_err() || kind == 4, "only an end frame can end a dump");
    }
}
