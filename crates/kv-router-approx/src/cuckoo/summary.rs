//! What a summary is asked.

use kv_router_types::SequenceHash;

/// A summary of what one owner holds, asked how deep a prefix can reach.
pub trait PrefixSummary {
    /// An upper bound of the leading blocks of `sequence` that the owner holds: never below the truth of the
    /// moment that the summary is of.
    ///
    /// Cost: O(log of the length of `sequence`) lookups.
    fn blocks_at_most(&self, sequence: &[SequenceHash]) -> u32;
}
