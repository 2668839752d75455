//! The positional index against the oracle, with jumps that are long, short and none, alone and under
//! threads.
#![cfg(not(kv_router_loom))]

use kv_router_index::conformance::{ConcurrentRun, Consistency, Shared, Suite};
use kv_router_index::{PositionalConfig, PositionalIndexer};

fn suite(jump: u32) -> Suite<impl Fn() -> Shared<PositionalIndexer>> {
    let mut config = PositionalConfig::default();
    config.jump = jump;
    Suite::new(move || Shared(PositionalIndexer::with_config(&config).expect("the jump is not 0")))
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

#[test]
fn many_threads() {
    for (seed, jump) in [1, 2, 64].into_iter().enumerate() {
        let mut config = PositionalConfig::default();
        config.jump = jump;
        let mut run = ConcurrentRun::default().expecting(Consistency::Between);
        run.seed = seed as u64;
        run.run(&PositionalIndexer::with_config(&config).unwrap());
    }
}
