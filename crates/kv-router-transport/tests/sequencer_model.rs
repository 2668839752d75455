//! The sequencer against a literal model of an engine, a lossy wire and an unreliable replay source.
//!
//! Whatever happens, what is applied between two forgets is a run of one life without holes, and a rank that is
//! called fresh holds exactly what the engine's history says.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_router_transport::{
    Action, Incarnation, Numbered, RecoveryId, ReplayRequest, ReplayWaits, SequencerConfig, SnapshotRequest,
    Standing, StreamSequencer, Watermark,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The batch of a life.
type Batch = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Good,
    Silent,
    Fails,
    StopsAfter(usize),
    NeverEnds,
}

#[derive(Clone, Debug)]
enum Op {
    Publish(usize),
    PublishUnheard(usize),
    Deliver(usize),
    Repeat(usize),
    Swap(usize),
    Pump(usize, usize),
    SourceBecomes(Source),
    Snapshot(u64),
    StaleSnapshot,
    NoSnapshot,
    Restart,
    Wait(u64),
    CatchUp,
    Resync,
}

struct Answer {
    id: RecoveryId,
    batches: VecDeque<Batch>,
    source: Source,
}

struct World {
    /// Batches published, by life.
    heads: Vec<u64>,
    /// How many batches back a replay reaches.
    buffer: u64,
    source: Source,
    wire: VecDeque<Batch>,
    answers: Vec<Answer>,
    snapshot: Option<SnapshotRequest>,
    machine: StreamSequencer<Batch>,
    held_limit: usize,
    now: Instant,
    out: Vec<Action<Batch>>,
    /// What the rank holds: the batches applied since it was forgotten or cleared.
    state: Vec<Batch>,
    /// The last batch that went into the state.
    last: Option<Batch>,
    /// The last batch applied ever, unless a resync or a restored state allows to go back.
    high: Option<Batch>,
    /// Life of the last batch that came live.
    heard: Option<u64>,
    put_in: u64,
    came_out: u64,
}

fn clears((life, sequence): Batch) -> bool {
    (life * 31 + sequence) % 11 == 7
}

/// What a rank holds after all batches of a life up to and including `last`.
fn literal((life, last): Batch) -> Vec<Batch> {
    let start = (0..=last).rev().find(|&sequence| clears((life, sequence))).unwrap_or(0);
    (start..=last).map(|sequence| (life, sequence)).collect()
}

