//! The rules and numbers of the contract, one by one.

use kv_router_schedule::{
    Adapters, Candidate, Constraints, CostConfig, Draw, Excluded, FilterConfig, Pin, Preference, RankBounds,
    Resource, Scratch, SelectError, SelectRequest, Selector, Shortage, SplitMix64, StaleRule,
    StreamFreshness, WorkerSet, WorkerTraits,
};
use kv_router_types::{DpRank, WorkerId};

use crate::common::{
    candidate, capacity, check_winner, choose, exclusions, rank, request, selector, taints, with_cost,
    with_filters,
};

#[test]
fn section_6_the_worked_example() {
    let traits = WorkerTraits::default();
    let selector = with_filters(|filters| filters.busy_decode = Some(0.8));
    let mut candidates = [
        candidate(&traits, 1, 48, 0, 46),
        candidate(&traits, 2, 20, 0, 8),
        candidate(&traits, 3, 60, 0, 900), // everything cached, and over its threshold
    ];
    candidates[2].capacity = capacity(8192, 1000);
    let costs = [0, 1].map(|position| selector.cost(&request(60), &candidates[position]).cost);
    assert_eq!(costs, [58.0, 48.0]);
    let selection = choose(&selector, &request(60), &candidates).unwrap();
    assert_eq!((selection.worker, selection.cost, selection.draw), (rank(2, 0), 48.0, Draw::Single));
    assert_eq!((selection.eligible, selection.excluded.busy, selection.excluded.total()), (2, 1, 1));
    let busy = Excluded::Busy { resource: Resource::Blocks, load: 900, limit: 800.0 };
    assert_eq!(exclusions(&selector, &request(60), &candidates), [None, None, Some(busy)]);
}

#[test]
fn section_6_every_term_of_the_cost() {
    let traits = WorkerTraits::default();
    let selector = with_cost(|cost| {
        cost.prefill_load_scale = 2.0;
        cost.decode_active_request_weight = 3.0;
    });
    let mut busy = candidate(&traits, 1, 10, 5, 40);
    busy.overlap = [10, 8, 4, 2];
    busy.active_requests = 6;
    busy.incoming_blocks = 50;
    let terms = selector.cost(&request(60), &busy);
    assert_eq!(terms.overlap_credit, 10.0 + 0.75 * 8.0 + 0.25 * 4.0);
    assert_eq!(terms.adjusted_prefill, 5.0 + 60.0 - 17.0);
    assert_eq!(terms.prefill_term, 96.0);
    assert_eq!(terms.potential_decode, 90.0);
    assert_eq!(terms.request_term, 18.0);
    assert_eq!(terms.cost, 96.0 + 90.0 + 18.0);
    // A third of a block is queued.
    busy.prefill_tokens = 4;
    assert_eq!(selector.cost(&request(60), &busy).active_prefill_blocks, 0.25);
}

#[test]
fn section_6_credit_never_cancels_the_prefill_of_others() {
    let traits = WorkerTraits::default();
    let chasing = with_cost(|cost| cost.device_weight = 5.0);
    let terms = chasing.cost(&request(60), &candidate(&traits, 1, 60, 100, 0));
    assert_eq!((terms.overlap_credit, terms.adjusted_prefill), (60.0, 100.0));
    // Nor does an overlap that is longer than the prompt.
    let terms = selector().cost(&request(60), &candidate(&traits, 1, 1000, 100, 0));
    assert_eq!((terms.overlap_credit, terms.adjusted_prefill), (60.0, 100.0));
}

#[test]
fn section_6_a_backlog_decays_device_credit_alone() {
    let traits = WorkerTraits::default();
    let decaying = with_cost(|cost| cost.credit_decay = 1.0);
    let mut warm = candidate(&traits, 1, 40, 60, 0);
    warm.overlap[1] = 4;
    let credit = |selector: &Selector, candidate: &Candidate<'_>| {
        selector.cost(&request(60), candidate).overlap_credit
    };
    assert_eq!(credit(&selector(), &warm), 43.0);
    assert_eq!(credit(&decaying, &warm), 20.0 + 3.0); // a queue as long as the request halves it
    warm.prefill_tokens = 0;
    assert_eq!(credit(&decaying, &warm), 43.0);
}

#[test]
fn section_6_staleness_discounts_or_excludes() {
    let traits = WorkerTraits::default();
    let selector = with_filters(|filters| {
        filters.recovering = StaleRule::Credit(0.5);
        filters.cold = StaleRule::Exclude;
    });
    let mut candidates = [1, 2, 3].map(|worker| candidate(&traits, worker, 40, 0, 0));
    candidates[1].stream = StreamFreshness::Recovering;
    candidates[2].stream = StreamFreshness::Cold;
    let credits = candidates.map(|candidate| selector.cost(&request(60), &candidate).overlap_credit);
    assert_eq!(credits[..2], [40.0, 20.0]);
    let stale = Excluded::Stale { stream: StreamFreshness::Cold };
    assert_eq!(exclusions(&selector, &request(60), &candidates), [None, None, Some(stale)]);
    check_winner(&selector, &request(60), &candidates, 0);
}

