//! Arithmetic and shape of reports.

use super::table::verdict;
use super::*;

fn row(index: &'static str, owner: Owner, figures: [f64; 4], wrong_lookups: u64) -> Row {
    let [block_ops_per_s, p50, p99, bytes_per_held_block] = figures;
    let lookup_ns = [p50, p99, p99 * 2.0];
    Row { index, owner, block_ops_per_s, lookup_ns, bytes_per_held_block, wrong_lookups, lookups: 100 }
}

fn rows() -> Vec<Row> {
    vec![
        row("paged", Owner::Us, [60e6, 100.0, 900.0, 30.0], 0),
        // A row of ours that is ahead of every peer must not count as one.
        row("radix", Owner::Us, [90e6, 1.0, 1.0, 1.0], 0),
        row("exact", Owner::Peer, [10e6, 200.0, 3_000.0, 60.0], 0),
        row("fast", Owner::Peer, [20e6, 400.0, 1_800.0, 90.0], 7),
    ]
}

#[test]
fn every_ratio_is_to_the_best_peer_on_its_measure() {
    let expected = Ratios {
        index: "paged",
        best_peer: "fast",
        block_ops: 3.0,
        lookup_p50: 0.5,
        lookup_p99: 0.5,
        bytes: 0.5,
        best_exact_peer: Some(("exact", 6.0)),
    };
    assert_eq!(Ratios::of(&rows()), Some(expected));
    assert_eq!(Ratios::of(&rows()[..2]), None, "no peer");
    let other = Ratios::of_index("radix", &rows()).unwrap();
    assert_eq!((other.index, other.block_ops), ("radix", 4.5));
    assert_eq!(Ratios::of_index("nothing", &rows()), None);
    assert_eq!(Ratios::of(&[]), None);
}

#[test]
fn a_time_that_rounds_to_nothing_divides_nothing() {
    let zero = row("zero", Owner::Peer, [1.0, 0.0, 0.0, 0.0], 0);
    let ours = row("paged", Owner::Us, [1.0, 0.0, 0.0, 0.0], 0);
    let ratios = Ratios::of(&[ours, zero]).unwrap();
    assert_eq!([ratios.lookup_p50, ratios.lookup_p99, ratios.bytes], [1.0; 3]);
}

#[test]
fn medians_are_the_middle() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    assert_eq!(median([].into_iter()), 0.0);
    let run = |rate, wrong_lookups| Replayed {
        block_ops_per_s: rate,
        lookup_ns: [rate, rate + 1.0, rate + 2.0],
        wrong_lookups,
        lookups: 9,
    };
    let row = Row::of("x", Owner::Us, &[run(5.0, 0), run(1.0, 3), run(3.0, 0)], 2.0);
    assert_eq!((row.block_ops_per_s, row.lookup_ns), (3.0, [3.0, 4.0, 5.0]));
    assert_eq!(row.wrong_lookups, 3, "one wrong repetition is enough");
}

fn concurrent_rows() -> Vec<ConcurrentRow> {
    let row = |index, owner, events_per_s, lookup_ns| ConcurrentRow {
        index,
        owner,
        events_per_s,
        event_blocks_per_s: events_per_s * 4.0,
        lookup_ns,
        wrong_lookups: 0,
    };
    vec![
        row("paged", Owner::Us, 3e6, [100.0, 200.0, 300.0, 4_000.0]),
        row("a", Owner::Peer, 2e6, [50.0, 400.0, 300.0, 8_000.0]),
        row("b", Owner::Peer, 1e6, [80.0, 200.0, 600.0, 1_000.0]),
    ]
}

#[test]
fn concurrent_ratios_are_to_the_best_peer_on_their_measure() {
    let ratios = ConcurrentRatios::of(&concurrent_rows()).unwrap();
    let expected =
        ConcurrentRatios { index: "paged", best_peer: "a", events: 1.5, lookup: [2.0, 1.0, 1.0, 4.0] };
    assert_eq!(ratios, expected);
}

#[test]
fn lines_have_the_promised_shape() {
    let rows = rows();
    let expected = serde_json::json!({
        "corpus": "churn", "workers": 64, "index": "fast", "block_ops_per_s": 20e6,
        "lookup_ns": { "p50": 400.0, "p99": 1_800.0, "p999": 3_600.0 },
        "bytes_per_held_block": 90.0, "wrong_lookups": 7, "lookups": 100,
    });
    assert_eq!(line("churn", 64, &rows[3]), expected);
    let expected = serde_json::json!({
        "corpus": "churn", "workers": 64, "index": "paged", "best_peer": "fast",
        "best_exact_peer": { "index": "exact", "block_ops": 6.0 },
        "ratio": { "block_ops": 3.0, "lookup_p50": 0.5, "lookup_p99": 0.5, "bytes": 0.5 },
    });
    assert_eq!(ratio_line("churn", 64, &Ratios::of(&rows).unwrap()), expected);
    let rows = concurrent_rows();
    let expected = serde_json::json!({
        "kind": "concurrent", "corpus": "churn", "workers": 8, "index": "b",
        "events_per_s": 1e6, "event_blocks_per_s": 4e6,
        "lookup_ns": { "p50": 80.0, "p99": 200.0, "p999": 600.0, "max": 1_000.0 }, "wrong_lookups": 0,
    });
    assert_eq!(concurrent_line("churn", 8, &rows[2]), expected);
    let expected = serde_json::json!({
        "kind": "concurrent", "corpus": "churn", "workers": 8, "index": "paged", "best_peer": "a",
        "ratio": {
            "events": 1.5, "lookup_p50": 2.0, "lookup_p99": 1.0, "lookup_p999": 1.0, "lookup_max": 4.0,
        },
    });
    assert_eq!(concurrent_ratio_line("churn", 8, &ConcurrentRatios::of(&rows).unwrap()), expected);
    let row = RelayRow {
        index: "paged-relay",
        events_per_s: 1e6,
        event_blocks_per_s: 3e7,
        runs_per_event: 1.25,
        bytes_per_held_block: 30.0,
    };
    let expected = serde_json::json!({
        "kind": "relay", "corpus": "churn", "workers": 8, "index": "paged-relay",
        "events_per_s": 1e6, "event_blocks_per_s": 3e7, "runs_per_event": 1.25, "bytes_per_held_block": 30.0,
    });
    assert_eq!(relay_line("churn", 8, &row), expected);
    assert!(relay_table(&row).contains("paged-relay"));
}

#[test]
fn the_summary_names_what_is_lost() {
    let alone = Ratios::of(&rows()).unwrap();
    let beside = ConcurrentRatios::of(&concurrent_rows());
    assert_eq!(verdict(&alone, None), "4 won, 0 tied, lost: none");
    assert_eq!(verdict(&alone, beside.as_ref()), "5 won, 2 tied, lost: p50 |, max |");
    let text = summary(&[("churn".to_owned(), 64, alone.clone(), beside.clone())]);
    assert!(text.contains("churn") && text.contains("lost: p50 |, max |"), "{text}");
    let svg = crate::chart::ratios(&[("churn".to_owned(), 64, alone, beside)]).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("churn, 64"));
}

#[test]
fn tables_show_the_share_of_wrong_answers() {
    assert!(table(&rows()).contains("7 (7 %)"));
    assert!(concurrent_table(&concurrent_rows()).contains("paged"));
}
