//! Events of one rank over time, and the state that they leave.

use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, ExtraKey, Ingest, IngestConfig, IngestLoader, Presence,
    RemoveFields, StoreFields, WireBatch, WireHash, WireTokens,
};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::oracle::Oracle;
use kv_router_types::{BlockSize, KvEvent};

use super::engines::{rank, taken};
use super::fleet::blocks;
use crate::input::{Choices, framed};
use crate::memory::within;

const MEDIA: [Option<&str>; 5] = [None, Some("GPU"), Some("CPU"), Some("DISK"), Some("elsewhere")];
const SALTS: [Option<&str>; 3] = [None, Some("a"), Some("b")];
const FORMS: [EventForm; 4] = [
    EventForm::Map,
    EventForm::ARRAY_WITHOUT_MEDIA,
    EventForm::ARRAY_WITH_MEDIA,
    EventForm::ARRAY_WITH_ADAPTERS,
];

/// Stores, removals and clears with few names and few tokens, so that they meet. At some moment the state is saved and
/// loaded again: both go on alike.
pub(super) fn events(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let Some(config) = config(&mut choices) else { return };
    let max_names = config.max_names;
    let mut ingest = Ingest::new(config);
    let mut copy: Option<(Ingest, Oracle)> = None;
    let mut index = Oracle::new();
    let mut encoder = BatchEncoder::new(choices.of(&FORMS));
    while !choices.is_over() {
        match choices.below(16) {
            0..=7 => store(&mut choices, &mut encoder),
            8..=11 => remove(&mut choices, &mut encoder),
            12 => encoder.cleared(),
            13 if copy.is_none() => {
                flush(&mut encoder, &mut ingest, None, &mut index);
                copy = Some((loaded(&ingest), index.clone()));
            }
            _ => flush(&mut encoder, &mut ingest, copy.as_mut(), &mut index),
        }
        assert!(ingest.name_count() <= max_names && ingest.salt_count() <= ingest.name_count());
    }
    encoder.cleared();
    flush(&mut encoder, &mut ingest, copy.as_mut(), &mut index);
    assert_eq!((ingest.name_count(), ingest.salt_count()), (0, 0), "a clear leaves nothing behind");
    assert_eq!(index.names(rank()).count(), 0);
}

fn config(choices: &mut Choices<'_>) -> Option<IngestConfig> {
    let size = BlockSize::new(choices.of(&[4, 2, 1, 8])).ok()?;
    let window = choices.of(&[Window::Plain, Window::Eagle]);
    Some(IngestConfig {
        presence: choices.of(&[Presence::Copies, Presence::Logical]),
        max_names: choices.of(&[1_000, 6]),
        ..IngestConfig::new(HashScheme::new(size, window))
    })
}

/// Names are few; two bytes tell one.
fn name<'a>(choices: &mut Choices<'_>) -> WireHash<'a> {
    match choices.byte() {
        byte @ 0..=239 => WireHash::Unsigned(u64::from(byte % 24)),
        byte @ 240..=247 => WireHash::Negative(-i64::from(byte)),
        _ => WireHash::Digest(&[0, 0, 0, 0, 0, 0, 0, 0, 3]),
    }
}

fn names<'a>(choices: &mut Choices<'_>) -> Vec<WireHash<'a>> {
    (0..choices.below(5)).map(|_| name(choices)).collect()
}

fn store(choices: &mut Choices<'_>, encoder: &mut BatchEncoder) {
    let hashes = names(choices);
    let parent = (choices.below(4) > 0).then(|| name(choices));
    let block_size = choices.of(&[4, 2, 1, 8, 16, 3, 0]);
    let shape = choices.byte();
    let count = hashes.len() * block_size as usize;
    // Sometimes one token too few or too many.
    let count = (count + usize::from(shape & 7 == 1)).saturating_sub(usize::from(shape & 7 == 2));
    let token = choices.below(3);
    let tokens: Vec<u32> =
        (0..count).map(|at| u32::from(token) + at as u32 / block_size.max(1) as u32).collect();
    let pairs: Vec<[u32; 2]> = tokens.iter().map(|&token| [token, token + 1]).collect();
    let tokens = match shape >> 3 & 7 {
        0 => WireTokens::Absent,
        1 | 2 => WireTokens::Pairs(&pairs),
        _ => WireTokens::Flat(&tokens),
    };
    let group = choices.of(&[None, None, Some(0), Some(1)]);
    let salt = choices.of(&SALTS);
    let key = [ExtraKey::Text("a"), ExtraKey::Media { id: "image", offset: -1 }];
    let keys: Vec<Option<&[ExtraKey<'_>]>> = vec![Some(&key[..usize::from(shape >> 6 & 1)]); hashes.len()];
    encoder.stored(&StoreFields {
        hashes: &hashes,
        parent,
        tokens,
        block_size: (shape & 7 != 3).then_some(block_size),
        medium: choices.of(&MEDIA),
        lora_name: choices.of(&SALTS),
        extra_keys: (shape >> 7 == 1).then_some(&keys),
        group,
        spec_kind: group.and(choices.of(&[None, Some("full_attention"), Some("sliding_window")])),
        cache_salt: salt,
        ..StoreFields::default()
    });
}

fn remove(choices: &mut Choices<'_>, encoder: &mut BatchEncoder) {
    let hashes = names(choices);
    let group = choices.of(&[None, None, Some(0), Some(1)]);
    encoder.removed(&RemoveFields { hashes: &hashes, medium: choices.of(&MEDIA), group });
}

/// What was said goes through the bytes into the ingest, and from there into an index.
fn flush(
    encoder: &mut BatchEncoder,
    ingest: &mut Ingest,
    copy: Option<&mut (Ingest, Oracle)>,
    index: &mut Oracle,
) {
    let mut payload = Vec::new();
    encoder.finish(1.0, None, &mut payload);
    let mut batch = WireBatch::new();
    assert_eq!(batch.decode(&payload, &DecodeLimits::default()), Ok(()));
    let mut events = Vec::new();
    ingest.apply(&batch, &mut events);
    taken(index, &events);
    if let Some((copy, others)) = copy {
        events.clear();
        copy.apply(&batch, &mut events);
        taken(others, &events);
        // Not event by event: blocks that go at once may go in any order.
        assert_eq!(blocks(index), blocks(others), "an ingest that was saved and loaded says something else");
        assert_eq!(
            (copy.name_count(), copy.salt_count(), copy.engine_block_size()),
            (ingest.name_count(), ingest.salt_count(), ingest.engine_block_size())
        );
    }
}

fn saved(ingest: &Ingest) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    ingest.save(&mut |piece| pieces.push(piece.to_vec()));
    pieces
}

