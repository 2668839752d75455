//! Names and places of fields: map keys, and positions in the array form.

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// `type`.
    Tag,
    /// `event_type`: Mooncake's name for the tag.
    LooseTag,
    Hashes,
    /// `seq_hashes`: Mooncake's name for the hashes, and the better one where both are there.
    SequenceHashes,
    Parent,
    Tokens,
    BlockSize,
    LoraId,
    /// An adapter's name, or SGLang 0.5.18's map with a salt in the same place.
    LoraName,
    ExtraKeys,
    Group,
    Window,
    Lookahead,
    MediaKeys,
    /// vLLM's word for how a block came to be stored.
    Origin,
    Text(TextField),
    Unknown,
}

/// A field that is a string or nil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextField {
    Medium,
    LoraName,
    SpecKind,
    CacheSalt,
    Locality,
    Ownership,
    SessionId,
    TenantId,
    BackendId,
    ObjectKey,
}

impl TextField {
    pub(crate) const COUNT: usize = 10;

    /// Whether an event without it, because it is no string, would mean something else.
    pub(crate) fn decides(self) -> bool {
        matches!(self, Self::Medium | Self::LoraName | Self::SpecKind | Self::CacheSalt)
    }
}

/// Fields of `BlockStored` after the tag, in the array form.
const STORED: &[Field] = &[
    Field::Hashes,
    Field::Parent,
    Field::Tokens,
    Field::BlockSize,
    Field::LoraId,
    Field::Text(TextField::Medium),
    Field::LoraName,
    Field::ExtraKeys,
    Field::Group,
    Field::Text(TextField::SpecKind),
    Field::Window,
    Field::Text(TextField::Locality),
    Field::Text(TextField::Ownership),
];

/// Fields of `BlockRemoved` after the tag, in the array form.
const REMOVED: &[Field] = &[
    Field::Hashes,
    Field::Text(TextField::Medium),
    Field::Group,
    Field::Text(TextField::Locality),
    Field::Text(TextField::Ownership),
];

/// The field at a position of the array form, counted from the one after the tag. The tail is unknown: later
/// releases append.
pub(crate) fn positional(kind: super::EventKind, index: usize) -> Field {
    let table = match kind {
        super::EventKind::Stored => STORED,
        super::EventKind::Removed => REMOVED,
        super::EventKind::Cleared => &[],
    };
    table.get(index).copied().unwrap_or(Field::Unknown)
}

/// The field under a map key. Keys that we do not know, UTF-8 or not, are passed over.
pub(crate) fn named(key: &[u8]) -> Field {
    match key {
        b"type" => Field::Tag,
        b"event_type" => Field::LooseTag,
        b"block_hashes" => Field::Hashes,
        b"seq_hashes" => Field::SequenceHashes,
        b"parent_block_hash" | b"parent_hash" => Field::Parent,
        b"token_ids" => Field::Tokens,
        b"block_size" => Field::BlockSize,
        b"lora_id" => Field::LoraId,
        b"lora_name" => Field::LoraName,
        b"extra_keys" => Field::ExtraKeys,
        b"group_idx" => Field::Group,
        b"kv_cache_spec_sliding_window" => Field::Window,
        b"lookahead_token_ids" => Field::Lookahead,
        b"mm_keys" => Field::MediaKeys,
        b"origin" => Field::Origin,
        b"medium" => Field::Text(TextField::Medium),
        b"kv_cache_spec_kind" => Field::Text(TextField::SpecKind),
        b"cache_salt" | b"additional_salt" => Field::Text(TextField::CacheSalt),
        b"locality" => Field::Text(TextField::Locality),
        b"ownership" => Field::Text(TextField::Ownership),
        b"session_id" => Field::Text(TextField::SessionId),
        b"tenant_id" => Field::Text(TextField::TenantId),
        b"backend_id" => Field::Text(TextField::BackendId),
        b"object_key" => Field::Text(TextField::ObjectKey),
        _ => Field::Unknown,
    }
}
