//! Who is not considered, and why.

use std::fmt;
use std::num::NonZeroU32;

use kv_router_types::{DpRank, WorkerRank};

use crate::cost::to_f64;
use crate::{
    Candidate, Constraints, FilterConfig, RankBounds, SelectRequest, StaleRule, StreamFreshness, WorkerTraits,
};

/// What a busy rank has too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Prompt tokens in flight, against those of one batch.
    PrefillTokens,
    /// Blocks in flight, against those of the device cache.
    Blocks,
}

/// Why a candidate was left out. The first filter that objects, in the order of the variants, the last apart.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Excluded {
    /// Its worker is not on the allow-list.
    NotAllowed,
    /// The request is pinned to another place.
    NotPinned,
    /// Its worker did not register this rank.
    RankOutOfBounds {
        /// The rank.
        rank: DpRank,
        /// Those registered.
        bounds: RankBounds,
    },
    /// It lacks a required taint.
    MissingTaint,
    /// It cannot serve the adapter.
    AdapterUnavailable,
    /// It is above a busy threshold.
    Busy {
        /// Which one.
        resource: Resource,
        /// What it has in flight, in tokens or blocks.
        load: u64,
        /// The threshold, in the same unit.
        limit: f64,
    },
    /// Its cache is not known well enough.
    Stale {
        /// The state of its stream.
        stream: StreamFreshness,
    },
    /// A custom [`Filter`](crate::Filter) does not admit it.
    Refused {
        /// The name of the filter.
        filter: &'static str,
    },
    /// A custom [`Scorer`](crate::Scorer) said of it what is no cost.
    BadScore {
        /// The name of the scorer.
        scorer: &'static str,
        /// What it said.
        value: f64,
    },
    /// It lacks a preferred taint, and somebody else who is eligible has them all.
    NotPreferred,
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed => f.write_str("not on the allow-list"),
            Self::NotPinned => f.write_str("the request is pinned elsewhere"),
            Self::RankOutOfBounds { rank, bounds } => {
                write!(f, "rank {rank} is outside the registered {bounds}")
            }
            Self::MissingTaint => f.write_str("lacks a required taint"),
            Self::AdapterUnavailable => f.write_str("cannot serve the adapter"),
            Self::Busy { resource, load, limit } => {
                let unit = match resource {
                    Resource::PrefillTokens => "prompt tokens",
                    Resource::Blocks => "blocks",
                };
                write!(f, "busy, {load} {unit} in flight are above {limit}")
            }
            Self::Stale { stream } => write!(f, "its event stream is {stream}"),
            Self::Refused { filter } => write!(f, "refused by {filter}"),
            Self::BadScore { scorer, value } => write!(f, "{scorer} says {value}, which is no cost"),
            Self::NotPreferred => f.write_str("lacks a preferred taint"),
        }
    }
}

/// How many candidates were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExclusionCounts {
    /// [`Excluded::NotAllowed`].
    pub not_allowed: u32,
    /// [`Excluded::NotPinned`].
    pub not_pinned: u32,
    /// [`Excluded::RankOutOfBounds`].
    pub rank_out_of_bounds: u32,
    /// [`Excluded::MissingTaint`].
    pub missing_taint: u32,
    /// [`Excluded::AdapterUnavailable`].
    pub adapter_unavailable: u32,
    /// [`Excluded::Busy`].
    pub busy: u32,
    /// [`Excluded::Stale`].
    pub stale: u32,
    /// [`Excluded::Refused`].
    pub refused: u32,
    /// [`Excluded::BadScore`].
    pub bad_score: u32,
    /// [`Excluded::NotPreferred`].
    pub not_preferred: u32,
}

impl ExclusionCounts {
    /// Candidates left out for any reason.
    pub fn total(&self) -> u32 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    /// The count of a reason.
    pub(crate) fn of(&mut self, reason: &Excluded) -> &mut u32 {
        match reason {
            Excluded::NotAllowed => &mut self.not_allowed,
            Excluded::NotPinned => &mut self.not_pinned,
            Excluded::RankOutOfBounds { .. } => &mut self.rank_out_of_bounds,
            Excluded::MissingTaint => &mut self.missing_taint,
            Excluded::AdapterUnavailable => &mut self.adapter_unavailable,
            Excluded::Busy { .. } => &mut self.busy,
            Excluded::Stale { .. } => &mut self.stale,
            Excluded::Refused { .. } => &mut self.refused,
            Excluded::BadScore { .. } => &mut self.bad_score,
            Excluded::NotPreferred => &mut self.not_preferred,
        }
    }

