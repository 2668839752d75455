//! Histories as engines send them, through the wire, into an index.
#![expect(clippy::unwrap_used, reason = "a payload of our own that cannot be read fails the test")]

use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, ExtraKey, Ingest, IngestConfig, MediaTable, Presence,
    RemoveFields, Skip, StoreFields, WireBatch, WireHash, WireTokens,
};
use kv_router_hash::{HashContext, HashScheme, MmHash, MmSpan, Prompt, Window};
use kv_router_index::oracle::Oracle;
use kv_router_index::{ApplyEvents, DumpEvents, PrefixIndex};
use kv_router_types::{BlockSize, KvEvent, Tier, WorkerId, WorkerRank};

const RANK: WorkerRank = WorkerRank { worker: WorkerId::new(1), rank: kv_router_types::DpRank::new(0) };

/// One rank: its stream, its ingest, its index.
struct Rig {
    scheme: HashScheme,
    encoder: BatchEncoder,
    ingest: Ingest,
    index: Oracle,
}

impl Rig {
    fn new(block_size: u32) -> Self {
        Self::with(block_size, Window::Plain, |config| config)
    }

    fn with(block_size: u32, window: Window, change: impl FnOnce(IngestConfig) -> IngestConfig) -> Self {
        let scheme = HashScheme::new(BlockSize::new(block_size).unwrap(), window);
        let ingest = Ingest::new(change(IngestConfig::new(scheme)));
        Self { scheme, encoder: BatchEncoder::new(EventForm::Map), ingest, index: Oracle::new() }
    }

    /// Sends what was encoded; the index must take all of it.
    fn send(&mut self) -> Vec<KvEvent> {
        let mut payload = Vec::new();
        self.encoder.finish(1.0, None, &mut payload);
        self.hear(&payload)
    }

    fn hear(&mut self, payload: &[u8]) -> Vec<KvEvent> {
        let (mut batch, mut events) = (WireBatch::new(), Vec::new());
        batch.decode(payload, &DecodeLimits::default()).unwrap();
        self.ingest.apply(&batch, &mut events);
        for event in &events {
            assert_eq!(self.index.apply(RANK, event).unwrap().unknown, 0);
        }
        events
    }

    /// A store of blocks of 4 tokens on the device, unless the fields say otherwise.
    fn store(
        &mut self,
        parent: Option<u64>,
        hashes: &[u64],
        tokens: &[u32],
        fields: StoreFields<'_>,
    ) -> Vec<KvEvent> {
        let hashes: Vec<WireHash<'_>> = hashes.iter().map(|&hash| WireHash::Unsigned(hash)).collect();
        self.encoder.stored(&StoreFields {
            hashes: &hashes,
            parent: parent.map(WireHash::Unsigned),
            tokens: match fields.tokens {
                WireTokens::Absent => WireTokens::Flat(tokens),
                other => other,
            },
            block_size: fields.block_size.or(Some(4)),
            ..fields
        });
        self.send()
    }

    fn remove(&mut self, hashes: &[u64], medium: Option<&str>, group: Option<u32>) -> Vec<KvEvent> {
        let hashes: Vec<WireHash<'_>> = hashes.iter().map(|&hash| WireHash::Unsigned(hash)).collect();
        self.encoder.removed(&RemoveFields { hashes: &hashes, medium, group });
        self.send()
    }

    #[track_caller]
    fn finds(&self, prompt: &Prompt<'_>, blocks: u32) {
        assert_eq!(self.index.find(&self.scheme.hash(prompt)).blocks(RANK), blocks);
    }

    #[track_caller]
    fn skipped(&self, skip: Skip, times: u64) {
        assert_eq!(self.ingest.counters().skips.get(skip), times, "{:?}", self.ingest.counters());
    }
}

fn text() -> StoreFields<'static> {
    StoreFields::default()
}

fn tokens(count: u32) -> Vec<u32> {
    (100..100 + count).collect()
}

