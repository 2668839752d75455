//! A slate chooses what the plain pass chooses, whatever came before.

use kv_router_schedule::{
    Candidate, CostConfig, Draw, FilterConfig, Holding, Scratch, SelectError, SelectRequest, Selector, Slate,
    SplitMix64, Spread, WorkerTraits,
};
use kv_router_types::BlockSize;
use proptest::prelude::*;

use crate::common::{candidate, capacity, request, selector, with_filters};
use crate::strategies::{Rank, Wish, a_rank, cost_config, filter_config, wish};

/// One decision of each kind from the same seed.
fn both(
    slate: &Slate,
    request: &SelectRequest<'_>,
    incoming: u32,
    fleet: &[Option<Candidate<'_>>],
    seed: u64,
) -> [Result<kv_router_schedule::Selection, SelectError>; 2] {
    let holdings = (0..fleet.len()).rev().filter_map(|position| {
        let Candidate { overlap, incoming_blocks, .. } = fleet[position]?;
        let is_special = overlap != [0; 4] || incoming_blocks != incoming;
        is_special.then_some(Holding { position, overlap, incoming_blocks })
    });
    let quick = slate.select(
        request,
        incoming,
        holdings,
        |at| fleet.get(at).copied().flatten(),
        &mut SplitMix64::new(seed),
        &mut Scratch::new(),
    );
    let all = fleet.iter().flatten().copied();
    let plain = slate.selector().select(request, all, &mut SplitMix64::new(seed), &mut Scratch::new());
    // The plain pass counts those who are there, the slate its own positions.
    let there: Vec<usize> = (0..fleet.len()).filter(|&at| fleet[at].is_some()).collect();
    let plain = plain.map(|mut selection| {
        selection.position = there[selection.position];
        selection
    });
    [quick, plain]
}

#[derive(Clone, Debug)]
struct Round {
    changes: Vec<(usize, Option<Rank>)>,
    wish: Option<Wish>,
    incoming: u32,
    seed: u64,
}

fn round() -> impl Strategy<Value = Round> {
    let change = (0..40usize, prop::option::weighted(0.9, a_rank()));
    let wish = prop::option::weighted(0.3, wish());
    (prop::collection::vec(change, 0..30), wish, 0..4u32, any::<u64>())
        .prop_map(|(changes, wish, incoming, seed)| Round { changes, wish, incoming, seed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_slate_decides_as_the_plain_pass(
        cost in cost_config(),
        filters in filter_config(),
        rounds in prop::collection::vec(round(), 1..6),
    ) {
        let block_size = BlockSize::new(16).unwrap();
        let mut slate = Slate::new(Selector::new(cost, filters).unwrap(), block_size);
        let mut fleet: Vec<Option<Rank>> = Vec::new();
        for Round { changes, wish, incoming, seed } in rounds {
            for (at, rank) in changes {
                if at >= fleet.len() {
                    fleet.resize(at + 1, None);
                }
                slate.set(at, rank.as_ref().map(Rank::candidate).as_ref());
                fleet[at] = rank;
            }
            let candidates: Vec<_> = fleet.iter().map(|rank| rank.as_ref().map(Rank::candidate)).collect();
            let request = wish.as_ref().map_or_else(|| SelectRequest::new(12, block_size), Wish::request);
            let [quick, plain] = both(&slate, &request, incoming, &candidates, seed);
            prop_assert_eq!(quick, plain);
            prop_assert_eq!(slate.len(), fleet.len());
        }
    }
}

#[test]
fn four_equal_workers_share_equally_among_thousands() {
    let traits = WorkerTraits::default();
    let mut slate = Slate::new(selector(), BlockSize::new(16).unwrap());
    let fleet: Vec<_> = (0..4_000)
        .map(|id| Some(candidate(&traits, id, 0, 0, if id % 1_000 == 77 { 3 } else { 9 })))
        .collect();
    fleet.iter().enumerate().for_each(|(at, rank)| slate.set(at, rank.as_ref()));
    let (mut entropy, mut scratch) = (SplitMix64::new(2024), Scratch::new());
    let mut picks = [0u32; 4];
    for _ in 0..10_000 {
        let selection =
            slate.select(&request(60), 0, [], |at| fleet[at], &mut entropy, &mut scratch).unwrap();
        assert!(matches!(selection.draw, Draw::Tie { contenders: 4, .. }));
        assert_eq!(selection.position % 1_000, 77);
        picks[selection.position / 1_000] += 1;
    }
    assert!(picks.iter().all(|count| count.abs_diff(2_500) <= 200), "{picks:?}");
}

#[test]
fn everybody_above_the_threshold_means_wait() {
    let traits = WorkerTraits::default();
    let selector = with_filters(|filters| filters.wait_prefill = Some(0.5));
    let mut slate = Slate::new(selector, BlockSize::new(16).unwrap());
    let mut fleet = [1, 2].map(|id| Some(candidate(&traits, id, 0, 300, 0)));
    for rank in fleet.iter_mut().flatten() {
        rank.capacity = capacity(8_192, 1_000);
    }
    let mut decide = |fleet: &[Option<Candidate<'_>>]| {
        fleet.iter().enumerate().for_each(|(at, rank)| slate.set(at, rank.as_ref()));
        let [quick, plain] = both(&slate, &request(60), 0, fleet, 1);
        assert_eq!(quick, plain);
        quick
    };
    assert!(matches!(decide(&fleet), Err(SelectError::MustWait { eligible: 2, .. })));
    // At the threshold is not above it; and then all are judged by cost, those above too.
    fleet[1].as_mut().unwrap().prefill_tokens = 4_096;
    fleet[0].as_mut().unwrap().overlap = [40, 0, 0, 0];
    assert_eq!(decide(&fleet).unwrap().position, 1);
    fleet[0].as_mut().unwrap().prefill_tokens = 4_100;
    assert_eq!(decide(&fleet).unwrap().position, 0);
    fleet = [None; 2];
    assert!(matches!(decide(&fleet), Err(SelectError::NoEligibleWorker { .. })));
}

#[test]
fn a_slate_can_start_over() {
    let traits = WorkerTraits::default();
    let selector = Selector::new(CostConfig::default(), FilterConfig::default()).unwrap();
    let mut slate = Slate::new(selector, BlockSize::new(16).unwrap());
    slate.set(3, Some(&candidate(&traits, 1, 0, 0, 0)));
    assert_eq!((slate.len(), slate.is_empty()), (4, false));
    slate.clear();
    assert!(slate.is_empty());
    let decide = |slate: &Slate| {
        let nobody = Holding { position: 9, overlap: [1; 4], incoming_blocks: 0 };
        slate.select(&request(1), 0, [nobody], |_| None, &mut SplitMix64::new(1), &mut Scratch::new())
    };
    assert!(decide(&slate).is_err());
    slate.set(0, Some(&candidate(&traits, 1, 0, 0, 0)));
    assert_eq!(decide(&slate).unwrap().eligible, 1);
}

/// Numbers at the ends of their ranges, and a few that make ties.
fn extreme_cost() -> impl Strategy<Value = CostConfig> {
    let weight = || prop_oneof![Just(0.0), Just(1.0), Just(1e9), Just(f64::MIN_POSITIVE), Just(0.1)];
    let temperature = prop_oneof![3 => Just(0.0), 1 => Just(1e9), 1 => Just(f64::MIN_POSITIVE)];
    ((weight(), weight(), weight(), weight()), (weight(), weight(), weight()), temperature).prop_map(
        |((device, host, disk, object), (scale, request, decay), temperature)| CostConfig {
            device_weight: device,
            host_weight: host,
            disk_weight: disk,
            object_weight: object,
            prefill_load_scale: scale,
            decode_active_request_weight: request,
            credit_decay: decay,
            temperature,
        },
    )
}

fn extreme_rank() -> impl Strategy<Value = Rank> {
    let long = || prop_oneof![Just(0), Just(1), Just(16), Just(u64::MAX), Just(1 << 53)];
    let short = || prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(u32::MAX)];
    let load = (long(), long(), short(), short());
    (a_rank(), prop::array::uniform4(short()), load).prop_map(|(rank, overlap, load)| Rank {
        overlap,
        load,
        ..rank
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// One scratch for all decisions of both kinds, groups that are full and groups that are not, ranks that come and
    /// go, numbers at the ends of their ranges, spreads with and without constraints, requests of another block size.
    #[test]
    fn nothing_is_left_over_from_the_decision_before(
        cost in extreme_cost(),
        filters in filter_config(),
        size in prop_oneof![Just(1usize), Just(63), Just(64), Just(65), Just(200)],
        template in prop::collection::vec(extreme_rank(), 1..5),
        rounds in prop::collection::vec(
            (
                prop::collection::vec((0..200usize, prop::option::weighted(0.7, extreme_rank())), 0..20),
                prop::option::weighted(0.5, wish()),
                prop_oneof![Just(None), Just(Some(0)), Just(Some(1)), Just(Some(u32::MAX))],
                prop_oneof![Just(0), Just(12), Just(u32::MAX)],
                prop_oneof![Just(0), Just(1), Just(u32::MAX)],
                prop_oneof![4 => Just(16), 1 => Just(32)],
                any::<bool>(),
                any::<u64>(),
            ),
            1..8,
        ),
    ) {
        let block_size = BlockSize::new(16).unwrap();
        let mut slate = Slate::new(Selector::new(cost, filters).unwrap(), block_size);
        let mut scratch = Scratch::new();
        let mut fleet: Vec<Option<Rank>> = (0..size).map(|at| Some(template[at % template.len()].clone())).collect();
        for (at, rank) in fleet.iter().enumerate() {
            slate.set(at, rank.as_ref().map(Rank::candidate).as_ref());
        }
        for (changes, wish, spread, prompt_blocks, incoming, tokens, start_over, seed) in rounds {
            if start_over {
                slate.clear();
                for (at, rank) in fleet.iter().enumerate() {
                    slate.set(at, rank.as_ref().map(Rank::candidate).as_ref());
                }
            }
            for (at, rank) in changes.into_iter().filter(|&(at, _)| at < size) {
                slate.set(at, rank.as_ref().map(Rank::candidate).as_ref());
                fleet[at] = rank;
            }
            let candidates: Vec<_> = fleet.iter().map(|rank| rank.as_ref().map(Rank::candidate)).collect();
            let mut request = wish.as_ref().map_or_else(|| SelectRequest::new(0, block_size), Wish::request);
            request.prompt_blocks = prompt_blocks;
            request.block_size = BlockSize::new(tokens).unwrap();
            if let Some(within_blocks) = spread {
                request.spread = Spread::TwoChoices { within_blocks };
            }
            let beyond = Holding { position: size + 7, overlap: [9; 4], incoming_blocks: 0 };
            let holdings = (0..size).filter_map(|position| {
                let Candidate { overlap, incoming_blocks, .. } = candidates[position]?;
                let is_special = overlap != [0; 4] || incoming_blocks != incoming;
                is_special.then_some(Holding { position, overlap, incoming_blocks })
            });
            let candidate = |at: usize| candidates.get(at).copied().flatten();
            let (mut one, mut other) = (SplitMix64::new(seed), SplitMix64::new(seed));
            let quick =
                slate.select(&request, incoming, holdings.chain([beyond]), candidate, &mut one, &mut scratch);
            let there: Vec<usize> = (0..size).filter(|&at| candidates[at].is_some()).collect();
            let all = there.iter().filter_map(|&at| candidates[at]);
            let plain = slate.selector().select(&request, all.clone(), &mut other, &mut scratch);
            let explained = slate.selector().explain(&request, all, &mut SplitMix64::new(seed), &mut scratch).outcome;
            prop_assert_eq!(&plain, &explained);
            let plain = plain.map(|mut selection| {
                selection.position = there[selection.position];
                selection
            });
            prop_assert_eq!(&quick, &plain);
            prop_assert_eq!(one, other, "as much entropy is used");
            if let Ok(selection) = quick {
                prop_assert!(selection.cost.is_finite() && selection.cost >= 0.0);
            }
        }
    }
}
