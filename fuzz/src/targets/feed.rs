//! The feed of one rank, told anything in any order.

use std::time::{Duration, Instant};

use kv_router_transport::{
    Action, Backoff, FeedConfig, FeedCounters, FrameHash, Incarnation, Numbered, RankFeed, RecoveryId,
    ReplayFault, ReplayRequest, ReplayWaits, SequencerCounters, Standing,
};

use crate::input::Choices;

/// Live batches held at most, by the sequence machine and again by the feed.
const HELD: usize = 4;

/// No network misbehaves as these calls do: numbers from anywhere, answers to no question, states restored at any time.
/// What is applied has no hole all the same, every batch is accounted for, and nothing waits for ever.
pub(super) fn calls(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut play = Play::new(&mut choices);
    while !choices.is_over() {
        play.step(&mut choices);
        play.is_sound();
    }
    play.ends();
}

struct Play {
    now: Instant,
    feed: RankFeed<u64>,
    has_source: bool,
    actions: Vec<Action<u64>>,
    asked: Vec<ReplayRequest>,
    /// The last batch that the rank's state has.
    last: Option<u64>,
    fed: u64,
}

impl Play {
    #[expect(clippy::disallowed_methods, reason = "an origin for a clock that is moved by hand")]
    fn new(choices: &mut Choices<'_>) -> Self {
        let kind = choices.byte();
        let has_source = kind & 1 == 0;
        let waits = ReplayWaits { idle: Duration::from_millis(100), total: Duration::from_millis(400) };
        let config = FeedConfig {
            replay: has_source.then_some(waits),
            first_sequence: u64::from(kind >> 1 & 1),
            late_window: [0, 2, 64, u64::MAX][usize::from(kind >> 2 & 3)],
            held: HELD,
            heal: Backoff { first: Duration::from_millis(100), longest: Duration::from_millis(400) },
            seed: 0,
        };
        let feed = match RankFeed::new(config) {
            Ok(feed) => feed,
            Err(error) => panic!("{error}"),
        };
        let (actions, asked) = (Vec::new(), Vec::new());
        Self { now: Instant::now(), feed, has_source, actions, asked, last: None, fed: 0 }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let (now, out) = (self.now, &mut self.actions);
        match choices.below(16) {
            0..=4 => {
                let (batch, frame) = batch(choices);
                self.fed += 1;
                self.feed.live(now, batch, frame, out);
            }
            5..=7 => {
                let (batch, frame) = batch(choices);
                self.fed += 1;
                self.feed.replayed(now, pick(&self.asked, choices), batch, frame, out);
            }
            8 => {
                // An answer as it ought to be, of one life, or the beginning of one.
                let Some(&ask) = self.asked.last() else { return };
                let (life, from) = (choices.byte(), ask.from.saturating_sub(1));
                let to = ask.to.unwrap_or(u64::MAX).min(from.saturating_add(u64::from(choices.below(8))));
                for sequence in from..to.saturating_add(1) {
                    let (batch, frame) = numbered(sequence, life);
                    self.fed += 1;
                    self.feed.replayed(now, ask.id, batch, frame, out);
                }
                self.feed.replay_ended(now, ask.id, out);
            }
            9 => self.feed.replay_ended(now, pick(&self.asked, choices), out),
            10 => {
                let fault = choices.of(&[ReplayFault::OtherLife, ReplayFault::Unanswered]);
                self.feed.replay_failed(now, pick(&self.asked, choices), fault, out);
            }
            11 => {
                self.now += Duration::from_millis(u64::from(choices.byte()));
                self.feed.tick(self.now, out);
            }
            12 => self.feed.connected(now, out),
            13 => match choices.below(4) {
                0 => self.feed.catch_up(now, out),
                1 => _ = self.feed.resync(now, out),
                2 => self.feed.forget(now, out),
                _ => self.feed.mark_suspect(),
            },
            14 => {
                // What was told before it belongs to the state before it.
                let (batch, frame) = batch(choices);
                self.last = Some(batch.sequence);
                self.feed.restored(now, batch.sequence, frame, out);
            }
            _ => {
                // The clock of another thread may be behind.
                let behind = now.checked_sub(Duration::from_millis(u64::from(choices.byte())));
                self.feed.tick(behind.unwrap_or(now), out);
            }
        }
    }

