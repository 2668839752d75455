//! Histories of engines that lose, repeat and delay messages, start again and answer badly, played without sockets:
//! once everything is quiet, what was applied is exactly what the engine published in its present life.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Backoff, Incarnation, ReplayWaits};

/// An engine, the wire, and a rank that listens, under one clock.
struct World {
    now: Instant,
    life: u8,
    /// What the present life published.
    batches: Vec<Vec<u8>>,
    connected: bool,
    /// Live messages on their way.
    wire: VecDeque<(u64, Vec<u8>)>,
    late_window: u64,
    feed: RankFeed<Batch>,
    actions: Vec<Action<Batch>>,
    asked: Option<ReplayRequest>,
    mood: Mood,
    applied: Vec<Batch>,
    /// A snapshot of the rank, with its watermark.
    saved: Option<(Watermark, Vec<Batch>)>,
}

/// A number and a payload.
type Batch = (u64, Vec<u8>);

/// How the engine answers replay requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    Silent,
    /// Only the end.
    Empty,
    /// From half way on.
    Late,
    /// The first half, and then nothing.
    Stops,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Publish,
    /// Published, and lost on the way.
    Lose,
    Repeat,
    Swap,
    Deliver(usize),
    Answer,
    Disconnect,
    Connect,
    Restart,
    Mood(Mood),
    /// The request gets lost before it is sent.
    LoseRequest,
    Wait(u64),
    Save,
    CatchUp,
    Resync,
    /// The router starts again, from the snapshot if there is one.
    StartAgain,
}

const WAITS: ReplayWaits =
    ReplayWaits { idle: Duration::from_millis(100), total: Duration::from_millis(400) };

const HELD: usize = 8;

