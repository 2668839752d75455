//! Payloads of engines into the router: gaps, restarts, bad events, two routers and a snapshot between them.

use std::time::Duration;

use kv_router::{
    ApplyBatchError, BlockSize, DpRank, EngineFrame, EngineKind, EngineStream, EngineStreamConfig,
    EngineStreamError, EventBatch, ForgetReason, FrameFault, Incarnation, OpenStreamError, RankNaming,
    ReplayFault, RestoreError, RouteRequest, Router, SkipReason, StreamFreshness, WorkerRank, WorkerSpec,
};
use kv_router_engines::{BatchEncoder, EventForm, StoreFields, WireHash, WireTokens};
use proptest::prelude::*;

use crate::support::{Fleet, rank, worker};
use crate::wire::{MockEngine, OURS, Say, conversation};

fn vllm(id: u64) -> EngineStreamConfig {
    EngineStreamConfig::new(rank(id), EngineKind::Vllm)
}

/// May come again and out of order, as over a relay.
fn relayed(id: u64) -> EngineStreamConfig {
    let mut config = vllm(id);
    config.feed.late_window = 1_000;
    config
}

fn store(conversation: u32, from: u32, until: u32) -> Say {
    Say::Store { conversation, from, until, host: false }
}

fn blocks(router: &Router, conversation_number: u32, of: WorkerRank) -> u32 {
    let tokens = conversation(conversation_number, 256);
    router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap().blocks(of)
}

#[track_caller]
fn agrees(router: &Router, engine: &MockEngine) {
    for number in 0..6 {
        assert_eq!(blocks(router, number, engine.rank), engine.truth(number), "conversation {number}");
    }
}

fn status(fleet: &Fleet) -> kv_router::RankStatus {
    fleet.router.streams()[0]
}

#[test]
fn frames_in_order_are_what_the_engine_holds() {
    for size in [OURS / 4, OURS, OURS * 2] {
        let fleet = Fleet::new(1);
        let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
        let mut engine = MockEngine::new(rank(0), size);
        for says in [
            vec![store(0, 0, 6), store(1, 0, 6)],
            vec![Say::Remove { conversation: 0, from: 2, until: 3, host: false }],
            vec![store(2, 0, 4), Say::Store { conversation: 2, from: 0, until: 2, host: true }],
        ] {
            let sequence = engine.say(&says);
            let report = stream.frame(engine.frame(sequence), fleet.now()).unwrap();
            assert_eq!(
                (report.batch.freshness, report.fault, report.ask),
                (StreamFreshness::Fresh, None, None)
            );
            agrees(&fleet.router, &engine);
        }
        assert_eq!(fleet.router.streams()[0].engine.unwrap().block_size, Some(size));
    }
}

#[test]
fn a_gap_is_asked_for_and_what_comes_later_waits() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let first = engine.say(&[store(0, 0, 2)]);
    engine.deliver(first, &mut stream, fleet.now());
    engine.say(&[store(0, 2, 4)]);
    engine.say(&[store(0, 4, 6)]);
    let last = engine.say(&[Say::Remove { conversation: 0, from: 3, until: 4, host: false }]);
    let report = stream.frame(engine.frame(last), fleet.now()).unwrap();
    let ask = report.ask.expect("a gap");
    // The frames on both banks are asked for too, to see that it is the same life.
    assert_eq!((ask.from, ask.to, report.batch.freshness), (0, Some(3), StreamFreshness::Recovering));
    assert_eq!(blocks(&fleet.router, 0, rank(0)), 2);
    assert!(stream.next_deadline().is_some() && stream.wants_replay(ask.id));
    engine.answer(Some(ask), &mut stream, fleet.now());
    assert_eq!((status(&fleet).freshness, blocks(&fleet.router, 0, rank(0))), (StreamFreshness::Fresh, 3));
    agrees(&fleet.router, &engine);
    assert!(!stream.wants_replay(ask.id) && stream.next_deadline().is_none());
}

