//! A router at the end of a transport that orders batches itself.

use std::num::NonZeroU32;
use std::sync::Arc;

use kv_router::{
    Adapters, Capacity, EngineKind, EngineStreamConfig, EventBatch, ForgetReason, Incarnation, KvEvent,
    PeerLimits, RouteRequest, Router, RouterReplica, StreamFreshness, Taint, WorkerSpec,
};
use kv_router_transport::{DumpReader, DumpRecord, FollowSink, ReplicaSink, Standing, Watermark};

use crate::peer_wire::documented;
use crate::support::{Fleet, rank, worker};

const BLOCKS: usize = 4;

struct Rig {
    fleet: Fleet,
    replica: RouterReplica,
    tokens: Vec<u32>,
}

impl Rig {
    /// A worker with two ranks, by what it says of itself.
    fn new() -> Self {
        let fleet = Fleet::new(1);
        let router = Router::builder(kv_router::RouterConfig::new(fleet.router.scheme().block_size()));
        let mut replica = RouterReplica::new(Arc::new(router.build().unwrap()), PeerLimits::default());
        assert_eq!(replica.join(worker(0), &about(1)), 2);
        Self { fleet, replica, tokens: (0..64).collect() }
    }

    fn batch(&self, life: u64, sequence: u64, events: Vec<KvEvent>) -> EventBatch {
        EventBatch { from: rank(0), incarnation: Incarnation::new(life), sequence, events }
    }

    /// A batch that stores the prompt.
    fn store(&self, life: u64, sequence: u64) -> EventBatch {
        self.batch(life, sequence, vec![self.fleet.stored(0, &self.tokens, BLOCKS)])
    }

    #[track_caller]
    fn check(&self, blocks: usize, freshness: StreamFreshness) {
        let found = self.replica.router().overlaps(&RouteRequest::from_tokens(&self.tokens)).unwrap();
        assert_eq!(found.blocks(rank(0)), blocks as u32);
        assert_eq!(self.replica.router().streams()[0].freshness, freshness);
    }

    /// Up to where a snapshot says that the first rank goes.
    fn watermark(&mut self) -> Option<Watermark> {
        let snapshot = self.replica.snapshot().unwrap();
        let reader = DumpReader::new(&snapshot.bytes[..]).unwrap();
        assert_eq!(reader.fingerprint(), self.replica.fingerprint());
        reader.map(Result::unwrap).find_map(|record| match record {
            DumpRecord::Watermark { from, watermark } if from == rank(0) => Some(watermark),
            _ => None,
        })
    }
}

fn about(life: u64) -> Vec<u8> {
    let spec = WorkerSpec::new(kv_router::BlockSize::new(16).unwrap()).with_ranks(2);
    spec.with_incarnation(Incarnation::new(life)).encode().unwrap()
}

#[test]
fn what_is_forgotten_may_come_again_from_the_start() {
    let mut rig = Rig::new();
    rig.check(0, StreamFreshness::Cold);
    rig.replica.apply(rig.store(1, 0));
    rig.check(BLOCKS, StreamFreshness::Fresh);
    rig.replica.forget(rank(0), ForgetReason::Resync);
    rig.check(0, StreamFreshness::Cold);
    assert_eq!(rig.watermark(), None);
    rig.replica.apply(rig.store(1, 0));
    rig.check(BLOCKS, StreamFreshness::Fresh);
    assert_eq!(rig.watermark(), Some(Watermark::new(Incarnation::new(1), 0)));
    // Not from the start: something is missing before it.
    rig.replica.forget(rank(0), ForgetReason::ReplayFailed);
    rig.replica.apply(rig.store(1, 7));
    rig.check(BLOCKS, StreamFreshness::Cold);
    assert_eq!(rig.watermark(), None);
}

#[test]
fn a_life_that_only_began_is_known_to_hold_nothing() {
    let mut rig = Rig::new();
    rig.replica.apply(rig.store(1, 0));
    rig.replica.forget(rank(0), ForgetReason::NewIncarnation);
    rig.replica.apply(rig.batch(2, 0, vec![]));
    rig.check(0, StreamFreshness::Fresh);
    assert_eq!(rig.watermark(), Some(Watermark::new(Incarnation::new(2), 0)), "a snapshot has it");
    rig.replica.apply(rig.store(2, 1));
    rig.check(BLOCKS, StreamFreshness::Fresh);
}

#[test]
fn a_state_takes_the_place_of_what_was_held_and_the_stream_goes_on_behind_it() {
    let mut rig = Rig::new();
    let other: Vec<u32> = (100..164).collect();
    rig.replica.apply(rig.batch(1, 0, vec![rig.fleet.stored(0, &other, 2)]));
    let events = [rig.fleet.stored(0, &rig.tokens, BLOCKS)];
    rig.replica.restore(rank(0), Watermark::new(Incarnation::new(1), 9), &events);
    rig.check(BLOCKS, StreamFreshness::Fresh);
    let found = rig.replica.router().overlaps(&RouteRequest::from_tokens(&other)).unwrap();
    assert_eq!(found.blocks(rank(0)), 0, "the state before it is gone");
    assert_eq!(rig.watermark(), Some(Watermark::new(Incarnation::new(1), 9)));
    rig.replica.apply(rig.batch(1, 10, vec![KvEvent::Cleared]));
    rig.check(0, StreamFreshness::Fresh);
    assert_eq!(rig.replica.counters().refused_batches, 0);
}