#[test]
fn section_6_each_filter_in_its_order() {
    let fit = WorkerTraits {
        taints: taints(&["gpu=h200", "zone=a"]),
        adapters: Adapters::Only(vec!["sql".into()]),
        ranks: RankBounds::new(DpRank::new(0), 2),
    };
    let unfit = WorkerTraits {
        taints: Vec::new(),
        adapters: Adapters::Only(Vec::new()),
        ranks: RankBounds::new(DpRank::new(0), 0),
    };

    let allow: WorkerSet = [2, 3, 4, 5, 6, 7, 8].map(WorkerId::new).into_iter().collect();
    let required = taints(&["gpu=h200"]);
    let mut wanted = request(10);
    wanted.constraints = Constraints {
        allow: Some(&allow),
        pin: None,
        required_taints: &required,
        preferred_taints: &[],
        adapter: Some("sql"),
    };
    let selector = with_filters(|filters| {
        (filters.busy_prefill, filters.busy_decode, filters.cold) =
            (Some(1.0), Some(0.9), StaleRule::Exclude);
    });

    // Each mends what the one before was refused for, and no more.
    let mut hopeless = candidate(&unfit, 1, 10, 100, 100);
    (hopeless.capacity, hopeless.stream) = (capacity(16, 10), StreamFreshness::Cold);
    let mut listed = hopeless;
    listed.worker = rank(2, 0);
    let no_taint = WorkerTraits { ranks: fit.ranks, ..unfit.clone() };
    let mut in_bounds = listed;
    in_bounds.traits = &no_taint;
    let no_adapter = WorkerTraits { taints: fit.taints.clone(), ..no_taint.clone() };
    let mut tainted = in_bounds;
    tainted.traits = &no_adapter;
    let mut adapted = tainted;
    adapted.traits = &fit;
    let mut prefilled = adapted;
    prefilled.prefill_tokens = 16;
    let mut roomy = prefilled;
    roomy.active_blocks = 9;
    let mut fresh = roomy;
    fresh.stream = StreamFreshness::Recovering;
    let candidates = [hopeless, listed, in_bounds, tainted, adapted, prefilled, roomy, fresh];
    let expected = [
        Some(Excluded::NotAllowed),
        Some(Excluded::RankOutOfBounds { rank: DpRank::new(0), bounds: unfit.ranks }),
        Some(Excluded::MissingTaint),
        Some(Excluded::AdapterUnavailable),
        Some(Excluded::Busy { resource: Resource::PrefillTokens, load: 1600, limit: 16.0 }),
        Some(Excluded::Busy { resource: Resource::Blocks, load: 100, limit: 9.0 }),
        Some(Excluded::Stale { stream: StreamFreshness::Cold }),
        None,
    ];
    assert_eq!(exclusions(&selector, &wanted, &candidates), expected);
    wanted.constraints.pin = Some(Pin::Worker(WorkerId::new(8)));
    let pinned = exclusions(&selector, &wanted, &candidates);
    assert_eq!(pinned[..2], [Some(Excluded::NotAllowed), Some(Excluded::NotPinned)]);
    assert!(pinned[2..].iter().all(|reason| *reason == Some(Excluded::NotPinned)));
}

#[test]
fn section_6_pins_and_lists_are_exact() {
    let traits = WorkerTraits::default();
    let mut candidates = [0, 1, 2].map(|dp| candidate(&traits, 7, 10 * dp, 0, 0));
    candidates[1].worker = rank(7, 1);
    candidates[2].worker = rank(8, 1);
    let choose_with = |constraints: Constraints<'_>| {
        let wanted = SelectRequest { constraints, ..request(60) };
        choose(&selector(), &wanted, &candidates).map(|selection| selection.worker)
    };
    let pinned = |pin| choose_with(Constraints { pin: Some(pin), ..Constraints::default() });
    assert_eq!(pinned(Pin::Rank(rank(7, 0))), Ok(rank(7, 0)));
    assert_eq!(pinned(Pin::Worker(WorkerId::new(7))), Ok(rank(7, 1)));
    assert!(pinned(Pin::Rank(rank(8, 0))).is_err());
    let listed = |workers: &[u64]| {
        let allow: WorkerSet = workers.iter().copied().map(WorkerId::new).collect();
        choose_with(Constraints { allow: Some(&allow), ..Constraints::default() })
    };
    assert_eq!(listed(&[9, 7, 7]), Ok(rank(7, 1)));
    assert!(listed(&[]).is_err(), "an empty list admits nobody");
}

