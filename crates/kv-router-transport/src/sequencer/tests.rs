//! One scenario a test. Batches are numbers; what comes out is written as short words.

use std::time::Duration;

use super::*;

/// A sequencer with a clock. Words: `5` applied, `-5dup` skipped, `!Gap` forgotten, `?6..7` replay, `?snap 6`.
struct Rig {
    machine: StreamSequencer<u64>,
    now: Instant,
    life: u64,
    replay: RecoveryId,
    snapshot: RecoveryId,
    out: Vec<Action<u64>>,
}

impl Rig {
    #[expect(clippy::disallowed_methods, reason = "an origin for the virtual clock")]
    fn new(config: SequencerConfig) -> Self {
        Self {
            machine: StreamSequencer::new(config).unwrap(),
            now: Instant::now(),
            life: 1,
            replay: RecoveryId::new(0),
            snapshot: RecoveryId::new(0),
            out: vec![],
        }
    }

    fn batch(&self, sequence: u64) -> Numbered<u64> {
        Numbered {
            incarnation: Incarnation::new(self.life),
            sequence,
            clears: false,
            lossy: false,
            payload: sequence,
        }
    }

    fn live(&mut self, sequences: impl IntoIterator<Item = u64>) -> String {
        for sequence in sequences {
            self.machine.live(self.now, self.batch(sequence), &mut self.out);
        }
        self.said()
    }

    fn clear(&mut self, sequence: u64) -> String {
        let batch = Numbered { clears: true, ..self.batch(sequence) };
        self.machine.live(self.now, batch, &mut self.out);
        self.said()
    }

    fn replay(&mut self, sequences: impl IntoIterator<Item = u64>) -> String {
        let id = self.replay;
        for sequence in sequences {
            self.machine.replayed(self.now, id, self.batch(sequence), &mut self.out);
        }
        self.said()
    }

    fn end(&mut self) -> String {
        self.machine.replay_ended(self.now, self.replay, &mut self.out);
        self.said()
    }

    fn fail(&mut self) -> String {
        self.machine.replay_failed(self.now, self.replay, &mut self.out);
        self.said()
    }

    fn no_snapshot(&mut self) -> String {
        self.machine.snapshot_failed(self.now, self.snapshot, &mut self.out);
        self.said()
    }

    fn restore(&mut self, sequence: u64) -> String {
        let watermark = Watermark::new(Incarnation::new(self.life), sequence);
        self.machine.restored(self.now, watermark, &mut self.out);
        self.said()
    }

    fn wait(&mut self, millis: u64) -> String {
        self.now += Duration::from_millis(millis);
        self.machine.tick(self.now, &mut self.out);
        self.said()
    }

    fn said(&mut self) -> String {
        let words: Vec<String> = self
            .out
            .drain(..)
            .map(|action| match action {
                Action::Apply(payload) => payload.to_string(),
                Action::Skip { sequence, reason: SkipReason::Duplicate } => format!("-{sequence}dup"),
                Action::Skip { sequence, reason } => format!("-{sequence}{reason:?}"),
                Action::Forget(reason) => format!("!{reason:?}"),
                Action::RequestReplay(request) => {
                    self.replay = request.id;
                    let to = request.to.map_or(String::new(), |to| to.to_string());
                    format!("?{}..{to}", request.from)
                }
                Action::RequestSnapshot(request) => {
                    self.snapshot = request.id;
                    format!("?snap {}", request.next)
                }
            })
            .collect();
        words.join(" ")
    }
}

const WAITS: ReplayWaits =
    ReplayWaits { idle: Duration::from_millis(100), total: Duration::from_millis(1000) };

fn bare() -> SequencerConfig {
    SequencerConfig { held: 4, ..SequencerConfig::default() }
}

fn replaying() -> SequencerConfig {
    SequencerConfig { replay: Some(WAITS), ..bare() }
}

fn with_peer() -> SequencerConfig {
    SequencerConfig { snapshot: Some(Duration::from_millis(500)), ..replaying() }
}

#[track_caller]
fn stands(rig: &Rig, standing: Standing) {
    assert_eq!(rig.machine.standing(), standing);
    assert_eq!(rig.machine.next_deadline().is_some(), standing == Standing::Recovering);
}

