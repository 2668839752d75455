//! What is counted, and what comes of it.

use std::time::Duration;

use kv_router_types::{RequestId, SequenceHash, WorkerRank};

/// What a request will ask of the rank that it is booked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand<'a> {
    /// The gateway's name for the request, if it must be unique or released by name.
    pub request: Option<RequestId>,
    /// Which try of the request this is, from 0, for gateways that send it again when a worker fails. Tells a late end
    /// of one try from that of the next: see [`LoadTracker::end_attempt`](crate::LoadTracker::end_attempt).
    pub attempt: u32,
    /// Prompt tokens that the worker still has to compute, that is without those in its cache. At most
    /// [`MAX_PREFILL_TOKENS`](Self::MAX_PREFILL_TOKENS).
    pub prefill_tokens: u64,
    /// The whole blocks of the prompt, cached or not, as rolling hashes: element `i` names the prefix up to and
    /// including block `i`. Hashes that are not rolling cost accuracy, nothing else.
    pub prompt_blocks: &'a [SequenceHash],
    /// Blocks that no other request can share, for example the partial last block of the prompt.
    pub private_blocks: u32,
}

impl Demand<'_> {
    /// The longest prefill accepted, in tokens.
    pub const MAX_PREFILL_TOKENS: u64 = u32::MAX as u64;
}

/// What one worker rank is working on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerLoad {
    /// Prompt tokens of requests whose prefill has not completed. Foreign load, by engine reports, is part of this and
    /// of the other two: [`LoadTracker::report`](crate::LoadTracker::report).
    pub prefill_tokens: u64,
    /// Blocks held by requests: prompt blocks, each distinct one once; private and output blocks, each.
    pub blocks: u64,
    /// Requests in flight.
    pub requests: u32,
}

/// A request that [`LoadTracker::expire_idle`](crate::LoadTracker::expire_idle) gave up on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// The rank that carried it.
    pub worker: WorkerRank,
    /// Its id, if it had one.
    pub request: Option<RequestId>,
    /// How long nothing had been heard of it.
    pub idle: Duration,
}

/// What the tables of a tracker hold: all zero, but for the ranks, when nothing is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadStats {
    /// Ranks known. Limit: [`LoadConfig::max_ranks`](crate::LoadConfig::max_ranks).
    pub ranks: u64,
    /// Our own requests in flight. Limit: [`LoadConfig::max_requests`](crate::LoadConfig::max_requests).
    pub requests: u64,
    /// Those of other replicas. Limit: [`LoadConfig::max_peer_requests`](crate::LoadConfig::max_peer_requests).
    pub peer_requests: u64,
    /// Ids of those that have one.
    pub request_ids: u64,
    /// Attempts that ended before they were booked, and are kept out. Limit: [`LoadConfig::max_tombstones`](crate::LoadConfig::max_tombstones).
    pub tombstones: u64,
    /// Prompt blocks stored, for our own requests and those of others. Limit:
    /// [`LoadConfig::max_prompt_blocks`](crate::LoadConfig::max_prompt_blocks) and `peer_prompt_blocks`.
    pub prompt_blocks: u64,
    /// Blocks of the prompts of other replicas, each as often as it is booked. Limit:
    /// [`LoadConfig::max_peer_prompt_blocks`](crate::LoadConfig::max_peer_prompt_blocks).
    pub peer_prompt_blocks: u64,
    /// Runs of prompt blocks between two forks, at most twice the requests.
    pub prompt_runs: u64,
}

/// What became of the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It was in flight on this rank, and is no longer counted.
    Released(WorkerRank),
    /// It is not booked yet, and will not be: its end overtook it.
    Early,
    /// A later attempt of the request is in flight, and stays.
    Late,
}
