//! What needs to look inside: growth, crafted collisions, hostile bytes, golden bytes.

use std::collections::BTreeSet;

use kv_router_types::SequenceHash;
use proptest::prelude::*;

use super::bucket::LANES;
use super::delta::{Change, SummaryDelta, SummaryEpoch, SummaryPosition, SummaryVersion};
use super::frame::{self, FrameError};
use super::geometry::Geometry;
use super::table::Table;
use super::tag::Tag;
use super::{CuckooFilter, CuckooPublisher, CuckooReplica, DeltaDecodeError, DeltaError, SnapshotError};

const FILTER: [u8; 4] = *b"KVCF";

fn hash(raw: u64) -> SequenceHash {
    SequenceHash::new(raw)
}

fn filled(hashes: std::ops::Range<u64>) -> CuckooFilter {
    let mut filter = CuckooFilter::new();
    hashes.for_each(|raw| filter.insert(hash(raw)).unwrap());
    filter
}

/// Tags of one fingerprint whose homes agree in the low `bits` bits.
fn colliding(bits: u32, count: u32) -> Vec<Tag> {
    let tag = |n: u32| Tag::at(0x0AA_5550 & ((1 << bits) - 1) | n << bits, 0x1234);
    let tags: BTreeSet<Tag> = (0..count).map(tag).collect();
    assert_eq!(tags.len(), count as usize);
    tags.into_iter().collect()
}

proptest! {
    /// Growing by any steps ends in a table as good as one of that size from the start.
    #[test]
    fn growth_keeps_every_tag_findable(
        raws in prop::collection::btree_set(any::<u64>(), 0..200),
        steps in prop::collection::vec(1usize..40, 0..12),
    ) {
        let mut table = Table::new(Geometry::of(64));
        let tags: BTreeSet<Tag> = raws.into_iter().map(|raw| Tag::of(hash(raw))).collect();
        for &tag in &tags {
            prop_assert!(table.place(tag));
        }
        let mut buckets = 64;
        for step in steps {
            prop_assert!(table.grow(step));
            buckets += step;
            prop_assert_eq!(table.geometry(), Geometry::of(buckets));
            prop_assert_eq!(table.tags().collect::<BTreeSet<_>>(), tags.clone());
            prop_assert_eq!(table.occupied(), tags.len());
            for &tag in &tags {
                let slot = table.find(tag);
                prop_assert!(slot.is_some() && table.may_contain(tag));
                prop_assert!(tag.homes().contains(&table.home(slot.unwrap())));
            }
        }
        for &tag in &tags {
            let slot = table.find(tag).unwrap();
            table.vacate(slot);
        }
        prop_assert_eq!(table, Table::new(Geometry::of(buckets)));
    }

    /// A tag that was made to match another as a lookup sees it is still another for a removal.
    #[test]
    fn removing_takes_the_very_tag(bits in 8u32..23, order in prop::collection::vec(0usize..8, 0..40)) {
        let tags = colliding(bits, 8);
        let mut filter = CuckooFilter::new();
        let mut held = [0u32; 8];
        for which in order {
            if held[which] > 0 && which % 2 == 0 {
                prop_assert!(filter.remove_tag(tags[which]));
                held[which] -= 1;
            } else {
                filter.insert_tag(tags[which]).unwrap();
                held[which] += 1;
            }
            prop_assert_eq!(filter.len(), held.iter().sum::<u32>() as usize);
        }
        for (&tag, held) in tags.iter().zip(held) {
            for _ in 0..held {
                prop_assert!(filter.remove_tag(tag));
            }
            prop_assert!(!filter.remove_tag(tag));
        }
        prop_assert_eq!(filter, CuckooFilter::new());
    }

    /// With the checksum made right, so that what is behind it is reached.
    #[test]
    fn damaged_bytes_are_refused_or_mean_what_they_say(
        size in 0u64..200,
        copies in 1u64..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in 0usize..3,
    ) {
        let mut filter = filled(0..size);
        (1..copies).for_each(|_| (0..size / 3).for_each(|raw| filter.insert(hash(raw)).unwrap()));
        colliding(18, 12).into_iter().for_each(|tag| filter.insert_tag(tag).unwrap());
        let good = filter.to_bytes();
        let mut body = good[6..good.len() - 8].to_vec();
        for (at, value) in damage {
            let at = at.index(body.len());
            body[at] = value;
        }
        body.truncate(body.len() - cut);
        let bytes = frame::seal(FILTER, |out| out.extend_from_slice(&body));
        if let Ok(mut read) = CuckooFilter::from_bytes(&bytes, 10_000) {
            prop_assert_eq!(read.to_bytes(), bytes);
            // Whatever it is, it works.
            (1_000..1_100).for_each(|raw| { let _ = read.insert(hash(raw)); });
            (1_000..1_100).for_each(|raw| { read.remove(hash(raw)); });
            (0..size).for_each(|raw| { read.remove(hash(raw)); });
        }
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(CuckooFilter::from_bytes(&bytes, 100).is_err());
        prop_assert!(CuckooReplica::from_bytes(&bytes, 100).is_err());
        prop_assert!(SummaryDelta::from_bytes(&bytes).is_err());
        for magic in [FILTER, *b"KVCS", *b"KVCD"] {
            let framed = frame::seal(magic, |out| out.extend_from_slice(&bytes));
            let _ = CuckooFilter::from_bytes(&framed, 100);
            let _ = CuckooReplica::from_bytes(&framed, 100);
            if let Ok(delta) = SummaryDelta::from_bytes(&framed) {
                prop_assert_eq!(delta.to_bytes(), framed);
            }
        }
    }

    #[test]
    fn a_change_packs_to_48_bits_and_back(raw: u64, kind in 0u8..3) {
        let tag = Tag::of(hash(raw));
        let change = [Change::Inserted(tag), Change::Removed(tag), Change::Cleared][usize::from(kind)];
        prop_assert_eq!(Change::unpack(change.packed()), Some(change));
        prop_assert!(change.packed() >> 48 == 0);
    }
}

