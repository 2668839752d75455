//! What holds for every fleet, request and configuration.

use std::num::NonZeroU32;
use std::sync::Arc;

use kv_router_schedule::{
    Adapters, Candidate, Capacity, Constraints, CostConfig, Draw, FilterConfig, Pin, Preference, RankBounds,
    Scratch, SelectRequest, Selector, SplitMix64, StaleRule, StreamFreshness, Taint, Verdict, WorkerSet,
    WorkerTraits,
};
use kv_router_types::{BlockSize, DpRank, WorkerId};
use proptest::prelude::*;

use crate::common::rank;

fn cost_config() -> impl Strategy<Value = CostConfig> {
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

fn filter_config() -> impl Strategy<Value = FilterConfig> {
    let fraction = || prop::option::of(0.0..2.0f64);
    let rule = || prop_oneof![3 => (0.0..=1.0f64).prop_map(StaleRule::Credit), 1 => Just(StaleRule::Exclude)];
    (fraction(), fraction(), rule(), rule()).prop_map(|(busy_prefill, busy_decode, recovering, cold)| {
        FilterConfig { busy_prefill, busy_decode, recovering, cold }
    })
}

fn labels() -> impl Strategy<Value = Vec<Taint>> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b")].prop_map(Taint::new), 0..3)
}

fn worker_traits() -> impl Strategy<Value = WorkerTraits> {
    let adapters = prop_oneof![
        3 => Just(Adapters::All),
        1 => prop::collection::vec(prop_oneof![Just("x"), Just("y")].prop_map(Arc::from), 0..2).prop_map(Adapters::Only),
    ];
    let ranks = prop_oneof![3 => Just(RankBounds::ANY), 1 => Just(RankBounds::new(DpRank::new(0), 1))];
    (labels(), adapters, ranks).prop_map(|(taints, adapters, ranks)| WorkerTraits { taints, adapters, ranks })
}

/// A candidate without the reference to its traits.
#[derive(Clone, Debug)]
struct Rank {
    traits: WorkerTraits,
    worker: (u64, u32),
    overlap: [u32; 4],
    load: (u64, u64, u32, u32),
    capacity: Capacity,
    stream: StreamFreshness,
}

