//! One line of JSON a policy, for programs. The order of keys is part of the format: new ones go to the end.

use serde::Serialize;

use super::PolicyReport;
use crate::bound::HitBound;
use crate::metrics::Spread;

#[derive(Serialize)]
struct Line<'a> {
    policy: &'a str,
    requests: u64,
    hit_ratio: f64,
    ttft_ms: Full,
    imbalance: f64,
    decision_us: Percentiles,
    hit_bound: f64,
    queue_ms: Tail,
    e2e_ms: Full,
    preemptions: u64,
    refused: u64,
    simulated_s: f64,
}

#[derive(Serialize)]
struct Full {
    mean: f64,
    p50: f64,
    p99: f64,
}

#[derive(Serialize)]
struct Percentiles {
    p50: f64,
    p99: f64,
}

#[derive(Serialize)]
struct Tail {
    mean: f64,
    p99: f64,
}

/// The report as one line of JSON, without a newline.
///
/// `{"policy","requests","hit_ratio","ttft_ms":{"mean","p50","p99"},"imbalance","decision_us":{"p50","p99"}, ..}`:
/// `requests` are those that finished, ratios have four digits after the point, times three.
pub fn json_line(report: &PolicyReport, bound: &HitBound) -> String {
    let outcome = &report.outcome;
    let line = Line {
        policy: &report.policy,
        requests: outcome.finished,
        hit_ratio: rounded(outcome.hit_ratio(), 4),
        ttft_ms: full(&outcome.ttft),
        imbalance: rounded(outcome.imbalance, 4),
        decision_us: Percentiles {
            p50: rounded(outcome.decision.p50 * 1e3, 3),
            p99: rounded(outcome.decision.p99 * 1e3, 3),
        },
        hit_bound: rounded(bound.ratio(), 4),
        queue_ms: Tail { mean: rounded(outcome.queueing.mean, 3), p99: rounded(outcome.queueing.p99, 3) },
        e2e_ms: full(&outcome.end_to_end),
        preemptions: outcome.preemptions,
        refused: outcome.refused,
        simulated_s: rounded(outcome.end.since_start().as_secs_f64(), 3),
    };
    // Strings and finite numbers alone: there is nothing in it that could fail to serialise.
    serde_json::to_string(&line).unwrap_or_default()
}

fn full(spread: &Spread) -> Full {
    Full { mean: rounded(spread.mean, 3), p50: rounded(spread.p50, 3), p99: rounded(spread.p99, 3) }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