/// More tags than a pair of buckets holds, equal in all bits that growth could use at a sane size.
#[test]
fn crafted_collisions_do_not_inflate_the_table() {
    let mut filter = filled(0..10_000);
    let before = filter.slots();
    let crafted = colliding(20, 60);
    for &tag in &crafted {
        filter.insert_tag(tag).unwrap();
    }
    assert!(filter.slots() <= before * 9 / 4, "{} slots from {before}", filter.slots());
    assert!(filter.side_entries() >= 52);
    // Nothing of it is lost, on the way through a snapshot either.
    let mut filter = CuckooFilter::from_bytes(&filter.to_bytes(), 100_000).unwrap();
    assert!(crafted.iter().all(|&tag| filter.remove_tag(tag)));
    assert_eq!((filter.len(), filter.side_entries()), (10_000, 0));
    assert!((0..10_000).all(|raw| filter.may_contain(hash(raw))));
}

/// Tags of different fingerprints that share both buckets in every table of up to 1,024 buckets.
fn crowding_one_pair(count: usize) -> Vec<Tag> {
    let all = (1..=u16::MAX).map(|fingerprint| Tag::at(0x155_5800, fingerprint));
    let tags: Vec<Tag> = all.filter(|tag| tag.homes()[1] & 0x3FF == 0x123).take(count).collect();
    assert_eq!(tags.len(), count);
    tags
}

/// No slot speaks for these: whoever forgets to look at the side denies them.
#[test]
fn entries_without_a_slot_are_held() {
    let mut filter = CuckooFilter::with_room_for(2_000);
    (0..1_000).for_each(|raw| filter.insert(hash(raw)).unwrap());
    let crowd = crowding_one_pair(30);
    crowd.iter().for_each(|&tag| filter.insert_tag(tag).unwrap());
    let without_slot = |filter: &CuckooFilter| {
        let (table, stash, _) = filter.parts();
        assert!(stash.iter().all(|&tag| table.find(tag).is_none()));
        assert!(crowd.iter().all(|&tag| filter.may_contain_tag(tag)));
        stash.len()
    };
    assert!(without_slot(&filter) >= 22);
    filter = CuckooFilter::from_bytes(&filter.to_bytes(), 2_000).unwrap();
    assert!(without_slot(&filter) >= 22);

    let last = crowd[29];
    filter.insert_tag(last).unwrap();
    assert_eq!(filter.len(), 1_031);
    assert!(filter.remove_tag(last) && filter.may_contain_tag(last));
    (0..1_000).for_each(|raw| assert!(filter.remove(hash(raw))));
    assert!(filter.slots() < 500, "it has shrunk");
    without_slot(&filter);
    assert!(crowd.iter().all(|&tag| filter.remove_tag(tag)));
    assert_eq!(filter, CuckooFilter::with_limit(2_000));
}