fn feed(late_window: u64) -> RankFeed<Batch> {
    let heal = Backoff { first: Duration::from_millis(100), longest: Duration::from_millis(400) };
    RankFeed::new(FeedConfig { replay: Some(WAITS), late_window, held: HELD, heal, ..FeedConfig::default() })
        .unwrap()
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "an origin for a clock that is moved by hand")]
    fn new(late_window: u64) -> Self {
        Self {
            now: Instant::now(),
            life: 0,
            batches: Vec::new(),
            connected: false,
            wire: VecDeque::new(),
            late_window,
            feed: feed(late_window),
            actions: Vec::new(),
            asked: None,
            mood: Mood::Well,
            applied: Vec::new(),
            saved: None,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Publish | Step::Lose => {
                let sequence = self.batches.len() as u64;
                self.batches.push(vec![self.life, sequence as u8]);
                if self.connected && matches!(step, Step::Publish) {
                    self.send(sequence);
                }
            }
            Step::Repeat => {
                if let Some(last) = self.wire.back().cloned() {
                    self.wire.push_back(last);
                }
            }
            Step::Swap => {
                let length = self.wire.len();
                if length >= 2 {
                    self.wire.swap(length - 1, length - 2);
                }
            }
            Step::Deliver(count) => self.deliver(count),
            Step::Answer => self.answer(),
            Step::Disconnect => self.connected = false,
            Step::Connect if !self.connected => {
                self.connected = true;
                // What was on its way over the connection before is lost with it, or came before.
                self.wire.clear();
                self.feed.connected(self.now, &mut self.actions);
                self.act();
            }
            Step::Connect => {}
            Step::Restart => {
                self.connected = false;
                self.life += 1;
                self.batches.clear();
            }
            Step::Mood(mood) => self.mood = mood,
            Step::LoseRequest => self.asked = None,
            Step::Wait(milliseconds) => {
                self.now += Duration::from_millis(milliseconds);
                self.feed.tick(self.now, &mut self.actions);
                self.act();
            }
            Step::CatchUp => {
                self.feed.catch_up(self.now, &mut self.actions);
                self.act();
            }
            Step::Resync => {
                self.feed.resync(self.now, &mut self.actions);
                self.act();
            }
            Step::Save => {
                if let Some(mark) = self.feed.watermark() {
                    self.saved = Some((mark, self.applied.clone()));
                }
            }
            Step::StartAgain => {
                self.feed = feed(self.late_window);
                self.applied.clear();
                self.asked = None;
                self.connected = false;
                self.wire.clear();
                if let Some((mark, applied)) = self.saved.clone() {
                    self.applied = applied;
                    self.feed.restored(self.now, mark.sequence, mark.frame.unwrap(), &mut self.actions);
                    assert_eq!(self.feed.standing(), Standing::Recovering, "nothing is proven yet");
                    assert!(self.feed.next_deadline().is_some(), "nor will it wait for ever");
                    self.act();
                }
            }
        }
    }

    fn send(&mut self, sequence: u64) {
        self.wire.push_back((sequence, self.batches[sequence as usize].clone()));
    }

    fn deliver(&mut self, count: usize) {
        for _ in 0..count {
            let Some((sequence, payload)) = self.wire.pop_front() else { return };
            let (batch, frame) = numbered(sequence, payload);
            self.feed.live(self.now, batch, frame, &mut self.actions);
            self.act();
        }
    }

    /// These come live, whatever was sent. Says how many lives the feed took for over since it was made.
    fn live(&mut self, sequences: impl IntoIterator<Item = u64>) -> u64 {
        sequences.into_iter().for_each(|sequence| self.send(sequence));
        self.deliver(usize::MAX);
        self.feed.health().feed.new_life
    }

    /// The engine that there is now answers what is asked, whomever it was asked of.
    fn answer(&mut self) {
        let Some(ask) = self.asked.take() else { return };
        let (start, length) = (ask.from, self.batches.len() as u64);
        let range = match self.mood {
            Mood::Silent => return self.asked = Some(ask),
            Mood::Well => start..length,
            Mood::Empty => 0..0,
            Mood::Late => start.max(length / 2)..length,
            Mood::Stops => start..length / 2,
        };
        let batches: Vec<_> = range.map(|at| (at, self.batches[at as usize].clone())).collect();
        for (sequence, payload) in batches {
            let (batch, frame) = numbered(sequence, payload);
            self.feed.replayed(self.now, ask.id, batch, frame, &mut self.actions);
            self.act();
            if self.asked.is_some() {
                return; // replaced by a newer request
            }
            if ask.to.is_some_and(|to| sequence >= to) {
                self.feed.replay_ended(self.now, ask.id, &mut self.actions);
                return self.act();
            }
        }
        if self.mood == Mood::Stops {
            let fault = ReplayFault::Unanswered;
            self.feed.replay_failed(self.now, ask.id, fault, &mut self.actions);
        } else {
            self.feed.replay_ended(self.now, ask.id, &mut self.actions);
        }
        self.act();
    }

    fn act(&mut self) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Apply((sequence, payload)) => {
                    if let Some(&(before, _)) = self.applied.last() {
                        assert_eq!(sequence, before + 1, "a run has no holes and no repeats");
                    }
                    if clears(&payload) {
                        self.applied.clear();
                    }
                    self.applied.push((sequence, payload));
                }
                Action::Forget(_) => self.applied.clear(),
                Action::RequestReplay(ask) => self.asked = Some(ask),
                Action::RequestSnapshot(_) => unreachable!("no peer is configured"),
                Action::Skip { .. } => {}
            }
        }
        let health = self.feed.health();
        assert!(health.held <= 2 * HELD + 1);
        assert!(health.standing != Standing::Recovering || self.feed.next_deadline().is_some());
        if let Some(mark) = self.feed.watermark() {
            assert_eq!(self.applied.last().map(|&(sequence, _)| sequence), Some(mark.sequence));
        }
        if let (Standing::Fresh, Some((first, payload))) = (health.standing, self.applied.first()) {
            assert!(*first == 0 || clears(payload), "a fresh rank is whole");
        }
    }

    /// Faults are over, the connection stands, the engine is idle: everything must come right by itself.
    fn calm_down(&mut self) {
        self.take(Step::Mood(Mood::Well));
        self.take(Step::Connect);
        self.until_exact(&[Step::CatchUp]); // the loss of the last batches shows only when somebody asks
    }

    /// The same, over a connection that loses nothing once it is made: nobody has to ask.
    fn connect_anew(&mut self) {
        self.take(Step::Mood(Mood::Well));
        self.take(Step::Disconnect);
        self.take(Step::Connect);
        self.until_exact(&[]);
    }

    fn until_exact(&mut self, besides: &[Step]) {
        for _ in 0..100 {
            besides.iter().for_each(|&step| self.take(step));
            self.deliver(usize::MAX);
            self.answer();
            self.take(Step::Wait(50));
            if self.is_exact() {
                return;
            }
        }
    }

    fn is_exact(&self) -> bool {
        let start = self.batches.iter().rposition(|payload| clears(payload)).unwrap_or(0);
        let expected = (0..).zip(self.batches.iter().cloned()).skip(start);
        // Of an engine that has published nothing, nobody knows anything.
        (self.feed.health().standing == Standing::Fresh || self.batches.is_empty())
            && self.applied.iter().cloned().eq(expected)
    }
}