/// Together or one by one: what was passed over before a clear is gone with all the rest.
#[test]
fn a_clear_among_frames_that_waited_ends_suspicion() {
    for waits in [false, true] {
        let fleet = Fleet::new(1);
        let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
        let mut engine = MockEngine::new(rank(0), OURS);
        engine.say(&[]);
        engine.say(&[]);
        engine.say(&[store(0, 4, 6)]); // behind a parent that the rank does not hold
        engine.say(&[Say::Clear, store(2, 0, 4)]);
        for sequence in [0, 1, 2, 3] {
            if waits && sequence == 1 {
                continue; // lost, and asked for when all the others are there
            }
            let report = stream.frame(engine.frame(sequence), fleet.now()).unwrap();
            assert_eq!(report.ask.is_some(), waits && sequence == 2);
            if sequence == 3 && waits {
                let id = (0..9).map(kv_router_transport::RecoveryId::new).find(|&id| stream.wants_replay(id));
                for sequence in 0..3 {
                    let _ = stream.replayed(id.unwrap(), engine.frame(sequence), fleet.now()).unwrap();
                }
            }
        }
        agrees(&fleet.router, &engine);
        assert!(!status(&fleet).suspect, "waits: {waits}");
        assert_eq!(fleet.router.snapshot(&mut Vec::new()).unwrap().ranks, 1);
    }
}

#[test]
fn a_gap_that_nobody_can_fill_makes_the_rank_cold_and_live() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let first = engine.say(&[store(0, 0, 2)]);
    engine.deliver(first, &mut stream, fleet.now());
    engine.say(&[store(0, 2, 4)]);
    let last = engine.say(&[store(2, 0, 4)]);
    let ask = stream.frame(engine.frame(last), fleet.now()).unwrap().ask.expect("a gap");
    let report = stream.replay_failed(ask.id, ReplayFault::Unanswered, fleet.now()).unwrap();
    assert_eq!(report.batch.forgot, Some(ForgetReason::ReplayFailed));
    assert_eq!(status(&fleet).freshness, StreamFreshness::Cold);
    assert_eq!((blocks(&fleet.router, 0, rank(0)), blocks(&fleet.router, 2, rank(0))), (0, 4));
    // Nor does one that never answers keep it waiting for ever.
    engine.say(&[]);
    let last = engine.say(&[store(4, 0, 4)]);
    let _ = stream.frame(engine.frame(last), fleet.now()).unwrap().ask.expect("a gap");
    fleet.clock.advance(Duration::from_secs(3));
    let report = stream.tick(fleet.now()).unwrap();
    assert_eq!(report.batch.forgot, Some(ForgetReason::ReplayDeadline));
    assert_eq!(blocks(&fleet.router, 4, rank(0)), 4);
    // A clear makes it whole again.
    let clear = engine.say(&[Say::Clear, store(0, 0, 3)]);
    engine.deliver(clear, &mut stream, fleet.now());
    assert_eq!(status(&fleet).freshness, StreamFreshness::Fresh);
    agrees(&fleet.router, &engine);
}

#[test]
fn an_engine_that_starts_again_is_forgotten_and_heard() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    for says in [[store(0, 0, 6)], [store(2, 0, 6)], [store(4, 0, 6)]] {
        let sequence = engine.say(&says);
        engine.deliver(sequence, &mut stream, fleet.now());
    }
    engine.restart();
    let sequence = engine.say(&[store(2, 0, 3)]);
    let report = stream.frame(engine.frame(sequence), fleet.now()).unwrap();
    assert_eq!(report.batch.forgot, Some(ForgetReason::NewIncarnation));
    assert_eq!(report.batch.freshness, StreamFreshness::Fresh);
    agrees(&fleet.router, &engine);
    // A second restart, of which the first batches are not heard.
    engine.restart();
    engine.say(&[store(0, 0, 2)]);
    engine.say(&[store(4, 0, 2)]);
    let report = stream.forget(fleet.now()).unwrap(); // told by whoever looks after the engine
    assert_eq!(
        (report.batch.forgot, blocks(&fleet.router, 2, rank(0))),
        (Some(ForgetReason::NewIncarnation), 0)
    );
    engine.answer(report.ask, &mut stream, fleet.now());
    assert_eq!(status(&fleet).freshness, StreamFreshness::Fresh);
    agrees(&fleet.router, &engine);
}

