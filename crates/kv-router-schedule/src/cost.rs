//! The cost of giving a request to a worker rank.

use kv_router_types::{BlockSize, Tier};

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
    /// What custom [scorers](crate::Scorer) add.
    pub custom_term: f64,
    /// The sum of the four terms, up to rounding. Lower is better.
    pub cost: f64,
}

impl CostConfig {
    /// What the rank costs before this request is looked at: the part that a change of its load alone changes.
    #[inline]
    pub(crate) fn base(&self, block_size: BlockSize, candidate: &Candidate<'_>) -> f64 {
        self.prefill_load_scale * active_prefill_blocks(block_size, candidate)
            + to_f64(candidate.active_blocks)
            + self.decode_active_request_weight * f64::from(candidate.active_requests)
    }

    /// What this request adds, on a rank that gives it `overlap_credit` and has to hold `incoming_blocks` more.
    #[inline]
    pub(crate) fn share(&self, prompt_blocks: u32, overlap_credit: f64, incoming_blocks: u32) -> f64 {
        // Never below 0: the credit is at most the incoming blocks.
        self.prefill_load_scale * (f64::from(prompt_blocks) - overlap_credit) + f64::from(incoming_blocks)
    }

    /// What cached blocks are worth on a rank with `backlog` blocks of active prefill. `trust` is the share of it that
    /// the freshness of the rank's stream leaves.
    #[inline]
    pub(crate) fn credit(
        &self,
        prompt_blocks: u32,
        overlap: &[u32; Tier::COUNT],
        backlog: f64,
        trust: f64,
    ) -> f64 {
        let blocks = |tier: Tier| f64::from(overlap[tier.index()]);
        let incoming = f64::from(prompt_blocks);
        let mut device = self.device_weight * blocks(Tier::Device);
        if self.credit_decay > 0.0 {
            device = decayed(device, self.credit_decay, backlog, incoming);
        }
        let credit = device
            + self.host_weight * blocks(Tier::Host)
            + self.disk_weight * blocks(Tier::Disk)
            + self.object_weight * blocks(Tier::Object);
        lesser(trust * credit, incoming)
    }

    /// The cost with its terms.
    #[inline]
    pub(crate) fn terms(
        &self,
        request: &SelectRequest<'_>,
        candidate: &Candidate<'_>,
        trust: f64,
    ) -> CostTerms {
        let active_prefill_blocks = active_prefill_blocks(request.block_size, candidate);
        let incoming_prompt_blocks = f64::from(request.prompt_blocks);
        let overlap_credit =
            self.credit(request.prompt_blocks, &candidate.overlap, active_prefill_blocks, trust);
        let adjusted_prefill = active_prefill_blocks + (incoming_prompt_blocks - overlap_credit);
        // Added up in this order and no other: a `Slate` keeps the first half and must come to the same bits.
        let cost = self.base(request.block_size, candidate)
            + self.share(request.prompt_blocks, overlap_credit, candidate.incoming_blocks);
        CostTerms {
            active_prefill_blocks,
            incoming_prompt_blocks,
            overlap_credit,
            adjusted_prefill,
            potential_decode: to_f64(candidate.active_blocks) + f64::from(candidate.incoming_blocks),
            prefill_term: self.prefill_load_scale * adjusted_prefill,
            request_term: self.decode_active_request_weight * f64::from(candidate.active_requests),
            custom_term: 0.0,
            cost,
        }
    }
}

#[inline]
pub(crate) fn active_prefill_blocks(block_size: BlockSize, candidate: &Candidate<'_>) -> f64 {
    to_f64(candidate.prefill_tokens) / f64::from(block_size.get())
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