#[test]
fn every_cut_and_every_flipped_bit_is_seen() {
    let good = filled(0..40).to_bytes();
    for end in 0..good.len() {
        assert!(CuckooFilter::from_bytes(&good[..end], 100).is_err(), "cut at {end}");
    }
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        assert!(CuckooFilter::from_bytes(&bytes, 100).is_err(), "bit flipped at {at}");
    }
    assert_eq!(CuckooFilter::from_bytes(&good, 40).unwrap(), CuckooFilter::from_bytes(&good, 40).unwrap());
}

#[track_caller]
fn refused(body: &[u8], expected: SnapshotError) {
    let bytes = frame::seal(FILTER, |out| out.extend_from_slice(body));
    assert_eq!(CuckooFilter::from_bytes(&bytes, 100).unwrap_err(), expected);
}

#[test]
fn errors_name_what_is_wrong() {
    let good = filled(0..10).to_bytes();
    let body = good[6..good.len() - 8].to_vec();
    let with = |at: usize, bytes: &[u8]| {
        let mut body = body.clone();
        body[at..at + bytes.len()].copy_from_slice(bytes);
        body
    };
    refused(&with(0, &[3]), SnapshotError::InvalidBuckets { buckets: 3 });
    refused(&with(0, &u32::MAX.to_le_bytes()), SnapshotError::InvalidBuckets { buckets: u32::MAX });
    // Half a gigabyte is declared; it is missed before anybody allocates it.
    let missing = (1 << 29) - (body.len() - 12);
    refused(&with(0, &(1u32 << 26).to_le_bytes()), FrameError::Truncated { missing }.into());
    refused(&with(4, &[1]), FrameError::Truncated { missing: 8 }.into());
    refused(&[&body[..], &[0]].concat(), FrameError::TrailingBytes { extra: 1 }.into());
    let side = |raw: u64| [&with(4, &[1]), &raw.to_le_bytes()[..]].concat();
    refused(&side(0), SnapshotError::InvalidSideEntry { raw: 0 });
    // What is in the table cannot be without a slot too.
    let held = filled(0..10).parts().0.tags().next().unwrap().packed();
    refused(&side(held), SnapshotError::InvalidSideEntry { raw: held });

    assert_eq!(
        CuckooFilter::from_bytes(&good, 9).unwrap_err(),
        SnapshotError::OverLimit { entries: 10, limit: 9 }
    );
    let mut other = good.clone();
    other[4] = 2;
    let unsupported = FrameError::UnsupportedFormat { found: 2, supported: 1 };
    assert_eq!(CuckooFilter::from_bytes(&other, 100).unwrap_err(), unsupported.into());
    other[0] = b'X';
    let wrong = FrameError::WrongMagic { found: *b"XVCF" };
    assert_eq!(CuckooFilter::from_bytes(&other, 100).unwrap_err(), wrong.into());
}

#[test]
fn a_spare_bit_behind_the_last_slot_is_refused() {
    // 20 slots of 24 bits leave half a word of padding.
    let table = Table::new(Geometry::of(5));
    let padded = table.spare_words().len() * 64 > 5 * LANES * 24;
    assert!(padded);
    let mut body = vec![];
    [5u32, 0, 0].iter().for_each(|n| body.extend_from_slice(&n.to_le_bytes()));
    body.extend_from_slice(&[0; 5 * 8]);
    body.resize(body.len() + table.spare_words().len() * 8, 0);
    assert!(CuckooFilter::from_bytes(&frame::seal(FILTER, |out| out.extend_from_slice(&body)), 9).is_ok());
    *body.last_mut().unwrap() = 0x80;
    refused(&body, SnapshotError::InvalidSpareBits);
    *body.last_mut().unwrap() = 0;
    body[12 + 5 * 8] = 1;
    refused(&body, SnapshotError::InvalidBucket { bucket: 0 });
}

/// A writer that breaks the rules can make its reader answer nonsense, but not panic.
#[test]
fn a_tag_that_stands_twice_does_no_harm() {
    let mut table = Table::new(Geometry::of(200));
    let tags: Vec<Tag> = (0..100).map(|raw| Tag::of(hash(raw))).collect();
    for tag in tags.iter().chain(&tags) {
        assert!(table.place(*tag));
    }
    let twice = CuckooFilter::from_parts(table, BTreeSet::new(), Default::default(), 1_000).unwrap();
    let mut filter = CuckooFilter::from_bytes(&twice.to_bytes(), 1_000).unwrap();
    (0..100).for_each(|raw| assert!(filter.remove(hash(raw))));
    assert!(filter.slots() < 800, "it has shrunk");
    (0..100).for_each(|raw| assert!(filter.remove(hash(raw))));
    assert_eq!(filter, CuckooFilter::with_limit(1_000));
}

