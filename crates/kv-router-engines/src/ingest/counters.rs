//! What one rank's ingest has done.

use super::skip::Skips;

/// What was done with the events of one rank. Only ever grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestCounters {
    /// Engine blocks that came to a tier that did not have them.
    pub blocks_stored: u64,
    /// Stores of blocks that the tier had already: copies, replays, or full reports.
    pub blocks_repeated: u64,
    /// Engine blocks whose last copy left a tier.
    pub blocks_removed: u64,
    /// Removals of one of several copies.
    pub copies_removed: u64,
    /// Removals of names that the tier does not have.
    pub unknown_removals: u64,
    /// Clears.
    pub cleared: u64,
    /// Events that did not reach the index, by reason.
    pub skips: Skips,
}
