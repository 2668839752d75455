//! What holds for every fleet, request and configuration.

use std::num::NonZeroU32;

use kv_router_schedule::{
    Adapters, CostConfig, Draw, FilterConfig, Pin, Preference, RankBounds, Scratch, SelectError,
    SelectRequest, Selector, SplitMix64, Spread, StaleRule, StreamFreshness, Verdict,
};
use kv_router_types::{BlockSize, DpRank};
use proptest::prelude::*;

use crate::strategies::{Rank, Wish, a_rank, cost_config, filter_config, wish};

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
        StreamFreshness::Predicted => filters.predicted == StaleRule::Exclude,
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
        let open = |at: &usize| {
            let rank = &fleet[*at];
            let limit = filters.wait_prefill.zip(rank.capacity.batched_tokens);
            limit.is_none_or(|(fraction, tokens)| rank.load.0 as f64 <= fraction * f64::from(tokens.get()))
        };
        match &selection {
            Err(SelectError::MustWait { eligible, .. }) => {
                prop_assert!(!pool.iter().any(open));
                prop_assert_eq!(*eligible as usize, pool.len());
            }
            Err(_) => prop_assert!(pool.is_empty()),
            Ok(selection) => {
                prop_assert!(pool.contains(&selection.position));
                prop_assert!(pool.iter().any(open));
                prop_assert_eq!(selection.eligible as usize, pool.len());
                prop_assert_eq!(selection.excluded.total() as usize, fleet.len() - pool.len());
                let relaxed = selection.preference == Preference::Relaxed;
                prop_assert_eq!(relaxed, !any_preferred && !wish.preferred.is_empty());
                let cost = |at: usize| selector.cost(&request, &fleet[at].candidate()).cost;
                prop_assert_eq!(selection.cost, cost(selection.position));
                let lowest = pool.iter().map(|&at| cost(at)).fold(f64::INFINITY, f64::min);
                if let (0.0, Spread::TwoChoices { within_blocks }) = (temperature, wish.spread) {
                    prop_assert!(selection.cost <= lowest + f64::from(within_blocks));
                } else if temperature == 0.0 {
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
                    let parts = terms.prefill_term + terms.potential_decode + terms.request_term;
                    prop_assert!((parts - terms.cost).abs() <= 1e-9 * terms.cost, "{:?}", terms);
                    prop_assert!(pool.contains(&at));
                    prop_assert_eq!(terms, selector.cost(&request, &fleet[at].candidate()));
                    sum += probability;
                }
            }
        }
        prop_assert!(selection.is_err() || (sum - 1.0f64).abs() < 1e-9, "{}", sum);
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
