//! Request traces: who asked for how much, when, and which prefixes they share.

mod error;
mod line;
mod read;
mod sample;
#[cfg(test)]
mod tests;

pub use error::{Field, LineFault, TraceError};
pub use read::ReadOptions;

use crate::prompt::Prompt;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Arrival, in milliseconds since the start of the trace.
    pub timestamp_ms: u64,
    /// What the prompt says.
    pub prompt: Prompt,
    /// Tokens to generate, above 0.
    pub output_tokens: u32,
}

/// A trace: at least one request, in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    records: Vec<TraceRecord>,
    skipped: u64,
}

impl Trace {
    /// A trace of requests that were made, not read.
    ///
    /// # Errors
    ///
    /// [`TraceError::Empty`] without a request; a fault of the line, counted from 1, when one arrives before its
    /// predecessor.
    pub fn from_records(records: Vec<TraceRecord>) -> Result<Self, TraceError> {
        if records.is_empty() {
            return Err(TraceError::Empty);
        }
        for (line, pair) in (2..).zip(records.windows(2)) {
            let (previous_ms, found_ms) = (pair[0].timestamp_ms, pair[1].timestamp_ms);
            if found_ms < previous_ms {
                return Err(TraceError::Line { line, fault: LineFault::Unsorted { previous_ms, found_ms } });
            }
        }
        Ok(Self { records, skipped: 0 })
    }

    /// The requests, in order of arrival.
    #[inline]
    pub fn records(&self) -> &[TraceRecord] {
        &self.records
    }

    /// The same trace without what comes after its first `requests` requests; at least one stays.
    #[must_use]
    pub fn head(mut self, requests: usize) -> Self {
        self.records.truncate(requests.max(1));
        self
    }

    /// Broken lines that were left out; see [`ReadOptions::max_skipped`].
    #[inline]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Time between the first and the last arrival, in milliseconds.
    pub fn span_ms(&self) -> u64 {
        match (self.records.first(), self.records.last()) {
            (Some(first), Some(last)) => last.timestamp_ms - first.timestamp_ms,
            _ => 0,
        }
    }
}
