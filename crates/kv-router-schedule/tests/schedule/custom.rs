//! Filters, scorers and pickers of the caller's own, well behaved and not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kv_router_schedule::{
    Candidate, Contender, CostConfig, CustomRules, Draw, Entropy, Excluded, Filter, FilterConfig, Holding,
    Picker, Preference, Scorer, Scratch, SelectError, SelectRequest, Selector, Shortage, Slate, SplitMix64,
    WorkerTraits,
};
use kv_router_types::{BlockSize, RequestId};
use proptest::prelude::*;

use crate::common::{candidate, capacity, check_winner, choose, exclusions, request, selector, taints};

/// Refuses workers by number.
struct Breaker(fn(u64) -> bool);

impl Filter for Breaker {
    fn name(&self) -> &'static str {
        "breaker"
    }

    fn admits(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> bool {
        !(self.0)(candidate.worker.worker.get())
    }
}

/// Says something of workers by number.
struct Says(fn(u64) -> f64);

impl Scorer for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn cost(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
        (self.0)(candidate.worker.worker.get())
    }
}

/// Picks an index out of a number of contenders.
struct Picks(fn(usize) -> Option<usize>);

impl Picker for Picks {
    fn name(&self) -> &'static str {
        "picks"
    }

    fn pick(&self, _: &SelectRequest<'_>, found: &[Contender], _: &mut dyn Entropy) -> Option<usize> {
        (self.0)(found.len())
    }
}

fn with(rules: CustomRules) -> Selector {
    selector().with_custom(rules).unwrap()
}

#[test]
fn a_filter_leaves_out_and_is_named() {
    let traits = WorkerTraits::default();
    let fleet = [1, 2, 3].map(|worker| candidate(&traits, worker, 0, worker, 0));
    let open = with(CustomRules::new().filter(Breaker(|worker| worker == 1)));
    check_winner(&open, &request(60), &fleet, 1);
    let refused = Excluded::Refused { filter: "breaker" };
    assert_eq!(exclusions(&open, &request(60), &fleet), [Some(refused), None, None]);
    assert_eq!(choose(&open, &request(60), &fleet).unwrap().excluded.refused, 1);

    let all = with(CustomRules::new().filter(Breaker(|_| true)));
    let error = choose(&all, &request(60), &fleet).unwrap_err();
    let SelectError::NoEligibleWorker { shortage, excluded, .. } = error else { panic!("{error}") };
    assert_eq!((shortage, excluded.refused), (Shortage::AllRefused, 3));
    assert!(error.to_string().contains("3 refused"), "{error}");
}

#[test]
fn built_in_filters_come_first() {
    struct Counts(Arc<AtomicUsize>);
    impl Filter for Counts {
        fn name(&self) -> &'static str {
            "counts"
        }

        fn admits(&self, request: &SelectRequest<'_>, _: &Candidate<'_>) -> bool {
            assert_eq!(request.id, Some(RequestId::new(9)));
            self.0.fetch_add(1, Ordering::Relaxed);
            false
        }
    }
    let traits = WorkerTraits::default();
    let mut fleet = [1, 2].map(|worker| candidate(&traits, worker, 0, 0, 10));
    fleet[0].capacity = capacity(1, 10);
    let asked = Arc::new(AtomicUsize::new(0));
    let filters = FilterConfig { busy_decode: Some(0.5), ..FilterConfig::default() };
    let selector = Selector::new(CostConfig::default(), filters)
        .unwrap()
        .with_custom(CustomRules::new().filter(Counts(Arc::clone(&asked))))
        .unwrap();
    let named = SelectRequest { id: Some(RequestId::new(9)), ..request(60) };
    let error = choose(&selector, &named, &fleet).unwrap_err();
    // The busy one may have room some time: that is worth waiting for.
    let SelectError::NoEligibleWorker { shortage, excluded, .. } = error else { panic!("{error}") };
    assert_eq!((shortage, excluded.busy, excluded.refused), (Shortage::AllBusy, 1, 1));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_scorer_adds_its_weighted_term() {
    let traits = WorkerTraits::default();
    let fleet = [1, 2].map(|worker| candidate(&traits, worker, 0, 0, worker));
    check_winner(&selector(), &request(60), &fleet, 0);
    let far = with(CustomRules::new().scorer(0.5, Says(|worker| if worker == 1 { 4.0 } else { 0.0 })));
    check_winner(&far, &request(60), &fleet, 1);
    let terms = far.cost(&request(60), &fleet[0]);
    assert_eq!((terms.custom_term, terms.cost), (2.0, 63.0));
    let told = far.explain(&request(60), fleet, &mut SplitMix64::new(1), &mut Scratch::new()).to_string();
    assert!(told.contains("requests 0.00 + says 2.00; chance 0.0000"), "{told}");
}