    fn named(&self) -> [(&'static str, u32); 10] {
        [
            ("not allowed", self.not_allowed),
            ("not pinned", self.not_pinned),
            ("rank out of bounds", self.rank_out_of_bounds),
            ("missing taint", self.missing_taint),
            ("adapter unavailable", self.adapter_unavailable),
            ("busy", self.busy),
            ("stale", self.stale),
            ("refused", self.refused),
            ("bad score", self.bad_score),
            ("not preferred", self.not_preferred),
        ]
    }
}

/// The reasons that occurred: `2 busy, 1 stale`; `none` without one.
impl fmt::Display for ExclusionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, count) in self.named().into_iter().filter(|&(_, count)| count > 0) {
            write!(f, "{separator}{count} {name}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl FilterConfig {
    /// Passes a candidate, with the share of its overlap credit that counts, or says why not. Preferred taints
    /// are not looked at: whether they exclude anybody depends on the other candidates.
    #[inline]
    pub(crate) fn check(
        &self,
        request: &SelectRequest<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<f64, Excluded> {
        // Most requests may go anywhere: the searches stay out of the loop over the candidates.
        if request.constraints.restrict() || !candidate.traits.ranks.contains(candidate.worker.rank) {
            check_match(&request.constraints, candidate.worker, candidate.traits)?;
        }
        let capacity = candidate.capacity;
        if let (Some(fraction), Some(tokens)) = (self.busy_prefill, capacity.batched_tokens) {
            check_busy(Resource::PrefillTokens, candidate.prefill_tokens, fraction, tokens)?;
        }
        if let (Some(fraction), Some(blocks)) = (self.busy_decode, capacity.total_blocks) {
            check_busy(Resource::Blocks, candidate.active_blocks, fraction, blocks)?;
        }
        match self.stale_rule(candidate.stream) {
            StaleRule::Credit(trust) => Ok(trust),
            StaleRule::Exclude => Err(Excluded::Stale { stream: candidate.stream }),
        }
    }
}

impl FilterConfig {
    /// Whether a candidate is at or below the threshold of the queue.
    #[inline]
    pub(crate) fn is_open(&self, candidate: &Candidate<'_>) -> bool {
        match (self.wait_prefill, candidate.capacity.batched_tokens) {
            (Some(fraction), Some(tokens)) => {
                check_busy(Resource::PrefillTokens, candidate.prefill_tokens, fraction, tokens).is_ok()
            }
            _ => true,
        }
    }
}

/// Whether a worker matches a request, whatever it is doing.
#[inline(never)]
fn check_match(
    constraints: &Constraints<'_>,
    worker: WorkerRank,
    traits: &WorkerTraits,
) -> Result<(), Excluded> {
    if constraints.allow.is_some_and(|allow| !allow.contains(worker.worker)) {
        return Err(Excluded::NotAllowed);
    }
    if constraints.pin.is_some_and(|pin| !pin.admits(worker)) {
        return Err(Excluded::NotPinned);
    }
    if !traits.ranks.contains(worker.rank) {
        return Err(Excluded::RankOutOfBounds { rank: worker.rank, bounds: traits.ranks });
    }
    if !traits.has_all(constraints.required_taints) {
        return Err(Excluded::MissingTaint);
    }
    if constraints.adapter.is_some_and(|adapter| !traits.adapters.can_serve(adapter)) {
        return Err(Excluded::AdapterUnavailable);
    }
    Ok(())
}

#[inline]
fn check_busy(resource: Resource, load: u64, fraction: f64, capacity: NonZeroU32) -> Result<(), Excluded> {
    let limit = fraction * f64::from(capacity.get());
    if to_f64(load) > limit { Err(Excluded::Busy { resource, load, limit }) } else { Ok(()) }
}