#[test]
fn copies_are_counted_where_the_engine_has_copies() {
    let prompt = tokens(12);
    for (presence, after_one) in [(Presence::Copies, 3), (Presence::Logical, 1)] {
        let mut rig = Rig::with(4, Window::Plain, |config| IngestConfig { presence, ..config });
        rig.store(None, &[1, 2, 3], &prompt, text());
        assert_eq!(rig.store(Some(1), &[2], &prompt[4..8], text()), [], "the index knows it");
        rig.remove(&[2], None, None);
        rig.finds(&Prompt::new(&prompt), after_one);
        rig.remove(&[2], None, None);
        rig.finds(&Prompt::new(&prompt), 1);
        rig.store(Some(1), &[2], &prompt[4..8], text());
        rig.finds(&Prompt::new(&prompt), 3); // the third block never left
        rig.remove(&[1, 2, 3, 4], None, None);
        assert_eq!((rig.ingest.name_count(), rig.index.ranks().count()), (0, 0));
    }
}

#[test]
fn a_report_of_what_is_there_is_no_copy() {
    let prompt = tokens(12);
    for ours in [4, 8, 2] {
        let mut rig = Rig::new(ours);
        for reused in [false, true, true] {
            rig.encoder.stored(&StoreFields {
                hashes: &[WireHash::Unsigned(1), WireHash::Unsigned(2)],
                tokens: WireTokens::Flat(&prompt[..8]),
                block_size: Some(4),
                session_id: reused.then_some("REUSED"),
                ..text()
            });
            let mut payload = Vec::new();
            rig.encoder.finish(1.0, None, &mut payload);
            // The encoder has no word for it.
            let word = b"\xaasession_id";
            if let Some(at) = payload.windows(word.len()).position(|window| window == word) {
                payload.splice(at..at + word.len(), *b"\xa6origin");
            }
            rig.hear(&payload);
        }
        rig.finds(&Prompt::new(&prompt), 8 / ours);
        rig.remove(&[2, 1], None, None);
        rig.finds(&Prompt::new(&prompt), 0);
        assert_eq!(rig.ingest.name_count(), 0);
    }
}

#[test]
fn of_two_lists_of_names_an_empty_one_says_nothing() {
    let mut rig = Rig::new(4);
    let prompt = tokens(4);
    rig.store(None, &[1], &prompt, text());
    // A batch with one removal, in the words of Mooncake: no sequence hashes where the key is no number.
    let removal =
        b"\x92\x00\x91\x84\xaaevent_type\xa7removed\xaaseq_hashes\x90\xacblock_hashes\x91\x01\xa6medium\xc0";
    rig.hear(removal);
    rig.finds(&Prompt::new(&prompt), 0);
}

#[test]
fn each_tier_counts_alone_and_an_unknown_one_is_not_the_device() {
    let mut rig = Rig::new(4);
    let prompt = tokens(4);
    for medium in ["GPU", "cpu", "FS", "HOLOGRAM"] {
        rig.store(None, &[1], &prompt, StoreFields { medium: Some(medium), ..text() });
    }
    rig.skipped(Skip::UnknownMedium, 1);
    rig.remove(&[1], Some("GPU"), None);
    rig.finds(&Prompt::new(&prompt), 1);
    rig.remove(&[1], Some("HOLOGRAM"), None);
    rig.remove(&[1], Some("CPU"), None);
    rig.finds(&Prompt::new(&prompt), 1);
    rig.remove(&[1], Some("OBJ"), None);
    rig.finds(&Prompt::new(&prompt), 0);
    assert_eq!(rig.ingest.counters().unknown_removals, 0);
    let media = MediaTable::default().with("hologram", Some(Tier::Disk));
    assert_eq!(media.tier(Some("HOLOGRAM")), Some(Tier::Disk));
}

#[test]
fn a_placeholder_adds_a_tier_to_what_is_known_and_nothing_else() {
    let mut rig = Rig::new(4);
    let prompt = tokens(8);
    let placeholder =
        || StoreFields { tokens: WireTokens::Flat(&[]), block_size: Some(0), medium: Some("CPU"), ..text() };
    assert_eq!(rig.store(None, &[2], &[], placeholder()), []);
    rig.skipped(Skip::UnknownPlaceholder, 1);
    rig.store(None, &[1, 2], &prompt, text());
    rig.store(None, &[2], &[], placeholder());
    rig.remove(&[2], Some("GPU"), None);
    rig.finds(&Prompt::new(&prompt), 2);
    rig.remove(&[2], Some("CPU"), None);
    rig.finds(&Prompt::new(&prompt), 1);
}

