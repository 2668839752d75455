//! Each thing that a diagnosis can find, and beside it the fleet that has nothing of the kind.

use std::time::Duration;

use kv_router::{
    DpRank, EngineFrame, EngineKind, EngineStream, EngineStreamConfig, EventBatch, ExternalSequenceHash,
    Finding, Incarnation, KvEvent, LocalBlockHash, Prompt, RadixConfig, ReplayFault, RouteRequest,
    RouterConfig, Skip, StoredBlock, Tier, WorkerRank,
};
use kv_router_engines::{BatchEncoder, EventForm, LoraId, RemoveFields, StoreFields, WireHash, WireTokens};

use crate::support::{Fleet, rank, worker};
use crate::wire::{MockEngine, OURS, Say, conversation};

fn open(fleet: &Fleet) -> EngineStream {
    fleet.router.engine_stream(EngineStreamConfig::new(rank(0), EngineKind::Vllm)).unwrap()
}

/// What is found of rank 0.
fn found(fleet: &Fleet) -> Vec<Finding> {
    let diagnosis = fleet.router.diagnose();
    let found: Vec<_> = diagnosis.of(rank(0)).collect();
    assert_eq!(found.len(), diagnosis.findings.len(), "of no other rank: {diagnosis}");
    assert_eq!(diagnosis.is_healthy(), found.is_empty());
    for finding in &found {
        let sentence = finding.to_string();
        assert!(sentence.len() > 20 && diagnosis.to_string().contains(&sentence), "{sentence}");
    }
    found
}

fn store(number: u32, from: u32, until: u32) -> Say {
    Say::Store { conversation: number, from, until, host: false }
}

/// A stream that has said one thing, so that it is fresh.
fn fresh() -> (Fleet, EngineStream, MockEngine) {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    let mut engine = MockEngine::new(rank(0), OURS);
    let sequence = engine.say(&[store(0, 0, 4)]);
    engine.deliver(sequence, &mut stream, fleet.now());
    assert_eq!(found(&fleet), []);
    (fleet, stream, engine)
}

static TOKENS: [u32; 2 * OURS as usize] = [7; 2 * OURS as usize];

/// A payload of one store of two blocks.
fn stored<'a>(change: impl FnOnce(&mut StoreFields<'a>)) -> Vec<u8> {
    let mut fields = StoreFields {
        hashes: &[WireHash::Unsigned(901), WireHash::Unsigned(902)],
        tokens: WireTokens::Flat(&TOKENS),
        block_size: Some(u64::from(OURS)),
        ..StoreFields::default()
    };
    change(&mut fields);
    let mut encoder = BatchEncoder::new(EventForm::Map);
    encoder.stored(&fields);
    let mut payload = Vec::new();
    encoder.finish(1_000.0, None, &mut payload);
    payload
}

/// What a payload leads to, beside one that has nothing wrong with it.
#[track_caller]
fn check(bad: &[u8], expected: &[Finding]) {
    let (fleet, mut stream, _) = fresh();
    let _ = stream.frame(EngineFrame::new(1, &stored(|_| ())), fleet.now()).unwrap();
    assert_eq!(found(&fleet), []);
    let _ = stream.frame(EngineFrame::new(2, bad), fleet.now()).unwrap();
    assert_eq!(found(&fleet), expected);
}

#[test]
fn no_events_while_requests_flow() {
    for silence in [None, Some(kv_router::SilenceRule::default())] {
        let fleet = Fleet::with(1, Default::default(), |config| config.prediction.silence = silence);
        let ask = |number: u32| {
            let tokens = conversation(number, 64);
            drop(fleet.router.route(&RouteRequest::from_tokens(&tokens)).unwrap());
        };
        (0..31).for_each(|number| ask(2 * number));
        fleet.clock.advance(Duration::from_secs(40));
        assert_eq!(found(&fleet), [], "too few to tell");
        ask(100);
        assert_eq!(found(&fleet), [Finding::NoEvents { requests: 32, time: Duration::from_secs(40) }]);
        // What it stores nothing of at all says nothing of its hashes.
        fleet.clock.advance(Duration::from_secs(60));
        assert_eq!(found(&fleet), [Finding::NoEvents { requests: 32, time: Duration::from_secs(100) }]);
        // It is heard of again.
        let mut stream = open(&fleet);
        let mut engine = MockEngine::new(rank(0), OURS);
        let sequence = engine.say(&[store(0, 0, 4)]);
        engine.deliver(sequence, &mut stream, fleet.now());
        assert_eq!(found(&fleet), []);
    }
}