#[test]
fn in_order_applies_and_a_duplicate_is_skipped() {
    let mut rig = Rig::new(replaying());
    stands(&rig, Standing::Cold);
    assert_eq!(rig.live([0, 1, 1, 0, 2]), "!FirstContact 0 1 -1dup -0dup 2");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.machine.watermark(), Some(Watermark::new(Incarnation::new(1), 2)));
}

#[test]
fn a_gap_is_replayed_exactly_and_live_batches_wait() {
    let mut rig = Rig::new(replaying());
    rig.live([0, 1, 2]);
    assert_eq!(rig.live([5, 6, 6]), "?3..4 -6dup");
    stands(&rig, Standing::Recovering);
    assert_eq!(rig.machine.watermark().unwrap().sequence, 2);
    assert_eq!(rig.replay([2, 3]), "-2dup 3");
    assert_eq!(rig.replay([4]), "4 5 6");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.replay([5]), "-5Unasked", "engines send everything up to their head");
    assert_eq!(rig.end(), "");
    assert_eq!(rig.live([7]), "7");
}

#[test]
fn a_gap_without_a_source_forgets_and_goes_on() {
    let mut rig = Rig::new(bare());
    assert_eq!(rig.live([0, 1, 3, 4]), "!FirstContact 0 1 !Gap 3 4");
    stands(&rig, Standing::Cold);
    assert_eq!(rig.machine.watermark(), None, "a cold state must not be dumped as a whole one");
    assert_eq!(rig.live([2]), "-2dup");
    assert_eq!(rig.clear(5), "5");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.machine.watermark().unwrap().sequence, 5);
}

#[test]
fn a_first_batch_that_is_not_the_first_asks_for_what_was_before() {
    let mut rig = Rig::new(replaying());
    assert_eq!(rig.live([3]), "!FirstContact ?0..2");
    assert_eq!(rig.replay([0, 1, 2]), "0 1 2 3");
    stands(&rig, Standing::Fresh);

    let mut rig = Rig::new(bare());
    assert_eq!(rig.live([3, 4]), "!FirstContact !Gap 3 4");
    stands(&rig, Standing::Cold);
}

#[test]
fn a_publisher_may_start_at_one() {
    let mut rig = Rig::new(SequencerConfig { first_sequence: 1, ..replaying() });
    assert_eq!(rig.live([1, 2]), "!FirstContact 1 2");
    stands(&rig, Standing::Fresh);
    let mut rig = Rig::new(SequencerConfig { first_sequence: 1, ..replaying() });
    assert_eq!(rig.live([0, 1]), "!FirstContact 0 1", "or after all at zero");
    let mut rig = Rig::new(SequencerConfig { first_sequence: 1, ..replaying() });
    assert_eq!(rig.live([3]), "!FirstContact ?1..2");
    assert_eq!(rig.machine.watermark(), None, "nothing is applied yet");
}

#[test]
fn a_replay_that_starts_too_late_still_gives_what_it_has() {
    let mut rig = Rig::new(replaying());
    assert_eq!(rig.live([900, 901]), "!FirstContact ?0..899");
    assert_eq!(rig.replay([897, 898]), "!ReplayIncomplete 897 898");
    assert_eq!(rig.replay([899]), "899 900 901");
    stands(&rig, Standing::Cold);
}

#[test]
fn a_hole_inside_a_replay_starts_a_new_run() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([6]), "?1..5");
    assert_eq!(rig.replay([1, 2, 4, 5]), "1 2 !ReplayIncomplete 4 5 6");
    stands(&rig, Standing::Cold);
}

#[test]
fn a_replay_that_ends_too_early_leaves_the_held_ones() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([4, 5]), "?1..3");
    assert_eq!(rig.replay([1]), "1");
    assert_eq!(rig.end(), "!ReplayIncomplete 4 5");
    stands(&rig, Standing::Cold);
}

#[test]
fn a_second_gap_is_asked_for_when_the_first_is_closed() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([2, 4, 6]), "?1..1");
    assert_eq!(rig.replay([1]), "1 2");
    assert_eq!(rig.end(), "?3..3");
    assert_eq!(rig.replay([3]), "3 4");
    assert_eq!(rig.wait(100), "?5..5", "no end can be relied on");
    assert_eq!(rig.replay([5]), "5 6");
    stands(&rig, Standing::Fresh);
}