#[test]
fn a_bad_event_costs_itself_alone_and_a_bad_frame_its_number() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let first = engine.say(&[store(0, 0, 2)]);
    engine.deliver(first, &mut stream, fleet.now());
    // [ts, [["BlockPinned"], store], 0], made of a good batch of one event.
    let good = engine.say(&[store(0, 2, 4)]);
    let mut payload = engine.sent[&good].clone();
    let events = 1 + 9; // behind the array of three and the float
    assert_eq!(payload[events], 0x91);
    payload[events] = 0x92;
    payload.splice(events + 1..events + 1, [0x91, 0xab].into_iter().chain(*b"BlockPinned"));
    let report = stream.frame(EngineFrame::new(good, &payload), fleet.now()).unwrap();
    assert_eq!((report.fault, blocks(&fleet.router, 0, rank(0))), (None, 4));
    assert_eq!(status(&fleet).engine.unwrap().faults.total(), 1);
    assert!(status(&fleet).suspect);

    // Of a frame that cannot be read at all the engine has a better copy.
    let next = engine.say(&[store(2, 0, 2)]);
    let report = stream.frame(EngineFrame::new(next, &[0xc1]), fleet.now()).unwrap();
    assert!(matches!(report.fault, Some(FrameFault::Undecodable(_))), "{report:?}");
    let last = engine.say(&[store(4, 0, 2)]);
    let report = stream.frame(engine.frame(last), fleet.now()).unwrap();
    assert!(report.ask.is_some());
    assert_eq!(status(&fleet).engine.unwrap().undecodable, 1);
    // Frame 1 as it came is not the one that the engine has, so all of it is forgotten and asked for.
    engine.answer(report.ask, &mut stream, fleet.now());
    assert!(!status(&fleet).suspect);
    agrees(&fleet.router, &engine);
}

#[test]
fn a_bad_frame_costs_its_number_where_nobody_can_be_asked() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0).without_replay()).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let first = engine.say(&[store(0, 0, 2)]);
    engine.deliver(first, &mut stream, fleet.now());
    let next = engine.say(&[store(2, 0, 2)]);
    let report = stream.frame(EngineFrame::new(next, &[0xc1]), fleet.now()).unwrap();
    assert!(matches!(report.fault, Some(FrameFault::Undecodable(_))), "{report:?}");
    assert!(status(&fleet).suspect);
    let last = engine.say(&[store(4, 0, 2)]);
    let report = stream.frame(engine.frame(last), fleet.now()).unwrap();
    assert_eq!((report.ask, report.batch.freshness), (None, StreamFreshness::Fresh));
    assert_eq!((blocks(&fleet.router, 0, rank(0)), blocks(&fleet.router, 4, rank(0))), (2, 2));
}

#[test]
fn what_is_suspect_can_be_had_anew() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let first = engine.say(&[store(0, 0, 2)]);
    engine.deliver(first, &mut stream, fleet.now());
    let unread = engine.publish(vec![0xc1]);
    let last = engine.say(&[store(4, 0, 2)]);
    let ask = stream.frame(engine.frame(last), fleet.now()).unwrap().ask;
    engine.answer(ask, &mut stream, fleet.now());
    assert!(status(&fleet).suspect, "the engine has no better copy of {unread}");
    engine.sent.remove(&unread);
    engine.sent.insert(unread, engine.sent[&last].clone());
    let report = stream.resync(fleet.now()).unwrap();
    engine.answer(report.ask, &mut stream, fleet.now());
    assert!(!status(&fleet).suspect);
    agrees(&fleet.router, &engine);
}

#[test]
fn a_frame_of_another_rank_is_refused_unless_its_name_means_nothing() {
    let fleet = Fleet::new(2);
    let mut own = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut config = vllm(1);
    config.naming = RankNaming::Ignored;
    let mut ignoring = fleet.router.engine_stream(config).unwrap();
    let mut engine = MockEngine::new(WorkerRank::new(worker(0), DpRank::new(7)), OURS);
    let sequence = engine.say(&[store(0, 0, 4)]);
    let report = own.frame(engine.frame(sequence), fleet.now()).unwrap();
    assert_eq!(report.fault, Some(FrameFault::OtherRank { named: DpRank::new(7) }));
    assert_eq!(status(&fleet).engine.unwrap().other_rank, 1);
    let report = ignoring.frame(engine.frame(sequence), fleet.now()).unwrap();
    assert_eq!((report.fault, report.batch.events.applied.stored), (None, 4));
    assert_eq!(blocks(&fleet.router, 0, rank(0)), 0);
}

