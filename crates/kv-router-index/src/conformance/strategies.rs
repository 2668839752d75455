//! How histories are drawn.

use kv_router_types::Tier;
use proptest::prelude::*;

use super::history::{Copies, Flaw, History, Naming, Op, Order, Packing, Part, Pick, Under, Variation};

/// Histories of up to 100 operations on fleets of 1 to 300 ranks; most fleets are small.
pub fn histories() -> impl Strategy<Value = History> {
    let ranks = prop_oneof![8 => 1u16..5, 4 => 5u16..20, 1 => 60u16..72, 1 => 120u16..300];
    (ranks, prop::collection::vec(op(), 1..100), any::<u64>()).prop_map(|(ranks, ops, seed)| History {
        ranks,
        ops,
        seed,
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (rank(), under(), blocks(), tier(), naming()).prop_map(|(rank, under, blocks, tier, naming)| {
            Op::Store { rank, under, blocks, tier, naming }
        }),
        2 => (1u8..4, content(1..8), tier()).prop_map(|(every, path, tier)| Op::Share { every, path, tier }),
        4 => (rank(), pick(), tier(), naming_again()).prop_map(|(rank, pick, tier, naming)| {
            Op::Again { rank, pick, tier, naming }
        }),
        8 => (rank(), 0u16..4, tier()).prop_map(|(rank, nth, tier)| Op::Refill { rank, nth, tier }),
        1 => (rank(), order()).prop_map(|(rank, order)| Op::RefillAll { rank, order }),
        6 => (
            rank(),
            prop::collection::vec(pick(), 1..4),
            copies(),
            prop::option::weighted(0.2, 0u64..8),
        )
            .prop_map(|(rank, picks, copies, stranger)| Op::Remove { rank, picks, copies, stranger }),
        2 => (rank(), pick(), order(), packing()).prop_map(|(rank, pick, order, packing)| {
            Op::RemoveChain { rank, pick, order, packing }
        }),
        1 => (rank(), 0u64..8, content(0..4)).prop_map(|(rank, parent, blocks)| {
            Op::Orphan { rank, parent, blocks }
        }),
        1 => (rank(), under(), content(1..20), flaw()).prop_map(|(rank, under, blocks, flaw)| {
            Op::Malformed { rank, under, blocks, flaw }
        }),
        1 => any::<u16>().prop_map(|rank| Op::Clear { rank }),
        1 => any::<u16>().prop_map(|rank| Op::RemoveWorker { rank }),
        1 => Just(Op::Stranger),
        4 => (rank(), pick(), variation()).prop_map(|(rank, pick, variation)| {
            Op::Ask { rank, pick, variation }
        }),
    ]
}

/// Few ranks do most, so that each has a history.
fn rank() -> impl Strategy<Value = u16> {
    prop_oneof![3 => 0u16..2, 1 => any::<u16>()]
}

/// A tiny alphabet, so that blocks repeat within a path and between paths.
fn content(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(0u8..3, len.clone()),
        1 => len.clone().prop_map(|len| vec![0; len]),
        1 => prop::collection::vec(any::<u8>(), len),
    ]
}

/// Mostly short; sometimes longer than whatever a structure packs into one piece.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![1 => Just(Vec::new()), 20 => content(1..6), 6 => content(6..24), 1 => content(60..200)]
}

fn tier() -> impl Strategy<Value = Tier> {
    prop_oneof![
        6 => Just(Tier::Device),
        2 => Just(Tier::Host),
        1 => Just(Tier::Disk),
        1 => Just(Tier::Object),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        2 => Just(Part::Itself),
        1 => Just(Part::Head),
        1 => Just(Part::Middle),
        1 => Just(Part::Tail),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    (any::<u16>(), part()).prop_map(|(nth, part)| Pick { nth, part })
}

fn under() -> impl Strategy<Value = Under> {
    prop_oneof![2 => Just(Under::Root), 2 => Just(Under::Tip), 2 => pick().prop_map(Under::Block)]
}

fn naming() -> impl Strategy<Value = Naming> {
    prop_oneof![
        6 => Just(Naming::Usual),
        1 => (0u8..3).prop_map(Naming::Twin),
        1 => pick().prop_map(Naming::Taken),
    ]
}

fn naming_again() -> impl Strategy<Value = Naming> {
    prop_oneof![
        3 => Just(Naming::Usual),
        3 => (0u8..3).prop_map(Naming::Twin),
        1 => pick().prop_map(Naming::Taken),
    ]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::HeadFirst), Just(Order::TailFirst), any::<u64>().prop_map(Order::Shuffled)]
}

fn packing() -> impl Strategy<Value = Packing> {
    prop_oneof![Just(Packing::OneEvent), Just(Packing::OneEach)]
}

fn copies() -> impl Strategy<Value = Copies> {
    prop_oneof![tier().prop_map(Copies::In), Just(Copies::All)]
}

fn flaw() -> impl Strategy<Value = Flaw> {
    prop_oneof![Just(Flaw::Twice), Just(Flaw::OwnParent)]
}

fn variation() -> impl Strategy<Value = Variation> {
    prop_oneof![
        Just(Variation::Whole),
        any::<u8>().prop_map(Variation::Prefix),
        content(1..4).prop_map(Variation::Longer),
        any::<u8>().prop_map(Variation::Altered),
        content(0..6).prop_map(Variation::Other),
    ]
}
