//! One worker rank as a decision sees it.

use std::fmt;
use std::num::NonZeroU32;

use kv_router_types::{Tier, WorkerRank};

use crate::WorkerTraits;

/// How well the router knows what a rank has cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamFreshness {
    /// Every event of the rank has been applied.
    #[default]
    Fresh,
    /// Events are missing and being replayed: the overlap may be too large or too small.
    Recovering,
    /// What was known has been forgotten: the overlap counts new events alone and is too small.
    Cold,
    /// No events are heard of the rank: the overlap is a guess from what was sent there.
    Predicted,
}

impl fmt::Display for StreamFreshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Recovering => "recovering",
            Self::Cold => "cold",
            Self::Predicted => "predicted",
        })
    }
}

/// What a rank can bear, as far as it is known. An unknown capacity is never exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Prompt tokens that the engine computes in one batch.
    pub batched_tokens: Option<NonZeroU32>,
    /// Blocks in the engine's device cache.
    pub total_blocks: Option<NonZeroU32>,
}

/// One worker rank at the moment of a decision. Plain numbers: build it from wherever they are kept.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The rank.
    pub worker: WorkerRank,
    /// Leading blocks of the prompt that the rank has cached, each at its best tier, by [`Tier::index`].
    pub overlap: [u32; Tier::COUNT],
    /// Prompt tokens of requests in flight whose prefill has not completed.
    pub prefill_tokens: u64,
    /// Blocks held by requests in flight.
    pub active_blocks: u64,
    /// Requests in flight.
    pub active_requests: u32,
    /// Blocks that this request would add to [`active_blocks`](Self::active_blocks): its prompt without the part
    /// that requests in flight hold already.
    pub incoming_blocks: u32,
    /// What the rank can bear, for the busy thresholds.
    pub capacity: Capacity,
    /// How far `overlap` can be trusted.
    pub stream: StreamFreshness,
    /// What does not change with load. Shared by all ranks of a worker, or of a fleet.
    pub traits: &'a WorkerTraits,
}

impl<'a> Candidate<'a> {
    /// A rank with nothing cached, nothing to do and no known capacity.
    pub const fn idle(worker: WorkerRank, traits: &'a WorkerTraits) -> Self {
        Self {
            worker,
            overlap: [0; Tier::COUNT],
            prefill_tokens: 0,
            active_blocks: 0,
            active_requests: 0,
            incoming_blocks: 0,
            capacity: Capacity { batched_tokens: None, total_blocks: None },
            stream: StreamFreshness::Fresh,
            traits,
        }
    }
}
