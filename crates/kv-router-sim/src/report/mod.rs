//! What the outcome of a comparison looks like: a table, lines of JSON, a chart. Pure text; nothing is
//! written here.

mod chart;
mod json;
mod multiples;
mod table;
#[cfg(test)]
mod tests;

pub use chart::{ChartError, svg};
pub use json::json_line;
pub use multiples::multiples;
pub use table::table;

use crate::bound::HitBound;
use crate::metrics::Outcome;

/// One policy and what it made of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyReport {
    /// The policy's name.
    pub policy: String,
    /// Its numbers.
    pub outcome: Outcome,
}

/// Several policies on one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was compared, in one line: it stands under the title of the chart.
    pub setting: String,
    /// What one unlimited cache would have saved.
    pub bound: HitBound,
    /// The policies, in order.
    pub policies: Vec<PolicyReport>,
}