#[test]
fn blocks_that_do_not_fit() {
    let tokens = conversation(9, 48);
    let bad = stored(|fields| {
        (fields.tokens, fields.block_size) = (WireTokens::Flat(&tokens), Some(24));
    });
    check(&bad, &[Finding::BlockSize { engine: 24, router: OURS, stores: 1 }]);
}

#[test]
fn media_and_settings_that_are_not_known() {
    check(&stored(|fields| fields.medium = Some("TAPE")), &[Finding::UnknownMedium { events: 1 }]);
    let pairs: Vec<_> = (0..2 * OURS).map(|token| [token, token + 1]).collect();
    check(
        &stored(|fields| fields.tokens = WireTokens::Pairs(&pairs)),
        &[Finding::PassedOver { reason: Skip::WindowMismatch, events: 1 }],
    );
    check(
        &stored(|fields| fields.lora_id = Some(LoraId::Number(7))),
        &[Finding::PassedOver { reason: Skip::AdapterUnnamed, events: 1 }],
    );
}

#[test]
fn frames_that_cannot_be_read() {
    check(&[0xc1], &[Finding::Unreadable { frames: 1, events: 0 }]);
    let mut one_event = vec![0x93, 0xcd, 0x03, 0xe8, 0x91, 0x91, 0xab];
    one_event.extend(b"BlockPinned\xc0");
    check(&one_event, &[Finding::Suspect, Finding::Unreadable { frames: 0, events: 1 }]);
}

#[test]
fn frames_of_another_rank() {
    let mut other = Vec::new();
    BatchEncoder::new(EventForm::Map).finish(1_000.0, Some(DpRank::new(3)), &mut other);
    check(&other, &[Finding::OtherRank { frames: 1 }]);
}

#[test]
fn names_that_never_match() {
    let (fleet, mut stream, mut engine) = fresh();
    let removed = |names: std::ops::Range<u64>| {
        let hashes: Vec<_> = names.map(WireHash::Unsigned).collect();
        let mut encoder = BatchEncoder::new(EventForm::Map);
        encoder.removed(&RemoveFields { hashes: &hashes, medium: None, group: None });
        let mut payload = Vec::new();
        encoder.finish(1_000.0, None, &mut payload);
        payload
    };
    let few = engine.publish(removed(7_000_000..7_000_015));
    engine.deliver(few, &mut stream, fleet.now());
    assert_eq!(found(&fleet), []);
    let many = engine.publish(removed(7_000_000..7_000_016));
    engine.deliver(many, &mut stream, fleet.now());
    assert_eq!(found(&fleet), [Finding::UnknownNames { unknown: 16, known: 0 }]);
    assert_eq!(found(&fleet), [], "told once");
    // A few among many are nothing.
    let sequence =
        engine.say(&[store(2, 0, 64), Say::Remove { conversation: 2, from: 0, until: 64, host: false }]);
    engine.deliver(sequence, &mut stream, fleet.now());
    let many = engine.publish(removed(7_000_000..7_000_016));
    engine.deliver(many, &mut stream, fleet.now());
    assert_eq!(found(&fleet), []);
}

#[test]
fn parents_that_are_unknown() {
    let (fleet, mut stream, mut engine) = fresh();
    let sequence = engine.say(&[store(2, 1, 2)]);
    engine.deliver(sequence, &mut stream, fleet.now());
    assert_eq!(found(&fleet), [Finding::Suspect]);
    for number in 0..16 {
        let sequence = engine.say(&[store(20 + number, 5, 6)]);
        engine.deliver(sequence, &mut stream, fleet.now());
    }
    assert_eq!(found(&fleet), [Finding::UnknownParents { stores: 16 }, Finding::Suspect]);
}

#[test]
fn a_rank_that_is_cold() {
    let (fleet, mut stream, mut engine) = fresh();
    engine.say(&[store(2, 0, 2)]);
    let last = engine.say(&[store(4, 0, 2)]);
    let ask = stream.frame(engine.frame(last), fleet.now()).unwrap().ask.unwrap();
    assert_eq!(found(&fleet), [Finding::Recovering { replays: 1 }], "it may yet be answered");
    let _ = stream.replay_failed(ask.id, ReplayFault::Unanswered, fleet.now()).unwrap();
    assert_eq!(found(&fleet), [Finding::Cold { abandoned: 0, forgotten: 2 }]);
    let clear = engine.say(&[Say::Clear]);
    engine.deliver(clear, &mut stream, fleet.now());
    assert_eq!(found(&fleet), []);
}

