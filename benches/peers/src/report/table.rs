//! Tables for people.

use std::fmt::Write;

use super::{ConcurrentRatios, ConcurrentRow, Ratios, RelayRow, Row, TIE};

/// The indexes on one corpus.
pub fn table(rows: &[Row]) -> String {
    let mut out = format!(
        "  {:<18}{:>12}{:>10}{:>10}{:>11}{:>8}{:>16}\n",
        "index", "M blocks/s", "p50 ns", "p99 ns", "p99.9 ns", "bytes", "wrong"
    );
    for row in rows {
        let [p50, p99, p999] = row.lookup_ns;
        let share = 100.0 * row.wrong_lookups as f64 / row.lookups.max(1) as f64;
        let wrong = match row.wrong_lookups {
            0 => "0".to_owned(),
            wrong => format!("{wrong} ({share:.0} %)"),
        };
        let _ = writeln!(
            out,
            "  {:<18}{:>12.2}{p50:>10.0}{p99:>10.0}{p999:>11.0}{:>8.1}{wrong:>16}",
            row.index,
            row.block_ops_per_s * 1e-6,
            row.bytes_per_held_block,
        );
    }
    out
}

/// The indexes on one corpus beside a reader.
pub fn concurrent_table(rows: &[ConcurrentRow]) -> String {
    let mut out = format!(
        "  {:<18}{:>12}{:>12}{:>10}{:>10}{:>11}{:>11}{:>8}\n",
        "1 writer, 1 reader", "k events/s", "M blocks/s", "p50 ns", "p99 ns", "p99.9 ns", "max us", "wrong"
    );
    for row in rows {
        let [p50, p99, p999, max] = row.lookup_ns;
        let _ = writeln!(
            out,
            "  {:<18}{:>12.0}{:>12.2}{p50:>10.0}{p99:>10.0}{p999:>11.0}{:>11.0}{:>8}",
            row.index,
            row.events_per_s * 1e-3,
            row.event_blocks_per_s * 1e-6,
            max * 1e-3,
            row.wrong_lookups,
        );
    }
    out
}

/// The relays on one corpus.
pub fn relay_table(row: &RelayRow) -> String {
    format!(
        "  {:<18}{:>12}{:>12}{:>10}{:>8}\n  {:<18}{:>12.0}{:>12.2}{:>10.2}{:>8.1}\n",
        "beside the engine",
        "k events/s",
        "M blocks/s",
        "runs",
        "bytes",
        row.index,
        row.events_per_s * 1e-3,
        row.event_blocks_per_s * 1e-6,
        row.runs_per_event,
        row.bytes_per_held_block,
    )
}

/// Where we win and lose: one line for each corpus and size, alone and beside a reader.
pub fn summary(results: &[(String, u32, Ratios, Option<ConcurrentRatios>)]) -> String {
    let mut out = format!(
        "ours by the best peer on each measure; closer to 1 than {TIE} is a tie\n  {:<18}{:>8}  {:<18}{:>8}{:>7}{:>7}\
         {:>7}{:>8} |{:>7}{:>7}{:>7}{:>7}{:>7}  verdict\n",
        "corpus",
        "workers",
        "best peer",
        "blocks",
        "p50",
        "p99",
        "bytes",
        "exact",
        "events",
        "p50",
        "p99",
        "p99.9",
        "max"
    );
    for (corpus, workers, alone, beside) in results {
        let exact = alone.best_exact_peer.map_or_else(|| "-".to_owned(), |(_, ratio)| format!("{ratio:.2}"));
        let _ = write!(
            out,
            "  {corpus:<18}{workers:>8}  {:<18}{:>8.2}{:>7.2}{:>7.2}{:>7.2}{exact:>8} |",
            alone.best_peer, alone.block_ops, alone.lookup_p50, alone.lookup_p99, alone.bytes,
        );
        match beside {
            Some(ConcurrentRatios { events, lookup, .. }) => {
                let [p50, p99, p999, max] = lookup;
                let _ = write!(out, "{events:>7.2}{p50:>7.2}{p99:>7.2}{p999:>7.2}{max:>7.2}");
            }
            None => out.push_str(&" ".repeat(35)),
        }
        let _ = writeln!(out, "  {}", verdict(alone, beside.as_ref()));
    }
    out
}

/// What is lost by name, or that nothing is.
pub(super) fn verdict(alone: &Ratios, beside: Option<&ConcurrentRatios>) -> String {
    let mut measures = vec![
        ("blocks", alone.block_ops),
        ("p50", 1.0 / alone.lookup_p50),
        ("p99", 1.0 / alone.lookup_p99),
        ("bytes", 1.0 / alone.bytes),
    ];
    if let Some(ConcurrentRatios { events, lookup, .. }) = beside {
        let [p50, p99, p999, max] = lookup.map(|ratio| 1.0 / ratio);
        measures.extend([
            ("events |", *events),
            ("p50 |", p50),
            ("p99 |", p99),
            ("p99.9 |", p999),
            ("max |", max),
        ]);
    }
    let wins = measures.iter().filter(|(_, gain)| *gain >= TIE).count();
    let losses: Vec<&str> =
        measures.iter().filter(|(_, gain)| *gain <= 1.0 / TIE).map(|(name, _)| *name).collect();
    let ties = measures.len() - wins - losses.len();
    let losses = if losses.is_empty() { "none".to_owned() } else { losses.join(", ") };
    format!("{wins} won, {ties} tied, lost: {losses}")
}
