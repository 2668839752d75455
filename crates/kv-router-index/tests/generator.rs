//! The conformance suite must reach the states that it is about: a generator that does not, tests nothing.

use kv_router_index::conformance::{Coverage, Suite, histories};
use kv_router_index::{Oracle, RadixTree};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const HISTORIES: u32 = 400;

/// In how many of 100 histories each state must occur at least.
const AT_LEAST: [(&str, u32); 23] = [
    ("holes_made", 75),
    ("holes_filled", 50),
    ("heads_filled", 40),
    ("dumps_with_holes", 45),
    ("twins", 55),
    ("twins_outlived", 40),
    ("moves", 45),
    ("replays", 50),
    ("unknown_parents", 70),
    ("invalid_sequences", 50),
    ("unknown_removals", 70),
    ("demotions", 45),
    ("clears", 50),
    ("workers_removed", 60),
    ("workers_returned", 40),
    ("names_clashing", 15),
    ("names_differing", 50),
    ("uneven_answers", 50),
    ("swaps", 20),
    ("crowded_answers", 6),
    ("deep_answers", 18),
    ("tiered_answers", 75),
    ("early_exits", 75),
];

#[test]
fn histories_reach_every_interesting_state() {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    // The oracle never stops early, so the tree is what reaches that state.
    let suite = Suite::new(RadixTree::new);

    let mut reached: Vec<(&str, u32)> = Coverage::default().counts().collect();
    for _ in 0..HISTORIES {
        let history = histories().new_tree(&mut runner).unwrap().current();
        let coverage = suite.check(&history).unwrap();
        for ((_, sum), (_, count)) in reached.iter_mut().zip(coverage.counts()) {
            *sum += u32::from(count > 0);
        }
    }

    println!("of {HISTORIES} histories: {reached:#?}");
    let names = |list: &[(&'static str, u32)]| list.iter().map(|&(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&AT_LEAST), names(&reached), "each state has a share here");
    for ((name, percent), (_, count)) in AT_LEAST.into_iter().zip(reached) {
        assert!(count * 100 >= percent * HISTORIES, "{name}: only {count} of {HISTORIES} histories");
    }
}

#[test]
fn a_history_means_the_same_each_time() {
    let mut runner = TestRunner::deterministic();
    let history = histories().new_tree(&mut runner).unwrap().current();
    let suite = Suite::new(Oracle::new);
    assert_eq!(suite.check(&history).unwrap(), suite.check(&history).unwrap());
}
