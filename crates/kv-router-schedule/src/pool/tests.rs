//! The draw: exact odds, ends of ranges, and no luck from the place in the list.

use proptest::prelude::*;

use kv_router_types::WorkerId;

use super::*;
use crate::SplitMix64;

fn pool(costs: &[f64], temperature: f64) -> Pool {
    let mut pool = Pool::default();
    for (position, &cost) in costs.iter().enumerate() {
        pool.offer(Contender { position, worker: WorkerId::new(position as u64).into(), cost }, temperature);
    }
    pool
}

fn odds(costs: &[f64], temperature: f64) -> Vec<f64> {
    let mut pool = pool(costs, temperature);
    pool.draw(temperature, &mut SplitMix64::new(1));
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
fn softmax_over_costs_normalised_by_their_range() {
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
        let (winner, draw) = pool(&[30.0, 10.0, 20.0], 0.5).draw(0.5, &mut entropy).unwrap();
        assert!(matches!(draw, Draw::Sampled { contenders: 3, point } if (0.0..1.0).contains(&point)));
        picks[winner.position] += 1;
    }
    let expected = [900, 6652, 2447];
    assert!(picks.iter().zip(expected).all(|(found, wanted)| found.abs_diff(wanted) < 200), "{picks:?}");
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
        let (winner, _) = pool(&[infinite, 1.0, 2.0, infinite], 0.5).draw(0.5, &mut Stuck(bits)).unwrap();
        assert_eq!(winner.position, expected);
    }
    for (bits, expected) in [(0, 0), (u64::MAX, 2)] {
        let (winner, _) = pool(&[1.0, 1.0, 1.0], 0.0).draw(0.0, &mut Stuck(bits)).unwrap();
        assert_eq!(winner.position, expected);
    }
}

#[test]
fn no_entropy_is_used_without_a_choice() {
    let mut entropy = SplitMix64::new(3);
    for temperature in [0.0, 0.5] {
        assert!(pool(&[], temperature).draw(temperature, &mut entropy).is_none());
    }
    assert_eq!(pool(&[2.0, 1.0], 0.0).draw(0.0, &mut entropy).map(|(_, draw)| draw), Some(Draw::Single));
    assert_eq!(pool(&[1.0], 0.5).draw(0.5, &mut entropy).map(|(_, draw)| draw), Some(Draw::Single));
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
