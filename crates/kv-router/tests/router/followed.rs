//! A router behind a sequence machine that is not its own: whatever happens to the stream, they agree.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_router::{
    EventBatch, ExternalSequenceHash, Incarnation, KvEvent, LocalBlockHash, PeerLimits, Router, RouterConfig,
    RouterReplica, StoredBlock, StreamFreshness, Tier, WorkerSpec,
};
use kv_router_transport::{
    Action, DumpReader, DumpRecord, FollowSink, Numbered, ReplayRequest, ReplayWaits, ReplicaSink,
    SequencerConfig, SnapshotRequest, Standing, StreamSequencer, Watermark,
};
use proptest::prelude::*;

use crate::support::{Fleet, rank, worker};

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish,
    Lose,
    Deliver,
    /// The source has the last so many batches.
    Answer(u64),
    Fail,
    /// A peer has a state that lacks the last so many.
    Snapshot(u64),
    NoSnapshot,
    CatchUp,
    Resync,
    Retire,
    Restart,
    Wait,
}

struct World {
    now: Instant,
    life: u64,
    head: u64,
    wire: VecDeque<EventBatch>,
    machine: StreamSequencer<EventBatch>,
    told: Standing,
    replica: RouterReplica,
    replay: Option<ReplayRequest>,
    snapshot: Option<SnapshotRequest>,
}

/// Every seventh batch clears, the others store a block each.
fn batch(life: u64, sequence: u64) -> EventBatch {
    let name = ExternalSequenceHash::new(life * 1_000 + sequence);
    let blocks = vec![StoredBlock::new(name, LocalBlockHash::new(sequence))];
    let event = match sequence % 7 {
        6 => KvEvent::Cleared,
        _ => KvEvent::Stored { tier: Tier::Device, parent: None, blocks },
    };
    EventBatch { from: rank(0), incarnation: Incarnation::new(life), sequence, events: vec![event] }
}

impl World {
    fn new() -> Self {
        let block_size = Fleet::new(0).router.scheme().block_size();
        let router = Router::builder(RouterConfig::new(block_size)).build().unwrap();
        router.join(worker(0), WorkerSpec::new(block_size)).unwrap();
        let waits = ReplayWaits { idle: Duration::from_millis(50), total: Duration::from_millis(200) };
        let config = SequencerConfig {
            replay: Some(waits),
            snapshot: Some(Duration::from_millis(50)),
            held: 5,
            ..SequencerConfig::default()
        };
        Self {
            now: Fleet::new(0).now(),
            life: 1,
            head: 0,
            wire: VecDeque::new(),
            machine: StreamSequencer::new(config).unwrap(),
            told: Standing::Cold,
            replica: RouterReplica::new(Arc::new(router), PeerLimits::default()),
            replay: None,
            snapshot: None,
        }
    }

    fn step(&mut self, step: Step) {
        let (now, mut out) = (self.now, Vec::new());
        match step {
            Step::Publish | Step::Lose => {
                if matches!(step, Step::Publish) {
                    self.wire.push_back(batch(self.life, self.head));
                }
                self.head += 1;
            }
            Step::Deliver => {
                if let Some(batch) = self.wire.pop_front() {
                    self.machine.live(now, Numbered::from(batch), &mut out);
                }
            }
            Step::Answer(reach) => {
                if let Some(ask) = self.replay.take() {
                    let from = self.head.saturating_sub(reach).max(ask.from);
                    for sequence in from..self.head {
                        self.machine.replayed(
                            now,
                            ask.id,
                            Numbered::from(batch(self.life, sequence)),
                            &mut out,
                        );
                    }
                    self.machine.replay_ended(now, ask.id, &mut out);
                }
            }
            Step::Fail => {
                if let Some(ask) = self.replay.take() {
                    self.machine.replay_failed(now, ask.id, &mut out);
                }
            }
            Step::Snapshot(behind) => {
                let last = self.head.checked_sub(1 + behind);
                if let (Some(last), Some(_), true) =
                    (last, self.snapshot.take(), self.machine.recovers_by_snapshot())
                {
                    let events: Vec<_> =
                        (0..=last).flat_map(|sequence| batch(self.life, sequence).events).collect();
                    let mark = Watermark::new(Incarnation::new(self.life), last);
                    self.replica.restore(rank(0), mark, &events);
                    self.machine.restored(now, mark, &mut out);
                }
            }
            Step::NoSnapshot => {
                if let Some(ask) = self.snapshot.take() {
                    self.machine.snapshot_failed(now, ask.id, &mut out);
                }
            }
            Step::CatchUp => self.machine.catch_up(now, &mut out),
            Step::Resync => drop(self.machine.resync(now, &mut out)),
            Step::Retire => {
                self.machine.retire(&mut out);
                self.machine.revive();
            }
            Step::Restart => (self.life, self.head) = (self.life + 1, 0),
            Step::Wait => {
                self.now += Duration::from_millis(60);
                self.machine.tick(self.now, &mut out);
            }
        }
        for action in out {
            match action {
                Action::Apply(batch) => self.replica.apply(batch),
                Action::Forget(reason) => self.replica.forget(rank(0), reason),
                Action::RequestReplay(ask) => self.replay = Some(ask),
                Action::RequestSnapshot(ask) => self.snapshot = Some(ask),
                Action::Skip { .. } => {}
            }
        }
        let standing = self.machine.standing();
        if std::mem::replace(&mut self.told, standing) != standing {
            self.replica.standing(rank(0), standing);
        }
        self.agree();
    }

    /// Both know the same place in the stream, and the router holds what the stream says up to there.
    fn agree(&mut self) {
        let freshness = match self.machine.standing() {
            Standing::Fresh => StreamFreshness::Fresh,
            Standing::Recovering => StreamFreshness::Recovering,
            Standing::Cold => StreamFreshness::Cold,
        };
        assert_eq!(self.replica.router().streams()[0].freshness, freshness, "{:?}", self.machine);
        let snapshot = self.replica.snapshot().unwrap();
        let mark =
            DumpReader::new(&snapshot.bytes[..]).unwrap().map(Result::unwrap).find_map(
                |record| match record {
                    DumpRecord::Watermark { watermark, .. } => Some(watermark),
                    _ => None,
                },
            );
        assert_eq!(mark, self.machine.watermark(), "{:?}", self.machine);
        if let Some(mark) = mark {
            let held = (mark.sequence + 1) % 7;
            assert_eq!(self.replica.router().stats().index.names as u64, held, "{mark:?}");
        }
        assert_eq!(self.replica.counters().refused_batches, 0);
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Publish),
        2 => Just(Step::Lose),
        8 => Just(Step::Deliver),
        4 => (0..12_u64).prop_map(Step::Answer),
        1 => Just(Step::Fail),
        3 => (0..8_u64).prop_map(Step::Snapshot),
        1 => Just(Step::NoSnapshot),
        1 => Just(Step::CatchUp),
        1 => Just(Step::Resync),
        1 => Just(Step::Retire),
        1 => Just(Step::Restart),
        1 => Just(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn a_router_is_where_the_machine_before_it_is(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
    }
}