fn numbered(batch: Batch) -> Numbered<Batch> {
    let (life, sequence) = batch;
    Numbered {
        incarnation: Incarnation::new(life),
        sequence,
        clears: clears(batch),
        lossy: false,
        payload: batch,
    }
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "an origin for the virtual clock")]
    fn new(replay: bool, snapshot: bool, buffer: u64, held: usize) -> Self {
        let waits = ReplayWaits { idle: Duration::from_millis(50), total: Duration::from_millis(300) };
        let config = SequencerConfig {
            replay: replay.then_some(waits),
            snapshot: snapshot.then_some(Duration::from_millis(100)),
            held,
            ..SequencerConfig::default()
        };
        Self {
            heads: vec![0],
            buffer,
            source: Source::Good,
            wire: VecDeque::new(),
            answers: vec![],
            snapshot: None,
            machine: StreamSequencer::new(config).unwrap(),
            held_limit: held,
            now: Instant::now(),
            out: vec![],
            state: vec![],
            last: None,
            high: None,
            heard: None,
            put_in: 0,
            came_out: 0,
        }
    }

    fn life(&self) -> u64 {
        self.heads.len() as u64 - 1
    }

    fn head(&self) -> u64 {
        *self.heads.last().unwrap()
    }

    fn publish(&mut self) -> Batch {
        let batch = (self.life(), self.head());
        *self.heads.last_mut().unwrap() += 1;
        batch
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Publish(count) => {
                for _ in 0..count {
                    let batch = self.publish();
                    self.wire.push_back(batch);
                }
            }
            Op::PublishUnheard(count) => {
                for _ in 0..count {
                    self.publish();
                }
            }
            Op::Deliver(count) => (0..count).for_each(|_| self.deliver()),
            Op::Repeat(at) => {
                if let Some(&batch) = self.wire.get(at) {
                    self.wire.push_back(batch);
                }
            }
            Op::Swap(at) => {
                if at + 1 < self.wire.len() {
                    self.wire.swap(at, at + 1);
                }
            }
            Op::Pump(which, count) => {
                if !self.answers.is_empty() {
                    self.pump(which % self.answers.len(), count);
                }
            }
            Op::SourceBecomes(source) => self.source = source,
            Op::Snapshot(behind) => self.restore(behind),
            Op::StaleSnapshot => self.restore_stale(),
            Op::NoSnapshot => {
                if let Some(request) = self.snapshot.take() {
                    self.machine.snapshot_failed(self.now, request.id, &mut self.out);
                    self.obey();
                }
            }
            Op::Restart => self.heads.push(0),
            Op::Wait(millis) => {
                self.now += Duration::from_millis(millis);
                self.machine.tick(self.now, &mut self.out);
                self.obey();
            }
            Op::CatchUp => {
                self.machine.catch_up(self.now, &mut self.out);
                self.obey();
            }
            Op::Resync => {
                if self.machine.resync(self.now, &mut self.out) {
                    self.high = None;
                }
                self.obey();
            }
        }
    }

    fn deliver(&mut self) {
        if let Some(batch) = self.wire.pop_front() {
            self.put_in += 1;
            self.heard = self.heard.max(Some(batch.0));
            self.machine.live(self.now, numbered(batch), &mut self.out);
            self.obey();
        }
    }

    fn pump(&mut self, which: usize, count: usize) {
        for _ in 0..count {
            let answer = &mut self.answers[which];
            let id = answer.id;
            let Some(batch) = answer.batches.pop_front() else {
                let answer = self.answers.remove(which);
                match answer.source {
                    Source::Good | Source::StopsAfter(_) => {
                        self.machine.replay_ended(self.now, id, &mut self.out);
                    }
                    Source::Fails => self.machine.replay_failed(self.now, id, &mut self.out),
                    Source::Silent | Source::NeverEnds => {}
                }
                return self.obey();
            };
            self.put_in += 1;
            self.machine.replayed(self.now, id, numbered(batch), &mut self.out);
            self.obey();
        }
    }

    /// What the engine answers, fixed when it is asked.
    fn ask(&mut self, request: ReplayRequest) {
        let life = self.life();
        let reach = self.head().saturating_sub(self.buffer).max(request.from);
        let mut batches: VecDeque<Batch> = (reach..self.head()).map(|sequence| (life, sequence)).collect();
        match self.source {
            Source::Good | Source::NeverEnds => {}
            Source::Silent => batches.clear(),
            Source::Fails => batches.truncate(1),
            Source::StopsAfter(count) => batches.truncate(count),
        }
        self.answers.push(Answer { id: request.id, batches, source: self.source });
    }

    fn restore(&mut self, behind: u64) {
        if self.snapshot.take().is_none() || self.head() == 0 || !self.machine.recovers_by_snapshot() {
            return;
        }
        let mark = (self.life(), (self.head() - 1).saturating_sub(behind));
        self.state = literal(mark);
        self.last = Some(mark);
        self.high = None;
        self.machine.restored(self.now, Watermark::new(Incarnation::new(mark.0), mark.1), &mut self.out);
        self.obey();
    }

    fn restore_stale(&mut self) {
        if self.heard.is_some_and(|heard| heard > 0) {
            self.state = literal((0, 3));
            self.last = Some((0, 3));
            self.machine.restored(self.now, Watermark::new(Incarnation::new(0), 3), &mut self.out);
            self.obey();
        }
    }

    /// Does what the machine says, and checks that it may say so.
    fn obey(&mut self) {
        for action in std::mem::take(&mut self.out) {
            match action {
                Action::Apply(batch) => {
                    self.came_out += 1;
                    if let Some((life, sequence)) = self.last {
                        assert_eq!(batch, (life, sequence + 1), "a run of one life without holes");
                    }
                    assert!(self.high.is_none_or(|high| high < batch), "{batch:?} after {:?}", self.high);
                    self.high = Some(batch);
                    self.last = Some(batch);
                    if clears(batch) {
                        self.state.clear();
                    }
                    self.state.push(batch);
                }
                Action::Forget(_) => {
                    self.state.clear();
                    self.last = None;
                }
                Action::RequestReplay(request) => self.ask(request),
                Action::RequestSnapshot(request) => self.snapshot = Some(request),
                Action::Skip { .. } => self.came_out += 1,
            }
        }
        let standing = self.machine.standing();
        assert_eq!(self.put_in, self.came_out + self.machine.held() as u64, "nothing is lost silently");
        assert!(self.machine.held() <= self.held_limit);
        assert_eq!(self.machine.next_deadline().is_some(), standing == Standing::Recovering);
        assert!(self.machine.held() == 0 || standing == Standing::Recovering);
        if let Some(mark) = self.machine.watermark() {
            assert_eq!(Some(mark.sequence), self.last.map(|last| last.1));
            assert_eq!(self.state, literal(self.last.unwrap()), "a state with a watermark is whole");
        }
        if standing == Standing::Fresh {
            assert!(self.machine.watermark().is_some(), "a fresh rank has a watermark");
        }
    }

    /// Everything works again and the engine goes on: the rank must be live within the deadlines.
    fn settle(&mut self) {
        self.source = Source::Good;
        for _ in 0..3 {
            self.step(Op::Publish(1));
            for _ in 0..200 {
                while !self.wire.is_empty() {
                    self.deliver();
                }
                while !self.answers.is_empty() {
                    self.pump(0, 10_000);
                }
                match self.machine.next_deadline() {
                    Some(deadline) => {
                        self.now = deadline;
                        self.step(Op::Wait(0));
                    }
                    None => break,
                }
            }
        }
        assert_ne!(self.machine.standing(), Standing::Recovering, "{:?}", self.machine);
        assert_eq!(self.last, Some((self.life(), self.head() - 1)), "{:?}", self.machine);
    }
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![
        4 => Just(Source::Good),
        1 => Just(Source::Silent),
        1 => Just(Source::Fails),
        2 => (0usize..4).prop_map(Source::StopsAfter),
        2 => Just(Source::NeverEnds),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1usize..5).prop_map(Op::Publish),
        3 => (1usize..4).prop_map(Op::PublishUnheard),
        8 => (1usize..6).prop_map(Op::Deliver),
        2 => (0usize..6).prop_map(Op::Repeat),
        2 => (0usize..6).prop_map(Op::Swap),
        6 => (0usize..4, 1usize..8).prop_map(|(which, count)| Op::Pump(which, count)),
        2 => source().prop_map(Op::SourceBecomes),
        2 => (0u64..6).prop_map(Op::Snapshot),
        1 => Just(Op::StaleSnapshot),
        1 => Just(Op::NoSnapshot),
        1 => Just(Op::Restart),
        2 => (1u64..120).prop_map(Op::Wait),
        1 => Just(Op::CatchUp),
        1 => Just(Op::Resync),
    ]
}

fn history() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig {
        // The same histories each time: a failure is of the change that shows it.
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(1000)
    })]

    #[test]
    fn a_run_of_one_life_and_no_false_trust(
        replay: bool, snapshot: bool, buffer in 1u64..30, held in 1usize..12, ops in history(),
    ) {
        let mut world = World::new(replay, snapshot, buffer, held);
        ops.into_iter().for_each(|op| world.step(op));
        world.settle();
    }

    /// With a source that remembers everything, whatever the wire loses is had in the end.
    #[test]
    fn nothing_is_missing_after_a_good_replay(ops in history()) {
        let mut world = World::new(true, false, u64::MAX, 10_000);
        for op in ops {
            if !matches!(op, Op::SourceBecomes(_) | Op::Wait(_) | Op::StaleSnapshot) {
                world.step(op);
            }
        }
        world.settle();
        prop_assert_eq!(world.machine.standing(), Standing::Fresh);
        prop_assert_eq!(&world.state, &literal((world.life(), world.head() - 1)));
    }
}
