//! Payloads as engines write them: for mocks, for publishers beside engines that have none, and for relays.

use kv_router_types::DpRank;

use crate::msgpack::Writer;
use crate::wire::{EventKind, ExtraKey, LoraId, WireHash, WireTokens};

/// How events stand in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventForm {
    /// A map a event: vLLM from 0.24, SGLang from 0.5.20, TensorRT-LLM.
    Map,
    /// An array a event, as short as its last field allows, but never shorter than this.
    Array {
        /// Elements of a store, the tag included.
        stored: usize,
        /// Elements of a removal, the tag included.
        removed: usize,
    },
}

impl EventForm {
    /// vLLM 0.9.0 to 0.10.1, SGLang 0.4.8 to 0.5.8: no media.
    pub const ARRAY_WITHOUT_MEDIA: Self = Self::Array { stored: 6, removed: 2 };
    /// vLLM 0.10.2 to 0.13, SGLang 0.5.9 to 0.5.19.
    pub const ARRAY_WITH_MEDIA: Self = Self::Array { stored: 7, removed: 3 };
    /// vLLM 0.14 to 0.23.
    pub const ARRAY_WITH_ADAPTERS: Self = Self::Array { stored: 8, removed: 3 };
}

/// Fields of a store. What is `None` is nil on the wire, or not there.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each is documented at the accessor of the same name of WireEvent")]
pub struct StoreFields<'a> {
    pub hashes: &'a [WireHash<'a>],
    pub parent: Option<WireHash<'a>>,
    pub tokens: WireTokens<'a>,
    pub block_size: Option<u64>,
    pub lora_id: Option<LoraId<'a>>,
    pub medium: Option<&'a str>,
    pub lora_name: Option<&'a str>,
    pub extra_keys: Option<&'a [Option<&'a [ExtraKey<'a>]>]>,
    pub group: Option<u32>,
    pub spec_kind: Option<&'a str>,
    pub sliding_window: Option<u64>,
    pub cache_salt: Option<&'a str>,
    pub session_id: Option<&'a str>,
}

impl Default for StoreFields<'_> {
    fn default() -> Self {
        Self {
            hashes: &[],
            parent: None,
            tokens: WireTokens::Absent,
            block_size: None,
            lora_id: None,
            medium: None,
            lora_name: None,
            extra_keys: None,
            group: None,
            spec_kind: None,
            sliding_window: None,
            cache_salt: None,
            session_id: None,
        }
    }
}

/// Fields of a removal. What is `None` is nil on the wire, or not there.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "each is documented at the accessor of the same name of WireEvent")]
pub struct RemoveFields<'a> {
    pub hashes: &'a [WireHash<'a>],
    pub medium: Option<&'a str>,
    pub group: Option<u32>,
}

/// Collects the events of a batch, and writes the payload.
///
/// ```
/// use kv_router_engines::{BatchEncoder, DecodeLimits, EventForm, RemoveFields, WireBatch, WireHash};
///
/// let mut encoder = BatchEncoder::new(EventForm::ARRAY_WITH_MEDIA);
/// encoder.removed(&RemoveFields { hashes: &[WireHash::Negative(-5)], medium: Some("GPU"), group: None });
/// let mut payload = Vec::new();
/// encoder.finish(0.0, None, &mut payload);
///
/// let mut batch = WireBatch::new();
/// batch.decode(&payload, &DecodeLimits::default())?;
/// let event = batch.events().next().ok_or("no event")?;
/// assert_eq!(event.hashes().iter().next(), Some(WireHash::Negative(-5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchEncoder {
    form: EventForm,
    body: Vec<u8>,
    events: usize,
}

