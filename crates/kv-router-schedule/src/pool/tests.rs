//! The draw: exact odds, ends of ranges, and no luck from the place in the list.

use proptest::prelude::*;

use kv_router_types::WorkerId;

use super::*;
use crate::SplitMix64;

fn rule(temperature: f64) -> Rule {
    if temperature > 0.0 { Rule::Softmax(temperature) } else { Rule::Lowest }
}

fn pool(costs: &[f64], temperature: f64) -> Pool {
    offered(costs, rule(temperature))
}

fn offered(costs: &[f64], rule: Rule) -> Pool {
    let mut pool = Pool::default();
    pool.begin(rule);
    for (position, &cost) in costs.iter().enumerate() {
        pool.offer(Contender { position, worker: WorkerId::new(position as u64).into(), cost });
    }
    pool
}

fn odds(costs: &[f64], temperature: f64) -> Vec<f64> {
    chances(costs, rule(temperature))
}

fn chances(costs: &[f64], rule: Rule) -> Vec<f64> {
    let mut pool = offered(costs, rule);
    pool.draw(&mut SplitMix64::new(1));
    let mut odds = vec![0.0; costs.len()];
    pool.probabilities().for_each(|(position, chance)| odds[position] = chance);
    odds
}

#[track_caller]
fn check(costs: &[f64], temperature: f64, expected: &[f64]) {
    let odds = odds(costs, temperature);
    let near = odds.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 5e-5);
    assert!(near, "{costs:?} at {temperature}: {odds:?} instead of {expected:?}");
}

#[test]
fn section_6_softmax_over_costs_normalised_by_their_range() {
    check(&[10.0, 20.0, 30.0], 0.5, &[0.6652, 0.2447, 0.0900]);
    check(&[1010.0, 1020.0, 1030.0], 0.5, &[0.6652, 0.2447, 0.0900]);
    check(&[0.3, 0.1, 0.2], 0.5, &[0.0900, 0.6652, 0.2447]);
}

#[test]
fn degenerate_costs_have_sensible_odds() {
    let infinite = f64::INFINITY;
    check(&[5.0, 5.0, 5.0, 5.0], 0.5, &[0.25; 4]);
    check(&[7.0], 0.5, &[1.0]);
    check(&[infinite, 3.0, infinite], 0.5, &[0.0, 1.0, 0.0]);
    check(&[infinite, 3.0, 3.0], 0.5, &[0.0, 0.5, 0.5]);
    check(&[infinite, infinite], 0.5, &[0.5, 0.5]);
    check(&[10.0, infinite, 20.0, 30.0], 0.5, &[0.6652, 0.0, 0.2447, 0.0900]);
    check(&[0.0, 1e300], 1e-300, &[1.0, 0.0]);
    check(&[1.0, 2.0], f64::MIN_POSITIVE / 2.0, &[1.0, 0.0]);
    check(&[1.0, 2.0], 1e9, &[0.5, 0.5]);
    check(&[2.0, 1.0, 1.0, 3.0], 0.0, &[0.0, 0.5, 0.5, 0.0]);
    check(&[infinite, infinite], 0.0, &[0.5, 0.5]);
}

#[test]
fn the_draw_follows_the_odds() {
    let mut entropy = SplitMix64::new(11);
    let mut picks = [0u32; 3];
    for _ in 0..10_000 {
        let (winner, draw) = pool(&[30.0, 10.0, 20.0], 0.5).draw(&mut entropy).unwrap();
        assert!(matches!(draw, Draw::Sampled { contenders: 3, point } if (0.0..1.0).contains(&point)));
        picks[winner.position] += 1;
    }
    let expected = [900, 6652, 2447];
    assert!(picks.iter().zip(expected).all(|(found, wanted)| found.abs_diff(wanted) < 200), "{picks:?}");
}

#[test]
fn two_choices_draw_near_equals_and_take_the_cheaper() {
    let rule = Rule::TwoChoices(5.0);
    // Whoever comes late or is too far above the lowest is out, wherever it stands.
    let costs = [16.0, 10.0, 30.0, 12.0, 15.0, 9.0, 14.1];
    let chances = chances(&costs, rule);
    // 9, 10 and 12 are within 5 of 9: the lowest wins two of the three pairs, the next one.
    let thirds = [0.0, 1.0 / 3.0, 0.0, 0.0, 0.0, 2.0 / 3.0, 0.0];
    assert!(chances.iter().zip(thirds).all(|(found, wanted)| (found - wanted).abs() < 1e-9), "{chances:?}");

    let mut entropy = SplitMix64::new(8);
    let mut picks = [0u32; 7];
    for _ in 0..9_000 {
        let (winner, draw) = offered(&costs, rule).draw(&mut entropy).unwrap();
        let Draw::TwoChoices { contenders: 3, first, second } = draw else { panic!("{draw:?}") };
        assert!(first != second && first < 3 && second < 3);
        picks[winner.position] += 1;
    }
    assert!(picks[1].abs_diff(3_000) < 200 && picks[5].abs_diff(6_000) < 200, "{picks:?}");
    assert_eq!(picks.iter().sum::<u32>(), picks[1] + picks[5]);
}

