//! The answer to a request.

use kv_router_index::{Certainty, Overlap};
use kv_router_load::Booking;
use kv_router_schedule::{CostTerms, Explanation, Selection};
use kv_router_types::WorkerRank;

/// Where a request goes, and the booking that counts it there.
///
/// Dropping it takes the load back: keep it, or its [`booking`](Self::into_booking), until the request ends.
#[derive(Debug)]
#[must_use = "dropping a decision releases its booking"]
pub struct Decision {
    pub(crate) placement: Placement,
    pub(crate) booking: Booking,
}

/// Where a request goes and why.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) selection: Selection,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) certainty: Certainty,
    pub(crate) prompt_blocks: u32,
    pub(crate) cost: CostTerms,
    pub(crate) explanation: Option<Explanation>,
}

impl Decision {
    /// The rank to send the request to.
    pub fn worker(&self) -> WorkerRank {
        self.placement.selection.worker
    }

    /// Leading blocks of the prompt that the rank has cached, in any tier.
    pub fn overlap_blocks(&self) -> u32 {
        self.placement.overlap.map_or(0, |overlap| overlap.blocks())
    }

    /// Whether that is [`Exact`](Certainty::Exact), what the events of the rank say, or a
    /// [`Guess`](Certainty::Guess) from what was sent there, because no events are heard of it.
    pub fn certainty(&self) -> Certainty {
        self.placement.certainty
    }

    /// The same by tier; `None` when the rank has not even the first block.
    pub fn overlap(&self) -> Option<&Overlap> {
        self.placement.overlap.as_ref()
    }

    /// Whole blocks in the prompt: what [`overlap_blocks`](Self::overlap_blocks) is out of.
    pub fn prompt_blocks(&self) -> u32 {
        self.placement.prompt_blocks
    }

    /// The cost of the winner, term by term.
    pub fn cost(&self) -> CostTerms {
        self.placement.cost
    }

    /// How the winner was found among how many.
    pub fn selection(&self) -> &Selection {
        &self.placement.selection
    }

    /// Every candidate, what filtered it, each term of each cost, and the draw. `None` unless the request was
    /// [`explained`](crate::RouteRequest::explained).
    pub fn explain(&self) -> Option<&Explanation> {
        self.placement.explanation.as_ref()
    }

    /// The booking, to report progress to.
    pub fn booking(&self) -> &Booking {
        &self.booking
    }

    /// Keeps only the booking.
    pub fn into_booking(self) -> Booking {
        self.booking
    }
}