#[test]
fn an_answer_that_goes_on_closes_the_second_gap_too() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([2, 4]), "?1..1");
    assert_eq!(rig.replay([1, 2, 3]), "1 2 -2dup 3 4");
    stands(&rig, Standing::Fresh);

    rig.live([6, 8, 10]);
    assert_eq!(rig.replay([5, 6, 9]), "5 6 -6dup ?7..7 -9Unasked", "a hole beyond what was asked");
    stands(&rig, Standing::Recovering);
}

#[test]
fn a_source_that_never_answers_costs_one_wait() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([2, 3, 5]), "?1..1");
    assert_eq!(rig.wait(99), "");
    assert_eq!(rig.wait(1), "-2Abandoned -3Abandoned !ReplayDeadline 5");
    stands(&rig, Standing::Cold);
    assert_eq!(rig.live([6]), "6");
    assert_eq!(rig.replay([1]), "-1Unasked");
}

#[test]
fn the_live_stream_alone_ends_a_wait() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    rig.live([2]);
    rig.now += Duration::from_secs(60);
    assert_eq!(rig.live([3]), "!ReplayDeadline 2 3");
}

#[test]
fn a_trickling_source_meets_the_total_deadline() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([1000]), "?1..999");
    for sequence in 1..=11 {
        assert_eq!(rig.replay([sequence]), sequence.to_string());
        assert_eq!(rig.wait(90), "");
    }
    assert_eq!(rig.replay([12]), "12");
    assert_eq!(rig.wait(9), "");
    assert_eq!(rig.wait(1), "!ReplayDeadline 1000");
}

#[test]
fn a_failed_replay_forgets() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    rig.live([2]);
    assert_eq!(rig.fail(), "!ReplayFailed 2");
    assert_eq!(rig.fail(), "", "once");
}

#[test]
fn a_full_hold_forgets_and_keeps_what_is_in_order() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([2, 4, 5, 6]), "?1..1");
    assert_eq!(rig.machine.held(), 4);
    assert_eq!(rig.live([7]), "-2Abandoned !HeldOverflow 4 5 6 7");
    stands(&rig, Standing::Cold);
    assert_eq!(rig.machine.held(), 0);
}

#[test]
fn an_older_life_never_applies_and_a_newer_one_starts_clean() {
    let mut rig = Rig::new(replaying());
    rig.life = 5;
    assert_eq!(rig.live([0, 1]), "!FirstContact 0 1");
    rig.life = 4;
    assert_eq!(rig.live([2, 900]), "-2Stale -900Stale");
    rig.life = 6;
    assert_eq!(rig.live([0]), "!NewIncarnation 0");
    stands(&rig, Standing::Fresh);
    rig.life = 5;
    assert_eq!(rig.live([2]), "-2Stale");
    rig.life = 7;
    assert_eq!(rig.live([2]), "!NewIncarnation ?0..1", "even when its number would be in order");
    rig.life = 6;
    assert_eq!(rig.replay([0]), "-0Stale");
    rig.life = 7;
    assert_eq!(rig.replay([0, 1]), "0 1 2");
}

#[test]
fn a_new_life_ends_a_recovery_of_the_old_one() {
    let mut rig = Rig::new(replaying());
    rig.live([0, 2, 3]);
    rig.life = 2;
    assert_eq!(rig.live([0]), "-2Abandoned -3Abandoned !NewIncarnation 0");
    stands(&rig, Standing::Fresh);
    rig.life = 1;
    assert_eq!(rig.replay([1]), "-1Unasked");
}

#[test]
fn a_new_life_may_show_in_a_replay_first() {
    let mut rig = Rig::new(replaying());
    rig.live([0, 3]);
    rig.life = 2;
    assert_eq!(rig.replay([1]), "-3Abandoned !NewIncarnation ?0..0");
    assert_eq!(rig.replay([0]), "0 1");
    stands(&rig, Standing::Fresh);
}

