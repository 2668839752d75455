//! Faults that users of such routers reported.

use kv_router_schedule::{
    Candidate, Scratch, SelectError, SelectRequest, Shortage, SplitMix64, Spread, StreamFreshness,
    WorkerTraits,
};

use crate::common::{candidate, capacity, check_winner, choose, request, selector, with_cost, with_filters};

/// How often each position wins.
fn picks(candidates: &[Candidate<'_>], draws: u32, temperature: f64) -> Vec<u32> {
    let selector = with_cost(|cost| cost.temperature = temperature);
    let (mut entropy, mut scratch) = (SplitMix64::new(2024), Scratch::new());
    let mut picks = vec![0; candidates.len()];
    for _ in 0..draws {
        let selection =
            selector.select(&request(60), candidates.iter().copied(), &mut entropy, &mut scratch).unwrap();
        picks[selection.position] += 1;
    }
    picks
}

#[test]
fn section_6_equal_workers_share_equally() {
    let traits = WorkerTraits::default();
    let candidates = [1, 2, 3, 4].map(|worker| candidate(&traits, worker, 0, 0, 0));
    for temperature in [0.0, 0.7] {
        let picks = picks(&candidates, 10_000, temperature);
        assert!(picks.iter().all(|count| count.abs_diff(2_500) <= 200), "{picks:?}");
    }
}

#[test]
fn ties_are_drawn_among_the_best_alone_wherever_they_stand() {
    let traits = WorkerTraits::default();
    let loads = [9, 3, 5, 3, 8, 3, 4];
    let candidates: Vec<_> =
        (0..).zip(loads).map(|(worker, load)| candidate(&traits, worker, 0, 0, load)).collect();
    let picks = picks(&candidates, 9_000, 0.0);
    for (count, load) in picks.iter().zip(loads) {
        let expected = if load == 3 { 3_000 } else { 0 };
        assert!(count.abs_diff(expected) <= 200 * u32::from(load == 3), "{picks:?}");
    }
}

/// A worker that is new, slow or first in the list must not get everything that hits nowhere.
#[test]
fn misses_go_by_load() {
    let traits = WorkerTraits::default();
    let candidates = [
        candidate(&traits, 0, 0, 90, 200), // first in the list, slow: its queue is long
        candidate(&traits, 1, 0, 10, 100),
        candidate(&traits, 2, 0, 10, 40),
        candidate(&traits, 3, 0, 20, 80),
    ];
    check_winner(&selector(), &request(60), &candidates, 2);
    let mut new_but_loaded = candidates;
    new_but_loaded[0].stream = StreamFreshness::Cold;
    check_winner(&selector(), &request(60), &new_but_loaded, 2);
}

/// Prompts of 32,000 tokens with one token of output: load is what is to compute, not how many ask for it.
#[test]
fn long_prompts_count_by_their_tokens() {
    let traits = WorkerTraits::default();
    let mut one_long = candidate(&traits, 0, 0, 2_000, 2_000);
    one_long.active_requests = 1;
    let mut many_short = candidate(&traits, 1, 0, 30, 30);
    many_short.active_requests = 10;
    check_winner(&selector(), &request(2_000), &[one_long, many_short], 1);

    // Booked as they are chosen, they spread.
    let mut fleet = [0, 1, 2, 3].map(|worker| candidate(&traits, worker, 0, 0, 0));
    for round in 0..8 {
        let selection = choose(&selector(), &request(2_000), &fleet).unwrap();
        let winner = &mut fleet[selection.position];
        winner.prefill_tokens += 32_000;
        winner.active_requests += 1;
        let queues = fleet.map(|worker| worker.active_requests);
        let (least, most) = (queues.iter().min().unwrap(), queues.iter().max().unwrap());
        assert!(most - least <= 1, "round {round}: {queues:?}");
    }
}

#[test]
fn section_6_overload_follows_the_load_and_never_sticks() {
    let traits = WorkerTraits::default();
    let selector = with_filters(|filters| filters.busy_prefill = Some(1.0));
    let mut only = candidate(&traits, 1, 60, 0, 0);
    only.capacity = capacity(8_192, 1_000);
    for (tokens, eligible) in
        [(0, true), (8_192, true), (8_193, false), (50_000, false), (8_192, true), (0, true)]
    {
        only.prefill_tokens = tokens;
        match choose(&selector, &request(60), &[only]) {
            Ok(_) => assert!(eligible, "{tokens} tokens"),
            Err(SelectError::NoEligibleWorker { shortage, excluded, .. }) => {
                assert!(!eligible, "{tokens} tokens");
                assert_eq!((shortage, excluded.busy), (Shortage::AllBusy, 1));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_full_hit_does_not_lift_a_worker_over_its_threshold() {
    let traits = WorkerTraits::default();
    let selector = with_filters(|filters| filters.busy_prefill = Some(0.5));
    let mut hit = candidate(&traits, 1, 60, 512, 0);
    hit.capacity = capacity(8_192, 1_000);
    let miss = candidate(&traits, 2, 0, 10_000, 10_000); // unknown capacity: never busy
    check_winner(&selector, &request(60), &[hit, miss], 1 - usize::from(hit.prefill_tokens <= 4_096));
    hit.prefill_tokens = 4_096;
    check_winner(&selector, &request(60), &[hit, miss], 0);
}

/// Two tiers of policy, by knobs alone: load first, overlap to break ties.
#[test]
fn a_small_weight_lets_load_decide_first() {
    let traits = WorkerTraits::default();
    let load_first = with_cost(|cost| cost.device_weight = 0.001);
    let candidates =
        [candidate(&traits, 1, 60, 0, 41), candidate(&traits, 2, 0, 0, 40), candidate(&traits, 3, 9, 0, 40)];
    check_winner(&load_first, &request(60), &candidates, 2);
}

/// Sixteen routers whose view of the load is the same, and stale: one worker is idle.
#[test]
fn many_routers_do_not_herd_onto_one_idle_worker() {
    let traits = WorkerTraits::default();
    let fleet: Vec<_> =
        (0..20).map(|worker| candidate(&traits, worker, 0, 0, if worker == 7 { 0 } else { 5 })).collect();
    let most = |spread| {
        let mut picks = [0; 20];
        for router in 0..16 {
            let request = SelectRequest { spread, ..request(60) };
            let (mut entropy, mut scratch) = (SplitMix64::new(router), Scratch::new());
            let candidates = fleet.iter().copied();
            picks[selector().select(&request, candidates, &mut entropy, &mut scratch).unwrap().position] += 1;
        }
        picks.into_iter().max().unwrap()
    };
    assert_eq!(most(Spread::Lowest), 16);
    assert!(most(Spread::TwoChoices { within_blocks: 10 }) <= 5);
}