#[test]
fn a_salt_counts_for_the_whole_chain() {
    let mut rig = Rig::new(4);
    let prompt = tokens(12);
    let salted = [Some(&[ExtraKey::Text("tenant-a")][..]), None];
    rig.store(None, &[1, 2], &prompt[..8], StoreFields { extra_keys: Some(&salted), ..text() });
    rig.store(Some(2), &[3], &prompt[8..], text()); // the wire does not repeat it
    let under = |salt| Prompt::new(&prompt).in_context(HashContext::NONE.with_salt(salt).unwrap());
    rig.finds(&under("tenant-a"), 3);
    rig.finds(&under("tenant-b"), 0);
    rig.finds(&Prompt::new(&prompt), 0);
    assert_eq!(rig.ingest.salt_count(), 1);
    rig.remove(&[1, 2, 3], None, None);
    assert_eq!((rig.ingest.salt_count(), rig.ingest.name_count()), (0, 0));
    // SGLang names it on every event.
    rig.store(None, &[4], &prompt[..4], StoreFields { cache_salt: Some("tenant-b"), ..text() });
    rig.finds(&under("tenant-b"), 1);
}

#[test]
fn adapters_by_name_and_a_number_only_if_it_is_known() {
    let mut rig =
        Rig::with(4, Window::Plain, |config| IngestConfig { adapters: vec![(7, "sql".into())], ..config });
    let prompt = tokens(4);
    let named = [Some(&[ExtraKey::Text("sql"), ExtraKey::Text("sql")][..])];
    let fields = StoreFields { lora_name: Some("sql"), extra_keys: Some(&named), ..text() };
    rig.store(None, &[1], &prompt, fields);
    let sql = HashContext::NONE.with_adapter("sql").unwrap();
    rig.finds(&Prompt::new(&prompt).in_context(sql.with_salt("sql").unwrap()), 1);
    rig.finds(&Prompt::new(&prompt).in_context(sql), 0);
    let numbered = |id| StoreFields { lora_id: Some(kv_router_engines::LoraId::Number(id)), ..text() };
    rig.store(None, &[2], &prompt, numbered(7));
    rig.finds(&Prompt::new(&prompt).in_context(sql), 1);
    rig.store(None, &[3], &prompt, numbered(8));
    rig.skipped(Skip::AdapterUnnamed, 1);
    rig.finds(&Prompt::new(&prompt), 0);
}

#[test]
fn images_count_where_they_stand() {
    let mut rig = Rig::new(4);
    let prompt = tokens(16);
    let image = |id, offset| ExtraKey::Media { id, offset };
    let first = [image("cat", 2)];
    let second = [image("dog", 3), image("cat", -2)];
    let third = [image("dog", -1)];
    let keys = [Some(&first[..]), Some(&second[..]), Some(&third[..]), None];
    rig.store(None, &[1, 2, 3, 4], &prompt, StoreFields { extra_keys: Some(&keys), ..text() });
    let spans = |one: &str, two: &str| {
        let hash = |id: &str| MmHash::from_identifier(id).unwrap();
        [MmSpan::new(2, 4, hash(one)), MmSpan::new(7, 3, hash(two))]
    };
    rig.finds(&Prompt::new(&prompt).with_spans(&spans("cat", "dog")).unwrap(), 4);
    rig.finds(&Prompt::new(&prompt).with_spans(&spans("dog", "cat")).unwrap(), 0);
    rig.finds(&Prompt::new(&prompt).with_spans(&spans("cat", "cow")).unwrap(), 1);
    rig.finds(&Prompt::new(&prompt), 0);
}

