//! What a router refuses, and what to do about it.

use std::error::Error;
use std::fmt;

use kv_router_load::{AddRankError, BookError};
use kv_router_schedule::{QueueFull, SelectError};
use kv_router_types::{BlockSize, WorkerId};

use crate::WorkerSpec;

/// Why a request was not routed. Nothing was booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// The prompt has no tokens.
    EmptyPrompt,
    /// The prompt is longer than [`RouterConfig::max_prompt_tokens`](crate::RouterConfig::max_prompt_tokens).
    PromptTooLong {
        /// Its tokens.
        tokens: usize,
        /// The limit, in tokens.
        limit: usize,
    },
    /// More hashes were given than the prompt has blocks.
    HashesExceedPrompt {
        /// Hashes given.
        hashes: usize,
        /// Blocks that a prompt of that many tokens has.
        blocks: usize,
    },
    /// The filters left nobody.
    Select(SelectError),
    /// The selected rank could not take the request.
    Book(BookError),
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPrompt => f.write_str("the prompt has no tokens: refuse the request"),
            Self::PromptTooLong { tokens, limit } => {
                write!(
                    f,
                    "a prompt of {tokens} tokens is above the limit of {limit}: refuse it, or raise max_prompt_tokens"
                )
            }
            Self::HashesExceedPrompt { hashes, blocks } => write!(
                f,
                "{hashes} hashes were given for a prompt of {blocks} blocks: hash it with the router's own scheme"
            ),
            Self::Select(error) => error.fmt(f),
            Self::Book(error) => error.fmt(f),
        }
    }
}

impl Error for RouteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Select(error) => Some(error),
            Self::Book(error) => Some(error),
            Self::EmptyPrompt | Self::PromptTooLong { .. } | Self::HashesExceedPrompt { .. } => None,
        }
    }
}

/// Why a request was not admitted, or not any longer. Nothing is booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmitError {
    /// It cannot be routed, and waiting would not help.
    Route(RouteError),
    /// It would have to wait, and may not.
    Queue(QueueFull),
    /// Its deadline passed while it waited.
    DeadlinePassed,
    /// A custom rule or the clock panicked while it was decided on for somebody who waited. The panic itself came
    /// out of the call that made the decision.
    Panicked,
}

impl fmt::Display for AdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route(error) => error.fmt(f),
            Self::Queue(full) => full.fmt(f),
            Self::DeadlinePassed => {
                f.write_str("no worker had room before the deadline: answer the client so, or add workers")
            }
            Self::Panicked => {
                f.write_str("a custom rule or the clock panicked on the request: mend what panicked")
            }
        }
    }
}

impl Error for AdmitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Route(error) => Some(error),
            Self::Queue(_) | Self::DeadlinePassed | Self::Panicked => None,
        }
    }
}

impl From<RouteError> for AdmitError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

/// Why a worker did not join. The fleet is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The worker is part of the fleet already.
    AlreadyJoined {
        /// The worker.
        worker: WorkerId,
    },
    /// The number of ranks is 0 or above [`WorkerSpec::MAX_RANKS`].
    RankCount {
        /// The worker.
        worker: WorkerId,
        /// Ranks that it claims to have.
        ranks: u32,
    },
    /// Its engine has another block size than the router: no request would ever match.
    BlockSizeMismatch {
        /// The worker.
        worker: WorkerId,
        /// The engine's.
        theirs: BlockSize,
        /// The router's.
        ours: BlockSize,
    },
    /// The fleet is at its limit.
    FleetFull(AddRankError),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyJoined { worker } => {
                write!(f, "worker {worker} has joined already: let it leave first if it restarted")
            }
            Self::RankCount { worker, ranks } => {
                write!(f, "worker {worker} claims {ranks} ranks: give 1..={}", WorkerSpec::MAX_RANKS)
            }
            Self::BlockSizeMismatch { worker, theirs, ours } => write!(
                f,
                "worker {worker} has blocks of {theirs} tokens and the router of {ours}: build the router with the \
                 engine's block size"
            ),
            Self::FleetFull(error) => error.fmt(f),
        }
    }
}

impl Error for JoinError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::FleetFull(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a worker did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaveError {
    /// The worker is not part of the fleet.
    UnknownWorker {
        /// The worker.
        worker: WorkerId,
    },
}

impl fmt::Display for LeaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownWorker { worker } => {
                write!(f, "worker {worker} has not joined, or has left already")
            }
        }
    }
}

impl Error for LeaveError {}
