//! Every vector decodes to what its sidecar says, and gets the verdict that the manifest gives it.
#![expect(clippy::unwrap_used, reason = "a vector that cannot be read fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, EventKind, ExtraKey, Ingest, IngestConfig, LoadStat, RemoveFields,
    Skip, StoreFields, WireBatch, WireEvent, WireTokens,
};
use kv_router_hash::{HashScheme, Prompt, Window};
use kv_router_index::oracle::Oracle;
use kv_router_index::paged::PagedIndex;
use kv_router_index::{ApplyEvents, PrefixIndex};
use kv_router_types::{BlockSize, KvEvent, WorkerId, WorkerRank};
use serde_json::{Value, json};

#[path = "../examples/support/sidecar.rs"]
mod sidecar;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn bytes(path: &str) -> Vec<u8> {
    fs::read(folder().join(path)).unwrap()
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&bytes(path)).unwrap()
}

fn decode(payload: &[u8]) -> Result<WireBatch, kv_router_engines::BatchError> {
    let mut batch = WireBatch::new();
    batch.decode(payload, &DecodeLimits::default()).map(|()| batch)
}

/// Sidecars spell a field that is not on the wire as null or not at all.
fn without_nulls(event: &Value) -> Value {
    let fields = event.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn ingest(batch: &WireBatch) -> (Ingest, Vec<KvEvent>) {
    let size =
        batch.events().filter_map(|event| BlockSize::new(u32::try_from(event.block_size()?).ok()?).ok());
    let pairs = batch.events().any(|event| matches!(event.tokens(), WireTokens::Pairs(_)));
    let window = if pairs { Window::Eagle } else { Window::Plain };
    let scheme = HashScheme::new(size.max().unwrap_or(BlockSize::new(16).unwrap()), window);
    let mut ingest = Ingest::new(IngestConfig::new(scheme));
    let mut events = Vec::new();
    ingest.apply(batch, &mut events);
    (ingest, events)
}

#[test]
fn every_valid_vector_decodes_to_its_sidecar() {
    let manifest = json("valid/manifest.json");
    let ids: Vec<&str> =
        manifest.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 98);
    for id in ids {
        let expect = &json(&format!("valid/{id}.json"))["expect"];
        let batch =
            decode(&bytes(&format!("valid/{id}.msgpack"))).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(batch.time(), expect["ts"].as_f64().unwrap(), "{id}");
        assert_eq!(batch.rank().map(|rank| u64::from(rank.get())), expect["dp_rank"].as_u64(), "{id}");
        let unit = if expect["ts_unit"] == "ms" { "Milliseconds" } else { "Seconds" };
        assert_eq!(format!("{:?}", batch.time_unit()), unit, "{id}");
        assert_eq!(batch.faults().total(), expect["skipped_events"].as_u64().unwrap_or(0), "{id}");
        let events: Vec<Value> = batch.events().map(sidecar::event).collect();
        let expected: Vec<Value> = expect["events"].as_array().unwrap().iter().map(without_nulls).collect();
        assert_eq!(events, expected, "{id}");
        let skips = ingest(&batch).0.counters().skips;
        assert!(!skips.iter().any(|(skip, _)| skip.is_refusal()), "{id}: {skips:?}");
    }
}

#[test]
fn every_malformed_vector_gets_its_verdict() {
    let manifest = json("malformed/manifest.json");
    let entries = manifest.as_array().unwrap();
    assert_eq!(entries.len(), 52);
    for entry in entries {
        let id = entry["id"].as_str().unwrap();
        let verdict = match decode(&bytes(entry["file"].as_str().unwrap())) {
            Err(_) => "reject_batch",
            Ok(batch) if batch.is_lossy() => "skip_event",
            Ok(batch) if ingest(&batch).0.counters().skips.iter().any(|(skip, _)| skip.is_refusal()) => {
                "index_skip"
            }
            Ok(_) => "accept",
        };
        let allowed: &[&str] = match entry["expect"].as_str().unwrap() {
            "accept_or_reject_batch" => &["accept", "reject_batch"],
            "accept_or_skip_event" => &["accept", "skip_event"],
            "reject_batch_or_default" => &["reject_batch"],
            "accept_no_cycle" | "accept_orphan" => &["accept"],
            "accept" => &["accept"],
            "reject_batch" => &["reject_batch"],
            "skip_event" => &["skip_event"],
            "index_skip" => &["index_skip"],
            other => panic!("{id}: no such verdict: {other}"),
        };
        assert!(allowed.contains(&verdict), "{id}: {verdict}, expected {allowed:?}");
    }
}

