//! From figures of single runs to medians, ratios, JSON lines and a table.

mod json;
mod table;
#[cfg(test)]
mod tests;

pub use json::{concurrent_line, concurrent_ratio_line, line, ratio_line, relay_line};
pub use table::{concurrent_table, relay_table, summary, table};

use crate::duel::Duelled;
use crate::relay::Relayed;
use crate::replay::Replayed;
use crate::subjects::Owner;

/// A ratio closer to 1 than this, either way, is a tie: so much does the machine drift.
pub const TIE: f64 = 1.3;

/// One index on one corpus and fleet size: medians over repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The index.
    pub index: &'static str,
    /// Whose it is.
    pub owner: Owner,
    /// Blocks a second.
    pub block_ops_per_s: f64,
    /// At 50 %, 99 % and 99.9 %.
    pub lookup_ns: [f64; 3],
    /// Bytes on the heap for each (worker, block) pair.
    pub bytes_per_held_block: f64,
    /// The most of any repetition.
    pub wrong_lookups: u64,
    /// Lookups that were compared in each repetition.
    pub lookups: u64,
}

impl Row {
    /// The medians of some repetitions.
    pub fn of(index: &'static str, owner: Owner, runs: &[Replayed], bytes_per_held_block: f64) -> Self {
        Self {
            index,
            owner,
            block_ops_per_s: median(runs.iter().map(|run| run.block_ops_per_s)),
            lookup_ns: [0, 1, 2].map(|at| median(runs.iter().map(|run| run.lookup_ns[at]))),
            bytes_per_held_block,
            wrong_lookups: runs.iter().map(|run| run.wrong_lookups).max().unwrap_or(0),
            lookups: runs.iter().map(|run| run.lookups).max().unwrap_or(0),
        }
    }
}

/// One index beside a reader at full rate: medians over repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct ConcurrentRow {
    /// The index.
    pub index: &'static str,
    /// Whose it is.
    pub owner: Owner,
    /// Events a second.
    pub events_per_s: f64,
    /// Stored and removed blocks a second.
    pub event_blocks_per_s: f64,
    /// At 50 %, 99 %, 99.9 % and the longest.
    pub lookup_ns: [f64; 4],
    /// Wrong answers to the end state, the most of any repetition.
    pub wrong_lookups: u64,
}

impl ConcurrentRow {
    /// The medians of some repetitions.
    pub fn of(index: &'static str, owner: Owner, runs: &[Duelled]) -> Self {
        Self {
            index,
            owner,
            events_per_s: median(runs.iter().map(|run| run.events_per_s)),
            event_blocks_per_s: median(runs.iter().map(|run| run.event_blocks_per_s)),
            lookup_ns: [0, 1, 2, 3].map(|at| median(runs.iter().map(|run| run.lookup_ns[at]))),
            wrong_lookups: runs.iter().map(|run| run.wrong_lookups).max().unwrap_or(0),
        }
    }
}

/// Our index divided by the best peer **on each measure**: `block_ops` above 1 is a win, the others below 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratios {
    /// The index.
    pub index: &'static str,
    /// The peer with the most block operations a second.
    pub best_peer: &'static str,
    /// Rate by the best peer's rate.
    pub block_ops: f64,
    /// Median lookup by the shortest of the peers.
    pub lookup_p50: f64,
    /// The same at 99 %.
    pub lookup_p99: f64,
    /// Bytes by the fewest of the peers.
    pub bytes: f64,
    /// The fastest of the peers that answered everything right, and our rate by its rate.
    pub best_exact_peer: Option<(&'static str, f64)>,
}

impl Ratios {
    /// Those of the first index, which is ours. `None` without it, or without a peer.
    pub fn of(rows: &[Row]) -> Option<Self> {
        Self::of_index(rows.first()?.index, rows)
    }

    /// Those of an index of ours. `None` without it, or without a peer.
    pub fn of_index(index: &str, rows: &[Row]) -> Option<Self> {
        let ours = rows.iter().find(|row| row.index == index)?;
        let peers = || rows.iter().filter(|row| row.owner == Owner::Peer);
        let fastest = |a: &&Row, b: &&Row| a.block_ops_per_s.total_cmp(&b.block_ops_per_s);
        let best = peers().max_by(fastest)?;
        let exact = peers().filter(|row| row.wrong_lookups == 0).max_by(fastest);
        let least = |measure: fn(&Row) -> f64| ratio(measure(ours), min(peers().map(measure)));
        Some(Self {
            index: ours.index,
            best_peer: best.index,
            block_ops: ratio(ours.block_ops_per_s, best.block_ops_per_s),
            lookup_p50: least(|row| row.lookup_ns[0]),
            lookup_p99: least(|row| row.lookup_ns[1]),
            bytes: least(|row| row.bytes_per_held_block),
            best_exact_peer: exact.map(|row| (row.index, ratio(ours.block_ops_per_s, row.block_ops_per_s))),
        })
    }
}

/// The same beside a reader at full rate: `events` above 1 is a win, the others below 1.
#[derive(Clone, Debug, PartialEq)]
pub struct ConcurrentRatios {
    /// The index.
    pub index: &'static str,
    /// The peer with the most events a second.
    pub best_peer: &'static str,
    /// Rate by the best peer's rate.
    pub events: f64,
    /// Lookup times by the shortest of the peers: at 50 %, 99 %, 99.9 % and the longest.
    pub lookup: [f64; 4],
}

impl ConcurrentRatios {
    /// Those of the first index, which is ours. `None` without it, or without a peer.
    pub fn of(rows: &[ConcurrentRow]) -> Option<Self> {
        Self::of_index(rows.first()?.index, rows)
    }

    /// Those of an index of ours. `None` without it, or without a peer.
    pub fn of_index(index: &str, rows: &[ConcurrentRow]) -> Option<Self> {
        let ours = rows.iter().find(|row| row.index == index)?;
        let peers = || rows.iter().filter(|row| row.owner == Owner::Peer);
        let best = peers().max_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s))?;
        let least = |at: usize| ratio(ours.lookup_ns[at], min(peers().map(|row| row.lookup_ns[at])));
        Some(Self {
            index: ours.index,
            best_peer: best.index,
            events: ratio(ours.events_per_s, best.events_per_s),
            lookup: [0, 1, 2, 3].map(least),
        })
    }
}

/// The relays of a fleet: medians over repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayRow {
    /// What reports call it.
    pub index: &'static str,
    /// Events a second, of one relay.
    pub events_per_s: f64,
    /// Stored and removed blocks a second, of one relay.
    pub event_blocks_per_s: f64,
    /// Runs of numbers for each event.
    pub runs_per_event: f64,
    /// Bytes for each (worker, block) pair.
    pub bytes_per_held_block: f64,
}

impl RelayRow {
    /// The medians of some repetitions.
    pub fn of(index: &'static str, runs: &[Relayed]) -> Self {
        let median = |measure: fn(&Relayed) -> f64| median(runs.iter().map(measure));
        Self {
            index,
            events_per_s: median(|run| run.events_per_s),
            event_blocks_per_s: median(|run| run.event_blocks_per_s),
            runs_per_event: median(|run| run.runs_per_event),
            bytes_per_held_block: median(|run| run.bytes_per_held_block),
        }
    }
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

fn min(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// Times below the clock's own cost are 0; one nanosecond on both sides keeps a ratio of two of them at 1.
fn ratio(ours: f64, theirs: f64) -> f64 {
    ours.max(1.0) / theirs.max(1.0)
}