#[test]
fn frames_of_an_older_life_are_stale() {
    let fleet = Fleet::new(0);
    let spec = WorkerSpec::new(BlockSize::new(OURS).unwrap()).with_incarnation(Incarnation::new(5));
    fleet.router.join(worker(0), spec).unwrap();
    let mut stream = fleet.router.engine_stream(vllm(0).with_incarnations()).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    engine.say(&[store(0, 0, 4)]);
    let of = |life| EngineFrame { incarnation: Incarnation::new(life), ..engine.frame(0) };
    let report = stream.frame(of(4), fleet.now()).unwrap();
    assert_eq!((report.batch.skipped, blocks(&fleet.router, 0, rank(0))), (Some(SkipReason::Stale), 0));
    let _ = stream.frame(of(6), fleet.now()).unwrap();
    assert_eq!(stream.frame(of(5), fleet.now()).unwrap().batch.skipped, Some(SkipReason::Stale));
    agrees(&fleet.router, &engine);
}

#[test]
fn a_rank_has_one_stream_and_a_worker_that_left_none() {
    let fleet = Fleet::new(1);
    let stream = fleet.router.engine_stream(vllm(0)).unwrap();
    assert_eq!(fleet.router.engine_stream(vllm(0)).unwrap_err(), OpenStreamError::InUse { worker: rank(0) });
    assert_eq!(
        fleet.router.engine_stream(vllm(9)).unwrap_err(),
        OpenStreamError::UnknownRank { worker: rank(9) }
    );
    let batch = EventBatch { from: rank(0), incarnation: Incarnation::new(1), sequence: 0, events: vec![] };
    assert_eq!(fleet.router.apply(&batch).unwrap_err(), ApplyBatchError::HasEngineStream { from: rank(0) });
    drop(stream);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    engine.say(&[store(0, 0, 4)]);
    fleet.router.leave(worker(0)).unwrap();
    let left = EngineStreamError::Left { worker: rank(0) };
    assert_eq!(stream.frame(engine.frame(0), fleet.now()).unwrap_err(), left);
    fleet.router.join(worker(0), WorkerSpec::new(BlockSize::new(OURS).unwrap())).unwrap();
    assert_eq!(stream.frame(engine.frame(0), fleet.now()).unwrap_err(), left, "that is another life");
    assert_eq!(blocks(&fleet.router, 0, rank(0)), 0);
    // Opened again, it starts anew.
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    engine.deliver(0, &mut stream, fleet.now());
    agrees(&fleet.router, &engine);
    drop(stream);
    let _stream = fleet.router.engine_stream(vllm(0)).unwrap();
    assert_eq!(blocks(&fleet.router, 0, rank(0)), 0);
}

/// Two routers and three engines with blocks of several sizes.
struct Pair {
    fleets: [Fleet; 2],
    streams: [Vec<EngineStream>; 2],
    engines: Vec<MockEngine>,
}

impl Pair {
    fn new() -> Self {
        let fleets = [Fleet::new(3), Fleet::new(3)];
        let open =
            |fleet: &Fleet| (0..3).map(|id| fleet.router.engine_stream(relayed(id)).unwrap()).collect();
        let streams = [open(&fleets[0]), open(&fleets[1])];
        let engines = (0..3).zip([OURS / 4, OURS, OURS * 2]);
        let engines = engines.map(|(id, size)| MockEngine::new(rank(id), size)).collect();
        Self { fleets, streams, engines }
    }

    fn deliver(&mut self, router: usize, engine: usize, sequence: u64) {
        let stream = &mut self.streams[router][engine];
        self.engines[engine].deliver(sequence, stream, self.fleets[router].now());
    }

    #[track_caller]
    fn agree(&self) {
        for (fleet, engine) in
            self.fleets.iter().flat_map(|fleet| self.engines.iter().map(move |e| (fleet, e)))
        {
            agrees(&fleet.router, engine);
        }
    }
}

/// Whether stores may continue what the rank does not hold, which makes it suspect.
#[derive(Clone, Copy)]
enum Chains {
    FromTheRoot,
    FromAnywhere,
}