/// Nobody may have a younger one: then what came since is played again.
#[test]
fn an_older_state_takes_the_place_of_a_younger_one_and_the_stream_goes_on_behind_it() {
    let mut rig = Rig::new();
    for sequence in 0..10 {
        rig.replica.apply(rig.batch(1, sequence, vec![]));
    }
    let events = [rig.fleet.stored(0, &rig.tokens, 2)];
    rig.replica.restore(rank(0), Watermark::new(Incarnation::new(1), 5), &events);
    rig.check(2, StreamFreshness::Fresh);
    rig.replica.apply(rig.store(1, 6));
    rig.check(BLOCKS, StreamFreshness::Fresh);
    assert_eq!(rig.watermark(), Some(Watermark::new(Incarnation::new(1), 6)));
    assert_eq!(rig.replica.counters().refused_batches, 0);
}

#[test]
fn a_state_is_something_that_a_rank_was_heard_of() {
    let mut rig = Rig::new();
    let events = [rig.fleet.stored(0, &rig.tokens, BLOCKS)];
    rig.replica.restore(rank(0), Watermark::new(Incarnation::new(1), 9), &events);
    let other: Vec<u32> = (100..164).collect();
    let _ = rig.fleet.store(0, &other, 2);
    let mut bytes = Vec::new();
    let _ = rig.fleet.router.snapshot(&mut bytes).unwrap();
    let report = rig.replica.router().restore(&mut &bytes[..]).unwrap();
    assert_eq!((report.ranks, report.live), (0, 1), "two states would be mixed");
    rig.check(BLOCKS, StreamFreshness::Fresh);
    let config = EngineStreamConfig::new(rank(0), EngineKind::Vllm);
    let _stream = rig.replica.router().engine_stream(config).unwrap();
    rig.check(0, StreamFreshness::Cold);
}

#[test]
fn nothing_is_put_in_place_of_a_guess() {
    let mut rig = Rig::new();
    let silent = WorkerSpec::new(kv_router::BlockSize::new(16).unwrap()).without_events();
    assert_eq!(rig.replica.join(worker(0), &silent.encode().unwrap()), 0);
    let events = [rig.fleet.stored(0, &rig.tokens, BLOCKS)];
    rig.replica.restore(rank(0), Watermark::new(Incarnation::new(1), 9), &events);
    rig.check(0, StreamFreshness::Predicted);
    assert_eq!(rig.replica.counters().refused_batches, 1);
}

#[test]
fn a_state_of_a_past_life_is_not_taken() {
    let mut rig = Rig::new();
    assert_eq!(rig.replica.join(worker(0), &about(5)), 2, "it is there anew");
    rig.replica.restore(
        rank(0),
        Watermark::new(Incarnation::new(4), 9),
        &[rig.fleet.stored(0, &rig.tokens, 2)],
    );
    rig.check(0, StreamFreshness::Cold);
    rig.replica.apply(rig.store(6, 0));
    rig.replica.restore(
        rank(0),
        Watermark::new(Incarnation::new(5), 9),
        &[rig.fleet.stored(0, &rig.tokens, 2)],
    );
    rig.check(0, StreamFreshness::Cold);
    assert_eq!(rig.replica.counters().refused_batches, 2);
}

#[test]
fn a_rank_whose_batches_are_waited_for_is_recovering() {
    let mut rig = Rig::new();
    rig.replica.apply(rig.store(1, 0));
    rig.replica.standing(rank(0), Standing::Recovering);
    rig.check(BLOCKS, StreamFreshness::Recovering);
    rig.replica.apply(rig.batch(1, 1, vec![]));
    rig.check(BLOCKS, StreamFreshness::Recovering);
    rig.replica.standing(rank(0), Standing::Fresh);
    rig.check(BLOCKS, StreamFreshness::Fresh);
    rig.replica.join(worker(0), &about(1));
    rig.check(0, StreamFreshness::Cold);
}

#[test]
fn what_a_worker_says_of_itself_is_as_documented() {
    let mut spec = WorkerSpec::new(kv_router::BlockSize::new(16).unwrap()).with_ranks(2);
    spec.incarnation = Incarnation::new(3);
    spec.capacity = Capacity { batched_tokens: NonZeroU32::new(8192), total_blocks: NonZeroU32::new(4000) };
    spec.traits.taints = vec![Taint::new("h100")];
    spec.traits.adapters = Adapters::Only(vec!["sql".into()]);
    assert_eq!(spec.encode().unwrap(), documented("worker"));
    assert_eq!(WorkerSpec::decode(&documented("worker")), Ok(spec));
}

#[test]
fn what_does_not_fit_is_counted() {
    let mut rig = Rig::new();
    assert_eq!(rig.replica.join(worker(3), b"no description"), 0);
    let other = WorkerSpec::new(kv_router::BlockSize::new(32).unwrap()).encode().unwrap();
    assert_eq!(rig.replica.join(worker(4), &other), 0);
    let silent = WorkerSpec::new(kv_router::BlockSize::new(16).unwrap()).without_events();
    assert_eq!(rig.replica.join(worker(5), &silent.encode().unwrap()), 0, "there is nothing to follow");
    rig.replica.leave(worker(0));
    rig.replica.apply(rig.store(1, 0));
    rig.replica.restore(rank(0), Watermark::new(Incarnation::new(1), 9), &[]);
    rig.replica.forget(rank(0), ForgetReason::Retired);
    rig.replica.hear_peer(b"nonsense");
    let counters = rig.replica.counters();
    assert_eq!((counters.refused_workers, counters.refused_batches), (2, 2), "{counters:?}");
    assert_eq!((counters.malformed_messages, rig.replica.router().stats().ranks), (1, 1));
}
