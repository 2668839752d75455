//! Answers of TensorRT-LLM's server, into the router.

use std::num::NonZeroU32;
use std::time::Duration;

use kv_router::{
    BatchError, DpRank, EngineKind, EngineStreamConfig, EngineStreamError, ForgetReason, OpenStreamError,
    PulledStream, RouteRequest, Skip, StreamFreshness, WorkerRank,
};

use crate::support::{Fleet, rank, worker};

/// A store of one block of 16 tokens, all of them `token`, in the largest window.
fn store(id: u64, block: u64, parent: Option<u64>, token: u32) -> String {
    stored(id, block, parent, token, 4096, "")
}

fn stored(id: u64, block: u64, parent: Option<u64>, token: u32, window: u64, more: &str) -> String {
    let tokens = vec![format!(r#"{{"type": "unique_token", "token_id": {token}, "token_extra_id": 0}}"#); 16];
    let parent = parent.map_or(String::from("null"), |parent| parent.to_string());
    format!(
        r#"{{"event_id": {id}, "data": {{"type": "stored", "parent_hash": {parent}, "blocks": [{{"type":
        "stored_block", "block_hash": {block}, "tokens": [{}], "cache_level": 0, "priority": 35{more}}}]}},
        "window_size": {window}, "attention_dp_rank": 0}}"#,
        tokens.join(",")
    )
}

fn created(id: u64) -> String {
    let data = r#"{"type": "created", "num_blocks_per_cache_level": [10, 0]}"#;
    format!(r#"{{"event_id": {id}, "data": {data}, "window_size": 4096}}"#)
}

fn open(fleet: &Fleet) -> PulledStream {
    let config = EngineStreamConfig::new(rank(0), EngineKind::TensorRtLlm);
    fleet.router.pulled_stream(config, NonZeroU32::MIN).unwrap()
}

fn list(events: &[String]) -> Vec<u8> {
    format!("[{}]", events.join(",")).into_bytes()
}

/// Blocks of `1 x 16, 2 x 16` that are found.
fn found(fleet: &Fleet) -> u32 {
    let tokens: Vec<u32> = [1; 16].into_iter().chain([2; 16]).collect();
    fleet.router.overlaps(&RouteRequest::from_tokens(&tokens)).unwrap().blocks(rank(0))
}

fn freshness(fleet: &Fleet) -> StreamFreshness {
    fleet.router.streams()[0].freshness
}

#[test]
fn answers_are_one_stream() {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    assert_eq!(stream.worker(), worker(0));
    let report = stream.pulled(&list(&[created(0), store(1, 7, None, 1)]), fleet.now()).unwrap();
    assert_eq!(
        (report.taken, report.events.applied.stored, report.forgot),
        (2, 1, Some(ForgetReason::FirstContact))
    );
    stream.pulled(b"[]", fleet.now()).unwrap();
    fleet.clock.advance(Duration::from_secs(10));
    stream.pulled(store(2, 8, Some(7), 2).as_bytes(), fleet.now()).unwrap();
    assert_eq!((found(&fleet), freshness(&fleet)), (2, StreamFreshness::Fresh));
    let removed = r#"{"event_id": 3, "data": {"type": "removed", "block_hashes": [8]}, "window_size": 4096}"#;
    let report = stream.pulled(removed.as_bytes(), fleet.now()).unwrap();
    assert_eq!((report.events.applied.removed, found(&fleet)), (1, 1));
    // No moment is on this wire, so no lag either.
    assert!(fleet.router.streams()[0].engine.unwrap().lag.is_zero());
}

#[test]
fn what_the_server_dropped_makes_the_rank_cold() {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    stream.pulled(&list(&[created(0), store(1, 7, None, 1)]), fleet.now()).unwrap();
    let report = stream.pulled(&list(&[store(5, 8, Some(7), 2)]), fleet.now()).unwrap();
    assert_eq!(report.forgot, Some(ForgetReason::Gap));
    let status = fleet.router.streams()[0];
    assert_eq!((found(&fleet), status.freshness), (0, StreamFreshness::Cold));
    assert_eq!(status.stream.gaps, 1);
    // It goes on live.
    stream.pulled(&list(&[store(6, 9, None, 1)]), fleet.now()).unwrap();
    assert_eq!(found(&fleet), 1);
}

#[test]
fn an_engine_that_starts_again_begins_at_zero() {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    let first = [created(0), store(1, 7, None, 1), store(2, 8, Some(7), 2)];
    stream.pulled(&list(&first), fleet.now()).unwrap();
    let report = stream.pulled(&list(&[created(0), store(1, 7, None, 1)]), fleet.now()).unwrap();
    assert_eq!(report.forgot, Some(ForgetReason::NewIncarnation));
    assert_eq!((found(&fleet), freshness(&fleet)), (1, StreamFreshness::Fresh));
}

#[test]
fn what_does_not_count_leaves_no_gap() {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    let updated = r#"{"event_id": 4, "data": {"type": "updated", "block_hash": 8, "cache_level": null,
        "priority": {"old_value": 1, "new_value": 2}}, "window_size": 4096}"#;
    let events = [
        created(0),
        store(1, 7, None, 1),
        stored(2, 70, None, 3, 512, ""),
        store(3, 8, Some(7), 2),
        updated.to_owned(),
        stored(
            5,
            9,
            Some(8),
            4,
            4096,
            r#", "mm_keys": [{"type": "mm_key", "hash": "00", "start_offset": 0}]"#,
        ),
    ];
    let report = stream.pulled(&list(&events), fleet.now()).unwrap();
    assert_eq!(
        (report.taken, report.events.applied.stored, report.forgot),
        (6, 2, Some(ForgetReason::FirstContact))
    );
    let status = fleet.router.streams()[0];
    assert_eq!((found(&fleet), status.stream.gaps), (2, 0));
    assert_eq!(status.engine.unwrap().ingest.skips.get(Skip::UnclearKeys), 1);
}