#[test]
fn a_replay_that_runs_ahead_makes_duplicates() {
    let mut rig = Rig::new(replaying());
    rig.live([0, 2]);
    assert_eq!(rig.replay([1, 2]), "1 2 -2Unasked");
    rig.live([5]);
    assert_eq!(rig.replay([3, 4, 5, 6]), "3 4 5 -5Unasked -6Unasked");
    // A replay that runs ahead of the live stream, then the live stream.
    rig.live([8, 10]);
    assert_eq!(rig.replay([6, 7, 8, 9]), "6 7 8 -8dup 9 10");
    assert_eq!(rig.live([11]), "11");
    stands(&rig, Standing::Fresh);

    let mut rig = Rig::new(replaying());
    rig.live([0]);
    rig.machine.catch_up(rig.now, &mut rig.out);
    assert_eq!(rig.said(), "?1..");
    assert_eq!(rig.replay([1, 2, 3]), "1 2 3");
    assert_eq!(rig.live([1]), "-1dup");
    assert_eq!(rig.live([2, 3, 4]), "-2dup -3dup 4");
    assert_eq!(rig.live([4]), "-4dup");
}

#[test]
fn a_retired_rank_is_fenced() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    rig.live([2]);
    rig.machine.retire(&mut rig.out);
    assert_eq!(rig.said(), "-2Abandoned !Retired");
    stands(&rig, Standing::Cold);
    assert!(rig.live(0..1000).split(' ').all(|word| word.ends_with("Stale")));
    assert_eq!(rig.replay([1]), "-1Unasked");
    rig.life = 2;
    assert_eq!(rig.live([0]), "!NewIncarnation 0");

    let mut rig = Rig::new(replaying());
    rig.live([0, 1]);
    rig.machine.retire(&mut rig.out);
    rig.said();
    assert_eq!(rig.live([2, 0]), "-2Stale -0Stale");
    rig.machine.revive();
    assert_eq!(rig.live([2]), "!FirstContact ?0..1");

    let mut rig = Rig::new(replaying());
    rig.machine.retire(&mut rig.out);
    assert_eq!(rig.said(), "!Retired");
    assert_eq!(rig.restore(5), "!StaleSnapshot", "whatever its life, before any was heard of");
    rig.machine.revive();
    assert_eq!(rig.restore(5), "");
}

#[test]
fn a_resync_rebuilds_from_the_start() {
    let mut rig = Rig::new(replaying());
    assert!(!rig.machine.resync(rig.now, &mut rig.out), "nothing to rebuild");
    rig.live([0, 1, 2]);
    rig.machine.mark_suspect();
    assert_eq!(rig.machine.watermark(), None);
    assert!(rig.machine.resync(rig.now, &mut rig.out));
    assert_eq!(rig.said(), "!Resync ?0..2");
    assert!(!rig.machine.is_suspect());
    assert_eq!(rig.live([3]), "");
    assert_eq!(rig.replay([0, 1, 2]), "0 1 2 3");
    stands(&rig, Standing::Fresh);

    let mut rig = Rig::new(bare());
    rig.live([0]);
    assert!(!rig.machine.resync(rig.now, &mut rig.out), "nothing to rebuild from");
    assert_eq!(rig.live([1]), "1");
}

#[test]
fn a_lossy_batch_makes_the_rank_suspect_when_it_is_applied() {
    let mut rig = Rig::new(with_peer());
    rig.live([0]);
    let lossy = Numbered { lossy: true, ..rig.batch(3) };
    rig.machine.live(rig.now, lossy, &mut rig.out);
    assert_eq!(rig.said(), "?1..2");
    assert_eq!(rig.fail(), "?snap 1");
    assert!(!rig.machine.is_suspect());
    assert_eq!(rig.restore(2), "3");
    assert!(rig.machine.is_suspect(), "the snapshot came before it");
    assert_eq!(rig.machine.watermark(), None);
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.clear(4), "4");
    assert!(!rig.machine.is_suspect());
    let lossy = Numbered { lossy: true, clears: true, ..rig.batch(5) };
    rig.machine.live(rig.now, lossy, &mut rig.out);
    assert!(rig.machine.is_suspect(), "nobody knows on which side of the clear the lost event was");
}

