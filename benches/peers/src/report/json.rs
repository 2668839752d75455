//! Lines of JSON: one for each corpus, fleet size and index, then one for each corpus and size.

use serde_json::{Value, json};

use super::{ConcurrentRatios, ConcurrentRow, Ratios, RelayRow, Row};

/// `{"corpus","workers","index","block_ops_per_s","lookup_ns":{"p50","p99","p999"},"bytes_per_held_block",
/// "wrong_lookups","lookups"}`.
pub fn line(corpus: &str, workers: u32, row: &Row) -> Value {
    let [p50, p99, p999] = row.lookup_ns;
    json!({
        "corpus": corpus,
        "workers": workers,
        "index": row.index,
        "block_ops_per_s": row.block_ops_per_s.round(),
        "lookup_ns": { "p50": p50, "p99": p99, "p999": p999 },
        "bytes_per_held_block": rounded(row.bytes_per_held_block),
        "wrong_lookups": row.wrong_lookups,
        "lookups": row.lookups,
    })
}

/// `{"corpus","workers","index","best_peer","ratio":{"block_ops","lookup_p50","lookup_p99","bytes"}}`, and the best peer that is
/// exact with the ratio of rates, when there is one.
pub fn ratio_line(corpus: &str, workers: u32, ratios: &Ratios) -> Value {
    let exact = ratios
        .best_exact_peer
        .map(|(index, block_ops)| json!({ "index": index, "block_ops": rounded(block_ops) }));
    json!({
        "corpus": corpus,
        "workers": workers,
        "index": ratios.index,
        "best_peer": ratios.best_peer,
        "best_exact_peer": exact,
        "ratio": {
            "block_ops": rounded(ratios.block_ops),
            "lookup_p50": rounded(ratios.lookup_p50),
            "lookup_p99": rounded(ratios.lookup_p99),
            "bytes": rounded(ratios.bytes),
        },
    })
}

/// `{"kind":"concurrent","corpus","workers","index","events_per_s","event_blocks_per_s",
/// "lookup_ns":{"p50","p99","p999","max"},"wrong_lookups"}`.
pub fn concurrent_line(corpus: &str, workers: u32, row: &ConcurrentRow) -> Value {
    let [p50, p99, p999, max] = row.lookup_ns;
    json!({
        "kind": "concurrent",
        "corpus": corpus,
        "workers": workers,
        "index": row.index,
        "events_per_s": row.events_per_s.round(),
        "event_blocks_per_s": row.event_blocks_per_s.round(),
        "lookup_ns": { "p50": p50, "p99": p99, "p999": p999, "max": max },
        "wrong_lookups": row.wrong_lookups,
    })
}

/// `{"kind":"concurrent","corpus","workers","index","best_peer",
/// "ratio":{"events","lookup_p50","lookup_p99","lookup_p999","lookup_max"}}`.
pub fn concurrent_ratio_line(corpus: &str, workers: u32, ratios: &ConcurrentRatios) -> Value {
    let [p50, p99, p999, max] = ratios.lookup.map(rounded);
    json!({
        "kind": "concurrent",
        "corpus": corpus,
        "workers": workers,
        "index": ratios.index,
        "best_peer": ratios.best_peer,
        "ratio": {
            "events": rounded(ratios.events),
            "lookup_p50": p50,
            "lookup_p99": p99,
            "lookup_p999": p999,
            "lookup_max": max,
        },
    })
}

/// `{"kind":"relay","corpus","workers","index","events_per_s","event_blocks_per_s","runs_per_event",
/// "bytes_per_held_block"}`.
pub fn relay_line(corpus: &str, workers: u32, row: &RelayRow) -> Value {
    json!({
        "kind": "relay",
        "corpus": corpus,
        "workers": workers,
        "index": row.index,
        "events_per_s": row.events_per_s.round(),
        "event_blocks_per_s": row.event_blocks_per_s.round(),
        "runs_per_event": rounded(row.runs_per_event),
        "bytes_per_held_block": rounded(row.bytes_per_held_block),
    })
}

/// More digits than three behind the point would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