#[test]
fn two_choices_among_equals_are_uniform_and_one_needs_no_draw() {
    assert_eq!(chances(&[3.0; 4], Rule::TwoChoices(0.0)), [0.25; 4]);
    let mut entropy = SplitMix64::new(3);
    let single = offered(&[9.0, 1.0, 3.0], Rule::TwoChoices(1.0)).draw(&mut entropy);
    assert_eq!(single.map(|(winner, draw)| (winner.position, draw)), Some((1, Draw::Single)));
    assert_eq!(entropy, SplitMix64::new(3));
}

/// A source that is stuck.
struct Stuck(u64);

impl Entropy for Stuck {
    fn next_u64(&mut self) -> u64 {
        self.0
    }
}

#[test]
fn the_ends_of_the_range_pick_somebody_who_can_win() {
    let infinite = f64::INFINITY;
    for (bits, expected) in [(0, 1), (u64::MAX, 2)] {
        let (winner, _) = pool(&[infinite, 1.0, 2.0, infinite], 0.5).draw(&mut Stuck(bits)).unwrap();
        assert_eq!(winner.position, expected);
    }
    for (bits, expected) in [(0, 0), (u64::MAX, 2)] {
        let (winner, _) = pool(&[1.0, 1.0, 1.0], 0.0).draw(&mut Stuck(bits)).unwrap();
        assert_eq!(winner.position, expected);
    }
}

#[test]
fn no_entropy_is_used_without_a_choice() {
    let mut entropy = SplitMix64::new(3);
    for temperature in [0.0, 0.5] {
        assert!(pool(&[], temperature).draw(&mut entropy).is_none());
    }
    assert_eq!(pool(&[2.0, 1.0], 0.0).draw(&mut entropy).map(|(_, draw)| draw), Some(Draw::Single));
    assert_eq!(pool(&[1.0], 0.5).draw(&mut entropy).map(|(_, draw)| draw), Some(Draw::Single));
    assert_eq!(entropy, SplitMix64::new(3));
}

#[test]
fn a_used_scratch_has_room_for_the_next_decision() {
    use crate::{Candidate, CostConfig, FilterConfig, SelectRequest, Selector, WorkerTraits};
    let traits = WorkerTraits::default();
    let request = SelectRequest::new(60, kv_router_types::BlockSize::new(16).unwrap());
    for temperature in [0.0, 0.5] {
        let cost = CostConfig { temperature, ..CostConfig::default() };
        let selector = Selector::new(cost, FilterConfig::default()).unwrap();
        let (mut entropy, mut scratch) = (SplitMix64::new(1), Scratch::new());
        let mut room = || {
            let candidate = |worker: u64| Candidate {
                active_blocks: if temperature > 0.0 { worker } else { 0 },
                ..Candidate::idle(WorkerId::new(worker).into(), &traits)
            };
            let selection = selector.select(&request, (0..100).map(candidate), &mut entropy, &mut scratch);
            assert_eq!(selection.map(|selection| selection.eligible), Ok(100));
            let Pool { contenders, weights, .. } = &scratch.preferred;
            (contenders.as_ptr(), contenders.capacity(), weights.as_ptr(), weights.capacity())
        };
        let first = room();
        assert!((0..10).all(|_| room() == first));
    }
}

proptest! {
    #[test]
    fn odds_sum_to_one_and_fall_with_cost(
        costs in prop::collection::vec(prop_oneof![0.0..1e6f64, Just(1.0), Just(f64::INFINITY)], 1..40),
        temperature in prop_oneof![Just(0.0), 0.001..10.0f64],
    ) {
        let odds = odds(&costs, temperature);
        prop_assert!((odds.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", odds);
        for (a, cost) in costs.iter().enumerate() {
            for (b, other) in costs.iter().enumerate() {
                if cost <= other {
                    prop_assert!(odds[a] >= odds[b], "{cost} has {}, {other} has {}", odds[a], odds[b]);
                }
            }
        }
    }
}