#[test]
fn an_idle_engine_is_caught_up_with() {
    let mut rig = Rig::new(replaying());
    rig.machine.catch_up(rig.now, &mut rig.out);
    assert_eq!(rig.said(), "?0..");
    assert_eq!(rig.replay([0, 1, 2]), "!FirstContact 0 1 2");
    stands(&rig, Standing::Recovering);
    assert_eq!(rig.end(), "");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.live([3]), "3");

    let mut rig = Rig::new(replaying());
    rig.machine.catch_up(rig.now, &mut rig.out);
    rig.said();
    assert_eq!(rig.live([2]), "!FirstContact", "the question is asked already");
    assert_eq!(rig.replay([0, 1]), "0 1 2");
    stands(&rig, Standing::Fresh);

    let mut rig = Rig::new(replaying());
    rig.machine.catch_up(rig.now, &mut rig.out);
    rig.said();
    assert_eq!(rig.end(), "");
    stands(&rig, Standing::Cold);
    assert_eq!(rig.live([0]), "!FirstContact 0");
}

#[test]
fn what_came_after_the_answer_was_cut_is_asked_for() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    rig.machine.catch_up(rig.now, &mut rig.out);
    assert_eq!(rig.said(), "?1..");
    assert_eq!(rig.live([3]), "");
    assert_eq!(rig.replay([1]), "1");
    assert_eq!(rig.end(), "?2..2");
    assert_eq!(rig.replay([2]), "2 3");
    stands(&rig, Standing::Fresh);

    rig.machine.catch_up(rig.now, &mut rig.out);
    rig.said();
    assert_eq!(rig.live([4, 6]), "4 ?5..5", "a batch in order says that nothing was missed");
}

/// A connection that came back amid a recovery may have missed more than the hole that is being filled.
#[test]
fn catching_up_amid_a_recovery_asks_for_everything() {
    let mut rig = Rig::new(replaying());
    rig.live([0]);
    assert_eq!(rig.live([2]), "?1..1");
    rig.machine.catch_up(rig.now, &mut rig.out);
    assert_eq!(rig.said(), "?1..");
    rig.machine.catch_up(rig.now, &mut rig.out);
    assert_eq!(rig.said(), "", "more cannot be asked for, and asking again and again would never end");
    assert_eq!(rig.replay([1, 2, 3]), "1 2 -2dup 3");
    stands(&rig, Standing::Recovering);
    assert_eq!(rig.end(), "");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.machine.watermark().unwrap().sequence, 3);
}

#[test]
fn a_life_that_goes_on_after_its_rank_was_retired_is_no_new_one() {
    let mut rig = Rig::new(replaying());
    rig.live([0, 1]);
    rig.machine.retire(&mut rig.out);
    rig.machine.revive();
    rig.said();
    assert_eq!(rig.live([0]), "!FirstContact 0");
    assert_eq!(rig.machine.counters().new_lives, 0);
    rig.life = 2;
    rig.live([0]);
    assert_eq!(rig.machine.counters().new_lives, 1);
}

#[test]
fn a_peer_helps_where_the_replay_cannot() {
    let mut rig = Rig::new(with_peer());
    assert_eq!(rig.live([900]), "!FirstContact ?0..899");
    assert_eq!(rig.replay([850, 851]), "?snap 0 -850Unasked -851Unasked");
    assert!(rig.machine.recovers_by_snapshot());
    rig.live([901]);
    assert_eq!(rig.restore(898), "?899..899");
    assert_eq!(rig.replay([899]), "899 900 901");
    stands(&rig, Standing::Fresh);
}

#[test]
fn what_a_replay_showed_is_known_to_exist() {
    let mut rig = Rig::new(with_peer());
    rig.machine.catch_up(rig.now, &mut rig.out);
    rig.said();
    assert_eq!(rig.replay([1]), "!FirstContact ?snap 0 -1Unasked");
    assert_eq!(rig.no_snapshot(), "?0..1");
    assert_eq!(rig.wait(100), "!ReplayDeadline");
    stands(&rig, Standing::Cold);
    assert_eq!(rig.live([2]), "2");
}

#[test]
fn a_snapshot_ahead_of_the_live_stream_makes_duplicates() {
    let mut rig = Rig::new(SequencerConfig { replay: None, ..with_peer() });
    assert_eq!(rig.live([10, 11, 12]), "!FirstContact ?snap 0");
    assert_eq!(rig.restore(11), "-10dup -11dup 12");
    stands(&rig, Standing::Fresh);
    rig.live([14]);
    assert_eq!(rig.restore(20), "-14dup");
    assert_eq!(rig.live([15, 20, 21]), "-15dup -20dup 21");
}

