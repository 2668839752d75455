//! Random fleets, requests and configurations.

use std::num::NonZeroU32;
use std::sync::Arc;

use kv_router_schedule::{
    Adapters, Candidate, Capacity, Constraints, CostConfig, FilterConfig, Pin, RankBounds, SelectRequest,
    Spread, StaleRule, StreamFreshness, Taint, WorkerSet, WorkerTraits,
};
use kv_router_types::{BlockSize, DpRank, WorkerId};
use proptest::prelude::*;

use crate::common::rank;

pub(crate) fn cost_config() -> impl Strategy<Value = CostConfig> {
    let weight = || prop_oneof![Just(0.0), Just(1.0), 0.0..3.0f64];
    let weights = (weight(), weight(), weight(), weight());
    let rest = (weight(), weight(), weight(), prop_oneof![Just(0.0), Just(0.0), 0.01..2.0f64]);
    (weights, rest).prop_map(|((device, host, disk, object), (scale, request, decay, temperature))| {
        CostConfig {
            device_weight: device,
            host_weight: host,
            disk_weight: disk,
            object_weight: object,
            prefill_load_scale: scale,
            decode_active_request_weight: request,
            credit_decay: decay,
            temperature,
        }
    })
}

pub(crate) fn filter_config() -> impl Strategy<Value = FilterConfig> {
    let fraction = || prop::option::of(0.0..2.0f64);
    let rule = || prop_oneof![3 => (0.0..=1.0f64).prop_map(StaleRule::Credit), 1 => Just(StaleRule::Exclude)];
    (fraction(), fraction(), fraction(), rule(), rule(), rule()).prop_map(
        |(busy_prefill, busy_decode, wait_prefill, recovering, cold, predicted)| FilterConfig {
            busy_prefill,
            busy_decode,
            wait_prefill,
            recovering,
            cold,
            predicted,
        },
    )
}

pub(crate) fn labels() -> impl Strategy<Value = Vec<Taint>> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b")].prop_map(Taint::new), 0..3)
}

pub(crate) fn worker_traits() -> impl Strategy<Value = WorkerTraits> {
    let adapters = prop_oneof![
        3 => Just(Adapters::All),
        1 => prop::collection::vec(prop_oneof![Just("x"), Just("y")].prop_map(Arc::from), 0..2).prop_map(Adapters::Only),
    ];
    let ranks = prop_oneof![3 => Just(RankBounds::ANY), 1 => Just(RankBounds::new(DpRank::new(0), 1))];
    (labels(), adapters, ranks).prop_map(|(taints, adapters, ranks)| WorkerTraits { taints, adapters, ranks })
}

/// A candidate without the reference to its traits.
#[derive(Clone, Debug)]
pub(crate) struct Rank {
    pub(crate) traits: WorkerTraits,
    pub(crate) worker: (u64, u32),
    pub(crate) overlap: [u32; 4],
    pub(crate) load: (u64, u64, u32, u32),
    pub(crate) capacity: Capacity,
    pub(crate) stream: StreamFreshness,
}

impl Rank {
    pub(crate) fn candidate(&self) -> Candidate<'_> {
        let mut candidate = Candidate::idle(rank(self.worker.0, self.worker.1), &self.traits);
        candidate.overlap = self.overlap;
        (
            candidate.prefill_tokens,
            candidate.active_blocks,
            candidate.active_requests,
            candidate.incoming_blocks,
        ) = self.load;
        (candidate.capacity, candidate.stream) = (self.capacity, self.stream);
        candidate
    }
}

pub(crate) fn a_rank() -> impl Strategy<Value = Rank> {
    // Small numbers, so that ties happen.
    let overlap = prop::array::uniform4(0..6u32);
    let load = (prop_oneof![Just(0), 0..200u64], 0..6u64, 0..3u32, 0..4u32);
    let limit = || prop::option::of(1..150u32).prop_map(|limit| limit.and_then(NonZeroU32::new));
    let capacity = (limit(), limit())
        .prop_map(|(batched_tokens, total_blocks)| Capacity { batched_tokens, total_blocks });
    let stream = prop_oneof![
        3 => Just(StreamFreshness::Fresh),
        1 => Just(StreamFreshness::Recovering),
        1 => Just(StreamFreshness::Cold),
        1 => Just(StreamFreshness::Predicted),
    ];
    (worker_traits(), (0..6u64, 0..3u32), overlap, load, capacity, stream).prop_map(
        |(traits, worker, overlap, load, capacity, stream)| Rank {
            traits,
            worker,
            overlap,
            load,
            capacity,
            stream,
        },
    )
}

/// Constraints without references.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) allow: Option<WorkerSet>,
    pub(crate) pin: Option<Pin>,
    pub(crate) required: Vec<Taint>,
    pub(crate) preferred: Vec<Taint>,
    pub(crate) adapter: Option<&'static str>,
    pub(crate) spread: Spread,
}

impl Wish {
    pub(crate) fn request(&self) -> SelectRequest<'_> {
        let mut request = SelectRequest::new(12, BlockSize::new(16).unwrap());
        request.constraints = Constraints {
            allow: self.allow.as_ref(),
            pin: self.pin,
            required_taints: &self.required,
            preferred_taints: &self.preferred,
            adapter: self.adapter,
        };
        request.spread = self.spread;
        request
    }
}

pub(crate) fn wish() -> impl Strategy<Value = Wish> {
    let allow = prop_oneof![
        2 => Just(None),
        1 => prop::collection::vec(0..6u64, 0..5)
            .prop_map(|workers| Some(workers.into_iter().map(WorkerId::new).collect())),
    ];
    let pin = prop_oneof![
        6 => Just(None),
        1 => (0..6u64).prop_map(|worker| Some(Pin::Worker(WorkerId::new(worker)))),
        1 => (0..6u64, 0..3u32).prop_map(|(worker, dp)| Some(Pin::Rank(rank(worker, dp)))),
    ];
    let required = prop_oneof![2 => Just(Vec::new()), 1 => labels()];
    let adapter = prop_oneof![3 => Just(None), 1 => Just(Some("x")), 1 => Just(Some(""))];
    let spread = prop_oneof![
        2 => Just(Spread::Lowest),
        1 => (0..20u32).prop_map(|within_blocks| Spread::TwoChoices { within_blocks }),
    ];
    (allow, pin, required, labels(), adapter, spread).prop_map(
        |(allow, pin, required, preferred, adapter, spread)| Wish {
            allow,
            pin,
            required,
            preferred,
            adapter,
            spread,
        },
    )
}