/// One field on its way out.
#[derive(Clone, Copy)]
enum Value<'a> {
    Nil,
    Hashes(&'a [WireHash<'a>]),
    Hash(WireHash<'a>),
    Tokens(WireTokens<'a>),
    Unsigned(u64),
    Signed(i64),
    Text(&'a str),
    Extra(&'a [Option<&'a [ExtraKey<'a>]>]),
    /// A map with the salt alone.
    Salt(&'a str),
    /// A list of keys that is not empty.
    SomeMedia,
}

impl BatchEncoder {
    /// An empty batch.
    pub fn new(form: EventForm) -> Self {
        Self { form, body: Vec::new(), events: 0 }
    }

    /// Appends a store. In the array form a salt stands where the adapter's name would, as SGLang 0.5.18 has it, and
    /// only if there is no adapter; a session has no place.
    pub fn stored(&mut self, event: &StoreFields<'_>) {
        self.store(event, Value::Nil);
    }

    /// A store of blocks with multimodal items in TensorRT-LLM's form, of which nothing is said but that they are there.
    pub(crate) fn stored_with_media(&mut self, event: &StoreFields<'_>) {
        self.store(event, Value::SomeMedia);
    }

    /// An event that nobody can read.
    pub(crate) fn unreadable(&mut self) {
        Writer::new(&mut self.body).nil();
        self.events += 1;
    }

    fn store(&mut self, event: &StoreFields<'_>, media: Value<'_>) {
        let text = |text: Option<_>| text.map_or(Value::Nil, Value::Text);
        let number = |number: Option<u64>| number.map_or(Value::Nil, Value::Unsigned);
        let adapter = match (self.form, event.lora_name, event.cache_salt) {
            (EventForm::Array { .. }, None, Some(salt)) => Value::Salt(salt),
            (_, name, _) => text(name),
        };
        let fields = [
            ("block_hashes", Value::Hashes(event.hashes)),
            ("parent_block_hash", event.parent.map_or(Value::Nil, Value::Hash)),
            ("token_ids", Value::Tokens(event.tokens)),
            ("block_size", number(event.block_size)),
            (
                "lora_id",
                match event.lora_id {
                    None => Value::Nil,
                    Some(LoraId::Number(id)) => Value::Signed(id),
                    Some(LoraId::Text(id)) => Value::Text(id),
                },
            ),
            ("medium", text(event.medium)),
            ("lora_name", adapter),
            ("extra_keys", event.extra_keys.map_or(Value::Nil, Value::Extra)),
            ("group_idx", number(event.group.map(u64::from))),
            ("kv_cache_spec_kind", text(event.spec_kind)),
            ("kv_cache_spec_sliding_window", number(event.sliding_window)),
            ("cache_salt", text(event.cache_salt)),
            ("session_id", text(event.session_id)),
            ("mm_keys", media),
        ];
        match self.form {
            EventForm::Map => self.map(EventKind::Stored, &fields, 7),
            EventForm::Array { stored, .. } => self.array(EventKind::Stored, &fields[..11], stored),
        }
    }

    /// Appends a removal.
    pub fn removed(&mut self, event: &RemoveFields<'_>) {
        let fields = [
            ("block_hashes", Value::Hashes(event.hashes)),
            ("medium", event.medium.map_or(Value::Nil, Value::Text)),
            ("group_idx", event.group.map_or(Value::Nil, |group| Value::Unsigned(u64::from(group)))),
        ];
        match self.form {
            EventForm::Map => self.map(EventKind::Removed, &fields, 2),
            EventForm::Array { removed, .. } => self.array(EventKind::Removed, &fields, removed),
        }
    }

    /// Appends a clear.
    pub fn cleared(&mut self) {
        match self.form {
            EventForm::Map => self.map(EventKind::Cleared, &[], 0),
            EventForm::Array { .. } => self.array(EventKind::Cleared, &[], 1),
        }
    }

    /// Events appended since the last payload.
    pub fn len(&self) -> usize {
        self.events
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Appends the payload to `out` and starts the next batch. `time` is in seconds since 1970.
    pub fn finish(&mut self, time: f64, rank: Option<DpRank>, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.array(3);
        writer.f64(time);
        writer.array(self.events);
        out.append(&mut self.body);
        let mut writer = Writer::new(out);
        match rank {
            Some(rank) => writer.unsigned(u64::from(rank.get())),
            None => writer.nil(),
        }
        self.events = 0;
    }

    /// Writes every field among the first `always`, and of the others those that are there.
    fn map(&mut self, kind: EventKind, fields: &[(&str, Value<'_>)], always: usize) {
        let sent = |&(index, (_, value)): &(usize, &(&str, Value<'_>))| {
            index < always || !matches!(value, Value::Nil)
        };
        let mut writer = Writer::new(&mut self.body);
        writer.map(1 + fields.iter().enumerate().filter(sent).count());
        writer.str("type");
        writer.str(kind.tag());
        for (_, (name, value)) in fields.iter().enumerate().filter(sent) {
            writer.str(name);
            value.write(&mut writer);
        }
        self.events += 1;
    }

    fn array(&mut self, kind: EventKind, fields: &[(&str, Value<'_>)], least: usize) {
        let last = fields.iter().rposition(|(_, value)| !matches!(value, Value::Nil));
        let length = least.max(last.map_or(1, |last| last + 2)).min(fields.len() + 1);
        let mut writer = Writer::new(&mut self.body);
        writer.array(length);
        writer.str(kind.tag());
        for (_, value) in &fields[..length - 1] {
            value.write(&mut writer);
        }
        self.events += 1;
    }
}

impl Value<'_> {
    fn write(self, writer: &mut Writer<'_>) {
        match self {
            Self::Nil => writer.nil(),
            Self::Hash(hash) => write_hash(hash, writer),
            Self::Hashes(hashes) => {
                writer.array(hashes.len());
                for &hash in hashes {
                    write_hash(hash, writer);
                }
            }
            Self::Tokens(tokens) => write_tokens(tokens, writer),
            Self::Unsigned(value) => writer.unsigned(value),
            Self::Signed(value) => writer.signed(value),
            Self::Text(text) => writer.str(text),
            Self::Salt(salt) => {
                writer.map(1);
                writer.str("cache_salt");
                writer.str(salt);
            }
            Self::SomeMedia => {
                writer.array(1);
                writer.array(1);
                writer.nil();
            }
            Self::Extra(blocks) => {
                writer.array(blocks.len());
                for block in blocks {
                    match block {
                        None => writer.nil(),
                        Some(keys) => write_keys(keys, writer),
                    }
                }
            }
        }
    }
}

fn write_hash(hash: WireHash<'_>, writer: &mut Writer<'_>) {
    match hash {
        WireHash::Unsigned(value) => writer.unsigned(value),
        WireHash::Negative(value) => writer.signed(value),
        WireHash::Digest(bytes) => writer.bin(bytes),
    }
}

fn write_tokens(tokens: WireTokens<'_>, writer: &mut Writer<'_>) {
    match tokens {
        WireTokens::Absent => writer.nil(),
        WireTokens::Flat(tokens) => {
            writer.array(tokens.len());
            for &token in tokens {
                writer.unsigned(u64::from(token));
            }
        }
        WireTokens::Pairs(pairs) => {
            writer.array(pairs.len());
            for pair in pairs {
                writer.array(2);
                for &token in pair {
                    writer.unsigned(u64::from(token));
                }
            }
        }
    }
}

fn write_keys(keys: &[ExtraKey<'_>], writer: &mut Writer<'_>) {
    writer.array(keys.len());
    for &key in keys {
        match key {
            ExtraKey::Text(text) => writer.str(text),
            ExtraKey::Media { id, offset } => {
                writer.array(2);
                writer.str(id);
                writer.signed(offset);
            }
            ExtraKey::Bytes(bytes) => writer.bin(bytes),
            ExtraKey::Other(value) => writer.raw(value),
        }
    }
}
