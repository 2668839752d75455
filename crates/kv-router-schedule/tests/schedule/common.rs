//! Short words for the tests.

use std::num::NonZeroU32;

use kv_router_schedule::{
    Candidate, Capacity, CostConfig, Excluded, FilterConfig, Scratch, SelectError, SelectRequest, Selection,
    Selector, SplitMix64, Taint, Verdict, WorkerTraits,
};
use kv_router_types::{BlockSize, DpRank, WorkerId, WorkerRank};

pub(crate) fn rank(worker: u64, rank: u32) -> WorkerRank {
    WorkerRank::new(WorkerId::new(worker), DpRank::new(rank))
}

/// A request of `blocks` blocks of 16 tokens.
pub(crate) fn request(blocks: u32) -> SelectRequest<'static> {
    SelectRequest::new(blocks, BlockSize::new(16).unwrap())
}

/// A rank with `device` blocks cached, `prefill` blocks queued and `active` blocks held.
pub(crate) fn candidate(
    traits: &WorkerTraits,
    worker: u64,
    device: u32,
    prefill: u64,
    active: u64,
) -> Candidate<'_> {
    let mut candidate = Candidate::idle(rank(worker, 0), traits);
    candidate.overlap[0] = device;
    candidate.prefill_tokens = 16 * prefill;
    candidate.active_blocks = active;
    candidate
}

pub(crate) fn capacity(batched_tokens: u32, total_blocks: u32) -> Capacity {
    Capacity { batched_tokens: NonZeroU32::new(batched_tokens), total_blocks: NonZeroU32::new(total_blocks) }
}

pub(crate) fn taints(labels: &[&str]) -> Vec<Taint> {
    labels.iter().map(|&label| Taint::new(label)).collect()
}

pub(crate) fn selector() -> Selector {
    Selector::new(CostConfig::default(), FilterConfig::default()).unwrap()
}

pub(crate) fn with_filters(change: impl FnOnce(&mut FilterConfig)) -> Selector {
    let mut filters = FilterConfig::default();
    change(&mut filters);
    Selector::new(CostConfig::default(), filters).unwrap()
}

pub(crate) fn with_cost(change: impl FnOnce(&mut CostConfig)) -> Selector {
    let mut cost = CostConfig::default();
    change(&mut cost);
    Selector::new(cost, FilterConfig::default()).unwrap()
}

/// One decision with a fresh generator.
pub(crate) fn choose(
    selector: &Selector,
    request: &SelectRequest<'_>,
    candidates: &[Candidate<'_>],
) -> Result<Selection, SelectError> {
    let candidates = candidates.iter().copied();
    selector.select(request, candidates, &mut SplitMix64::new(1), &mut Scratch::new())
}

#[track_caller]
pub(crate) fn check_winner(
    selector: &Selector,
    request: &SelectRequest<'_>,
    candidates: &[Candidate<'_>],
    position: usize,
) {
    let selection = choose(selector, request, candidates).unwrap();
    assert_eq!(selection.position, position, "{selection:?}");
    assert_eq!(selection.worker, candidates[position].worker);
}

/// Why each candidate was left out, `None` for those that were not.
pub(crate) fn exclusions(
    selector: &Selector,
    request: &SelectRequest<'_>,
    candidates: &[Candidate<'_>],
) -> Vec<Option<Excluded>> {
    let candidates = candidates.iter().copied();
    let explanation = selector.explain(request, candidates, &mut SplitMix64::new(1), &mut Scratch::new());
    let reason = |verdict| match verdict {
        Verdict::Excluded(reason) => Some(reason),
        Verdict::Scored { .. } => None,
    };
    explanation.candidates.iter().map(|candidate| reason(candidate.verdict)).collect()
}