#[test]
fn every_load_vector_decodes_to_its_sidecar() {
    for entry in json("load/manifest.json").as_array().unwrap() {
        let id = entry["id"].as_str().unwrap();
        let result = LoadStat::decode(&bytes(entry["file"].as_str().unwrap()));
        if entry["expect"] == "reject" {
            assert!(result.is_err(), "{id}");
            continue;
        }
        let stat = result.unwrap();
        let fields = json!({
            "num_running_reqs": stat.running,
            "num_waiting_reqs": stat.waiting,
            "num_tokens": stat.kv_tokens,
            "max_total_num_tokens": stat.kv_capacity,
            "attn_dp_rank": stat.rank.map(|rank| rank.get()),
            "num_waiting_uncached_tokens": stat.waiting_uncached_tokens,
            "num_total_tokens": stat.total_tokens,
            "max_running_requests": stat.max_running,
            "total_prefill_uncached_tokens": stat.prefill_uncached_tokens,
            "total_prefill_busy_us": stat.prefill_busy_us,
        });
        assert_eq!(without_nulls(&fields), without_nulls(&entry["expect"]), "{id}");
    }
}

const RANK: WorkerRank = WorkerRank { worker: WorkerId::new(1), rank: kv_router_types::DpRank::new(0) };

/// Blocks of a prompt that the oracle and the paged index find after the batch, every event of which they must take.
fn matched(id: &str, block_size: u32, tokens: &[u32]) -> [u64; 2] {
    let scheme = HashScheme::new(BlockSize::new(block_size).unwrap(), Window::Plain);
    let batch = decode(&bytes(&format!("valid/{id}.msgpack"))).unwrap();
    let mut ingest = Ingest::new(IngestConfig::new(scheme));
    let mut events = Vec::new();
    ingest.apply(&batch, &mut events);
    let (mut oracle, mut paged) = (Oracle::new(), PagedIndex::new());
    for event in &events {
        oracle.apply(RANK, event).unwrap();
        paged.apply(RANK, event).unwrap();
    }
    let prompt = scheme.hash(&Prompt::new(tokens));
    [oracle.find(&prompt), paged.find(&prompt)].map(|overlaps| u64::from(overlaps.blocks(RANK)))
}

