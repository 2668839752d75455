//! The positional index against the oracle, with jumps that are long, short and none.

use kv_router_index::conformance::{Shared, Suite};
use kv_router_index::{PositionalConfig, PositionalIndexer};

fn suite(jump: u32) -> Suite<impl Fn() -> Shared<PositionalIndexer>> {
    let mut config = PositionalConfig::default();
    config.jump = jump;
    Suite::new(move || Shared(PositionalIndexer::with_config(&config).unwrap()))
}

#[test]
fn examples() {
    for jump in [1, 2, 3, 64, u32::MAX] {
        suite(jump).run_examples();
    }
}

#[test]
fn histories_with_the_usual_jump() {
    suite(64).run_histories();
}

#[test]
fn histories_with_short_jumps() {
    suite(4).run_histories();
}

#[test]
fn histories_without_jumps() {
    suite(1).run_histories();
}

#[test]
fn churn() {
    suite(64).run_churn(300_000);
}
