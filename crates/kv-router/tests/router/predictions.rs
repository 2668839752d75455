//! Workers without events, workers that fall silent, and workers that are heard of again.

use std::time::Duration;

use kv_router::{
    ApplyBatchError, BlockSize, BuildError, Capacity, Certainty, Constraints, Decision, KvEvent, Pin,
    PredictedConfig, PredictionConfig, RouteRequest, Router, RouterConfig, SilenceRule, StaleRule,
    StreamFreshness, WorkerSpec,
};
use proptest::prelude::*;

use crate::support::{Fleet, name, rank, worker};

const SECOND: Duration = Duration::from_secs(1);

/// Silent after three requests and ten seconds; a guess lives for a minute.
fn quick(config: &mut RouterConfig) {
    config.prediction.silence = Some(SilenceRule { requests: 3, time: 10 * SECOND });
    config.prediction.index = PredictedConfig { ttl: 60 * SECOND, ..PredictedConfig::default() };
}

fn fleet(workers: u64) -> Fleet {
    Fleet::with(workers, Capacity::default(), quick)
}

/// The same, and one more worker, the last, that has no events.
fn fleet_and_a_mute(workers: u64) -> Fleet {
    let fleet = fleet(workers);
    fleet
        .router
        .join(worker(workers), WorkerSpec::new(BlockSize::new(16).unwrap()).without_events())
        .unwrap();
    fleet
}

/// A prompt of 80 tokens, five blocks, that no other shares.
fn tokens(number: u32) -> Vec<u32> {
    (0..80).map(|token| number * 1_000 + token).collect()
}

fn route_to(fleet: &Fleet, number: u32, to: u64) -> Decision {
    let constraints = Constraints { pin: Some(Pin::Worker(worker(to))), ..Constraints::default() };
    fleet.router.route(&RouteRequest::from_tokens(&tokens(number)).constraints(constraints)).unwrap()
}

fn freshness(fleet: &Fleet, id: u64) -> StreamFreshness {
    fleet.router.streams().into_iter().find(|status| status.worker == rank(id)).unwrap().freshness
}

/// Sends to a worker what it must have events for, for long enough.
fn silence(fleet: &Fleet, id: u64) {
    for number in 0..3 {
        drop(route_to(fleet, 900 + number, id));
        fleet.clock.advance(5 * SECOND);
    }
    drop(route_to(fleet, 903, id));
}

#[test]
fn section_9_with_events_off_the_cache_is_predicted_from_our_decisions() {
    let fleet = fleet_and_a_mute(1);
    let first = route_to(&fleet, 1, 1);
    assert_eq!((first.overlap_blocks(), first.certainty()), (0, Certainty::Guess));
    drop(first);
    let second = fleet.router.route(&RouteRequest::from_tokens(&tokens(1)).explained()).unwrap();
    assert_eq!((second.worker(), second.overlap_blocks()), (rank(1), 5));
    assert_eq!(second.certainty(), Certainty::Guess);
    let told = second.explain().unwrap().to_string();
    assert!(told.contains("1@0: cost") && told.contains("stream predicted"), "{told}");
    // The other one is judged by its events, of which there are none.
    assert!(told.contains("cached nothing; stream cold"), "{told}");

    let stats = fleet.router.stats().prediction;
    assert_eq!((stats.ranks, stats.blocks, stats.placed, stats.silenced), (1, 5, 2, 0));
    // The exact index never hears of a guess.
    assert_eq!(fleet.router.stats().index.names, 0);
    let asked = RouteRequest::from_tokens(&[0; 16]);
    assert_eq!(fleet.router.overlaps(&asked).unwrap().certainty(), Certainty::Exact);
    assert_eq!(fleet.router.guesses(&asked).unwrap().certainty(), Certainty::Guess);
}

#[test]
fn a_worker_without_events_takes_none() {
    let fleet = fleet_and_a_mute(0);
    let batch = kv_router::EventBatch {
        from: rank(0),
        incarnation: kv_router::Incarnation::new(1),
        sequence: 0,
        events: vec![KvEvent::Cleared],
    };
    let error = fleet.router.apply(&batch).unwrap_err();
    assert_eq!(error, ApplyBatchError::EventsOff { from: rank(0) });
    assert!(error.to_string().contains("join again"), "{error}");
    assert_eq!(fleet.router.stats().events_off_batches, 1);
}

#[test]
fn section_9_entries_age_out() {
    let fleet = fleet_and_a_mute(0);
    drop(route_to(&fleet, 1, 0));
    fleet.clock.advance(59 * SECOND);
    assert_eq!(route_to(&fleet, 1, 0).overlap_blocks(), 5, "and lives on, because it was used");
    fleet.clock.advance(61 * SECOND);
    assert_eq!(fleet.router.guesses(&RouteRequest::from_tokens(&tokens(1))).unwrap().best(), None);
    fleet.router.expire_idle(3_600 * SECOND);
    assert_eq!(fleet.router.stats().prediction.blocks, 0);
    assert_eq!(route_to(&fleet, 1, 0).overlap_blocks(), 0);
}