fn say(chains: Chains) -> impl Strategy<Value = Say> {
    let blocks = || (0..6u32, 0..6u32, 1..6u32, any::<bool>());
    prop_oneof![
        6 => blocks().prop_map(move |(conversation, from, count, host)| {
            let from = if matches!(chains, Chains::FromTheRoot) { 0 } else { from };
            Say::Store { conversation, from, until: (from + count).min(8), host }
        }),
        4 => blocks().prop_map(|(conversation, from, count, host)| {
            Say::Remove { conversation, from, until: (from + count).min(8), host }
        }),
        1 => Just(Say::Clear),
    ]
}

fn batches(chains: Chains) -> impl Strategy<Value = Vec<(usize, Vec<Say>)>> {
    prop::collection::vec((0..3usize, prop::collection::vec(say(chains), 1..4)), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Router A hears everything. Its snapshot goes to router B, which then hears the rest, some of what came before,
    /// and not all of what comes after.
    #[test]
    fn a_router_that_starts_from_a_snapshot_is_exact(
        before in batches(Chains::FromTheRoot),
        after in batches(Chains::FromAnywhere),
        again in 0..4u64,
        lost in prop::collection::vec(any::<bool>(), 30),
    ) {
        let mut pair = Pair::new();
        for (engine, says) in &before {
            let sequence = pair.engines[*engine].say(says);
            pair.deliver(0, *engine, sequence);
        }
        let mut bytes = Vec::new();
        let written = pair.fleets[0].router.snapshot(&mut bytes).unwrap();
        let suspects = pair.fleets[0].router.streams().iter().filter(|status| status.suspect).count();
        let heard = pair.engines.iter().filter(|engine| engine.next > 0).count();
        prop_assert_eq!(written.ranks, heard - suspects);
        let restored = pair.fleets[1].router.restore(&mut &bytes[..]).unwrap();
        prop_assert_eq!((restored.ranks, restored.live, restored.refused), (written.ranks, 0, 0));

        for engine in 0..3 {
            let next = pair.engines[engine].next;
            for sequence in next.saturating_sub(again)..next {
                pair.deliver(1, engine, sequence);
            }
        }
        for ((engine, says), lost) in after.iter().zip(&lost) {
            let sequence = pair.engines[*engine].say(says);
            pair.deliver(0, *engine, sequence);
            if !lost {
                pair.deliver(1, *engine, sequence);
            }
        }
        for engine in 0..3 {
            let last = pair.engines[engine].say(&[]);
            pair.deliver(0, engine, last);
            pair.deliver(1, engine, last);
        }
        pair.agree();
        for status in pair.fleets[1].router.streams() {
            prop_assert_eq!(status.freshness, StreamFreshness::Fresh);
        }
    }
}

#[test]
fn a_restored_rank_skips_what_it_has_and_asks_for_what_is_missing() {
    let mut pair = Pair::new();
    for until in 1..5 {
        let sequence = pair.engines[1].say(&[store(0, until - 1, until)]);
        pair.deliver(0, 1, sequence);
    }
    let mut bytes = Vec::new();
    let written = pair.fleets[0].router.snapshot(&mut bytes).unwrap();
    assert_eq!((written.ranks, written.blocks, written.left_out), (1, 4, 2));
    let report = pair.fleets[1].router.restore(&mut &bytes[..]).unwrap();
    assert_eq!((report.ranks, report.blocks), (1, 4));
    let status = |pair: &Pair| pair.fleets[1].router.streams()[1];
    assert_eq!(status(&pair).freshness, StreamFreshness::Recovering, "nobody knows yet whose life it is");
    let now = pair.fleets[1].now();
    pair.engines[1].say(&[store(0, 4, 5)]);
    let early = pair.streams[1][1].frame(pair.engines[1].frame(4), now).unwrap();
    assert_eq!((early.batch.events.applied.stored, early.ask.map(|ask| ask.from)), (0, Some(3)));
    let ask = pair.streams[1][1].connected(now).unwrap().ask.expect("there may be more");
    assert_eq!((ask.from, ask.to), (3, None), "the last one in the snapshot is the proof");
    pair.engines[1].answer(Some(ask), &mut pair.streams[1][1], now);
    assert_eq!(status(&pair).freshness, StreamFreshness::Fresh);
    let lives = status(&pair).lives.unwrap();
    assert_eq!((lives.same_life, lives.new_life), (1, 0));
    let duplicate = pair.streams[1][1].frame(pair.engines[1].frame(2), now).unwrap();
    assert_eq!(duplicate.batch.skipped, Some(SkipReason::Duplicate));
    assert_eq!(blocks(&pair.fleets[1].router, 0, rank(1)), 5);
    // What is live is younger than any snapshot.
    let report = pair.fleets[1].router.restore(&mut &bytes[..]).unwrap();
    assert_eq!((report.ranks, report.live), (0, 1));
    assert_eq!(blocks(&pair.fleets[1].router, 0, rank(1)), 5);
}

/// Numbers cannot tell it: the engine is past the snapshot's again when the router comes up.
#[test]
fn an_engine_that_started_again_while_the_router_was_down_is_not_taken_for_the_old_one() {
    for published in [0, 2, 3, 9] {
        let mut pair = Pair::new();
        for until in 1..4 {
            let sequence = pair.engines[1].say(&[store(0, until - 1, until)]);
            pair.deliver(0, 1, sequence);
        }
        let mut bytes = Vec::new();
        pair.fleets[0].router.snapshot(&mut bytes).unwrap();
        pair.engines[1].restart();
        for number in 0..published {
            // As long as the ones before, at the same times, and some even the same.
            pair.engines[1].say(&[store(number % 3, 0, 1)]);
        }
        let report = pair.fleets[1].router.restore(&mut &bytes[..]).unwrap();
        assert_eq!((report.ranks, report.blocks), (1, 3));
        let now = pair.fleets[1].now();
        let ask = pair.streams[1][1].connected(now).unwrap().ask;
        if published == 9 {
            // What comes live meanwhile would fit behind the snapshot.
            let live = pair.engines[1].say(&[store(4, 0, 6)]);
            let report = pair.streams[1][1].frame(pair.engines[1].frame(live), now).unwrap();
            assert_eq!(report.batch.freshness, StreamFreshness::Recovering);
        }
        pair.engines[1].answer(ask, &mut pair.streams[1][1], now);
        let status = pair.fleets[1].router.streams()[1];
        let lives = status.lives.unwrap();
        assert_eq!((lives.same_life, lives.new_life), (0, 1), "{published}");
        agrees(&pair.fleets[1].router, &pair.engines[1]);
    }
}

#[test]
fn a_restored_rank_whose_engine_never_answers_is_forgotten() {
    let mut pair = Pair::new();
    let sequence = pair.engines[1].say(&[store(0, 0, 4)]);
    pair.deliver(0, 1, sequence);
    let mut bytes = Vec::new();
    pair.fleets[0].router.snapshot(&mut bytes).unwrap();
    pair.fleets[1].router.restore(&mut &bytes[..]).unwrap();
    let stream = &mut pair.streams[1][1];
    let _ = stream.connected(pair.fleets[1].now()).unwrap().ask.unwrap();
    pair.fleets[1].clock.advance(Duration::from_secs(3));
    assert!(stream.next_deadline().unwrap() <= pair.fleets[1].now());
    let report = stream.tick(pair.fleets[1].now()).unwrap();
    assert_eq!(report.batch.forgot, Some(ForgetReason::NewIncarnation));
    assert_eq!(blocks(&pair.fleets[1].router, 0, rank(1)), 0);
}

/// What tells lives in one is nothing to the other.
#[test]
fn streams_with_and_without_incarnations_do_not_go_on_from_each_other() {
    let configs = [vllm(0), vllm(0).with_incarnations()];
    for (of, into) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let fleets = [Fleet::new(1), Fleet::new(1)];
        let open = |at: usize, kind: usize| fleets[at].router.engine_stream(configs[kind].clone()).unwrap();
        let mut stream = open(0, of);
        let mut engine = MockEngine::new(rank(0), OURS);
        let sequence = engine.say(&[store(0, 0, 4)]);
        engine.deliver(sequence, &mut stream, fleets[0].now());
        let mut bytes = Vec::new();
        fleets[0].router.snapshot(&mut bytes).unwrap();
        let _stream = open(1, into);
        let report = fleets[1].router.restore(&mut &bytes[..]).unwrap();
        assert_eq!(
            (report.ranks, report.fed_otherwise),
            if of == into { (1, 0) } else { (0, 1) },
            "{of} {into}"
        );
        assert_eq!(blocks(&fleets[1].router, 0, rank(0)), if of == into { 4 } else { 0 });
    }
}

