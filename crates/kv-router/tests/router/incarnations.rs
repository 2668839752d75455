//! Streams of engines whose lives are numbered by whoever receives the frames.

use kv_router::{EngineFrame, EngineKind, EngineStreamConfig, Incarnation, StreamFreshness};

use crate::support::{Fleet, rank};
use crate::wire::{MockEngine, OURS, Say};

#[test]
fn an_engine_that_started_again_is_asked_for_its_new_life() {
    let fleet = Fleet::new(1);
    let config = EngineStreamConfig::new(rank(0), EngineKind::Vllm).with_incarnations();
    let mut stream = fleet.router.engine_stream(config).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    let store = |conversation| Say::Store { conversation, from: 0, until: 4, host: false };
    engine.say(&[store(0)]);
    let of = |life, engine: &MockEngine| {
        let payload = engine.sent[&0].clone();
        move |stream: &mut kv_router::EngineStream, ask: Option<kv_router_transport::RecoveryId>, now| {
            let frame = EngineFrame { incarnation: Incarnation::new(life), ..EngineFrame::new(0, &payload) };
            match ask {
                Some(id) => stream.replayed(id, frame, now).unwrap(),
                None => stream.frame(frame, now).unwrap(),
            }
        }
    };
    let now = fleet.now();
    let _ = of(1, &engine)(&mut stream, None, now);
    assert_eq!(fleet.router.streams()[0].freshness, StreamFreshness::Fresh);
    engine.restart();
    engine.say(&[store(2)]);
    // It is idle from here on: nothing live will tell.
    let ask = stream.forget(now).unwrap().ask.expect("the new life");
    assert_eq!((ask.from, ask.to), (0, None));
    let _ = of(2, &engine)(&mut stream, Some(ask.id), now);
    let _ = stream.replay_ended(ask.id, now).unwrap();
    assert_eq!(fleet.router.streams()[0].freshness, StreamFreshness::Fresh);
    let found = fleet.router.stats().index.names;
    assert_eq!(found, 4, "and nothing of the old one");
}
