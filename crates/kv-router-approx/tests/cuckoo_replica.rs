//! Readers that follow a publisher over a bounded log.
#![expect(clippy::unwrap_used, reason = "a helper of a test may panic, as the test may")]

use kv_router_approx::cuckoo::{
    CuckooIndex, CuckooLimits, CuckooPublisher, CuckooReplica, DeltaError, FollowError, InstallError,
    OwnerBound, PrefixSummary, SnapshotNeeded, SummaryDelta, SummaryEpoch, SummaryPosition, SummaryVersion,
};
use kv_router_hash::sequence_hashes_into;
use kv_router_index::{Certainty, PrefixIndex};
use kv_router_types::{DpRank, LocalBlockHash, SequenceHash, WorkerId, WorkerRank};
use proptest::prelude::*;

const EPOCH: SummaryEpoch = SummaryEpoch::new(7);

fn hash(raw: u64) -> SequenceHash {
    SequenceHash::new(raw)
}

fn sequence(locals: &[LocalBlockHash]) -> Vec<SequenceHash> {
    let mut places = Vec::new();
    sequence_hashes_into(locals, &mut places);
    places
}

fn prompt(start: u64, blocks: u64) -> Vec<LocalBlockHash> {
    (start..start + blocks).map(LocalBlockHash::new).collect()
}

/// Brings a reader up to date as a transport would: deltas while there are some, a snapshot when told to.
fn catch_up(publisher: &CuckooPublisher, replica: &mut CuckooReplica, max_changes: usize) -> u32 {
    let mut snapshots = 0;
    loop {
        match publisher.delta_since(replica.position(), max_changes) {
            Ok(delta) if delta.is_empty() => return snapshots,
            Ok(delta) => {
                let delta = SummaryDelta::from_bytes(&delta.to_bytes()).unwrap();
                assert_eq!(replica.apply(&delta), Ok(delta.len()));
                assert_eq!(replica.position(), delta.to());
            }
            Err(_) => {
                *replica = CuckooReplica::from_bytes(&publisher.snapshot(), 1 << 20).unwrap();
                snapshots += 1;
            }
        }
    }
}

proptest! {
    #[test]
    fn replicas_equal_their_publisher_to_the_byte(
        steps in prop::collection::vec((0u8..20, 0u64..200, 1u64..60), 1..80),
        log in 0usize..300,
        max_changes in 1usize..50,
    ) {
        let mut publisher = CuckooPublisher::new(EPOCH, 1 << 20, log);
        let mut replica = CuckooReplica::from_bytes(&publisher.snapshot(), 1 << 20).unwrap();
        for (what, raw, many) in steps {
            match what {
                0..10 => (raw..raw + many).for_each(|raw| publisher.insert(hash(raw)).unwrap()),
                10..16 => (raw..raw + many).for_each(|raw| { publisher.remove(hash(raw)); }),
                16 => publisher.clear(),
                _ => {
                    catch_up(&publisher, &mut replica, max_changes);
                    prop_assert_eq!(replica.to_bytes(), publisher.snapshot());
                }
            }
            prop_assert!(publisher.logged() <= log);
        }
    }
}

#[test]
fn deltas_may_overlap_and_repeat_but_not_leave_a_gap() {
    let mut publisher = CuckooPublisher::new(EPOCH, 1_000, 1_000);
    let start = publisher.position();
    let mut replica = CuckooReplica::from_bytes(&publisher.snapshot(), 1_000).unwrap();
    (0..10).for_each(|raw| publisher.insert(hash(raw)).unwrap());
    let all = publisher.delta_since(start, 100).unwrap();
    let first = publisher.delta_since(start, 4).unwrap();
    let rest = publisher.delta_since(first.to(), 100).unwrap();
    assert_eq!((all.len(), first.len(), rest.len()), (10, 4, 6));

    let [zero, four] = [0, 4].map(SummaryVersion::new);
    assert_eq!(replica.apply(&rest), Err(DeltaError::Gap { replica: zero, delta: four }));
    assert_eq!(replica.apply(&first), Ok(4));
    assert_eq!(replica.apply(&first), Ok(0), "a repeat");
    assert_eq!(replica.apply(&all), Ok(6), "an overlap");
    assert_eq!(replica.apply(&rest), Ok(0));
    assert_eq!(replica.to_bytes(), publisher.snapshot());
}

#[test]
fn the_publisher_says_when_a_snapshot_is_needed() {
    let mut publisher = CuckooPublisher::new(EPOCH, 1_000, 5);
    (0..10).for_each(|raw| publisher.insert(hash(raw)).unwrap());
    let at = |epoch, version| SummaryPosition { epoch, version: SummaryVersion::new(version) };
    let ask = |position| publisher.delta_since(position, 100).map(|delta| delta.len());
    assert_eq!(ask(at(EPOCH, 10)), Ok(0));
    assert_eq!(ask(at(EPOCH, 5)), Ok(5));
    let [four, five, ten, eleven] = [4, 5, 10, 11].map(SummaryVersion::new);
    assert_eq!(ask(at(EPOCH, 4)), Err(SnapshotNeeded::Forgotten { reader: four, oldest: five }));
    assert_eq!(ask(at(EPOCH, 11)), Err(SnapshotNeeded::ReaderAhead { reader: eleven, newest: ten }));
    let other = SummaryEpoch::new(6);
    assert_eq!(ask(at(other, 10)), Err(SnapshotNeeded::OtherEpoch { reader: other, current: EPOCH }));
}