#[test]
fn what_is_unclear_ends_the_chain_there() {
    let mut rig = Rig::new(4);
    let prompt = tokens(12);
    let embeds = [None, Some(&[ExtraKey::Bytes(&[1; 32])][..]), None];
    rig.store(None, &[1, 2, 3], &prompt, StoreFields { extra_keys: Some(&embeds), ..text() });
    rig.finds(&Prompt::new(&prompt), 1);
    let bare = [Some(&[ExtraKey::Text("img"), ExtraKey::Text("salt")][..])]; // vLLM 0.17: which is which?
    rig.store(None, &[4], &prompt[..4], StoreFields { extra_keys: Some(&bare), ..text() });
    rig.skipped(Skip::UnclearKeys, 2);
    assert_eq!((rig.ingest.name_count(), rig.ingest.salt_count()), (1, 0));
    rig.store(Some(2), &[5], &prompt[..4], text());
    rig.skipped(Skip::UnknownParent, 1);
}

#[test]
fn groups_that_drop_blocks_say_nothing() {
    let mut rig = Rig::new(4);
    let prompt = tokens(8);
    let group = |group, kind| StoreFields { group: Some(group), spec_kind: kind, ..text() };
    rig.store(None, &[1, 2], &prompt, group(0, Some("full_attention")));
    rig.store(None, &[1, 2], &prompt, group(1, Some("sliding_window")));
    rig.remove(&[1, 2], None, Some(1));
    rig.finds(&Prompt::new(&prompt), 2);
    rig.store(None, &[9], &prompt[..4], group(2, None)); // 0.20 does not say what group 2 is
    rig.skipped(Skip::OtherGroup, 3);
    // A second one of full attention: layers of one kind may need several. A hit needs the block in each of them, and
    // one stands for all.
    rig.store(None, &[1, 2], &prompt, group(3, Some("mla_attention")));
    rig.remove(&[1, 2], None, Some(3));
    rig.finds(&Prompt::new(&prompt), 2);
    rig.store(None, &[1, 2], &prompt, group(3, Some("mla_attention")));
    rig.remove(&[1, 2], None, None);
    rig.finds(&Prompt::new(&prompt), 0);
    assert_eq!(rig.ingest.name_count(), 0);
}

#[test]
fn a_group_that_turns_out_not_to_count_leaves_nothing() {
    let mut rig = Rig::new(4);
    let prompt = tokens(8);
    let group = |group, kind| StoreFields { group: Some(group), spec_kind: kind, ..text() };
    // Not said what it is, and then that it is something else: its removals are passed over from then on.
    rig.store(None, &[1, 2], &prompt, group(0, None));
    rig.finds(&Prompt::new(&prompt), 2);
    rig.store(None, &[3], &prompt[..4], group(0, Some("mamba")));
    rig.finds(&Prompt::new(&prompt), 0);
    // Nor does a group that was taken for the main one, when another says that it is.
    let mut rig = Rig::new(4);
    rig.store(None, &[1, 2], &prompt, text());
    rig.store(None, &[1], &prompt[..4], group(1, Some("full_attention")));
    rig.finds(&Prompt::new(&prompt), 1);
    rig.remove(&[1], None, Some(1));
    assert_eq!((rig.ingest.name_count(), rig.index.ranks().count()), (0, 0));
    rig.store(None, &[1, 2], &prompt, group(1, Some("full_attention")));
    rig.finds(&Prompt::new(&prompt), 2);
}

#[test]
fn a_larger_block_is_several_of_ours() {
    let mut rig = Rig::new(2);
    let prompt = tokens(16);
    rig.store(None, &[1, 2], &prompt[..8], text());
    rig.store(Some(2), &[3], &prompt[8..12], text());
    assert_eq!(rig.ingest.engine_block_size(), Some(4));
    rig.finds(&Prompt::new(&prompt), 6);
    rig.remove(&[2], None, None);
    rig.finds(&Prompt::new(&prompt), 2);
    rig.store(Some(1), &[2], &prompt[4..8], text());
    rig.finds(&Prompt::new(&prompt), 6);
    // Stored under the same name in another size: what it stood for before is gone.
    rig.store(Some(2), &[3], &prompt[8..10], StoreFields { block_size: Some(2), ..text() });
    rig.finds(&Prompt::new(&prompt), 5);
    rig.remove(&[1, 2, 3], None, None);
    assert_eq!((rig.ingest.name_count(), rig.index.ranks().count()), (0, 0));
    rig.store(None, &[1], &prompt[..3], StoreFields { block_size: Some(3), ..text() });
    rig.skipped(Skip::BlockSizeRatio, 1);
}

