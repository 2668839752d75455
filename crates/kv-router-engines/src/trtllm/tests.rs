//! Events as TensorRT-LLM gives them.

use kv_router_hash::{HashScheme, Prompt, Window};
use kv_router_types::{BlockSize, DpRank, ExternalSequenceHash, KvEvent, Tier};

use super::*;
use crate::{Ingest, IngestConfig};

fn block(hash: u64, tokens: std::ops::Range<u32>) -> String {
    let tokens: Vec<String> =
        tokens.map(|id| format!(r#"{{"type":"unique_token","token_id":{id},"token_extra_id":0}}"#)).collect();
    format!(
        r#"{{"type":"stored_block","block_hash":{hash},"tokens":[{}],"cache_level":0,"priority":35,"mm_keys":[]}}"#,
        tokens.join(",")
    )
}

fn event(data: &str, window: u32) -> String {
    format!(r#"{{"event_id":1,"data":{data},"window_size":{window},"attention_dp_rank":2}}"#)
}

/// Of another rank, or in another life.
fn numbered(id: u64, rank: u32, data: &str, window: u32) -> String {
    format!(r#"{{"event_id":{id},"data":{data},"window_size":{window},"attention_dp_rank":{rank}}}"#)
}

fn stored(parent: &str, blocks: &[String]) -> String {
    format!(r#"{{"type":"stored","parent_hash":{parent},"blocks":[{}]}}"#, blocks.join(","))
}

fn decode(decoder: &mut TrtllmDecoder, events: &[String]) -> WireBatch {
    let mut batch = WireBatch::new();
    let json = format!("[{}]", events.join(","));
    decoder.decode(json.as_bytes(), &DecodeLimits::default(), &mut batch).unwrap();
    batch
}

fn scheme() -> HashScheme {
    HashScheme::new(BlockSize::new(4).unwrap(), Window::Plain)
}

fn apply(ingest: &mut Ingest, batch: &WireBatch) -> Vec<KvEvent> {
    let mut events = Vec::new();
    ingest.apply_rank(DpRank::new(2), batch, &mut events);
    events
}

#[test]
fn a_store_is_one_chain_under_its_parent() {
    let full = event(&stored("null", &[block(11, 0..4), block(12, 4..8), block(13, 8..10)]), 4096);
    let child = event(&stored("12", &[block(u64::MAX, 20..24)]), 4096);
    let batch = decode(&mut TrtllmDecoder::new(), &[full, child]);
    let mut ingest = Ingest::new(IngestConfig::new(scheme()));
    let mut others = Vec::new();
    ingest.apply_rank(DpRank::new(0), &batch, &mut others);
    assert_eq!(others, [], "another rank's");

    let events = apply(&mut ingest, &batch);
    let tokens: Vec<u32> = (0..8).chain(20..24).collect();
    let locals = scheme().hash(&Prompt::new(&tokens));
    let [KvEvent::Stored { tier: Tier::Device, parent: None, blocks }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(blocks.iter().map(|block| block.local).collect::<Vec<_>>(), locals);
    assert_eq!(ingest.name_count(), 3, "what is not full is left out");
}

#[test]
fn a_block_moves_between_levels_and_then_goes() {
    let mut decoder = TrtllmDecoder::new();
    let mut ingest = Ingest::new(IngestConfig::new(scheme()));
    let store = event(&stored("null", &[block(11, 0..4)]), 4096);
    apply(&mut ingest, &decode(&mut decoder, &[store]));
    let down = r#"{"type":"updated","block_hash":11,"cache_level":{"type":"event_diff","old_value":0,"new_value":1},
        "priority":null}"#;
    let priority =
        r#"{"type":"updated","block_hash":11,"cache_level":null,"priority":{"old_value":1,"new_value":2}}"#;
    let events = apply(&mut ingest, &decode(&mut decoder, &[event(down, 4096), event(priority, 4096)]));
    let name = ExternalSequenceHash::new(11);
    assert!(
        matches!(&events[0], KvEvent::Stored { tier: Tier::Host, parent: None, blocks } if blocks.len() == 1)
    );
    assert_eq!(events[1..], [KvEvent::Removed { tier: Tier::Device, blocks: vec![name] }][..]);

    let gone = event(r#"{"type":"removed","block_hashes":[11]}"#, 4096);
    let events = apply(&mut ingest, &decode(&mut decoder, &[gone]));
    assert_eq!(events, [KvEvent::Removed { tier: Tier::Host, blocks: vec![name] }]);
    assert_eq!(ingest.name_count(), 0);
}

#[test]
fn only_the_largest_window_counts() {
    let mut decoder = TrtllmDecoder::new();
    let created = event(r#"{"type":"created","num_blocks_per_cache_level":[10,10]}"#, 4096);
    let small = event(&stored("null", &[block(11, 0..4)]), 512);
    let large = event(&stored("null", &[block(12, 0..4)]), 4096);
    assert_eq!(decode(&mut decoder, &[created, small.clone(), large.clone()]).events().len(), 1);

    let late = decode(&mut TrtllmDecoder::new(), &[small, large]);
    let kinds: Vec<EventKind> = late.events().map(|event| event.kind()).collect();
    assert_eq!(kinds, [EventKind::Stored, EventKind::Cleared, EventKind::Stored]);
}

#[test]
fn each_rank_has_its_largest_window() {
    let store = |rank, hash, window| numbered(1, rank, &stored("null", &[block(hash, 0..4)]), window);
    let mut decoder = TrtllmDecoder::new();
    decode(&mut decoder, &[store(0, 11, 512), store(2, 11, 512), store(0, 12, 4096)]);
    // What rank 2 stored in the smaller window is no less wrong than what rank 0 did.
    let batch = decode(&mut decoder, &[store(2, 12, 4096), store(2, 11, 512), store(0, 11, 512)]);
    let told: Vec<_> = batch.events().map(|event| (event.kind(), event.rank().map(DpRank::get))).collect();
    assert_eq!(told, [(EventKind::Cleared, Some(2)), (EventKind::Stored, Some(2))]);
    let beyond = decode(&mut decoder, &[store(65_536, 11, 512)]);
    assert_eq!((beyond.events().len(), beyond.faults().total()), (0, 1), "no fleet is that large");
}

#[test]
fn an_engine_that_started_again_may_have_smaller_windows_and_blocks() {
    let stored = |id, hash, tokens| numbered(id, 2, &stored("null", &[block(hash, tokens)]), 512);
    let mut decoder = TrtllmDecoder::new();
    let created = numbered(8, 2, r#"{"type":"created","num_blocks_per_cache_level":[10,10]}"#, 4096);
    decode(&mut decoder, &[created]);
    assert_eq!(decode(&mut decoder, &[stored(9, 11, 0..8)]).events().len(), 0, "a smaller window");
    let batch = decode(&mut decoder, &[stored(0, 11, 0..4), stored(1, 12, 4..8)]);
    let kinds: Vec<_> = batch.events().map(|event| event.kind()).collect();
    assert_eq!(kinds, [EventKind::Cleared, EventKind::Stored, EventKind::Stored]);
}

#[test]
fn frames_leave_it_to_their_numbers_that_an_engine_started_again() {
    let event = |id| numbered(id, 2, &stored("null", &[block(11, 0..4)]), 512);
    let json = format!("[{},{}]", event(9), event(5));
    let mut seen = Vec::new();
    let each = |frame: PulledFrame<'_>| {
        let mut batch = WireBatch::new();
        batch.decode(frame.payload, &DecodeLimits::default()).unwrap();
        seen.push((frame.sequence, batch.clears(), batch.events().len()));
    };
    TrtllmDecoder::new().frames(json.as_bytes(), &DecodeLimits::default(), each).unwrap();
    // A clear would say that nothing is missing, and 0 to 4 are.
    assert_eq!(seen, [(9, false, 1), (5, false, 1)]);
}

#[test]
fn a_block_goes_wherever_it_is_and_is_known_then() {
    let mut decoder = TrtllmDecoder::new();
    let mut ingest = Ingest::new(IngestConfig::new(scheme()));
    let store = event(&stored("null", &[block(11, 0..4), block(12, 4..8)]), 4096);
    let down = r#"{"type":"updated","block_hash":12,"cache_level":{"old_value":0,"new_value":1}}"#;
    let gone = event(r#"{"type":"removed","block_hashes":[11,12,13]}"#, 4096);
    let events = apply(&mut ingest, &decode(&mut decoder, &[store, event(down, 4096), gone]));
    assert_eq!((events.len(), ingest.name_count()), (4, 0), "{events:?}");
    let counters = ingest.counters();
    assert_eq!((counters.blocks_removed, counters.unknown_removals), (3, 1), "13 alone is unknown");
}

#[test]
fn a_block_that_is_not_full_says_nothing_of_the_size() {
    let mut decoder = TrtllmDecoder::new();
    let mut ingest = Ingest::new(IngestConfig::new(scheme()));
    let partial = event(&stored("null", &[block(11, 0..4), block(12, 4..7)]), 4096);
    let alone = event(&stored("11", &[block(13, 4..6)]), 4096);
    apply(&mut ingest, &decode(&mut decoder, &[partial, alone]));
    assert_eq!((ingest.engine_block_size(), ingest.unfit_block_size()), (Some(4), None));
    assert_eq!((ingest.name_count(), ingest.counters().skips.total()), (1, 0));
}

#[test]
fn a_bad_event_is_lost_alone() {
    let good = event(r#"{"type":"removed","block_hashes":[1]}"#, 4096);
    let bad = [
        "7".to_owned(),
        event(r#"{"type":"pinned"}"#, 4096),
        event(r#"{"type":"removed"}"#, 4096),
        event(r#"{"type":"removed","block_hashes":[1.5]}"#, 4096),
        event(&stored("null", &[r#"{"block_hash":1,"tokens":[{"token_id":-1}]}"#.to_owned()]), 4096),
    ];
    for bad in bad {
        let batch = decode(&mut TrtllmDecoder::new(), &[good.clone(), bad.clone(), good.clone()]);
        assert_eq!((batch.events().len(), batch.faults().total()), (2, 1), "{bad}");
    }
}

#[test]
fn what_is_no_json_is_refused() {
    let cases = [
        ("", BatchError::Truncated { at: 0 }),
        ("[1, 2", BatchError::Truncated { at: 4 }),
        ("[1]]", BatchError::Trailing { at: 3 }),
        ("[\n1,,2]", BatchError::Malformed { at: 4 }),
        ("\"text\"", BatchError::NotABatch),
    ];
    for (json, expected) in cases {
        let mut batch = WireBatch::new();
        let result = TrtllmDecoder::new().decode(json.as_bytes(), &DecodeLimits::default(), &mut batch);
        assert_eq!(std::mem::discriminant(&result.unwrap_err()), std::mem::discriminant(&expected), "{json}");
        assert_eq!(batch.events().len(), 0);
    }
    let bomb = format!("[{}", "[".repeat(1 << 20));
    assert!(
        TrtllmDecoder::new()
            .decode(bomb.as_bytes(), &DecodeLimits::default(), &mut WireBatch::new())
            .is_err()
    );
}
