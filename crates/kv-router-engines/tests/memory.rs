//! Declared lengths and nesting take no memory. Alone in its program: the allocator counts for all threads.
#![expect(clippy::unwrap_used, reason = "a vector that cannot be read fails the test")]

use std::alloc::System;
use std::fs;
use std::path::Path;

use kv_router_engines::{DecodeLimits, TrtllmDecoder, WireBatch};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that decoding asks the allocator for, what grows counted again with each step.
fn asked(decode: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    decode();
    let change = region.change();
    change.bytes_allocated + usize::try_from(change.bytes_reallocated.max(0)).unwrap()
}

fn asked_for(payload: &[u8]) -> usize {
    let mut batch = WireBatch::new();
    asked(|| {
        // Whether it is refused is checked elsewhere.
        let _ = batch.decode(payload, &DecodeLimits::default());
    })
}

/// Payloads that claim 100 million elements or bytes, or 4 billion, and such that nest.
const BOMBS: [&str; 11] = [
    "array32_len_100M",
    "array32_len_4G",
    "hashes_array32_100M",
    "tokens_array32_100M",
    "bin32_100MB",
    "str32_100MB_tag",
    "map32_100M",
    "ext32_100MB",
    "deep_nesting_100k",
    "deep_nesting_in_extra_keys",
    "deep_nesting_unknown_key",
];

#[test]
fn what_is_claimed_takes_no_memory() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/malformed");
    for name in BOMBS {
        let payload = fs::read(folder.join(format!("{name}.bin"))).unwrap();
        let asked = asked_for(&payload);
        assert!(asked <= 2_048, "{name}: {asked} bytes for a payload of {}", payload.len());
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let payload = fs::read(&path).unwrap();
        let asked = asked_for(&payload);
        assert!(asked <= 4_096 + 8 * payload.len(), "{path:?}: {asked} bytes for {}", payload.len());
    }
    // A payload of the largest size that claims what it could almost hold: four bytes a token, no more.
    let limits = DecodeLimits::default();
    let mut claim = vec![0x92, 0x00, 0x91, 0x94, 0xab];
    claim.extend(b"BlockStored");
    claim.extend([0x90, 0xc0, 0xdd, 0x00, 0x50, 0x00, 0x00]);
    claim.resize(6 << 20, 0xc1);
    let mut batch = WireBatch::new();
    let asked_once = asked(|| assert!(batch.decode(&claim, &limits).is_err()));
    assert!(asked_once <= 4 * claim.len() + 4_096, "{asked_once}");
    // The next one uses it again.
    assert_eq!(asked(|| assert!(batch.decode(&claim, &limits).is_err())), 0);

    let nested = "[".repeat(100_000);
    let asked_for_json = asked(|| {
        let _ = TrtllmDecoder::new().decode(nested.as_bytes(), &limits, &mut batch);
    });
    // The parser keeps a byte a level.
    assert!(asked_for_json <= 4 * nested.len(), "{asked_for_json}");
}