#[test]
fn section_6_preferred_taints_give_way_when_nobody_who_is_eligible_has_them() {
    let near = WorkerTraits { taints: taints(&["zone=a"]), ..WorkerTraits::default() };
    let far = WorkerTraits::default();
    let preferred = taints(&["zone=a"]);
    let mut wanted = request(60);
    wanted.constraints.preferred_taints = &preferred;
    let selector = with_filters(|filters| filters.busy_decode = Some(0.5));
    let mut candidates =
        [candidate(&far, 1, 60, 0, 0), candidate(&near, 2, 0, 0, 50), candidate(&far, 3, 0, 0, 0)];
    candidates[1].capacity = capacity(1, 100);

    let met = choose(&selector, &wanted, &candidates).unwrap();
    assert_eq!((met.worker, met.preference), (rank(2, 0), Preference::Met));
    assert_eq!((met.eligible, met.excluded.not_preferred, met.excluded.total()), (1, 2, 2));
    candidates[1].active_blocks = 51; // now busy: better far than not at all
    let relaxed = choose(&selector, &wanted, &candidates).unwrap();
    assert_eq!((relaxed.worker, relaxed.preference), (rank(1, 0), Preference::Relaxed));
    assert_eq!((relaxed.eligible, relaxed.excluded.busy, relaxed.excluded.total()), (2, 1, 1));
    let unasked = choose(&selector, &request(60), &candidates).unwrap();
    assert_eq!(unasked.preference, Preference::NotAsked);
}

#[test]
fn section_6_nobody_left_says_what_is_missing() {
    let traits = WorkerTraits::default();
    let selector =
        with_filters(|filters| (filters.busy_decode, filters.cold) = (Some(0.5), StaleRule::Exclude));
    let mut busy = candidate(&traits, 1, 0, 0, 100);
    busy.capacity = capacity(1, 100);
    let mut cold = candidate(&traits, 2, 0, 0, 0);
    cold.stream = StreamFreshness::Cold;
    let shortage = |candidates: &[_], request: &_| {
        let SelectError::NoEligibleWorker { shortage, excluded, .. } =
            choose(&selector, request, candidates).unwrap_err()
        else {
            panic!("another error");
        };
        assert_eq!(excluded.total() as usize, candidates.len());
        shortage
    };
    let mut elsewhere = request(60);
    elsewhere.constraints.pin = Some(Pin::Worker(WorkerId::new(99)));
    assert_eq!(shortage(&[], &request(60)), Shortage::NoCandidates);
    assert_eq!(shortage(&[busy, cold], &elsewhere), Shortage::NoneMatch);
    assert_eq!(shortage(&[busy, cold], &request(60)), Shortage::AllBusy);
    assert_eq!(shortage(&[cold], &request(60)), Shortage::AllStale);
    let error = choose(&selector, &request(60), &[busy, cold]).unwrap_err().to_string();
    assert!(error.contains("1 busy, 1 stale") && error.contains("retry"), "{error}");
}

#[test]
fn section_6_a_bad_knob_is_refused_by_name() {
    let cost = CostConfig { temperature: f64::NAN, ..CostConfig::default() };
    assert_eq!(Selector::new(cost, FilterConfig::default()).unwrap_err().field, "temperature");
    let filters = FilterConfig { busy_prefill: Some(-1.0), ..FilterConfig::default() };
    assert_eq!(Selector::new(CostConfig::default(), filters).unwrap_err().field, "busy_prefill");
}

#[test]
fn section_6_the_same_seed_repeats_and_another_differs() {
    let traits = WorkerTraits::default();
    let candidates = [1, 2, 3, 4].map(|worker| candidate(&traits, worker, 0, 0, 0));
    let picks = |seed| -> Vec<usize> {
        let (mut entropy, mut scratch, selector) = (SplitMix64::new(seed), Scratch::new(), selector());
        let mut pick =
            || selector.select(&request(4), candidates, &mut entropy, &mut scratch).unwrap().position;
        (0..50).map(|_| pick()).collect()
    };
    assert_eq!(picks(1), picks(1));
    assert_ne!(picks(1), picks(2));
}

#[test]
fn section_6_extreme_loads_do_not_break_the_order() {
    let traits = WorkerTraits::default();
    let mut full = candidate(&traits, 1, u32::MAX, 0, u64::MAX);
    full.prefill_tokens = u64::MAX;
    full.overlap = [u32::MAX; 4];
    let highest = with_cost(|cost| {
        (cost.device_weight, cost.prefill_load_scale, cost.credit_decay) = (1e9, 1e9, 1e9);
        cost.decode_active_request_weight = 1e9;
    });
    let terms = highest.cost(&request(u32::MAX), &full);
    assert!(terms.cost.is_finite() && terms.overlap_credit >= 0.0, "{terms:?}");
    check_winner(&highest, &request(u32::MAX), &[full, candidate(&traits, 2, 0, 0, 0)], 1);
    assert!(highest.cost(&request(0), &full).cost.is_finite());
}
