//! Up to where a rank's state is known.

use crate::{FrameHash, Incarnation};

/// The last batch that a state contains: it is what the stream says up to here, and nothing that came later.
///
/// Dumps and snapshots carry one a rank, because a state without it cannot be joined to a stream: nobody could
/// tell which batches are missing from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watermark {
    /// The life of the engine that the state belongs to. Of no meaning elsewhere when `frame` is there.
    pub incarnation: Incarnation,
    /// Sequence number of the last batch applied.
    pub sequence: u64,
    /// What that batch was, where nobody numbers lives: whose engine still has that frame under that number is in
    /// the life that the state belongs to. `None` where the incarnation tells.
    pub frame: Option<FrameHash>,
}

impl Watermark {
    /// The batch `sequence` of `incarnation`.
    #[inline]
    pub const fn new(incarnation: Incarnation, sequence: u64) -> Self {
        Self { incarnation, sequence, frame: None }
    }

    /// The frame `sequence` of an engine whose lives nobody numbers.
    #[inline]
    pub const fn of_frame(sequence: u64, frame: FrameHash) -> Self {
        Self { incarnation: Incarnation::new(0), sequence, frame: Some(frame) }
    }
}