#[test]
fn smaller_blocks_make_one_of_ours_together() {
    let mut rig = Rig::new(8);
    let prompt = tokens(24);
    let cpu = || StoreFields { medium: Some("CPU"), ..text() };
    rig.store(None, &[1, 2, 3], &prompt[..12], text());
    rig.finds(&Prompt::new(&prompt), 1);
    rig.store(Some(3), &[4], &prompt[12..16], text());
    rig.finds(&Prompt::new(&prompt), 2);
    // Any part takes the block away, and the same part brings it back.
    for part in [1, 2, 3, 4] {
        rig.remove(&[part], None, None);
        rig.finds(&Prompt::new(&prompt), (part as u32 - 1) / 2);
        let at = 4 * (part as usize - 1);
        rig.store((part > 1).then(|| part - 1), &[part], &prompt[at..at + 4], text());
        rig.finds(&Prompt::new(&prompt), 2);
    }
    // Tiers do not help each other within a block.
    rig.store(Some(4), &[5], &prompt[16..20], text());
    rig.store(Some(5), &[6], &prompt[20..], cpu());
    rig.finds(&Prompt::new(&prompt), 2);
    rig.store(Some(4), &[5], &prompt[16..20], cpu());
    rig.finds(&Prompt::new(&prompt), 3);
    rig.remove(&[5], None, None);
    rig.finds(&Prompt::new(&prompt), 3);
    rig.remove(&[5, 6], Some("CPU"), None);
    rig.remove(&[1, 2, 3, 4], None, None);
    assert_eq!((rig.ingest.name_count(), rig.index.ranks().count()), (0, 0));
    assert_eq!(rig.ingest.counters().unknown_removals, 0);
}

#[test]
fn parts_have_copies_salts_and_shells() {
    let mut rig = Rig::new(8);
    let prompt = tokens(16);
    let salted = [Some(&[ExtraKey::Text("tenant-a")][..]), None, None, None];
    let fields = StoreFields { extra_keys: Some(&salted), ..text() };
    rig.store(None, &[1, 2, 3, 4], &prompt, fields);
    rig.store(Some(1), &[2], &prompt[4..8], text());
    let salted = Prompt::new(&prompt).in_context(HashContext::NONE.with_salt("tenant-a").unwrap());
    rig.finds(&salted, 2);
    rig.finds(&Prompt::new(&prompt), 0);
    rig.remove(&[2], None, None);
    rig.finds(&salted, 2);
    rig.remove(&[2, 1], None, None);
    rig.finds(&salted, 0);
    rig.remove(&[4, 3, 9], None, None);
    assert_eq!((rig.ingest.name_count(), rig.ingest.salt_count()), (0, 0));
    assert_eq!(rig.ingest.counters().unknown_removals, 1);
    rig.store(Some(1), &[2], &prompt[4..8], text());
    rig.skipped(Skip::UnknownParent, 1);
}

#[test]
fn pairs_are_what_an_eagle_router_hashes() {
    let pairs = [[1, 2], [2, 3], [3, 4], [4, 5]];
    let fields = StoreFields { tokens: WireTokens::Pairs(&pairs), ..text() };
    let mut eagle = Rig::with(4, Window::Eagle, |config| config);
    eagle.store(None, &[1], &[], fields);
    eagle.finds(&Prompt::new(&[1, 2, 3, 4, 5]), 1);
    eagle.finds(&Prompt::new(&[1, 2, 3, 4, 6]), 0);
    eagle.store(None, &[2], &[1, 2, 3, 4], text());
    eagle.skipped(Skip::WindowMismatch, 1);
    let mut plain = Rig::new(4);
    plain.store(None, &[1], &[], fields);
    plain.skipped(Skip::WindowMismatch, 1);
}

