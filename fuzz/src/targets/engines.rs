//! Payloads of engines.

use kv_router_engines::{
    BatchEncoder, BatchError, DecodeLimits, EventForm, EventKind, ExtraKey, Ingest, IngestConfig, LoadStat,
    RemoveFields, StoreFields, TrtllmDecoder, WireBatch, WireEvent, WireHash,
};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::ApplyEvents;
use kv_router_index::oracle::Oracle;
use kv_router_types::{BlockSize, DpRank, KvEvent, WorkerId, WorkerRank};

use crate::memory::within;
use crate::seeds;

/// The most memory that a byte may ask for: an event of one byte is kept in some 300, in a table that doubles.
const EACH: usize = 640;

/// Few enough that inputs reach them.
const LIMITS: DecodeLimits = DecodeLimits { payload_bytes: 64 << 10, events: 512, hashes: 1_024 };

/// MessagePack, whatever the engine and the release.
pub(super) fn wire_batch(bytes: &[u8]) {
    let mut batch = WireBatch::new();
    let result = within(bytes.len(), EACH, || batch.decode(bytes, &LIMITS));
    sound(result, &batch, bytes);
    // What a batch held before makes no difference.
    let mut used = WireBatch::new();
    let _ = used.decode(USED, &LIMITS);
    assert_eq!(used.decode(bytes, &LIMITS), result);
    same(&used, &batch);
    if result.is_ok() {
        written_again(&batch);
        into_an_index(&batch, None);
    }
}

/// JSON, a list of events or one.
pub(super) fn trtllm(bytes: &[u8]) {
    let (mut decoder, mut batch) = (TrtllmDecoder::new(), WireBatch::new());
    let result = within(bytes.len(), EACH, || decoder.decode(bytes, &LIMITS, &mut batch));
    sound(result, &batch, bytes);
    if result.is_ok() {
        written_again(&batch);
        into_an_index(&batch, Some(DpRank::new(0)));
    }
    // Said again it is another life, or in part one: where events have no number, nobody knows from which on. What it
    // remembers (windows and block sizes) decides which events count, and nothing else.
    let mut again = WireBatch::new();
    let second = decoder.decode(bytes, &LIMITS, &mut again);
    sound(second, &again, bytes);
    let too_many =
        |result| matches!(result, Err(BatchError::TooManyEvents { .. } | BatchError::TooManyHashes { .. }));
    assert!(second == result || too_many(second) || too_many(result), "{result:?}, {second:?}");
}

/// One report.
pub(super) fn load_stat(bytes: &[u8]) {
    let Ok(stat) = within(bytes.len(), 0, || LoadStat::decode(bytes)) else { return };
    let mut written = Vec::new();
    stat.encode(&mut written);
    assert_eq!(LoadStat::decode(&written), Ok(stat));
}

/// A batch in which every table has something.
const USED: &[u8] = b"\x93\x01\x91\x84\xa4type\xabBlockStored\xacblock_hashes\x91\xc4\x02ab\
    \xa9token_ids\x92\x01\x02\xaablock_size\x02\x07";

/// Refused and empty, or every event read or counted.
#[track_caller]
fn sound(result: Result<(), BatchError>, batch: &WireBatch, bytes: &[u8]) {
    let (read, lost) = (batch.events().len(), batch.faults().total());
    match result {
        Ok(()) => {
            assert!(read <= 2 * LIMITS.events && read as u64 + lost <= 2 * bytes.len() as u64);
            let hashes: usize = batch.events().map(|event| event.hashes().len()).sum();
            assert!(hashes <= LIMITS.hashes);
        }
        Err(_) => assert_eq!((read, lost, batch.rank()), (0, 0, None), "a refused payload says nothing"),
    }
}

/// Two batches say the same.
#[track_caller]
fn same(left: &WireBatch, right: &WireBatch) {
    assert_eq!((left.time().to_bits(), left.rank()), (right.time().to_bits(), right.rank()));
    assert_eq!(left.faults(), right.faults());
    assert_eq!(left.events().len(), right.events().len());
    left.events().zip(right.events()).for_each(|(left, right)| same_event(left, right));
}

/// Two events say the same, as far as an encoder can say it.
#[track_caller]
fn same_event(left: WireEvent<'_>, right: WireEvent<'_>) {
    assert_eq!(left.kind(), right.kind());
    assert!(left.hashes().iter().eq(right.hashes().iter()), "{:?} {:?}", left.hashes(), right.hashes());
    assert_eq!((left.medium(), left.group()), (right.medium(), right.group()));
    if left.kind() != EventKind::Stored {
        return;
    }
    assert_eq!(left.parent(), right.parent());
    assert_eq!(left.tokens(), right.tokens());
    assert_eq!(left.block_size(), right.block_size());
    assert_eq!((left.lora_id(), left.lora_name()), (right.lora_id(), right.lora_name()));
    assert_eq!((left.spec_kind(), left.sliding_window()), (right.spec_kind(), right.sliding_window()));
    assert_eq!((left.cache_salt(), left.session_id()), (right.cache_salt(), right.session_id()));
    assert_eq!(extra_keys(left), extra_keys(right));
}

