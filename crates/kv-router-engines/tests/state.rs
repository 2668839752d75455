//! An ingest that is saved and loaded goes on as if nothing had happened.
#![expect(clippy::unwrap_used, reason = "a payload of our own that cannot be read fails the test")]

use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, IngestLoader, IngestStateError,
    RemoveFields, StoreFields, WireBatch, WireHash, WireTokens,
};
use kv_router_hash::{HashContext, HashScheme, Prompt, Window};
use kv_router_index::oracle::Oracle;
use kv_router_index::{ApplyEvents, DumpEvents, PrefixIndex};
use kv_router_types::{BlockSize, KvEvent, WorkerId, WorkerRank};
use proptest::prelude::*;

/// Tokens of a block of ours.
const OURS: usize = 4;
/// Tokens of each conversation.
const LENGTH: usize = 32;

fn rank() -> WorkerRank {
    WorkerId::new(1).into()
}

fn config() -> IngestConfig {
    IngestConfig::new(HashScheme::new(BlockSize::new(OURS as u32).unwrap(), Window::Plain))
}

fn conversation(number: u32) -> Vec<u32> {
    // The first half is shared by pairs of conversations.
    (0..LENGTH as u32).map(|at| if at < 16 { at + number / 2 * 100 } else { at + number * 1_000 }).collect()
}

fn salt(number: u32) -> Option<&'static str> {
    (number / 2 == 1).then_some("tenant")
}

#[derive(Clone, Debug)]
struct Step {
    conversation: u32,
    /// Tokens of a block of the engine, as a power of two.
    size: u32,
    from: usize,
    blocks: usize,
    remove: bool,
    host: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let fields = (0..4u32, 1..4u32, 0..8usize, 1..5usize, any::<bool>(), any::<bool>());
    fields.prop_map(|(conversation, size, from, blocks, remove, host)| Step {
        conversation,
        size,
        from,
        blocks,
        remove,
        host,
    })
}

/// What the engine says.
fn payload(step: &Step) -> Vec<u8> {
    let size = 1usize << step.size;
    let all = LENGTH / size;
    let (from, until) = (step.from.min(all - 1), (step.from + step.blocks).min(all));
    let shared = |block: usize| (block + 1) * size <= 16;
    let name = |block: usize| {
        let owner = if shared(block) { step.conversation / 2 } else { 100 + step.conversation };
        WireHash::Unsigned(u64::from(owner) * 10_000 + size as u64 * 100 + block as u64)
    };
    let hashes: Vec<_> = (from..until.max(from + 1)).map(name).collect();
    let medium = Some(if step.host { "CPU" } else { "GPU" });
    let mut encoder = BatchEncoder::new(EventForm::Map);
    if step.remove {
        encoder.removed(&RemoveFields { hashes: &hashes, medium, group: None });
    } else {
        let tokens = conversation(step.conversation);
        encoder.stored(&StoreFields {
            hashes: &hashes,
            parent: from.checked_sub(1).map(name),
            tokens: WireTokens::Flat(&tokens[from * size..(from + hashes.len()) * size]),
            block_size: Some(size as u64),
            medium,
            cache_salt: if from == 0 { salt(step.conversation) } else { None },
            ..StoreFields::default()
        });
    }
    let mut bytes = Vec::new();
    encoder.finish(1.0, None, &mut bytes);
    bytes
}

fn feed(ingest: &mut Ingest, index: &mut Oracle, step: &Step) {
    let (mut batch, mut events) = (WireBatch::new(), Vec::new());
    batch.decode(&payload(step), &DecodeLimits::default()).unwrap();
    ingest.apply(&batch, &mut events);
    for event in &events {
        assert_eq!(index.apply(rank(), event).unwrap().unknown, 0);
    }
}

fn saved(ingest: &Ingest) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    ingest.save(&mut |piece| pieces.push(piece.to_vec()));
    pieces
}

fn load(pieces: &[Vec<u8>]) -> Result<Ingest, IngestStateError> {
    let mut loader = IngestLoader::new(config());
    for piece in pieces {
        loader.piece(piece)?;
    }
    loader.finish()
}

fn answers(index: &Oracle) -> Vec<u32> {
    let found = |number| {
        let tokens = conversation(number);
        let context = HashContext::NONE.with_salt(salt(number).unwrap_or_default()).unwrap();
        index.find(&config().scheme.hash(&Prompt::new(&tokens).in_context(context))).blocks(rank())
    };
    (0..4).map(found).collect()
}

fn check(before: &[Step], after: &[Step]) {
    let (mut ingest, mut index) = (Ingest::new(config()), Oracle::new());
    before.iter().for_each(|step| feed(&mut ingest, &mut index, step));
    let mut other = load(&saved(&ingest)).unwrap();
    let mut copy = Oracle::new();
    index.dump(&mut |from, event: KvEvent| {
        let _ = copy.apply(from, &event).unwrap();
    });
    for step in after {
        feed(&mut ingest, &mut index, step);
        feed(&mut other, &mut copy, step);
        assert_eq!(answers(&index), answers(&copy));
        assert_eq!(
            (ingest.name_count(), ingest.salt_count()),
            (other.name_count(), other.salt_count()),
            "after {step:?}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_loaded_goes_on_like_what_was_saved(
        before in prop::collection::vec(step(), 0..40),
        after in prop::collection::vec(step(), 0..40),
    ) {
        check(&before, &after);
    }

    #[test]
    fn damaged_pieces_are_refused_or_loaded_but_never_bring_it_down(
        before in prop::collection::vec(step(), 0..30),
        after in prop::collection::vec(step(), 0..10),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut ingest, mut index) = (Ingest::new(config()), Oracle::new());
        before.iter().for_each(|step| feed(&mut ingest, &mut index, step));
        let mut pieces = saved(&ingest);
        let piece = at.index(pieces.len());
        let byte = at.index(pieces[piece].len());
        pieces[piece][byte] ^= flip;
        if let Ok(mut loaded) = load(&pieces) {
            for step in &after {
                let (mut batch, mut events) = (WireBatch::new(), Vec::new());
                batch.decode(&payload(step), &DecodeLimits::default()).unwrap();
                loaded.apply(&batch, &mut events);
            }
        }
        let length = cut.index(pieces[piece].len());
        pieces[piece].truncate(length);
        let _ = load(&pieces);
    }
}

#[test]
fn pieces_that_are_missing_are_missed() {
    let (mut ingest, mut index) = (Ingest::new(config()), Oracle::new());
    let step = Step { conversation: 2, size: 2, from: 0, blocks: 8, remove: false, host: false };
    feed(&mut ingest, &mut index, &step);
    let pieces = saved(&ingest);
    assert_eq!(pieces.len(), 3, "a head, a salt, names");
    assert_eq!(load(&pieces[..2]).unwrap_err(), IngestStateError::Incomplete);
    assert_eq!(load(&pieces[1..]).unwrap_err(), IngestStateError::Misplaced { kind: 1 });
    assert_eq!(load(&[]).unwrap_err(), IngestStateError::Incomplete);
    let newer = [&[9], &pieces[0][1..]].concat();
    assert_eq!(load(&[newer]).unwrap_err(), IngestStateError::UnknownVersion { version: 9 });
    let mut loader = IngestLoader::new(IngestConfig { max_names: 3, ..config() });
    let full = pieces.iter().try_for_each(|piece| loader.piece(piece));
    assert_eq!(full.unwrap_err(), IngestStateError::TooManyNames { limit: 3 });
}