#[test]
fn an_index_that_is_full() {
    let room = |names| {
        move |config: &mut RouterConfig| {
            let mut index = RadixConfig::default();
            index.max_names_per_rank = names;
            config.index = kv_router::IndexConfig::Radix(index);
        }
    };
    for (names, expected) in [(100, vec![]), (3, vec![Finding::Suspect, Finding::Full { stores: 1 }])] {
        let fleet = Fleet::with(1, Default::default(), room(names));
        let mut stream = open(&fleet);
        let mut engine = MockEngine::new(rank(0), OURS);
        let sequence = engine.say(&[store(0, 0, 4)]);
        engine.deliver(sequence, &mut stream, fleet.now());
        assert_eq!(found(&fleet), expected);
    }
}

#[test]
fn a_stream_that_falls_behind() {
    let (fleet, mut stream, mut engine) = fresh();
    // Each batch is written a second after the one before.
    for late in [0, 0, 4] {
        fleet.clock.advance(Duration::from_secs(1 + late));
        let sequence = engine.say(&[]);
        engine.deliver(sequence, &mut stream, fleet.now());
        assert_eq!(found(&fleet), []);
    }
    fleet.clock.advance(Duration::from_secs(3));
    let sequence = engine.say(&[]);
    engine.deliver(sequence, &mut stream, fleet.now());
    assert_eq!(found(&fleet), [Finding::Lag { behind: Duration::from_secs(6) }]);
}

/// Sends prompts, has the engine store what `hashed` makes of them, and waits.
fn serve(fleet: &Fleet, adapter: &str, hashed: impl Fn(&[u32]) -> Vec<LocalBlockHash>) {
    for number in 0..40u32 {
        let tokens: Vec<u32> = (0..64).map(|at| number * 10_000 + at).collect();
        let context = kv_router::HashContext::NONE.with_adapter(adapter).unwrap();
        let prompt = Prompt::new(&tokens).in_context(context);
        drop(fleet.router.route(&RouteRequest::from_prompt(prompt)).unwrap());
        let names = (u64::from(number) * 100 + 1..).map(ExternalSequenceHash::new);
        let blocks = names.zip(hashed(&tokens)).map(|(name, local)| StoredBlock::new(name, local)).collect();
        let report = fleet
            .apply(0, vec![KvEvent::Cleared, KvEvent::Stored { tier: Tier::Device, parent: None, blocks }]);
        assert_eq!(report.events.refused(), 0);
        fleet.clock.advance(Duration::from_secs(10));
    }
    fleet.clock.advance(Duration::from_secs(60));
}

#[test]
fn hashes_that_disagree() {
    let fleet = Fleet::new(1);
    let scheme = fleet.router.scheme();
    serve(&fleet, "", |tokens| scheme.hash(&Prompt::new(tokens)));
    assert_eq!(found(&fleet), []);

    // Another chat template: every prompt has one token more in front.
    let fleet = Fleet::new(1);
    serve(&fleet, "", |tokens| scheme.hash(&Prompt::new(&[&[1], tokens].concat())));
    let [Finding::HashDisagreement { missing }] = found(&fleet)[..] else { panic!("{:?}", found(&fleet)) };
    assert!(missing >= 4, "{missing}");
}

#[test]
fn adapters_that_disagree() {
    let named = |name: &'static str| {
        let scheme = Fleet::new(1).router.scheme();
        move |tokens: &[u32]| {
            let context = kv_router::HashContext::NONE.with_adapter(name).unwrap();
            scheme.hash(&Prompt::new(tokens).in_context(context))
        }
    };
    let fleet = Fleet::new(1);
    serve(&fleet, "", named(""));
    serve(&fleet, "sql", named("sql"));
    assert_eq!(found(&fleet), []);
    let fleet = Fleet::new(1);
    serve(&fleet, "", named(""));
    serve(&fleet, "sql", named("/adapters/sql"));
    let [Finding::AdapterDisagreement { missing }] = found(&fleet)[..] else { panic!("{:?}", found(&fleet)) };
    assert!(missing >= 4, "{missing}");
}

#[test]
fn batches_of_strangers() {
    let fleet = Fleet::new(1);
    assert!(fleet.router.diagnose().is_healthy());
    let from = WorkerRank::new(worker(0), DpRank::new(1));
    let batch = EventBatch { from, incarnation: Incarnation::new(1), sequence: 0, events: vec![] };
    assert!(fleet.router.apply(&batch).is_err());
    let diagnosis = fleet.router.diagnose();
    assert_eq!(diagnosis.findings, [(None, Finding::Strangers { batches: 1 })]);
    assert!(diagnosis.to_string().starts_with("fleet: 1 batches"), "{diagnosis}");
    assert_eq!(fleet.router.diagnose().to_string(), "1 ranks, nothing found");
}