/// Extra keys, a list a block.
fn extra_keys(event: WireEvent<'_>) -> Option<Vec<Option<Vec<ExtraKey<'_>>>>> {
    let keys = event.extra_keys()?;
    Some((0..keys.len()).map(|block| keys.block(block).map(Iterator::collect)).collect())
}

/// What was read can be written, and read again.
#[track_caller]
fn written_again(batch: &WireBatch) {
    let mut encoder = BatchEncoder::new(EventForm::Map);
    for event in batch.events() {
        let hashes: Vec<WireHash<'_>> = event.hashes().iter().collect();
        match event.kind() {
            EventKind::Stored => {
                let keys = extra_keys(event);
                let keys: Option<Vec<Option<&[ExtraKey<'_>]>>> =
                    keys.as_ref().map(|blocks| blocks.iter().map(Option::as_deref).collect());
                encoder.stored(&StoreFields {
                    hashes: &hashes,
                    parent: event.parent(),
                    tokens: event.tokens(),
                    block_size: event.block_size(),
                    lora_id: event.lora_id(),
                    medium: event.medium(),
                    lora_name: event.lora_name(),
                    extra_keys: keys.as_deref(),
                    group: event.group(),
                    spec_kind: event.spec_kind(),
                    sliding_window: event.sliding_window(),
                    cache_salt: event.cache_salt(),
                    session_id: event.session_id(),
                });
            }
            EventKind::Removed => {
                encoder.removed(&RemoveFields {
                    hashes: &hashes,
                    medium: event.medium(),
                    group: event.group(),
                });
            }
            EventKind::Cleared => encoder.cleared(),
        }
    }
    let mut payload = Vec::new();
    encoder.finish(batch.time(), batch.rank(), &mut payload);
    let mut again = WireBatch::new();
    let limits = DecodeLimits { events: 2 * LIMITS.events, ..DecodeLimits::default() };
    assert_eq!(again.decode(&payload, &limits), Ok(()));
    assert_eq!(again.faults().total(), 0, "{:?}", again.faults());
    assert_eq!((again.time().to_bits(), again.rank()), (batch.time().to_bits(), batch.rank()));
    assert_eq!(again.events().len(), batch.events().len());
    batch.events().zip(again.events()).for_each(|(left, right)| same_event(left, right));
}

/// Ranks of several schemes take the batch twice; an index takes whatever comes out.
#[track_caller]
fn into_an_index(batch: &WireBatch, rank: Option<DpRank>) {
    const MAX_NAMES: usize = 64;
    for (size, window) in [(16, Window::Plain), (4, Window::Plain), (1, Window::Plain), (4, Window::Eagle)] {
        let Ok(size) = BlockSize::new(size) else { continue };
        let config = IngestConfig::new(HashScheme::new(size, window));
        let (mut ingest, mut index) =
            (Ingest::new(IngestConfig { max_names: MAX_NAMES, ..config }), Oracle::new());
        for _ in 0..2 {
            let mut events = Vec::new();
            match rank {
                None => ingest.apply(batch, &mut events),
                Some(rank) => ingest.apply_rank(rank, batch, &mut events),
            }
            taken(&mut index, &events);
            assert!(ingest.name_count() <= MAX_NAMES && ingest.salt_count() <= ingest.name_count());
        }
    }
}

/// Whose events they are.
pub(super) fn rank() -> WorkerRank {
    WorkerId::new(1).into()
}

/// An index takes them all, and knows whatever is removed.
#[track_caller]
pub(super) fn taken(index: &mut Oracle, events: &[KvEvent]) {
    for event in events {
        assert!(*event == KvEvent::Cleared || event.block_count() > 0, "an event of nothing");
        match index.apply(rank(), event) {
            Ok(applied) => assert_eq!(applied.unknown, 0, "{event:?} removes what is not there"),
            Err(error) => panic!("{error}: {event:?}"),
        }
    }
}

pub(super) fn wire_batch_seeds() -> Vec<Vec<u8>> {
    let mut seeds = seeds::vectors("valid");
    seeds.extend(seeds::vectors("malformed"));
    seeds.push(USED.to_vec());
    seeds
}

pub(super) fn trtllm_seeds() -> Vec<Vec<u8>> {
    const EVENTS: &str = r#"[
        {"event_id":1,"data":{"type":"created","num_blocks_per_cache_level":[8,2]},"window_size":64},
        {"event_id":2,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block","block_hash":1,
         "tokens":[{"token_id":1,"token_extra_id":0},{"token_id":2},{"token_id":"ab"},{"token_id":4}],"cache_level":0,
         "lora_id":3,"priority":35,"mm_keys":[]}]},"window_size":64,"attention_dp_rank":0},
        {"event_id":3,"data":{"type":"updated","block_hash":1,"cache_level":{"type":"event_diff","old_value":0,
         "new_value":1},"priority":null},"window_size":64},
        {"event_id":4,"data":{"type":"removed","block_hashes":[1,-2]},"window_size":128,"attention_dp_rank":1}]"#;
    const ONE: &str = r#"{"event_id":9,"data":{"type":"removed","block_hashes":["18446744073709551615",7]}}"#;
    vec![EVENTS.into(), ONE.into(), b"[]".to_vec(), b"[[[[[[[[[[".to_vec()]
}

pub(super) fn load_stat_seeds() -> Vec<Vec<u8>> {
    seeds::vectors("load")
}
