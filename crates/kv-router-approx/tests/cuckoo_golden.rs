//! The bytes of summaries that the documentation shows are the bytes that the code writes.
//!
//! `docs/wire.md` holds them. A change that makes this fail is a breaking release with a new format number.

#![expect(clippy::unwrap_used, reason = "a helper of tests, outside of their functions")]

use kv_router_approx::cuckoo::{
    CuckooFilter, CuckooPublisher, CuckooReplica, SummaryDelta, SummaryEpoch, SummaryPosition, SummaryVersion,
};
use kv_router_types::SequenceHash;

const WIRE: &str = include_str!("../../../docs/wire.md");

/// The bytes of the code block marked `hex name`: two digits a byte, up to the comment of each line.
#[track_caller]
fn documented(name: &str) -> Vec<u8> {
    let fence = format!("```hex {name}\n");
    let start = WIRE.find(&fence).expect("the example is there") + fence.len();
    let block = &WIRE[start..start + WIRE[start..].find("```").expect("the example ends")];
    let digits = block.lines().filter_map(|line| line.split('#').next());
    digits
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"))
        .collect()
}

fn publisher() -> CuckooPublisher {
    let mut publisher = CuckooPublisher::new(SummaryEpoch::new(5), 1_000, 100);
    publisher.insert(SequenceHash::new(1)).unwrap();
    publisher.insert(SequenceHash::new(2)).unwrap();
    publisher.insert(SequenceHash::new(2)).unwrap();
    assert!(publisher.remove(SequenceHash::new(1)));
    publisher
}

#[test]
fn the_filter_is_as_documented() {
    assert_eq!(hex(&publisher().filter().to_bytes()), hex(&documented("filter")));
    let filter = CuckooFilter::from_bytes(&documented("filter"), 1_000).unwrap();
    assert!(filter.may_contain(SequenceHash::new(2)) && !filter.may_contain(SequenceHash::new(1)));
}

#[test]
fn the_snapshot_is_the_filter_with_its_version() {
    let filter = documented("filter");
    let snapshot = publisher().snapshot();
    assert_eq!(snapshot[..6], *b"KVCS\x01\0");
    assert_eq!(snapshot[6..22], [5_u64.to_le_bytes(), 4_u64.to_le_bytes()].concat());
    assert_eq!(snapshot[22..snapshot.len() - 8], filter[6..filter.len() - 8]);
    let replica = CuckooReplica::from_bytes(&snapshot, 1_000).unwrap();
    let version = SummaryVersion::new(4);
    assert_eq!(replica.position(), SummaryPosition { epoch: SummaryEpoch::new(5), version });
}

#[test]
fn the_delta_is_as_documented() {
    let from = SummaryPosition { epoch: SummaryEpoch::new(5), version: SummaryVersion::new(2) };
    let delta = publisher().delta_since(from, 10).unwrap();
    assert_eq!(hex(&delta.to_bytes()), hex(&documented("delta")));
    assert_eq!(SummaryDelta::from_bytes(&documented("delta")), Ok(delta));
}

/// So that a difference is readable.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}