fn loaded(ingest: &Ingest) -> Ingest {
    let mut loader = ingest.loader();
    let pieces = saved(ingest);
    let result = pieces.iter().try_for_each(|piece| loader.piece(piece)).and_then(|()| loader.finish());
    match result {
        Ok(ingest) => ingest,
        Err(error) => panic!("what was saved cannot be loaded: {error}"),
    }
}

/// Pieces with a length in front of each, then events: whatever was believed, nothing breaks later.
pub(super) fn state(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let Some(config) = config(&mut choices) else { return };
    let max_names = config.max_names;
    let mut loader = IngestLoader::new(config);
    for _ in 0..1 + choices.below(8) {
        let piece = choices.bytes();
        // A name takes up to 64 bytes of a table that doubles, and 25 of a piece.
        if within(piece.len(), 64, || loader.piece(piece)).is_err() {
            return;
        }
    }
    let Ok(mut ingest) = loader.finish() else { return };
    assert!(ingest.name_count() <= max_names);
    let again = loaded(&ingest);
    assert_eq!(
        (again.name_count(), again.salt_count(), again.engine_block_size()),
        (ingest.name_count(), ingest.salt_count(), ingest.engine_block_size())
    );
    let mut encoder = BatchEncoder::new(EventForm::Map);
    while !choices.is_over() {
        match choices.below(4) {
            0 => remove(&mut choices, &mut encoder),
            _ => store(&mut choices, &mut encoder),
        }
    }
    let mut payload = Vec::new();
    encoder.finish(1.0, None, &mut payload);
    let (mut batch, mut events) = (WireBatch::new(), Vec::<KvEvent>::new());
    assert_eq!(batch.decode(&payload, &DecodeLimits::default()), Ok(()));
    ingest.apply(&batch, &mut events);
    assert!(ingest.name_count() <= max_names);
    assert!(events.iter().all(|event| *event == KvEvent::Cleared || event.block_count() > 0));
}

pub(super) fn events_seeds() -> Vec<Vec<u8>> {
    // Chains, forks, copies in two tiers, removals from both ends; other seeds grow out of these.
    let chain = [0, 2, 1, 2, 0, 0x18, 1, 0, 0, 1, 0, 0];
    let child = [0, 1, 3, 1, 2, 0, 0x18, 1, 0, 0, 2, 0, 0];
    let removal = [8, 2, 2, 1, 0, 1];
    vec![
        [&[0, 0, 0, 0, 0][..], &chain, &child, &removal, &[15], &chain, &[12, 15]].concat(),
        [&[1, 0, 1, 1, 1][..], &chain, &[13], &child, &[15], &removal, &[14], &child, &removal].concat(),
    ]
}

pub(super) fn state_seeds() -> Vec<Vec<u8>> {
    let seeds = events_seeds();
    let ingests = seeds.iter().filter_map(|seed| {
        let mut choices = Choices::new(seed);
        let mut ingest = Ingest::new(config(&mut choices)?);
        let mut encoder = BatchEncoder::new(EventForm::Map);
        for _ in 0..3 {
            store(&mut choices, &mut encoder);
        }
        flush(&mut encoder, &mut ingest, None, &mut Oracle::new());
        let pieces = saved(&ingest);
        let count = [pieces.len() as u8 - 1];
        let pieces: Vec<u8> = pieces.iter().flat_map(|piece| framed(piece)).collect();
        Some([&seed[..4], &count, &pieces, &[1, 2, 1, 0, 1]].concat())
    });
    ingests.chain(too_many_names()).collect()
}

/// One piece of names with more of them than the reader may keep, which was saved by one that may.
fn too_many_names() -> Option<Vec<u8>> {
    let mut ingest = Ingest::new(config(&mut Choices::new(&[]))?);
    let mut encoder = BatchEncoder::new(EventForm::Map);
    let hashes: Vec<_> = (0..9).map(WireHash::Unsigned).collect();
    encoder.stored(&StoreFields {
        hashes: &hashes,
        tokens: WireTokens::Flat(&[7; 36]),
        block_size: Some(4),
        ..StoreFields::default()
    });
    flush(&mut encoder, &mut ingest, None, &mut Oracle::new());
    let pieces = saved(&ingest);
    let framed: Vec<u8> = pieces.iter().flat_map(|piece| framed(piece)).collect();
    Some([&[0, 0, 0, 1, pieces.len() as u8 - 1][..], &framed].concat())
}