#[test]
fn batches_go_on_from_a_snapshot_too() {
    let fleets = [Fleet::new(2), Fleet::new(2)];
    let tokens: Vec<u32> = (0..160).collect();
    let _ = fleets[0].store(0, &tokens, 10);
    let mut bytes = Vec::new();
    assert_eq!(fleets[0].router.snapshot(&mut bytes).unwrap().ranks, 1);
    // Taken by batches, so no stream of an engine goes on from it.
    let other = Fleet::new(1);
    let _stream = other.router.engine_stream(vllm(0)).unwrap();
    assert_eq!(other.router.restore(&mut &bytes[..]).unwrap().fed_otherwise, 1);
    assert_eq!(Fleet::new(0).router.restore(&mut &bytes[..]).unwrap().unknown, 1);

    assert_eq!(fleets[1].router.restore(&mut &bytes[..]).unwrap().ranks, 1);
    fleets[1].skip(0, 1);
    let report = fleets[1].apply(0, vec![]);
    assert_eq!((report.freshness, report.forgot), (StreamFreshness::Fresh, None));
    let found = fleets[1].router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap();
    assert_eq!(found.blocks(rank(0)), 10);
}

#[test]
fn a_snapshot_that_is_cut_damaged_or_of_another_scheme_changes_nothing() {
    let fleet = Fleet::new(2);
    let mut streams: Vec<_> = (0..2).map(|id| fleet.router.engine_stream(vllm(id)).unwrap()).collect();
    for id in 0..2 {
        let mut engine = MockEngine::new(rank(id), OURS / 4);
        let sequence = engine.say(&[store(0, 0, 20)]);
        engine.deliver(sequence, &mut streams[id as usize], fleet.now());
    }
    let mut bytes = Vec::new();
    fleet.router.snapshot(&mut bytes).unwrap();

    let other = Fleet::new(2);
    let _streams: Vec<_> = (0..2).map(|id| other.router.engine_stream(vllm(id)).unwrap()).collect();
    for cut in 0..bytes.len() {
        assert!(matches!(other.router.restore(&mut &bytes[..cut]), Err(RestoreError::Read(_))), "{cut}");
    }
    for at in 0..bytes.len() {
        bytes[at] ^= 0x10;
        assert!(other.router.restore(&mut &bytes[..]).is_err(), "{at}");
        bytes[at] ^= 0x10;
    }
    let small = Fleet::with(2, Default::default(), |config| config.max_restore_bytes = 500);
    let refused = small.router.restore(&mut &bytes[..]);
    assert!(matches!(refused, Err(RestoreError::TooLarge { limit: 500 })), "{refused:?}");
    let eagle = Fleet::with(2, Default::default(), |config| {
        config.scheme = kv_router::HashScheme::new(config.scheme.block_size(), kv_router::Window::Eagle);
    });
    assert!(matches!(eagle.router.restore(&mut &bytes[..]), Err(RestoreError::OtherScheme { .. })));
    assert_eq!(other.router.stats().index.names, 0);
    assert!(other.router.streams().iter().all(|status| status.freshness == StreamFreshness::Cold));
    assert_eq!(other.router.restore(&mut &bytes[..]).unwrap().ranks, 2);
}