#[test]
fn section_9_the_default_time_to_live_is_120_seconds() {
    let fleet = Fleet::with(0, Capacity::default(), |_| ());
    fleet.router.join(worker(0), WorkerSpec::new(BlockSize::new(16).unwrap()).without_events()).unwrap();
    for (seconds, blocks) in [(0, 0), (119, 5), (121, 0)] {
        fleet.clock.advance(seconds * SECOND);
        assert_eq!(route_to(&fleet, 1, 0).overlap_blocks(), blocks);
    }
}

#[test]
fn section_9_the_oldest_go_beyond_the_cap() {
    let fleet = Fleet::with(0, Capacity::default(), |config| config.prediction.index.max_blocks = 12);
    fleet.router.join(worker(0), WorkerSpec::new(BlockSize::new(16).unwrap()).without_events()).unwrap();
    (0..20).for_each(|number| drop(route_to(&fleet, number, 0)));
    let stats = fleet.router.stats().prediction;
    assert_eq!((stats.blocks, stats.pruned), (12, 100 - 12));
}

#[test]
fn section_9_a_silent_worker_is_guessed_and_heard_again_at_once() {
    let fleet = fleet(1);
    fleet.store(0, &tokens(1), 5);
    assert_eq!((route_to(&fleet, 1, 0).overlap_blocks(), freshness(&fleet, 0)), (5, StreamFreshness::Fresh));
    silence(&fleet, 0);
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Predicted);
    // What its events said before is not mixed with what is guessed.
    let guessed = route_to(&fleet, 1, 0);
    assert_eq!((guessed.overlap_blocks(), guessed.certainty()), (0, Certainty::Guess));
    assert_eq!(route_to(&fleet, 1, 0).overlap_blocks(), 5, "now it was sent there");
    let stats = fleet.router.stats().prediction;
    assert_eq!((stats.ranks, stats.silenced, stats.heard_again), (1, 1, 0));

    // A batch that came before shows no life.
    let report = fleet.repeat(0);
    assert!(report.skipped.is_some());
    assert_eq!(
        (report.freshness, freshness(&fleet, 0)),
        (StreamFreshness::Predicted, StreamFreshness::Predicted)
    );
    let report = fleet.store(0, &tokens(2), 3);
    assert_eq!((report.freshness, freshness(&fleet, 0)), (StreamFreshness::Fresh, StreamFreshness::Fresh));
    // The names of the first three blocks moved from one prompt to the other.
    for (number, blocks) in [(1, 0), (2, 3), (903, 0)] {
        let exact = route_to(&fleet, number, 0);
        assert_eq!((exact.overlap_blocks(), exact.certainty()), (blocks, Certainty::Exact));
    }
    let stats = fleet.router.stats().prediction;
    assert_eq!((stats.ranks, stats.blocks, stats.heard_again), (0, 0, 1));
}

#[test]
fn both_bounds_of_silence_must_be_reached() {
    let fleet = fleet(1);
    (0..50).for_each(|number| drop(route_to(&fleet, number, 0)));
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Cold, "many requests, no time");
    fleet.apply(0, Vec::new()); // a heartbeat
    drop(route_to(&fleet, 60, 0));
    fleet.clock.advance(3_600 * SECOND);
    drop(route_to(&fleet, 61, 0));
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Fresh, "much time, few requests");
    drop(route_to(&fleet, 62, 0));
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Predicted);
}

#[test]
fn who_has_nothing_to_tell_is_not_silent() {
    let fleet = fleet(1);
    fleet.store(0, &tokens(1), 5);
    for _ in 0..50 {
        assert_eq!(route_to(&fleet, 1, 0).certainty(), Certainty::Exact);
        fleet.clock.advance(SECOND);
    }
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Fresh);
}

#[test]
fn without_a_rule_nobody_counts_as_silent() {
    let fleet = Fleet::with(1, Capacity::default(), |config| config.prediction.silence = None);
    (0..20).for_each(|_| silence(&fleet, 0));
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Cold);
    let bad = |change: fn(&mut PredictionConfig)| {
        let mut config = RouterConfig::new(BlockSize::new(16).unwrap());
        change(&mut config.prediction);
        Router::builder(config).build().unwrap_err()
    };
    let at_once = |config: &mut PredictionConfig| {
        config.silence = Some(SilenceRule { requests: 0, ..SilenceRule::default() });
    };
    assert_eq!(bad(at_once), BuildError::SilentRequests);
    assert!(matches!(bad(|config| config.index.max_blocks = 0), BuildError::Prediction(_)));
}