/// Whether a batch of this payload leaves nothing of what was before it.
fn clears(payload: &[u8]) -> bool {
    payload.iter().fold(0, |sum, &byte| sum * 31 + u32::from(byte)) % 11 == 7
}

fn numbered(sequence: u64, payload: Vec<u8>) -> (Numbered<Batch>, FrameHash) {
    let frame = FrameHash::of(&payload);
    // Has to be ignored: would not one batch of two apply otherwise.
    let incarnation = Incarnation::new(u64::MAX - sequence);
    let clears = clears(&payload);
    (Numbered { incarnation, sequence, clears, lossy: false, payload: (sequence, payload) }, frame)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Publish),
        2 => Just(Step::Lose),
        1 => Just(Step::Repeat),
        1 => Just(Step::Swap),
        6 => (1..4_usize).prop_map(Step::Deliver),
        4 => Just(Step::Answer),
        1 => Just(Step::Disconnect),
        3 => Just(Step::Connect),
        1 => Just(Step::Restart),
        2 => prop_oneof![
            Just(Mood::Well), Just(Mood::Silent), Just(Mood::Empty), Just(Mood::Late), Just(Mood::Stops)
        ].prop_map(Step::Mood),
        1 => Just(Step::LoseRequest),
        2 => (1..200_u64).prop_map(Step::Wait),
        2 => Just(Step::Save),
        1 => Just(Step::CatchUp),
        1 => Just(Step::Resync),
        1 => Just(Step::StartAgain),
    ]
}

proptest! {
    #[test]
    fn after_any_history_quiet_makes_exact(
        steps in prop::collection::vec(step(), 0..120),
        window in prop_oneof![Just(0_u64), Just(2), Just(64)],
    ) {
        let mut world = World::new(window);
        for step in steps {
            world.take(step);
        }
        world.calm_down();
        prop_assert!(world.is_exact(), "{:?} of {:?}, {:?}", world.applied, world.batches, world.feed);
    }
}

proptest! {
    #[test]
    fn after_any_history_a_new_connection_makes_exact(
        steps in prop::collection::vec(step(), 0..120),
        window in prop_oneof![Just(0_u64), Just(2), Just(64)],
    ) {
        let mut world = World::new(window);
        for step in steps {
            world.take(step);
        }
        world.connect_anew();
        prop_assert!(world.is_exact(), "{:?} of {:?}, {:?}", world.applied, world.batches, world.feed);
    }
}

#[test]
fn a_window_tells_late_from_restarted() {
    let published = |window: u64| {
        let mut world = World::new(window);
        (0..8).for_each(|_| world.take(Step::Publish));
        world
    };
    let mut world = published(3);
    assert_eq!(world.live([0, 1, 2, 3, 4]), 0);
    assert_eq!(world.live([4, 3, 2, 1]), 0);
    assert_eq!(world.live([6, 5, 7]), 0, "a late batch closes its gap");
    assert_eq!(world.applied.len(), 1, "up to 7, which clears");
    assert_eq!(world.feed.health().sequencer.duplicates, 4);
    assert_eq!(world.live([5, 3]), 1, "the window starts at the newest, not the last");
    assert_eq!(world.asked.map(|ask| (ask.from, ask.to)), Some((0, Some(3))));
    world.take(Step::Answer);
    assert_eq!((world.applied.len(), world.feed.standing()), (4, Standing::Fresh));

    let mut world = published(64);
    assert_eq!(world.live([0, 1, 2, 0]), 1, "the first one always starts a life");
    assert_eq!(world.live([0]), 1, "unless it is all there is");
    assert_eq!((world.applied.len(), world.feed.standing()), (1, Standing::Fresh));
}