/// A publisher that restarts begins at version 0 again: its epoch keeps that from passing for old news.
#[test]
fn another_life_of_the_publisher_is_not_followed() {
    let mut replica = CuckooReplica::from_bytes(&CuckooPublisher::new(EPOCH, 10, 10).snapshot(), 10).unwrap();
    let epoch = SummaryEpoch::new(8);
    let mut reborn = CuckooPublisher::new(epoch, 10, 10);
    let start = reborn.position();
    reborn.insert(hash(1)).unwrap();
    let delta = reborn.delta_since(start, 10).unwrap();
    assert_eq!(replica.apply(&delta), Err(DeltaError::OtherEpoch { replica: EPOCH, delta: epoch }));
}

#[test]
fn a_clear_is_one_change() {
    let mut publisher = CuckooPublisher::new(EPOCH, 1_000, 10);
    publisher.clear();
    assert_eq!(publisher.logged(), 0, "nothing was held");
    (0..500).for_each(|raw| publisher.insert(hash(raw)).unwrap());
    let mut replica = CuckooReplica::from_bytes(&publisher.snapshot(), 1_000).unwrap();
    publisher.clear();
    assert_eq!(catch_up(&publisher, &mut replica, 100), 0, "the log has it");
    assert!(replica.filter().is_empty());
}

#[test]
fn the_index_bounds_every_owner() {
    let mut index = CuckooIndex::new(CuckooLimits::default());
    let query = prompt(1, 40);
    let places = sequence(&query);
    for (owner, held) in [(0u8, 0), (1, 40), (2, 7), (3, 7), (4, 1)] {
        let mut publisher = CuckooPublisher::new(EPOCH, 1_000, 0);
        places[..held].iter().for_each(|&place| publisher.insert(place).unwrap());
        assert_eq!(publisher.blocks_at_most(&places) as usize, held);
        assert_eq!(index.install(owner, &publisher.snapshot()), Ok(publisher.position()));
    }
    let mut bounds = vec![];
    index.find_sequence_into(&places, &mut bounds);
    let bound = |owner, blocks_at_most| OwnerBound { blocks_at_most, owner };
    assert_eq!(bounds, [bound(1, 40), bound(2, 7), bound(3, 7), bound(4, 1)]);
    index.find_sequence_into(&[], &mut bounds);
    assert!(bounds.is_empty());
    assert!(index.remove(1) && !index.remove(1));
    index.find_sequence_into(&places[..3], &mut bounds);
    assert_eq!(bounds, [bound(2, 3), bound(3, 3), bound(4, 1)]);
}

#[test]
fn the_index_of_ranks_is_a_prefix_index() {
    let ranks = [0, 1].map(|rank| WorkerRank::new(WorkerId::new(5), DpRank::new(rank)));
    let query = prompt(1, 10);
    let mut publisher = CuckooPublisher::new(EPOCH, 1_000, 100);
    sequence(&query[..4]).into_iter().for_each(|place| publisher.insert(place).unwrap());
    let mut index = CuckooIndex::new(CuckooLimits { owners: 2, entries_per_owner: 5 });
    ranks.iter().for_each(|&rank| {
        index.install(rank, &publisher.snapshot()).unwrap();
    });
    let full = index.install(WorkerRank::from(WorkerId::new(9)), &publisher.snapshot());
    assert_eq!(full, Err(InstallError::TooManyOwners { limit: 2 }));

    let behind = publisher.position();
    sequence(&query)[4..6].iter().for_each(|&place| publisher.insert(place).unwrap());
    let five = publisher.delta_since(behind, 1).unwrap();
    assert_eq!(index.follow(ranks[1], &five), Ok(1));
    let six = publisher.delta_since(five.to(), 1).unwrap();
    assert!(matches!(index.follow(ranks[1], &six), Err(FollowError::Delta(DeltaError::Full(_)))));
    assert_eq!(index.position(ranks[1]), Some(five.to()));
    assert_eq!(index.follow(WorkerRank::default(), &six), Err(FollowError::UnknownOwner));

    let found = index.find(&query);
    assert_eq!(found.certainty(), Certainty::UpperBound);
    assert_eq!(ranks.map(|rank| found.blocks(rank)), [4, 5]);
    assert_eq!(found.best().unwrap().worker(), ranks[1]);
    assert_eq!(index.remove_worker(WorkerId::new(5)), 2);
    assert!(index.is_empty() && index.find(&query).is_empty());
}