#[test]
fn ranks_fall_silent_one_by_one() {
    let fleet = fleet_and_a_mute(3);
    fleet.store(0, &tokens(1), 5);
    fleet.store(1, &tokens(1), 3);
    silence(&fleet, 1);
    drop(route_to(&fleet, 1, 3));
    let states: Vec<_> = (0..4).map(|id| freshness(&fleet, id)).collect();
    use StreamFreshness::{Cold, Fresh, Predicted};
    assert_eq!(states, [Fresh, Predicted, Cold, Predicted]);
    let decision = fleet.router.route(&RouteRequest::from_tokens(&tokens(1)).explained()).unwrap();
    let mut cached: Vec<_> = decision.explain().unwrap().candidates.iter().collect();
    cached.sort_by_key(|seen| seen.worker);
    let cached: Vec<_> = cached.into_iter().map(|seen| (seen.overlap[0], seen.stream)).collect();
    assert_eq!(cached, [(5, Fresh), (0, Predicted), (0, Cold), (5, Predicted)]);
}

#[test]
fn a_guess_can_be_trusted_less() {
    let fleet = Fleet::with(0, Capacity::default(), |config| {
        config.filters.predicted = StaleRule::Credit(0.5);
    });
    fleet.router.join(worker(0), WorkerSpec::new(BlockSize::new(16).unwrap()).without_events()).unwrap();
    drop(route_to(&fleet, 1, 0));
    let halved = route_to(&fleet, 1, 0);
    assert_eq!((halved.overlap_blocks(), halved.cost().overlap_credit), (5, 2.5));
}

#[test]
fn a_worker_that_leaves_takes_its_guesses_along() {
    let fleet = fleet_and_a_mute(1);
    silence(&fleet, 0);
    drop(route_to(&fleet, 1, 1));
    assert!(fleet.router.stats().prediction.blocks > 5);
    fleet.router.leave(worker(0)).unwrap();
    assert_eq!(fleet.router.stats().prediction.blocks, 5);
    fleet.router.leave(worker(1)).unwrap();
    let stats = fleet.router.stats().prediction;
    assert_eq!((stats.ranks, stats.blocks), (0, 0));
    // The next life of the first one has events again, for all that is known.
    fleet.router.join(worker(0), WorkerSpec::new(BlockSize::new(16).unwrap())).unwrap();
    assert_eq!(freshness(&fleet, 0), StreamFreshness::Cold);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends a prompt to a worker.
    Send(u64, u32),
    /// The engine says that it stored a prompt.
    Tell(u64, u32),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3_u64, 0..4_u32).prop_map(|(to, prompt)| Step::Send(to, prompt)),
        2 => (0..2_u64, 0..4_u32).prop_map(|(from, prompt)| Step::Tell(from, prompt)),
        2 => (1..8_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    /// Worker 0 answers each request with an event; 1 speaks when it likes; 2 never. Beside the same router without any
    /// guessing: the answers for worker 0 are the same at every step, those for the others too, or they say that they
    /// are guessed.
    #[test]
    fn section_9_live_events_are_never_affected(steps in steps()) {
        let guessing = fleet(3);
        let plain = Fleet::with(3, Capacity::default(), |config| config.prediction.silence = None);
        let both = [&guessing, &plain];
        let mut seen = 0;
        for step in steps {
            let tell = |from: u64, prompt: u32| both.map(|fleet| {
                let mut block = fleet.stored(from, &tokens(prompt), 5);
                if let KvEvent::Stored { blocks, .. } = &mut block {
                    for (at, block) in blocks.iter_mut().enumerate() {
                        block.external = name(from, 10 * prompt as usize + at);
                    }
                }
                fleet.apply(from, vec![block]);
            });
            match step {
                Step::Send(to, prompt) => {
                    let [guessed, exact] = both.map(|fleet| route_to(fleet, prompt, to));
                    prop_assert_eq!(exact.certainty(), Certainty::Exact);
                    if guessed.certainty() == Certainty::Exact {
                        prop_assert_eq!(guessed.overlap(), exact.overlap());
                    } else {
                        prop_assert!(to != 0);
                        seen += 1;
                        prop_assert_eq!(freshness(&guessing, to), StreamFreshness::Predicted);
                    }
                    if to == 0 {
                        tell(0, prompt);
                    }
                }
                Step::Tell(from, prompt) => {
                    tell(from, prompt);
                    prop_assert_eq!(freshness(&guessing, from), StreamFreshness::Fresh);
                }
                Step::Wait(seconds) => both.iter().for_each(|fleet| fleet.clock.advance(seconds as u32 * SECOND)),
            }
            prop_assert_eq!(freshness(&guessing, 0) == StreamFreshness::Predicted, false);
        }
        let stats = guessing.router.stats().prediction;
        prop_assert!(stats.placed == seen && (stats.silenced > 0 || seen == 0));
        for fleet in both {
            (0..3).for_each(|id| fleet.router.leave(worker(id)).unwrap());
            prop_assert_eq!(fleet.router.stats().prediction.blocks, 0);
        }
    }
}