#[test]
fn a_duplicate_that_a_replay_made_is_no_restart() {
    let mut world = World::new(0);
    (0..4).for_each(|_| world.take(Step::Publish));
    world.live([0]);
    world.take(Step::CatchUp);
    world.take(Step::Answer);
    assert!(world.is_exact(), "the replay ran ahead of the live stream");
    assert_eq!(world.live([1, 2, 3, 3]), 0);
    assert_eq!(world.feed.health().sequencer.duplicates, 4);
    assert_eq!(world.live([2]), 1, "one connection never goes back");
}

/// Found by the property above. Whom the first question was asked of may be gone when the connection is made.
#[test]
fn what_was_asked_before_the_first_connection_has_to_be_proven() {
    use Step::{Answer, CatchUp, Connect, Deliver, LoseRequest, Publish, Restart};
    let mut world = World::new(0);
    for step in [Publish, CatchUp, Answer, Restart, Publish, Connect, LoseRequest, Publish, Deliver(1)] {
        world.take(step);
    }
    assert_eq!(world.applied, [(0, vec![0, 0])], "what comes live waits");
    world.calm_down();
    assert!(world.is_exact());

    let mut world = World::new(0);
    [Publish, CatchUp].into_iter().for_each(|step| world.take(step));
    let ask = world.asked.unwrap();
    [Restart, Publish, Connect].into_iter().for_each(|step| world.take(step));
    assert!(!world.feed.wants_replay(ask.id), "its answer may be of the life before");
    world.calm_down();
    assert!(world.is_exact());
}

/// Found by fuzzing: an answer began behind what was asked for, so that nothing of it was missing any more.
#[test]
fn no_question_ends_before_it_begins() {
    let mut world = World::new(64);
    (0..20).for_each(|_| world.take(Step::Publish));
    world.live([0]);
    world.take(Step::Resync);
    world.live([19]);
    let ask = world.asked.unwrap();
    assert_eq!((ask.from, ask.to), (0, Some(0)));
    let (batch, frame) = numbered(17, world.batches[17].clone());
    world.feed.replayed(world.now, ask.id, batch, frame, &mut world.actions);
    world.act();
    world.take(Step::Connect);
    let ask = world.asked.unwrap();
    assert_eq!((ask.from, ask.to), (17, None), "not what is there already");
    world.calm_down();
    assert!(world.is_exact());
}

/// The other bank of a hole is proof that what filled it is of the same life. Until it is shown, no snapshot may say
/// that all of it is.
#[test]
fn there_is_no_watermark_while_proof_is_owed() {
    let mut world = World::new(0);
    for step in [Step::Publish, Step::Connect, Step::Answer, Step::Lose, Step::Publish, Step::Publish] {
        world.take(step);
    }
    assert_eq!(world.feed.watermark().unwrap().sequence, 0);
    world.take(Step::Deliver(1));
    let ask = world.asked.take().unwrap();
    assert_eq!((ask.from, ask.to), (0, Some(2)));
    for sequence in 0..3 {
        let owes = sequence < 2;
        let (batch, frame) = numbered(sequence, world.batches[sequence as usize].clone());
        world.feed.replayed(world.now, ask.id, batch, frame, &mut world.actions);
        world.act();
        assert_eq!(world.feed.watermark().is_none(), owes, "{sequence}");
    }
    assert_eq!(world.feed.watermark().unwrap().sequence, 2);
}

/// Without a replay source numbers are all there is.
#[test]
fn without_a_source_a_step_back_is_a_new_life_and_a_hole_makes_cold() {
    let mut world = World::new(64);
    world.feed = RankFeed::new(FeedConfig::default()).unwrap();
    for step in [Step::Connect, Step::Publish, Step::Publish, Step::Deliver(2)] {
        world.take(step);
    }
    assert!(world.is_exact() && world.asked.is_none());
    for step in [Step::Restart, Step::Publish, Step::Connect, Step::Publish, Step::Deliver(2)] {
        world.take(step);
    }
    // Batch 0 of the new life was never seen, and 1 is the number that was last seen of the old one.
    assert_eq!(world.applied, [(1, vec![1, 1])]);
    assert_eq!(world.feed.health().standing, Standing::Cold);
    assert_eq!((world.feed.health().feed.new_life, world.feed.next_deadline()), (1, None));
}