#[test]
fn damage_is_counted_and_shows_as_a_gap() {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    stream.pulled(&list(&[created(0), store(1, 7, None, 1)]), fleet.now()).unwrap();
    // One that says nothing that we know has its number.
    let odd = r#"{"event_id": 2, "data": {"type": "odd"}, "window_size": 4096}"#.to_owned();
    let report = stream.pulled(&list(&[odd]), fleet.now()).unwrap();
    assert_eq!((report.taken, report.fault), (1, None));
    let status = fleet.router.streams()[0];
    assert!(status.suspect && status.stream.gaps == 0, "{status:?}");
    // One that has none, and one of a rank that there is not.
    let stray = created(9).replace("4096", r#"4096, "attention_dp_rank": 3"#);
    let report = stream.pulled(&list(&[String::from("{}"), stray]), fleet.now()).unwrap();
    assert_eq!((report.taken, report.unnumbered, report.other_rank), (0, 1, 1));
    // An answer that ends early: what is in it counts, the rest is a gap.
    let mut early = list(&[store(3, 8, Some(7), 2), store(4, 9, Some(8), 3)]);
    early.truncate(early.len() - 20);
    let report = stream.pulled(&early, fleet.now()).unwrap();
    assert!(matches!(report.fault, Some(BatchError::Truncated { .. })), "{report:?}");
    assert_eq!((report.taken, found(&fleet)), (1, 2));
    let report = stream.pulled(&list(&[store(5, 10, None, 1)]), fleet.now()).unwrap();
    assert!(report.forgot.is_some());
}

#[test]
fn a_worker_that_left_takes_nothing() {
    let fleet = Fleet::new(1);
    let mut stream = open(&fleet);
    let config = EngineStreamConfig::new(rank(0), EngineKind::TensorRtLlm);
    let error = fleet.router.pulled_stream(config.clone(), NonZeroU32::MIN).unwrap_err();
    assert_eq!(error, OpenStreamError::InUse { worker: rank(0) });
    fleet.router.leave(worker(0)).unwrap();
    let left = stream.pulled(&list(&[created(0)]), fleet.now());
    assert_eq!(left, Err(EngineStreamError::Left { worker: rank(0) }));
    let error = fleet.router.pulled_stream(config, NonZeroU32::MIN).unwrap_err();
    assert_eq!(error, OpenStreamError::UnknownRank { worker: WorkerRank::new(worker(0), DpRank::new(0)) });
}