/// The tokens of a chain, from the stores of one of these groups that name its blocks.
fn tokens_of(chain: &Value, groups: &Value, events: &Value, block_size: usize) -> Vec<u32> {
    let events = events.as_array().unwrap();
    let block = |name: &Value| {
        let name = u64::from_str_radix(name.as_str().unwrap(), 16).unwrap();
        let names = |event: &Value, at: usize| {
            let named = event["block_hashes"][at]["u64"].as_str()?;
            Some(u64::from_str_radix(named, 16).unwrap())
        };
        events
            .iter()
            .filter(|event| event["type"] == "BlockStored")
            .filter(|event| groups.as_array().unwrap().contains(&event["group_idx"]))
            .find_map(|event| {
                let count = event["block_hashes"].as_array().unwrap().len();
                let at = (0..count).find(|&at| names(event, at) == Some(name))?;
                let tokens = event["token_ids"].as_array().unwrap();
                Some(tokens[at * block_size..][..block_size].to_vec())
            })
            .unwrap()
    };
    let tokens = chain.as_array().unwrap().iter().flat_map(block);
    tokens.map(|token| u32::try_from(token.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn the_index_answers_what_the_vectors_expect() {
    let mut checked = 0;
    for entry in json("valid/manifest.json").as_array().unwrap() {
        let id = entry["id"].as_str().unwrap();
        let sidecar = json(&format!("valid/{id}.json"));
        let Some(expect) = sidecar["index_expect"].as_object() else { continue };
        let events = &sidecar["expect"]["events"];
        let size =
            events.as_array().unwrap().iter().filter_map(|event| event["block_size"].as_u64()).max().unwrap();
        let size = u32::try_from(size).unwrap();
        for (what, value) in expect {
            let tokens = match what.as_str() {
                "matched_blocks_for_tokens_0_15" => (0..16).collect(),
                "matched_blocks_after" => {
                    tokens_of(&expect["chain"], &expect["indexed_groups"], events, size as usize)
                }
                // Said of the one above.
                "chain" | "indexed_groups" => continue,
                other => panic!("{id}: no such expectation: {other}"),
            };
            let expected = value.as_u64().unwrap();
            assert!(expected > 0, "{id}");
            assert_eq!(matched(id, size, &tokens), [expected; 2], "{id}: {what}");
            checked += 1;
        }
    }
    assert_eq!(checked, 2);
}

#[test]
fn an_orphan_is_counted_and_a_cycle_is_not_built() {
    for (file, orphans) in [("unknown_parent", 1), ("cycle_across_events", 2)] {
        let batch = decode(&bytes(&format!("malformed/{file}.bin"))).unwrap();
        let (ingest, events) = ingest(&batch);
        assert_eq!(ingest.counters().skips.get(Skip::UnknownParent), orphans, "{file}");
        assert_eq!(events, [], "{file}");
        assert_eq!(ingest.name_count(), 0, "{file}");
    }
}

/// What a view says, encoded again in another form, is the same view.
#[test]
fn every_valid_vector_survives_encoding() {
    for entry in json("valid/manifest.json").as_array().unwrap() {
        let id = entry["id"].as_str().unwrap();
        let batch = decode(&bytes(&format!("valid/{id}.msgpack"))).unwrap();
        for form in [EventForm::Map, EventForm::ARRAY_WITHOUT_MEDIA, EventForm::ARRAY_WITH_ADAPTERS] {
            let mut encoder = BatchEncoder::new(form);
            batch.events().for_each(|event| encode(event, &mut encoder));
            let mut payload = Vec::new();
            encoder.finish(batch.time(), batch.rank(), &mut payload);
            let again = decode(&payload).unwrap();
            assert_eq!((again.time(), again.rank()), (batch.time(), batch.rank()), "{id}");
            let kept = |event| kept(&sidecar::event(event), form);
            assert_eq!(
                again.events().map(kept).collect::<Vec<_>>(),
                batch.events().map(kept).collect::<Vec<_>>(),
                "{id}"
            );
        }
    }
}

/// What an encoder writes of an event in a form: the array form of SGLang has no place for sessions, and one for
/// either an adapter or a salt.
fn kept(event: &Value, form: EventForm) -> Value {
    let mut event = event.clone();
    let fields = event.as_object_mut().unwrap();
    for name in ["locality", "ownership", "tenant_id", "backend_id", "object_key", "lookahead_token_ids"] {
        fields.remove(name);
    }
    if form != EventForm::Map {
        fields.remove("session_id");
        if fields.contains_key("lora_name") {
            fields.remove("cache_salt");
        }
    }
    event
}

fn encode(event: WireEvent<'_>, encoder: &mut BatchEncoder) {
    let hashes: Vec<_> = event.hashes().iter().collect();
    let extra: Option<Vec<Option<Vec<ExtraKey<'_>>>>> = event
        .extra_keys()
        .map(|keys| (0..keys.len()).map(|block| keys.block(block).map(Iterator::collect)).collect());
    let extra: Option<Vec<Option<&[ExtraKey<'_>]>>> =
        extra.as_ref().map(|blocks| blocks.iter().map(Option::as_deref).collect());
    match event.kind() {
        EventKind::Stored => encoder.stored(&StoreFields {
            hashes: &hashes,
            parent: event.parent(),
            tokens: event.tokens(),
            block_size: event.block_size(),
            lora_id: event.lora_id(),
            medium: event.medium(),
            lora_name: event.lora_name(),
            extra_keys: extra.as_deref(),
            group: event.group(),
            spec_kind: event.spec_kind(),
            sliding_window: event.sliding_window(),
            cache_salt: event.cache_salt(),
            session_id: event.session_id(),
        }),
        EventKind::Removed => {
            encoder.removed(&RemoveFields { hashes: &hashes, medium: event.medium(), group: event.group() });
        }
        EventKind::Cleared => encoder.cleared(),
    }
}