#[test]
fn chains_that_cannot_be_are_refused_whole() {
    let mut rig = Rig::new(4);
    let prompt = tokens(48);
    let twelve: Vec<u64> = (1..=12).collect();
    let repeated: Vec<u64> = (1..=11).chain([3]).collect();
    rig.store(None, &[1, 1], &prompt[..8], text());
    rig.store(Some(1), &[1], &prompt[..4], text());
    rig.store(None, &repeated, &prompt, text());
    rig.store(Some(12), &twelve, &prompt, text());
    rig.skipped(Skip::RepeatedHash, 4);
    rig.store(None, &[1, 2], &prompt[..4], text());
    rig.skipped(Skip::MoreHashesThanTokens, 1);
    rig.store(None, &[1], &prompt[..8], text());
    rig.skipped(Skip::MaskedBlocks, 1);
    rig.store(None, &[1], &prompt[..4], StoreFields { block_size: Some(70_000), ..text() });
    rig.skipped(Skip::BadBlockSize, 1);
    rig.store(None, &[1], &prompt[..4], StoreFields { extra_keys: Some(&[]), ..text() });
    rig.skipped(Skip::ExtraKeysLength, 1);
    assert_eq!((rig.ingest.name_count(), rig.index.ranks().count()), (0, 0));
    rig.store(None, &twelve, &prompt, text());
    rig.finds(&Prompt::new(&prompt), 12);
}

#[test]
fn names_are_bounded() {
    let mut rig = Rig::with(4, Window::Plain, |config| IngestConfig { max_names: 2, ..config });
    let prompt = tokens(12);
    rig.store(None, &[1, 2], &prompt[..8], text());
    rig.store(Some(2), &[3], &prompt[8..], text());
    rig.skipped(Skip::NamesFull, 1);
    rig.finds(&Prompt::new(&prompt), 2);
}

#[test]
fn single_blocks_come_out_as_one_event() {
    let mut rig = Rig::new(4);
    let prompt = tokens(12);
    for (at, hash) in [1, 2, 3].into_iter().enumerate() {
        rig.encoder.stored(&StoreFields {
            hashes: &[WireHash::Unsigned(hash)],
            parent: (hash > 1).then_some(WireHash::Unsigned(hash - 1)),
            tokens: WireTokens::Flat(&prompt[4 * at..4 * at + 4]),
            block_size: Some(4),
            ..text()
        });
    }
    assert_eq!(rig.send().iter().map(KvEvent::block_count).collect::<Vec<_>>(), [3]);
    for hash in [3, 1, 2] {
        let hashes = [WireHash::Unsigned(hash)];
        rig.encoder.removed(&RemoveFields { hashes: &hashes, ..RemoveFields::default() });
    }
    assert_eq!(rig.send().iter().map(KvEvent::block_count).collect::<Vec<_>>(), [3]);
}

#[test]
fn the_stream_goes_on_after_a_snapshot() {
    let prompt = tokens(12);
    let mut rig = Rig::new(4);
    rig.store(None, &[1, 2], &prompt[..8], text());
    let mut fresh = Rig::new(4);
    rig.index.dump(&mut |_, event| {
        fresh.index.apply(RANK, &event).unwrap();
        fresh.ingest.seed(&event);
    });
    fresh.store(Some(2), &[3], &prompt[8..], text());
    fresh.finds(&Prompt::new(&prompt), 3);
    fresh.remove(&[1], None, None);
    fresh.finds(&Prompt::new(&prompt), 0);
    fresh.encoder.cleared();
    assert_eq!(fresh.send(), [KvEvent::Cleared]);
    assert_eq!(fresh.ingest.name_count(), 0);
}

#[test]
fn all_of_a_block_goes_that_a_snapshot_has_in_parts() {
    let prompt = tokens(12);
    let mut rig = Rig::new(2);
    rig.store(None, &[1, 2], &prompt[..8], text());
    let mut fresh = Rig::new(2);
    rig.index.dump(&mut |_, event| {
        fresh.index.apply(RANK, &event).unwrap();
        fresh.ingest.seed(&event);
    });
    fresh.store(Some(2), &[3], &prompt[8..], text());
    fresh.finds(&Prompt::new(&prompt), 6);
    fresh.remove(&[1, 2, 3], None, None);
    fresh.finds(&Prompt::new(&prompt), 0);
    assert_eq!((fresh.ingest.name_count(), fresh.index.ranks().count()), (0, 0));
}