#[test]
fn without_a_source_a_restored_state_goes_on_only_ahead() {
    for (first, new_lives) in [(41, 1), (7, 1), (42, 0)] {
        let mut world = World::new(64);
        world.feed = RankFeed::new(FeedConfig::default()).unwrap();
        let payload = vec![0];
        world.applied = (0..=41).map(|sequence| (sequence, payload.clone())).collect();
        world.feed.restored(world.now, 41, FrameHash::of(&payload), &mut world.actions);
        assert_eq!(world.feed.standing(), Standing::Fresh);
        let (batch, frame) = numbered(first, payload);
        world.feed.live(world.now, batch, frame, &mut world.actions);
        world.act();
        assert_eq!(world.feed.health().feed.new_life, new_lives, "{first}");
        let (held, standing) = if new_lives == 0 { (43, Standing::Fresh) } else { (1, Standing::Cold) };
        assert_eq!((world.applied.len(), world.feed.standing()), (held, standing));
    }
}

/// The state is of whoever heard a batch before we did.
#[test]
fn a_live_stream_that_is_behind_a_restored_state_catches_up_with_it() {
    let mut world = World::new(0);
    (0..8).for_each(|_| world.take(Step::Publish));
    world.applied = (0..).zip(world.batches.iter().cloned()).take(6).collect();
    let frame = FrameHash::of(&world.batches[5]);
    world.feed.restored(world.now, 5, frame, &mut world.actions);
    world.take(Step::Connect);
    assert_eq!(world.live([3, 4]), 0);
    world.take(Step::Answer);
    assert_eq!(world.live([5, 6, 7]), 0, "what the state has is no step back");
    assert_eq!((world.feed.standing(), world.feed.health().feed.same_life), (Standing::Fresh, 1));
    assert_eq!(world.applied.last().map(|&(sequence, _)| sequence), Some(7));
    assert_eq!(world.live([4]), 1, "this is one");
}

#[test]
fn batches_of_an_unproven_connection_are_bounded() {
    let mut world = World::new(64);
    for step in [Step::Connect, Step::Answer, Step::Publish, Step::Deliver(1), Step::Mood(Mood::Silent)] {
        world.take(step);
    }
    world.take(Step::Disconnect);
    world.take(Step::Connect);
    for _ in 0..100 {
        world.take(Step::Publish);
        world.take(Step::Deliver(1));
    }
    assert!(world.feed.health().feed.new_life >= 1);
    world.calm_down();
    assert!(world.is_exact());
}

/// Found by the property above, where it is rare: a hole in the batches of one life is filled by a late one of the
/// life before, and the replay that would tell is cut short by a new connection, or begins too late to tell.
#[test]
fn a_hole_filled_from_another_life_is_noticed() {
    use Step::{Answer, Connect, Deliver, Publish, Restart};
    let late = Step::Mood(Mood::Late);
    let histories: [&[Step]; 3] = [
        &[
            Publish,
            Connect,
            Publish,
            Restart,
            Publish,
            Deliver(1),
            Publish,
            Publish,
            Answer,
            Publish,
            Connect,
            Answer,
            Publish,
            Restart,
            Publish,
            Publish,
            Answer,
            Publish,
            Deliver(1),
            Publish,
            Publish,
            Connect,
            Publish,
        ],
        &[
            Publish,
            Connect,
            Publish,
            Restart,
            Deliver(1),
            Connect,
            Publish,
            Restart,
            Publish,
            late,
            Publish,
            Answer,
            Deliver(1),
        ],
        &[
            Connect,
            Publish,
            Deliver(1),
            Restart,
            Connect,
            Publish,
            Answer,
            late,
            Restart,
            Publish,
            Publish,
            Answer,
            Deliver(1),
            Answer,
        ],
    ];
    for history in histories {
        let mut world = World::new(0);
        for &step in history {
            world.take(step);
        }
        world.calm_down();
        assert!(world.is_exact(), "{:?} of {:?}", world.applied, world.batches);
    }
}

