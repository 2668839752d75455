//! Events as JSON, in the shape of the vectors' sidecars.

use kv_router_engines::{ExtraKey, LoraId, WireEvent, WireHash, WireTokens};
use serde_json::{Map, Value, json};

/// One event. Fields that are not on the wire are left out.
pub(crate) fn event(event: WireEvent<'_>) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.into(), value);
        }
    };
    put("type", json!(event.kind().tag()));
    if event.kind() != kv_router_engines::EventKind::Cleared {
        put("block_hashes", event.hashes().iter().map(hash).collect());
    }
    put("parent_block_hash", event.parent().map_or(Value::Null, hash));
    put(
        "token_ids",
        match event.tokens() {
            WireTokens::Absent => Value::Null,
            WireTokens::Flat(tokens) => json!(tokens),
            WireTokens::Pairs(pairs) => json!(pairs),
        },
    );
    put("block_size", json!(event.block_size()));
    put(
        "lora_id",
        match event.lora_id() {
            None => Value::Null,
            Some(LoraId::Number(id)) => json!(id),
            Some(LoraId::Text(id)) => json!(id),
        },
    );
    put("medium", json!(event.medium()));
    put("lora_name", json!(event.lora_name()));
    put("cache_salt", json!(event.cache_salt()));
    put(
        "extra_keys",
        event.extra_keys().map_or(Value::Null, |keys| {
            let block = |index| keys.block(index).map(|keys| keys.map(extra_key).collect::<Vec<_>>());
            (0..keys.len()).map(|index| json!(block(index))).collect()
        }),
    );
    put("group_idx", json!(event.group()));
    put("kv_cache_spec_kind", json!(event.spec_kind()));
    put("kv_cache_spec_sliding_window", json!(event.sliding_window()));
    put("locality", json!(event.locality()));
    put("ownership", json!(event.ownership()));
    put("session_id", json!(event.session_id()));
    put("tenant_id", json!(event.tenant_id()));
    put("backend_id", json!(event.backend_id()));
    put("object_key", json!(event.object_key()));
    put("lookahead_token_ids", json!(event.lookahead().map(|blocks| blocks.iter().collect::<Vec<_>>())));
    Value::Object(fields)
}

fn hash(hash: WireHash<'_>) -> Value {
    let u64 = format!("{:016x}", hash.key());
    match hash {
        WireHash::Unsigned(value) => json!({"int": value.to_string(), "u64": u64}),
        WireHash::Negative(value) => json!({"int": value.to_string(), "u64": u64}),
        WireHash::Digest(bytes) => json!({"bytes": hex(bytes), "u64": u64}),
    }
}

fn extra_key(key: ExtraKey<'_>) -> Value {
    match key {
        ExtraKey::Text(text) => json!(text),
        ExtraKey::Media { id, offset } => json!([id, offset]),
        ExtraKey::Bytes(bytes) => json!({"$bytes": hex(bytes)}),
        ExtraKey::Other(bytes) => json!({"$msgpack": hex(bytes)}),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
