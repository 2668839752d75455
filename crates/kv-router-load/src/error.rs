//! What can be refused, and what to do about it.

use std::error::Error;
use std::fmt;

use kv_router_types::{RequestId, WorkerRank};

use crate::Demand;

/// Why a request was not booked. The load of every rank is what it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BookError {
    /// The rank was never added, or has been removed.
    UnknownRank {
        /// The rank asked for.
        worker: WorkerRank,
    },
    /// A request of this id is in flight already, on this rank or on another.
    DuplicateRequest {
        /// The id.
        request: RequestId,
        /// The rank that holds the request in flight.
        worker: WorkerRank,
    },
    /// This attempt of the request has ended already: [`LoadTracker::end_attempt`](crate::LoadTracker::end_attempt)
    /// was quicker.
    AlreadyEnded {
        /// The id.
        request: RequestId,
        /// The attempt.
        attempt: u32,
    },
    /// [`LoadConfig::max_requests`](crate::LoadConfig::max_requests) requests are in flight.
    TooManyRequests {
        /// The limit, in requests.
        limit: u32,
    },
    /// The prompt does not fit under [`LoadConfig::max_prompt_blocks`](crate::LoadConfig::max_prompt_blocks).
    TooManyPromptBlocks {
        /// Blocks that this prompt would have added to those stored.
        needed: u64,
        /// The limit, in blocks.
        limit: u64,
    },
    /// The prompt is longer than [`Demand::MAX_PREFILL_TOKENS`].
    PrefillTooLong {
        /// Prompt tokens asked for.
        tokens: u64,
    },
}

impl fmt::Display for BookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRank { worker } => {
                write!(f, "worker rank {worker} is unknown: add it first, or select again without it")
            }
            Self::DuplicateRequest { request, worker } => write!(
                f,
                "request {request} is in flight on {worker}: release it first, or give each attempt its own id"
            ),
            Self::AlreadyEnded { request, attempt } => {
                write!(f, "attempt {attempt} of request {request} has ended already: do not send it")
            }
            Self::TooManyRequests { limit } => write!(
                f,
                "{limit} requests are in flight: wait for one to end, or raise max_requests if none is leaked"
            ),
            Self::TooManyPromptBlocks { needed, limit } => write!(
                f,
                "{needed} more prompt blocks do not fit under {limit}: wait for requests to end, or raise \
                 max_prompt_blocks"
            ),
            Self::PrefillTooLong { tokens } => {
                write!(
                    f,
                    "a prefill of {tokens} tokens is above {}: refuse the prompt",
                    Demand::MAX_PREFILL_TOKENS
                )
            }
        }
    }
}

impl Error for BookError {}

/// Why a rank was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddRankError {
    /// [`LoadConfig::max_ranks`](crate::LoadConfig::max_ranks) ranks are known.
    TooManyRanks {
        /// The limit, in ranks.
        limit: u32,
    },
}

impl fmt::Display for AddRankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRanks { limit } => {
                write!(f, "{limit} ranks are known: remove those that are gone, or raise max_ranks")
            }
        }
    }
}

impl Error for AddRankError {}