/// The first batch of an answer is one that is here already: it shows that the source answers, as any other does.
#[test]
fn the_proof_of_a_life_keeps_an_answer_alive() {
    use Step::{Answer, Connect, Disconnect, Publish};
    let mut world = World::new(0);
    for step in [Publish, Connect, Answer, Disconnect, Publish, Connect] {
        world.take(step);
    }
    let ask = world.asked.take().unwrap();
    for sequence in ask.from..2 {
        world.take(Step::Wait(90));
        let (batch, frame) = numbered(sequence, world.batches[sequence as usize].clone());
        world.feed.replayed(world.now, ask.id, batch, frame, &mut world.actions);
        world.act();
    }
    world.feed.replay_ended(world.now, ask.id, &mut world.actions);
    world.act();
    assert!(world.is_exact(), "{:?} of {:?}", world.applied, world.batches);
    assert_eq!((world.feed.health().feed.same_life, world.feed.health().feed.new_life), (1, 0));
}

/// What is asked again over a new connection has all its time, and is all that was published unseen.
#[test]
fn a_connection_that_breaks_amid_a_recovery_loses_nothing() {
    use Step::{Answer, Connect, Deliver, Disconnect, Lose, Publish, Wait};
    let mut world = World::new(0);
    let broken = [Publish, Connect, Answer, Lose, Publish, Deliver(1), Disconnect, Publish];
    for step in broken.into_iter().chain([Wait(90), Connect, Wait(90), Answer]) {
        world.take(step);
    }
    assert!(world.is_exact(), "{:?} of {:?}", world.applied, world.batches);
    assert_eq!((world.feed.health().feed.same_life, world.feed.health().feed.new_life), (1, 0));
    assert_eq!(world.feed.health().sequencer.forgets, 1, "at the first contact");
}

/// Found by the property above, where it is rare: what waits behind a hole came over a connection to an older life, and
/// the source is of a younger one, which is shorter.
#[test]
fn what_waits_behind_a_hole_is_of_the_life_of_the_source_or_nothing() {
    use Step::{Answer, Connect, Deliver, Disconnect, Publish, Restart};
    let mut world = World::new(0);
    world.take(Restart); // whose batch 9 clears: a rank that holds it alone would be called fresh
    (0..7).for_each(|_| world.take(Publish));
    for step in [Connect, Disconnect, Publish, Answer, Publish, Connect, Publish, Restart, Answer, Publish] {
        world.take(step);
    }
    [Answer, Deliver(1)].into_iter().for_each(|step| world.take(step));
    assert_eq!(world.feed.health().held, 1);
    world.connect_anew();
    assert!(world.is_exact(), "{:?} of {:?}", world.applied, world.batches);
}

#[test]
fn a_source_that_has_nothing_does_not_stop_the_live_stream() {
    use Step::{Answer, Connect, Deliver, Lose, Publish};
    let mut world = World::new(0);
    for step in [Step::Mood(Mood::Empty), Connect, Answer, Publish, Deliver(1), Lose, Publish, Deliver(1)] {
        world.take(step);
    }
    // It lacks the batch before the hole, so it is of another life: what came before the answer is of neither.
    for step in [Answer, Publish, Deliver(1), Answer, Answer, Publish, Deliver(1)] {
        world.take(step);
    }
    assert_eq!(world.applied, [(3, vec![0, 3]), (4, vec![0, 4])]);
    assert_eq!((world.feed.standing(), world.feed.health().feed.new_life), (Standing::Cold, 1));
}

#[test]
fn waits_of_healing_that_mean_nothing_are_refused() {
    for wait in [Duration::ZERO, Duration::MAX] {
        let fine = Duration::from_secs(1);
        for (field, first, longest) in [("heal.first", wait, fine), ("heal.longest", fine, wait)] {
            let config = FeedConfig { heal: Backoff { first, longest }, ..FeedConfig::default() };
            let refused = RankFeed::<Batch>::new(config).unwrap_err();
            assert_eq!(refused, SequencerConfigError::WaitOutOfRange { field, wait });
        }
    }
}