#[test]
fn what_is_no_cost_leaves_the_rank_out() {
    let traits = WorkerTraits::default();
    let fleet = [1, 2].map(|worker| candidate(&traits, worker, 0, 0, worker));
    let cases: [fn(u64) -> f64; 5] = [
        |worker| if worker == 1 { f64::NAN } else { 0.0 },
        |worker| if worker == 1 { f64::INFINITY } else { 0.0 },
        |worker| if worker == 1 { f64::NEG_INFINITY } else { 0.0 },
        |worker| if worker == 1 { -1.0 } else { 0.0 },
        |worker| if worker == 1 { 1.1e9 } else { 0.0 },
    ];
    for says in cases {
        let bad = with(CustomRules::new().scorer(0.0, Says(says)).scorer(1.0, Says(|_| 1.0)));
        check_winner(&bad, &request(60), &fleet, 1);
        let told = bad.explain(&request(60), fleet, &mut SplitMix64::new(1), &mut Scratch::new());
        assert!(told.to_string().contains("says says"), "{told}");
        assert_eq!(told.candidates[0].custom.len(), 2, "all are asked");
        assert_eq!(told.outcome.unwrap().excluded.bad_score, 1);
        assert!(bad.cost(&request(60), &fleet[0]).cost.is_finite());
    }
    let all = with(CustomRules::new().scorer(1.0, Says(|_| f64::NAN)));
    let error = choose(&all, &request(60), &fleet).unwrap_err();
    assert!(matches!(error, SelectError::NoEligibleWorker { shortage: Shortage::AllRefused, .. }), "{error}");
}

#[test]
fn a_weight_that_is_none_is_refused_by_the_name_of_its_scorer() {
    for weight in [f64::NAN, -1.0, f64::INFINITY, 1.1e9] {
        let error = selector().with_custom(CustomRules::new().scorer(weight, Says(|_| 0.0))).unwrap_err();
        assert_eq!(error.field, "says");
    }
}

#[test]
fn a_picker_has_the_last_word_among_those_who_passed() {
    let traits = WorkerTraits::default();
    let fleet = [1, 2, 3].map(|worker| candidate(&traits, worker, 0, 0, worker));
    let last = || CustomRules::new().picker(Picks(|found| Some(found - 1)));
    let selection = choose(&with(last()), &request(60), &fleet).unwrap();
    assert_eq!(selection.draw, Draw::Picked { picker: "picks", contenders: 3, picked: 2 });
    assert_eq!((selection.position, selection.cost), (2, 63.0));
    let told = with(last()).explain(&request(60), fleet, &mut SplitMix64::new(1), &mut Scratch::new());
    assert!(told.to_string().contains("picks picked 2 among 3"), "{told}");
    assert!(told.to_string().contains("chance 1.0000"), "{told}");
    // Whoever was left out is not there to be picked.
    check_winner(&with(last().filter(Breaker(|worker| worker == 3))), &request(60), &fleet, 1);

    let near = WorkerTraits { taints: taints(&["zone=a"]), ..WorkerTraits::default() };
    let preferred = taints(&["zone=a"]);
    let mut wanted = request(60);
    wanted.constraints.preferred_taints = &preferred;
    let mixed = [candidate(&near, 1, 0, 0, 0), candidate(&traits, 2, 0, 0, 0)];
    let met = choose(&with(last()), &wanted, &mixed).unwrap();
    assert_eq!((met.position, met.preference), (0, Preference::Met));
}

