//! Names that are stored again as something else: what was under them goes, and nothing of it comes back.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, Skip, StoreFields, WireBatch, WireHash,
    WireTokens,
};
use kv_router_hash::{HashContext, HashScheme, Prompt, Window};
use kv_router_types::{BlockSize, KvEvent, LocalBlockHash};

/// Tokens a block of ours.
const OURS: u32 = 4;

/// One store of one block of the engine, through the bytes.
fn store(
    ingest: &mut Ingest,
    name: u64,
    parent: Option<u64>,
    salt: Option<&str>,
    tokens: &[u32],
) -> Vec<KvEvent> {
    let mut encoder = BatchEncoder::new(EventForm::Map);
    encoder.stored(&StoreFields {
        hashes: &[WireHash::Unsigned(name)],
        parent: parent.map(WireHash::Unsigned),
        tokens: WireTokens::Flat(tokens),
        block_size: Some(tokens.len() as u64),
        cache_salt: salt,
        ..StoreFields::default()
    });
    let (mut payload, mut batch, mut events) = (Vec::new(), WireBatch::new(), Vec::new());
    encoder.finish(1.0, None, &mut payload);
    batch.decode(&payload, &DecodeLimits::default()).unwrap();
    ingest.apply(&batch, &mut events);
    events
}

fn stored(events: &[KvEvent]) -> Vec<LocalBlockHash> {
    let blocks = events.iter().flat_map(|event| match event {
        KvEvent::Stored { blocks, .. } => blocks.clone(),
        _ => Vec::new(),
    });
    blocks.map(|block| block.local).collect()
}

#[test]
fn a_part_with_other_content_does_not_complete_what_it_was_part_of() {
    let scheme = HashScheme::new(BlockSize::new(OURS).unwrap(), Window::Plain);
    let mut ingest = Ingest::new(IngestConfig::new(scheme));
    store(&mut ingest, 1, None, None, &[0, 1]);
    assert_eq!(stored(&store(&mut ingest, 2, Some(1), None, &[2, 3])).len(), 1);
    let events = store(&mut ingest, 1, None, None, &[100, 101]);
    assert!(matches!(events[..], [KvEvent::Removed { .. }]), "the block of 0 to 3 is no more: {events:?}");
    assert_eq!(ingest.counters().skips.get(Skip::RepeatedHash), 1);
    // As it was, it completes the block again.
    assert_eq!(stored(&store(&mut ingest, 1, None, None, &[0, 1])).len(), 1);
}

/// A name is stored again with other content under the same salt, which had no other name.
#[track_caller]
fn check(engine_block: u32) {
    let scheme = HashScheme::new(BlockSize::new(OURS).unwrap(), Window::Plain);
    let mut ingest = Ingest::new(IngestConfig::new(scheme));
    let tokens = |from: u32| (from..from + engine_block).collect::<Vec<u32>>();
    store(&mut ingest, 1, None, Some("a"), &tokens(0));
    store(&mut ingest, 1, None, Some("a"), &tokens(100));
    store(&mut ingest, 2, None, Some("b"), &tokens(0));
    assert_eq!(ingest.salt_count(), 2);

    let mut loader = ingest.loader();
    ingest.save(&mut |piece| loader.piece(piece).unwrap());
    assert_eq!(loader.finish().unwrap().salt_count(), 2);

    let events = store(&mut ingest, 3, Some(1), None, &tokens(200));
    let chain = [tokens(100), tokens(200)].concat();
    let context = HashContext::NONE.with_salt("a").unwrap();
    let locals = scheme.hash(&Prompt::new(&chain).in_context(context));
    assert_eq!(stored(&events).last(), locals.last(), "what continues the chain is under the chain's salt");
}

#[test]
fn a_part_that_is_stored_anew_keeps_its_salt() {
    check(2);
}

#[test]
fn a_block_that_is_stored_anew_keeps_its_salt() {
    check(4);
}

#[test]
fn a_block_of_several_that_is_stored_anew_keeps_its_salt() {
    check(8);
}