#[test]
fn more_copies_than_can_be_counted_are_over_any_limit() {
    let mut filter = filled(0..10);
    filter.insert(hash(0)).unwrap();
    let good = filter.to_bytes();
    let mut body = good[6..good.len() - 8].to_vec();
    let copies = body.len() - 8;
    body[copies..].fill(0xff);
    refused(&body, SnapshotError::OverLimit { entries: usize::MAX, limit: 100 });
}

#[test]
fn a_change_without_meaning_is_refused() {
    let bytes = frame::seal(*b"KVCD", |out| {
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0x0C]);
    });
    let error = SummaryDelta::from_bytes(&bytes).unwrap_err();
    assert_eq!(error, DeltaDecodeError::InvalidChange { index: 0, raw: 0x0C00_0000_0000 });
    assert!(error.to_string().contains("change 0"));
}

/// A replica is refused changes that do not fit its history, and then holds what it held.
#[test]
fn a_foreign_delta_changes_nothing() {
    let mut publisher = CuckooPublisher::new(SummaryEpoch::new(1), 1_000, 100);
    (0..50).for_each(|raw| publisher.insert(hash(raw)).unwrap());
    let mut replica = CuckooReplica::from_bytes(&publisher.snapshot(), 1_000).unwrap();
    let before = replica.clone();
    let inserted = |raw: u64| Change::Inserted(Tag::of(hash(raw)));
    let removed = |raw: u64| Change::Removed(Tag::of(hash(raw)));
    let mut apply = |changes: Vec<Change>, expected| {
        let delta = SummaryDelta::new(before.position(), changes);
        assert_eq!(replica.apply(&delta), Err(expected));
        assert_eq!(replica.to_bytes(), before.to_bytes());
        assert_eq!(replica, before);
    };
    apply(vec![inserted(100), inserted(7), removed(3), removed(200)], DeltaError::Diverged);
    // To take these back would put them into other slots.
    let shuffled = (0..50).map(removed).chain((100..150).map(inserted)).chain([removed(0)]);
    apply(shuffled.collect(), DeltaError::Diverged);
    apply(vec![Change::Cleared, inserted(100), removed(3)], DeltaError::Diverged);
    let full = super::FilterFull { limit: 1_000 };
    apply((100..1_051).map(inserted).collect(), DeltaError::Full(full));
}

/// Changing these bytes is a breaking release.
#[test]
fn golden_bytes() {
    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }
    let mut publisher = CuckooPublisher::new(SummaryEpoch::new(0x0102), 100, 100);
    let start = publisher.position();
    [1, 2, 2, 3].map(hash).into_iter().for_each(|hash| publisher.insert(hash).unwrap());
    publisher.remove(hash(3));
    check(&publisher.filter().to_bytes(), GOLDEN_FILTER);
    check(&publisher.snapshot(), GOLDEN_SNAPSHOT);
    check(&publisher.delta_since(start, 100).unwrap().to_bytes(), GOLDEN_DELTA);
    let version = SummaryVersion::new(5);
    assert_eq!(publisher.position(), SummaryPosition { epoch: SummaryEpoch::new(0x0102), version });
}

const GOLDEN_FILTER: &str = "4b56434601000400000000000000010000000a91000000000000000000000000000058970000000000000000000000000000309740000000000000000000000000000000000000000000b3d5250000000000000000000000000000000000000000005897ce569700000001000000000000007b627aeeace790fd";
const GOLDEN_SNAPSHOT: &str = "4b5643530100020100000000000005000000000000000400000000000000010000000a91000000000000000000000000000058970000000000000000000000000000309740000000000000000000000000000000000000000000b3d5250000000000000000000000000000000000000000005897ce5697000000010000000000000070fa7f08c7ac0203";
const GOLDEN_DELTA: &str = "4b564344010002010000000000000000000000000000050000000a91c05c02015897ce5697005897ce5697000b1dec8f01030b1dec8f0107fecee5391b3a4983";