#[test]
fn a_rank_without_room_in_the_index_is_not_restored_in_part() {
    let fleet = Fleet::new(1);
    let mut stream = fleet.router.engine_stream(vllm(0)).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let sequence = engine.say(&[store(0, 0, 8), store(2, 0, 8)]);
    engine.deliver(sequence, &mut stream, fleet.now());
    let mut bytes = Vec::new();
    fleet.router.snapshot(&mut bytes).unwrap();
    let tight = Fleet::with(1, Default::default(), |config| {
        let mut index = kv_router::RadixConfig::default();
        index.max_names_per_rank = 9;
        config.index = kv_router::IndexConfig::Radix(index);
    });
    let _stream = tight.router.engine_stream(vllm(0)).unwrap();
    let report = tight.router.restore(&mut &bytes[..]).unwrap();
    assert_eq!((report.refused, tight.router.stats().index.names), (1, 0));
    assert_eq!(tight.router.streams()[0].freshness, StreamFreshness::Cold);
}

#[test]
fn a_snapshot_is_of_one_moment_while_events_come() {
    let fleet = Fleet::new(4);
    let mut stream = fleet.router.engine_stream(relayed(3)).unwrap();
    // Those before it take long to copy.
    for id in 0..3 {
        let mut large = fleet.router.engine_stream(relayed(id)).unwrap();
        let mut engine = MockEngine::new(rank(id), OURS);
        let sequence = engine.say(&[store(id as u32, 0, 3_000)]);
        engine.deliver(sequence, &mut large, fleet.now());
    }
    let mut engine = MockEngine::new(rank(3), OURS);
    // What it holds is different after each batch.
    for round in 0..4_000u32 {
        engine.say(&[store(2 * round, 0, 3)]);
        engine.say(&[Say::Remove {
            conversation: 2 * round,
            from: round % 3,
            until: round % 3 + 1,
            host: false,
        }]);
    }
    let now = fleet.now();
    let (router, sent) = (&fleet.router, &engine);
    let snapshots = std::thread::scope(|scope| {
        let feeder = scope.spawn(move || (0..sent.next).for_each(|at| sent.deliver(at, &mut stream, now)));
        let mut snapshots = Vec::new();
        while !feeder.is_finished() && snapshots.len() < 20 {
            let mut bytes = Vec::new();
            router.snapshot(&mut bytes).unwrap();
            snapshots.push(bytes);
        }
        snapshots
    });
    assert!(!snapshots.is_empty());
    for bytes in snapshots {
        let other = Fleet::new(4);
        let mut stream = other.router.engine_stream(relayed(3)).unwrap();
        let restored = other.router.restore(&mut &bytes[..]).unwrap();
        let ask = stream.connected(other.now()).unwrap().ask.unwrap();
        assert_eq!(restored.fed_otherwise, 3);
        // A router that heard just as much.
        let same = Fleet::new(4);
        let mut heard = same.router.engine_stream(relayed(3)).unwrap();
        let last = ask.from + restored.ranks as u64; // the first one asked for is the last of the snapshot
        (0..last).for_each(|sequence| engine.deliver(sequence, &mut heard, same.now()));
        assert_eq!(other.router.stats().index.names, same.router.stats().index.names);
        for number in 0..6 {
            assert_eq!(blocks(&other.router, number, rank(3)), blocks(&same.router, number, rank(3)));
        }
        engine.answer(Some(ask), &mut stream, other.now());
        agrees(&other.router, &engine);
    }
}