#[test]
fn a_dump_that_is_too_old_is_replaced_by_a_snapshot() {
    let mut rig = Rig::new(with_peer());
    rig.restore(5);
    assert_eq!(rig.live([900]), "?6..899");
    assert_eq!(rig.replay([800]), "?snap 6 -800Unasked");
    assert_eq!(rig.restore(700), "?701..899");
    assert_eq!(rig.replay([800]), "!ReplayIncomplete 800", "one recovery asks a peer once");
    stands(&rig, Standing::Recovering);
}

#[test]
fn a_peer_without_a_snapshot_costs_one_wait() {
    let mut rig = Rig::new(with_peer());
    rig.live([0]);
    assert_eq!(rig.live([3]), "?1..2");
    assert_eq!(rig.fail(), "?snap 1");
    assert_eq!(rig.no_snapshot(), "!SnapshotFailed 3");
    rig.live([5]);
    assert_eq!(rig.wait(100), "?snap 4");
    assert_eq!(rig.wait(500), "!SnapshotDeadline 5");
    rig.live([9]);
    assert_eq!(rig.replay([8]), "?snap 6 -8Unasked");
    assert_eq!(rig.no_snapshot(), "?6..8", "a part of the replay is better than nothing");
    assert_eq!(rig.replay([8]), "!ReplayIncomplete 8 9");
}

#[test]
fn a_snapshot_that_does_not_join_is_forgotten() {
    let mut rig = Rig::new(SequencerConfig { replay: None, ..with_peer() });
    rig.live([10]);
    assert_eq!(rig.restore(5), "!SnapshotFailed 10");
    stands(&rig, Standing::Cold);
    rig.life = 0;
    assert_eq!(rig.restore(50), "!StaleSnapshot");
    stands(&rig, Standing::Cold);
    rig.life = 1;
    assert_eq!(rig.live([11]), "11");
    assert_eq!(rig.restore(9), "!SnapshotFailed", "10 and 11 went into the state that was replaced");
    assert_eq!(rig.live([12]), "12");
    rig.life = 2;
    assert_eq!(rig.restore(7), "");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.live([8]), "8");
}

#[test]
fn a_dump_joins_the_stream_where_it_was_taken() {
    let mut rig = Rig::new(replaying());
    assert_eq!(rig.restore(41), "");
    stands(&rig, Standing::Fresh);
    assert_eq!(rig.live([44]), "?42..43");
    assert_eq!(rig.replay([42, 43]), "42 43 44");
    stands(&rig, Standing::Fresh);

    let mut rig = Rig::new(replaying());
    rig.restore(41);
    assert_eq!(rig.live([41, 42]), "-41dup 42");
}

#[test]
fn the_end_marker_of_engines_is_no_batch() {
    let mut rig = Rig::new(replaying());
    rig.live([0, 2]);
    assert_eq!(rig.live([u64::MAX]), "-18446744073709551615Reserved");
    assert_eq!(rig.replay([u64::MAX]), "-18446744073709551615Reserved");
    assert_eq!(rig.replay([1]), "1 2");
    let mut rig = Rig::new(bare());
    assert_eq!(rig.live([u64::MAX - 1]), format!("!FirstContact !Gap {}", u64::MAX - 1));
    assert_eq!(rig.live([u64::MAX - 1]), format!("-{}dup", u64::MAX - 1));
    assert_eq!(rig.restore(u64::MAX), "!StaleSnapshot");
}

#[test]
fn a_contradiction_is_refused() {
    let refused = |config: SequencerConfig| StreamSequencer::<u64>::new(config).unwrap_err();
    assert_eq!(refused(SequencerConfig { held: 0, ..bare() }), SequencerConfigError::HoldsNothing);
    for wait in [Duration::ZERO, Duration::MAX] {
        let error = refused(SequencerConfig { snapshot: Some(wait), ..bare() });
        assert_eq!(error, SequencerConfigError::WaitOutOfRange { field: "snapshot", wait });
        let waits = ReplayWaits { total: wait, ..ReplayWaits::default() };
        let error = refused(SequencerConfig { replay: Some(waits), ..bare() });
        assert_eq!(error, SequencerConfigError::WaitOutOfRange { field: "replay.total", wait });
        assert!(error.to_string().contains("replay.total"));
    }
}