#[test]
fn a_picker_that_abstains_leaves_the_configured_rule() {
    let traits = WorkerTraits::default();
    let fleet = [3, 1, 1, 2].map(|load| candidate(&traits, load, 0, 0, load));
    let abstains = || CustomRules::new().picker(Picks(|_| None));
    for temperature in [0.0, 0.5] {
        let cost = CostConfig { temperature, ..CostConfig::default() };
        let plain = Selector::new(cost, FilterConfig::default()).unwrap();
        let asked = plain.clone().with_custom(abstains()).unwrap();
        for seed in 0..50 {
            let draw = |selector: &Selector| {
                selector.explain(&request(60), fleet, &mut SplitMix64::new(seed), &mut Scratch::new())
            };
            assert_eq!(draw(&plain), draw(&asked));
        }
    }
}

#[test]
fn a_pick_out_of_range_is_an_error_that_names_the_picker() {
    let traits = WorkerTraits::default();
    let fleet = [1, 2].map(|worker| candidate(&traits, worker, 0, 0, 0));
    let beyond = with(CustomRules::new().picker(Picks(Some)));
    let error = choose(&beyond, &request(60), &fleet).unwrap_err();
    assert_eq!(error, SelectError::BadPick { picker: "picks", index: 2, contenders: 2 });
    assert!(error.to_string().contains("mend the picker"), "{error}");
    let wild = with(CustomRules::new().picker(Picks(|_| Some(usize::MAX))));
    assert!(matches!(choose(&wild, &request(60), &fleet), Err(SelectError::BadPick { .. })));
    // Nobody to pick from: the picker is not asked.
    assert!(matches!(choose(&wild, &request(60), &[]), Err(SelectError::NoEligibleWorker { .. })));
}

proptest! {
    /// Whatever custom rules say: no panic, no winner who was left out, and a slate and an explanation that agree.
    #[test]
    fn custom_rules_of_any_kind_are_borne(
        says in prop::collection::vec(any::<f64>(), 1..12),
        refuses in any::<u16>(),
        pick in prop::option::of(0_usize..16),
        seed in any::<u64>(),
    ) {
        struct Table(Vec<f64>);
        impl Scorer for Table {
            fn name(&self) -> &'static str { "table" }
            fn cost(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
                self.0[candidate.worker.worker.get() as usize]
            }
        }
        struct Mask(u16);
        impl Filter for Mask {
            fn name(&self) -> &'static str { "mask" }
            fn admits(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> bool {
                self.0 >> candidate.worker.worker.get() & 1 == 0
            }
        }
        struct Fixed(Option<usize>);
        impl Picker for Fixed {
            fn name(&self) -> &'static str { "fixed" }
            fn pick(&self, _: &SelectRequest<'_>, _: &[Contender], _: &mut dyn Entropy) -> Option<usize> { self.0 }
        }
        let traits = WorkerTraits::default();
        let fleet: Vec<_> = (0..says.len() as u64).map(|worker| candidate(&traits, worker, 0, worker % 3, 0)).collect();
        let can_win: Vec<usize> = (0..says.len())
            .filter(|&at| refuses >> at & 1 == 0 && (0.0..=1e9).contains(&says[at]))
            .collect();
        let selector = with(CustomRules::new().filter(Mask(refuses)).scorer(2.0, Table(says)).picker(Fixed(pick)));
        let chosen = selector.select(&request(8), fleet.iter().copied(), &mut SplitMix64::new(seed), &mut Scratch::new());
        match &chosen {
            Ok(selection) => prop_assert!(can_win.contains(&selection.position)),
            Err(SelectError::BadPick { index, .. }) => prop_assert!(*index >= can_win.len()),
            Err(_) => prop_assert!(can_win.is_empty()),
        }
        let told = selector.explain(&request(8), fleet.iter().copied(), &mut SplitMix64::new(seed), &mut Scratch::new());
        prop_assert_eq!(&told.outcome, &chosen);
        let mut slate = Slate::new(selector, BlockSize::new(16).unwrap());
        fleet.iter().enumerate().for_each(|(at, rank)| slate.set(at, Some(rank)));
        let none: [Holding; 0] = [];
        let of = |at: usize| fleet.get(at).copied();
        let slated = slate.select(&request(8), 0, none, of, &mut SplitMix64::new(seed), &mut Scratch::new());
        prop_assert_eq!(slated, chosen);
    }
}
