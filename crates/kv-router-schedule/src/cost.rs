//! The cost of giving a request to a worker rank.

use kv_router_types::Tier;

use crate::{Candidate, CostConfig, SelectRequest};

/// A cost with every term that made it, in blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CostTerms {
    /// Prompt blocks that the rank has still to compute for others.
    pub active_prefill_blocks: f64,
    /// Prompt blocks of this request.
    pub incoming_prompt_blocks: f64,
    /// What the cached blocks are worth, capped by the request's own prompt.
    pub overlap_credit: f64,
    /// `active_prefill_blocks + incoming_prompt_blocks - overlap_credit`.
    pub adjusted_prefill: f64,
    /// Blocks held by others and to be held by this request.
    pub potential_decode: f64,
    /// `prefill_load_scale * adjusted_prefill`.
    pub prefill_term: f64,
    /// `decode_active_request_weight * active_requests`.
    pub request_term: f64,
    /// The sum. Lower is better.
    pub cost: f64,
}

impl CostConfig {
    /// `trust` is the share of the overlap credit that the freshness of the rank's stream leaves.
    #[inline]
    pub(crate) fn terms(
        &self,
        request: &SelectRequest<'_>,
        candidate: &Candidate<'_>,
        trust: f64,
    ) -> CostTerms {
        let active_prefill_blocks = to_f64(candidate.prefill_tokens) / f64::from(request.block_size.get());
        let incoming_prompt_blocks = f64::from(request.prompt_blocks);

        let blocks = |tier: Tier| f64::from(candidate.overlap[tier.index()]);
        let mut device = self.device_weight * blocks(Tier::Device);
        if self.credit_decay > 0.0 {
            device = decayed(device, self.credit_decay, active_prefill_blocks, incoming_prompt_blocks);
        }
        let credit = device
            + self.host_weight * blocks(Tier::Host)
            + self.disk_weight * blocks(Tier::Disk)
            + self.object_weight * blocks(Tier::Object);
        let overlap_credit = lesser(trust * credit, incoming_prompt_blocks);

        // Never below 0: the credit is at most the incoming blocks.
        let adjusted_prefill = active_prefill_blocks + (incoming_prompt_blocks - overlap_credit);
        let potential_decode = to_f64(candidate.active_blocks) + f64::from(candidate.incoming_blocks);
        let prefill_term = self.prefill_load_scale * adjusted_prefill;
        let request_term = self.decode_active_request_weight * f64::from(candidate.active_requests);
        CostTerms {
            active_prefill_blocks,
            incoming_prompt_blocks,
            overlap_credit,
            adjusted_prefill,
            potential_decode,
            prefill_term,
            request_term,
            cost: prefill_term + potential_decode + request_term,
        }
    }
}

/// What a backlog leaves of the device credit. Out of line: two divisions that most configurations do not need.
#[inline(never)]
fn decayed(device: f64, decay: f64, backlog: f64, prompt: f64) -> f64 {
    // A request without a whole block has no credit to decay; 1 keeps the division defined.
    device / (1.0 + decay * backlog / prompt.max(1.0))
}

/// One instruction, where `f64::min` takes five to be right about NaN, which cannot come in.
#[inline]
fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Loads are far below 2^63, up to where the conversion is one instruction; above it they all count as that.
#[inline]
pub(crate) fn to_f64(load: u64) -> f64 {
    i64::try_from(load).unwrap_or(i64::MAX) as f64
}
