//! Cuckoo summaries of `kv-router-approx`.

use kv_router_approx::cuckoo::{CuckooFilter, CuckooPublisher, CuckooReplica, SummaryDelta, SummaryEpoch};
use kv_router_types::SequenceHash;

use crate::input::{Choices, framed};
use crate::memory::within;
use crate::{seal, seeds};

/// Entries that a reader allows.
const LIMIT: usize = 256;

/// A summary, and one that follows: each as a filter, a snapshot and a delta.
pub(super) fn summary(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let first = choices.bytes();
    let second = choices.rest();
    filter(first);
    filter(&seal::summary(first));
    let delta = delta(second);
    for snapshot in [first, &seal::summary(first)] {
        let replica = within(snapshot.len(), 8, || CuckooReplica::from_bytes(snapshot, LIMIT));
        let Ok(mut replica) = replica else { continue };
        assert_eq!(replica.to_bytes(), snapshot, "what was read is written otherwise");
        assert!(replica.filter().len() <= LIMIT);
        let Some(delta) = &delta else { continue };
        let before = replica.clone();
        match replica.apply(delta) {
            Ok(news) => assert!(news <= delta.len()),
            Err(_) => assert!(replica == before, "a refused delta changed something"),
        }
        assert!(replica.filter().len() <= LIMIT);
        let written = replica.to_bytes();
        let read = CuckooReplica::from_bytes(&written, LIMIT).map(|read| read == replica);
        assert_eq!(read, Ok(true), "what was written is read otherwise");
    }
}

fn filter(bytes: &[u8]) {
    let Ok(mut filter) = within(bytes.len(), 8, || CuckooFilter::from_bytes(bytes, LIMIT)) else { return };
    assert_eq!(filter.to_bytes(), bytes, "what was read is written otherwise");
    assert!(filter.len() <= LIMIT);
    // It can be used, whatever is in it.
    let hashes: Vec<_> = (0..40).map(SequenceHash::new).collect();
    let before = filter.len();
    let taken = hashes.iter().filter(|&&hash| filter.insert(hash).is_ok()).count();
    assert_eq!(filter.len(), before + taken);
    assert!(hashes[..taken].iter().all(|&hash| filter.may_contain(hash)) && filter.len() <= LIMIT);
    assert!(hashes[..taken].iter().all(|&hash| filter.remove(hash)));
    assert_eq!(filter.len(), before);
    filter.clear();
    assert_eq!((filter.len(), filter.occupied_slots(), filter.side_entries()), (0, 0, 0));
}

fn delta(bytes: &[u8]) -> Option<SummaryDelta> {
    let mut found = None;
    for delta in [bytes, &seal::summary(bytes)] {
        let Ok(read) = within(delta.len(), 4, || SummaryDelta::from_bytes(delta)) else { continue };
        assert_eq!(read.to_bytes(), delta, "what was read is written otherwise");
        found = Some(read);
    }
    found
}

pub(super) fn summary_seeds() -> Vec<Vec<u8>> {
    let mut publisher = CuckooPublisher::new(SummaryEpoch::new(5), LIMIT, 64);
    let hashes = [1, 2, 2, 3, 4, 5, 6, 6, 6].map(SequenceHash::new);
    let mut inserted = hashes.iter().filter_map(|&hash| publisher.insert(hash).ok()).count();
    let (snapshot, position) = (publisher.snapshot(), publisher.position());
    inserted += usize::from(publisher.insert(SequenceHash::new(7)).is_ok());
    let _ = publisher.remove(SequenceHash::new(2));
    let follows = publisher.delta_since(position, inserted).map(|delta| delta.to_bytes()).unwrap_or_default();
    publisher.clear();
    let clears = publisher.delta_since(position, inserted).map(|delta| delta.to_bytes()).unwrap_or_default();
    vec![
        [framed(&seeds::example("filter")), seeds::example("delta")].concat(),
        [framed(&snapshot), follows].concat(),
        [framed(&snapshot), clears].concat(),
    ]
}