#[test]
fn salted_chains_go_on_from_a_snapshot() {
    let fleets = [Fleet::new(1), Fleet::new(1)];
    let mut streams = fleets.each_ref().map(|fleet| fleet.router.engine_stream(vllm(0)).unwrap());
    let tokens = conversation(0, 4 * OURS);
    let payload = |from: usize, until: usize| {
        let hashes: Vec<_> = (from..until).map(|block| WireHash::Unsigned(block as u64 + 1)).collect();
        let mut encoder = BatchEncoder::new(EventForm::Map);
        encoder.stored(&StoreFields {
            hashes: &hashes,
            parent: from.checked_sub(1).map(|block| WireHash::Unsigned(block as u64 + 1)),
            tokens: WireTokens::Flat(&tokens[from * OURS as usize..until * OURS as usize]),
            block_size: Some(u64::from(OURS)),
            cache_salt: (from == 0).then_some("tenant"),
            ..StoreFields::default()
        });
        let mut payload = Vec::new();
        encoder.finish(1.0, None, &mut payload);
        payload
    };
    let _ = streams[0].frame(EngineFrame::new(0, &payload(0, 2)), fleets[0].now()).unwrap();
    let mut bytes = Vec::new();
    fleets[0].router.snapshot(&mut bytes).unwrap();
    fleets[1].router.restore(&mut &bytes[..]).unwrap();
    let report = streams[1].frame(EngineFrame::new(1, &payload(2, 4)), fleets[1].now()).unwrap();
    let ask = report.ask.expect("proof");
    let _ = streams[1].replayed(ask.id, EngineFrame::new(0, &payload(0, 2)), fleets[1].now()).unwrap();
    let _ = streams[1].replay_ended(ask.id, fleets[1].now()).unwrap();
    let context = kv_router::HashContext::NONE.with_salt("tenant").unwrap();
    let prompt = kv_router::Prompt::new(&tokens).in_context(context);
    let found = fleets[1].router.overlaps(&RouteRequest::from_prompt(prompt)).unwrap();
    assert_eq!(found.blocks(rank(0)), 4);
}