    /// Does what the feed says, and sees that it may be done.
    fn is_sound(&mut self) {
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Apply(sequence) => {
                    if let Some(last) = self.last {
                        assert_eq!(
                            Some(sequence),
                            last.checked_add(1),
                            "a hole, or a repeat: {:?}",
                            self.feed
                        );
                    }
                    self.last = Some(sequence);
                }
                Action::Forget(_) => self.last = None,
                Action::RequestReplay(ask) => {
                    assert!(self.has_source, "there is nobody to ask: {:?}", self.feed);
                    assert!(ask.to.is_none_or(|to| to >= ask.from), "{ask:?}");
                    assert!(self.asked.iter().all(|before| before.id != ask.id), "two requests of one name");
                    self.asked.push(ask);
                }
                Action::RequestSnapshot(_) => panic!("no peer was configured"),
                Action::Skip { .. } => {}
            }
        }
        let health = self.feed.health();
        assert!(health.held <= 2 * HELD, "{health:?}");
        let open = self.asked.iter().filter(|ask| self.feed.wants_replay(ask.id)).count();
        assert!(open <= 1, "{:?}", self.feed);
        let waits = health.standing == Standing::Recovering || open > 0;
        assert!(!waits || self.feed.next_deadline().is_some(), "a wait without an end: {:?}", self.feed);
        if let Some(mark) = self.feed.watermark() {
            assert_eq!(Some(mark.sequence), self.last, "{:?}", self.feed);
        }
        let ended = ended(health.sequencer, health.feed);
        assert_eq!(ended + health.held as u64, self.fed, "batches that nobody saw again: {health:?}");
    }

    /// With nobody there any more, all waits end.
    fn ends(mut self) {
        for _ in 0..64 {
            if self.feed.standing() != Standing::Recovering {
                return;
            }
            let Some(at) = self.feed.next_deadline() else { panic!("{:?}", self.feed) };
            self.now = self.now.max(at);
            self.feed.tick(self.now, &mut self.actions);
            self.is_sound();
        }
        panic!("it recovers for ever: {:?}", self.feed);
    }
}

/// Batches that need not be looked after any more.
pub(super) fn ended(sequencer: SequencerCounters, feed: FeedCounters) -> u64 {
    let SequencerCounters { applied, duplicates, stale, abandoned, unasked, reserved, .. } = sequencer;
    applied + duplicates + stale + abandoned + unasked + reserved + feed.proofs
}

fn pick(asked: &[ReplayRequest], choices: &mut Choices<'_>) -> RecoveryId {
    let back = usize::from(choices.below(3));
    asked.iter().rev().nth(back).map_or(RecoveryId::new(u64::MAX), |ask| ask.id)
}

fn batch(choices: &mut Choices<'_>) -> (Numbered<u64>, FrameHash) {
    let sequence = choices.number();
    numbered(sequence, choices.byte())
}

/// A batch of this life: of an even one it may be lossy or clear all.
fn numbered(sequence: u64, life: u8) -> (Numbered<u64>, FrameHash) {
    let frame = FrameHash::of(&[&[life & 3][..], &sequence.to_le_bytes()].concat());
    let (clears, lossy) = (life & 12 == 4, life & 12 == 8);
    let incarnation = Incarnation::new(u64::from(life)); // to be ignored
    (Numbered { incarnation, sequence, clears, lossy, payload: sequence }, frame)
}

pub(super) fn calls_seeds() -> Vec<Vec<u8>> {
    let live = |sequence: u8| vec![0, sequence, 0];
    let told = |kind: u8, steps: &[Vec<u8>]| [&[kind][..], &steps.concat()].concat();
    let (answer, connect, wait) = (vec![8, 0, 7], vec![12], vec![11, 150]);
    vec![
        told(
            0,
            &[live(0), live(1), live(4), answer.clone(), live(5), connect.clone(), answer.clone(), live(6)],
        ),
        told(0, &[vec![14, 9, 0], live(10), answer.clone(), live(11), vec![13, 0], answer.clone()]),
        told(0, &[live(7), wait.clone(), answer.clone(), wait.clone(), answer, vec![13, 1], wait.clone()]),
        told(1, &[live(0), live(1), live(3), live(4), connect.clone(), live(2), live(9)]),
        told(2, &[connect, live(1), vec![0, 255, 0, 0], live(2), vec![0, 255, 3, 0], wait]),
    ]
}
