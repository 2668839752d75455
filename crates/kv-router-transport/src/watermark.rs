//! Up to where a rank's state is known.

use crate::Incarnation;

/// The last batch that a state contains: it is what the stream says up to here, and nothing that came later.
///
/// Dumps and snapshots carry one a rank, because a state without it cannot be joined to a stream: nobody could
/// tell which batches are missing from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watermark {
    /// The life of the engine that the state belongs to.
    pub incarnation: Incarnation,
    /// Sequence number of the last batch applied.
    pub sequence: u64,
}

impl Watermark {
    /// The batch `sequence` of `incarnation`.
    #[inline]
    pub const fn new(incarnation: Incarnation, sequence: u64) -> Self {
        Self { incarnation, sequence }
    }
}
