//! The table, for people.

use super::Comparison;

/// Column heads; those of numbers are aligned right.
const HEADS: [&str; 14] = [
    "policy",
    "requests",
    "hit ratio",
    "TTFT mean",
    "p50",
    "p99",
    "queue mean",
    "p99",
    "total mean",
    "imbalance",
    "decision p50",
    "p99",
    "preempted",
    "refused",
];

/// A table of all policies, the bound under it. Times are in milliseconds, decisions in microseconds.
pub fn table(comparison: &Comparison) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEADS.map(str::to_owned).to_vec()];
    for report in &comparison.policies {
        let outcome = &report.outcome;
        let ms = |millis: f64| format!("{millis:.0}");
        let us = |millis: f64| format!("{:.1}", millis * 1e3);
        rows.push(vec![
            report.policy.clone(),
            outcome.finished.to_string(),
            format!("{:.3}", outcome.hit_ratio()),
            ms(outcome.ttft.mean),
            ms(outcome.ttft.p50),
            ms(outcome.ttft.p99),
            ms(outcome.queueing.mean),
            ms(outcome.queueing.p99),
            ms(outcome.end_to_end.mean),
            format!("{:.3}", outcome.imbalance),
            us(outcome.decision.p50),
            us(outcome.decision.p99),
            outcome.preemptions.to_string(),
            outcome.refused.to_string(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut text = format!("{}\n\n", comparison.setting);
    for row in &rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, &width) in row.iter().zip(&widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let bound = comparison.bound.ratio();
    text.push_str(&format!(
        "\ntimes in ms, decisions in us of real time; hit ratio of one unlimited shared cache: {bound:.3}\n"
    ));
    text
}