impl Rank {
    fn candidate(&self) -> Candidate<'_> {
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

fn a_rank() -> impl Strategy<Value = Rank> {
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
struct Wish {
    allow: Option<WorkerSet>,
    pin: Option<Pin>,
    required: Vec<Taint>,
    preferred: Vec<Taint>,
    adapter: Option<&'static str>,
}

impl Wish {
    fn request(&self) -> SelectRequest<'_> {
        let mut request = SelectRequest::new(12, BlockSize::new(16).unwrap());
        request.constraints = Constraints {
            allow: self.allow.as_ref(),
            pin: self.pin,
            required_taints: &self.required,
            preferred_taints: &self.preferred,
            adapter: self.adapter,
        };
        request
    }
}

fn wish() -> impl Strategy<Value = Wish> {
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
    (allow, pin, required, labels(), adapter).prop_map(|(allow, pin, required, preferred, adapter)| Wish {
        allow,
        pin,
        required,
        preferred,
        adapter,
    })
}

/// The hard filters once more, as plainly as possible.
fn passes(filters: &FilterConfig, wish: &Wish, rank: &Rank) -> bool {
    let candidate = rank.candidate();
    let (worker, dp) = (candidate.worker.worker, candidate.worker.rank);
    let over = |load: u64, fraction: Option<f64>, capacity: Option<NonZeroU32>| match (fraction, capacity) {
        (Some(fraction), Some(capacity)) => load as f64 > fraction * f64::from(capacity.get()),
        _ => false,
    };
    let stale = match rank.stream {
        StreamFreshness::Fresh => false,
        StreamFreshness::Recovering => filters.recovering == StaleRule::Exclude,
        StreamFreshness::Cold => filters.cold == StaleRule::Exclude,
    };
    let servable = match (&rank.traits.adapters, wish.adapter) {
        (Adapters::All, _) | (_, None | Some("")) => true,
        (Adapters::Only(names), Some(adapter)) => names.iter().any(|name| &**name == adapter),
    };
    wish.allow.as_ref().is_none_or(|allow| allow.contains(worker))
        && match wish.pin {
            None => true,
            Some(Pin::Worker(pinned)) => pinned == worker,
            Some(Pin::Rank(pinned)) => pinned == candidate.worker,
        }
        && (rank.traits.ranks == RankBounds::ANY || dp == DpRank::new(0))
        && wish.required.iter().all(|taint| rank.traits.taints.contains(taint))
        && servable
        && !over(candidate.prefill_tokens, filters.busy_prefill, rank.capacity.batched_tokens)
        && !over(candidate.active_blocks, filters.busy_decode, rank.capacity.total_blocks)
        && !stale
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_winner_passes_every_filter_and_nobody_eligible_is_cheaper(
        (cost, filters, wish) in (cost_config(), filter_config(), wish()),
        fleet in prop::collection::vec(a_rank(), 0..12),
        seed in any::<u64>(),
    ) {
        let temperature = cost.temperature;
        let selector = Selector::new(cost, filters.clone()).unwrap();
        let (request, mut scratch) = (wish.request(), Scratch::new());
        let candidates = || fleet.iter().map(Rank::candidate);
        let eligible: Vec<usize> = (0..fleet.len()).filter(|&at| passes(&filters, &wish, &fleet[at])).collect();
        let prefers = |at: &usize| wish.preferred.iter().all(|taint| fleet[*at].traits.taints.contains(taint));
        let any_preferred = eligible.iter().any(prefers);
        let pool: Vec<usize> = eligible.into_iter().filter(|at| !any_preferred || prefers(at)).collect();

        let selection = selector.select(&request, candidates(), &mut SplitMix64::new(seed), &mut scratch);
        match &selection {
            Err(_) => prop_assert!(pool.is_empty()),
            Ok(selection) => {
                prop_assert!(pool.contains(&selection.position));
                prop_assert_eq!(selection.eligible as usize, pool.len());
                prop_assert_eq!(selection.excluded.total() as usize, fleet.len() - pool.len());
                let relaxed = selection.preference == Preference::Relaxed;
                prop_assert_eq!(relaxed, !any_preferred && !wish.preferred.is_empty());
                let cost = |at: usize| selector.cost(&request, &fleet[at].candidate()).cost;
                prop_assert_eq!(selection.cost, cost(selection.position));
                let lowest = pool.iter().map(|&at| cost(at)).fold(f64::INFINITY, f64::min);
                if temperature == 0.0 {
                    prop_assert_eq!(selection.cost, lowest);
                    let equals = pool.iter().filter(|&&at| cost(at) == lowest).count() as u32;
                    match selection.draw {
                        Draw::Single => prop_assert_eq!(equals, 1),
                        Draw::Tie { contenders, .. } => prop_assert_eq!(equals, contenders),
                        _ => prop_assert!(false, "sampled without a temperature"),
                    }
                }
            }
        }

        // The explanation decides the same, and its chances add up.
        let explanation = selector.explain(&request, candidates(), &mut SplitMix64::new(seed), &mut scratch);
        prop_assert_eq!(&explanation.outcome, &selection);
        prop_assert_eq!(explanation.candidates.len(), fleet.len());
        let mut sum = 0.0;
        for (at, explained) in explanation.candidates.iter().enumerate() {
            match explained.verdict {
                Verdict::Excluded(_) => prop_assert!(!pool.contains(&at)),
                Verdict::Scored { terms, probability } => {
                    prop_assert!(pool.contains(&at));
                    prop_assert_eq!(terms, selector.cost(&request, &fleet[at].candidate()));
                    sum += probability;
                }
            }
        }
        prop_assert!(pool.is_empty() || (sum - 1.0f64).abs() < 1e-9, "{}", sum);
    }

    #[test]
    fn cost_rises_with_load_and_falls_with_overlap(
        cost in cost_config(),
        rank in a_rank(),
        more in (0..500u64, 0..50u64, 0..9u32, 0..9u32),
        better in prop::array::uniform4(0..20u32),
    ) {
        let selector = Selector::new(cost, FilterConfig::default()).unwrap();
        let request = SelectRequest::new(12, BlockSize::new(16).unwrap());
        let before = selector.cost(&request, &rank.candidate()).cost;
        prop_assert!(before >= 0.0);
        let mut loaded = [rank.candidate(); 4];
        loaded[0].prefill_tokens += more.0;
        loaded[1].active_blocks += more.1;
        loaded[2].active_requests += more.2;
        loaded[3].incoming_blocks += more.3;
        for candidate in loaded {
            prop_assert!(selector.cost(&request, &candidate).cost >= before, "{candidate:?}");
        }
        for (tier, more) in better.into_iter().enumerate() {
            let mut warmer = rank.candidate();
            warmer.overlap[tier] += more;
            prop_assert!(selector.cost(&request, &warmer).cost <= before, "{warmer:?}");
        }
    }

    #[test]
    fn the_order_of_the_candidates_does_not_change_the_lowest_cost(
        cost in cost_config(),
        (fleet, shuffled) in prop::collection::vec(a_rank(), 1..12)
            .prop_flat_map(|fleet| (Just(fleet.clone()), Just(fleet).prop_shuffle())),
    ) {
        let selector = Selector::new(CostConfig { temperature: 0.0, ..cost }, FilterConfig::default()).unwrap();
        let request = SelectRequest::new(12, BlockSize::new(16).unwrap());
        let winner = |fleet: &[Rank]| {
            let candidates = fleet.iter().map(Rank::candidate);
            selector
                .select(&request, candidates, &mut SplitMix64::new(1), &mut Scratch::new())
                .map(|selection| (selection.cost, selection.eligible, selection.excluded))
        };
        prop_assert_eq!(winner(&fleet), winner(&shuffled));
    }
}
