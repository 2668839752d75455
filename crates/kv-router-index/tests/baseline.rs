//! The first generations: the actor is as exact as its index, the flat ones are never too low, and sometimes
//! too high.
#![cfg(not(kv_router_loom))]

use kv_router_index::baseline::{Actor, InvertedIndex, NestedDictionary};
use kv_router_index::conformance::{Shared, Suite};
use kv_router_index::{ApplyEvents, Certainty, Inspect, Occupancy, Oracle, Overlap, PrefixIndex, RadixTree};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use proptest::prelude::*;

fn rank(worker: u64) -> WorkerRank {
    WorkerId::new(worker).into()
}

fn query(locals: &[u64]) -> Vec<LocalBlockHash> {
    locals.iter().copied().map(LocalBlockHash::new).collect()
}

/// Stores `(name, local)` blocks.
fn store(tier: Tier, parent: Option<u64>, blocks: &[(u64, u64)]) -> KvEvent {
    let block =
        |&(name, local)| StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(local));
    KvEvent::Stored {
        tier,
        parent: parent.map(ExternalSequenceHash::new),
        blocks: blocks.iter().map(block).collect(),
    }
}

mod actor {
    use super::*;

    #[test]
    fn is_exact() {
        let suite = Suite::new(|| Shared(Actor::spawn(RadixTree::new()).unwrap())).with_a_node_per_place();
        suite.run_examples();
        suite.run_histories();
        suite.run_churn(20_000);
    }

    #[test]
    fn serves_many_threads_and_what_was_queued_when_it_is_dropped() {
        let actor = Actor::spawn(RadixTree::new()).unwrap();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let actor = &actor;
                scope.spawn(move || {
                    for n in 0..200 {
                        let parent = (n > 0).then(|| n - 1);
                        actor.apply_later(rank(worker), store(Tier::Device, parent, &[(n, n)]));
                    }
                    actor.apply_later(rank(worker), store(Tier::Device, Some(9999), &[(1, 1)]));
                });
            }
        });
        actor.flush();
        assert_eq!(actor.refused(), 4);
        let all: Vec<u64> = (0..200).collect();
        let overlaps = actor.find(&query(&all));
        assert_eq!(overlaps.iter().map(Overlap::blocks).collect::<Vec<_>>(), [200; 4]);
    }

    #[test]
    #[should_panic(expected = "the index of this actor has panicked")]
    fn a_dead_index_is_reported_to_every_caller() {
        struct Broken;
        impl PrefixIndex for Broken {
            fn find_into(
                &self,
                _: &[LocalBlockHash],
                _: kv_router_index::FindOptions,
                _: &mut kv_router_index::Overlaps,
            ) {
                panic!("planted");
            }
            fn certainty(&self) -> Certainty {
                Certainty::Guess
            }
        }
        let actor = Actor::spawn(Broken).unwrap();
        actor.find(&[]);
    }
}

/// What a flat index cannot tell: rank 1 holds `[1, 2]` and `[3, 4]`.
#[track_caller]
fn check_collisions(mut index: impl PrefixIndex + ApplyEvents) {
    let mut oracle = Oracle::new();
    for event in
        [store(Tier::Device, None, &[(10, 1), (11, 2)]), store(Tier::Host, None, &[(20, 3), (21, 4)])]
    {
        assert_eq!(index.apply(rank(1), &event), oracle.apply(rank(1), &event));
    }
    assert_eq!(index.certainty(), Certainty::UpperBound);
    for (asked, found, truth) in [
        (vec![1, 2, 3], 3, 2),    // a chain of two chains
        (vec![1, 4], 2, 1),       // the second block of another chain
        (vec![4, 3, 2, 1], 4, 0), // the wrong way round
        (vec![1, 1, 1], 3, 1),    // one block again and again
        (vec![3, 4, 5], 2, 2),    // and this is right
    ] {
        let asked = query(&asked);
        assert_eq!(oracle.find(&asked).blocks(rank(1)), truth);
        assert_eq!(index.find(&asked).blocks(rank(1)), found, "{asked:?}");
        assert_eq!(index.find(&asked).certainty(), Certainty::UpperBound);
    }
    // Names of one content at two places are one content: what is left hides that the other is gone.
    let second = store(Tier::Device, Some(20), &[(22, 1)]);
    assert_eq!(index.apply(rank(1), &second), oracle.apply(rank(1), &second));
    let head = KvEvent::Removed { tier: Tier::Device, blocks: vec![ExternalSequenceHash::new(10)] };
    assert_eq!(index.apply(rank(1), &head), oracle.apply(rank(1), &head));
    let asked = query(&[1, 2]);
    assert_eq!((index.find(&asked).blocks(rank(1)), oracle.find(&asked).blocks(rank(1))), (2, 0));
}

#[test]
fn the_dictionary_cannot_tell_prefixes_apart() {
    check_collisions(NestedDictionary::new());
}

#[test]
fn the_inverted_index_cannot_tell_prefixes_apart() {
    check_collisions(InvertedIndex::new());
}

#[derive(Clone, Debug)]
enum Op {
    Apply(u64, KvEvent),
    RemoveWorker(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let tier = || prop::sample::select(&Tier::ALL[..]);
    let blocks = prop::collection::vec((0u64..12, 0u64..4), 0..4);
    let op = prop_oneof![
        6 => (0u64..3, tier(), prop::option::of(0u64..12), blocks)
            .prop_map(|(worker, tier, parent, blocks)| Op::Apply(worker, store(tier, parent, &blocks))),
        3 => (0u64..3, tier(), prop::collection::vec((0u64..12).prop_map(ExternalSequenceHash::new), 0..4))
            .prop_map(|(worker, tier, blocks)| Op::Apply(worker, KvEvent::Removed { tier, blocks })),
        1 => (0u64..3).prop_map(|worker| Op::Apply(worker, KvEvent::Cleared)),
        1 => (0u64..3).prop_map(Op::RemoveWorker),
    ];
    prop::collection::vec(op, 0..40)
}

#[track_caller]
fn check_bounds(mut index: impl PrefixIndex + ApplyEvents + Inspect, ops: &[Op], queries: &[Vec<u64>]) {
    let mut oracle = Oracle::new();
    for op in ops {
        match op {
            Op::Apply(worker, event) => {
                let (found, truth) = (index.apply(rank(*worker), event), oracle.apply(rank(*worker), event));
                assert!(found.is_ok() || truth.is_err(), "{event:?} was refused: {found:?}, {truth:?}");
            }
            Op::RemoveWorker(worker) => {
                let worker = WorkerId::new(*worker);
                let (found, truth) = (index.remove_worker(worker), oracle.remove_worker(worker));
                assert!(found.removed >= truth.removed);
            }
        }
        for asked in queries {
            let (found, truth) = (index.find(&query(asked)), oracle.find(&query(asked)));
            for overlap in truth.iter() {
                assert!(
                    found.blocks(overlap.worker()) >= overlap.blocks(),
                    "{asked:?}: {found:?}, {truth:?}"
                );
            }
            assert!(found.iter().is_sorted_by(|deeper, other| deeper.blocks() >= other.blocks()));
        }
    }
    for worker in 0..3 {
        index.remove_worker(WorkerId::new(worker));
    }
    assert_eq!(index.occupancy(), Occupancy::default());
}

proptest! {
    #[test]
    fn the_flat_ones_are_never_too_low(
        ops in ops(),
        queries in prop::collection::vec(prop::collection::vec(0u64..4, 1..5), 1..8),
    ) {
        check_bounds(NestedDictionary::new(), &ops, &queries);
        check_bounds(InvertedIndex::new(), &ops, &queries);
    }
}
