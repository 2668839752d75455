//! The paged index against the oracle.

use kv_router_index::conformance::{ConcurrentRun, Consistency, Suite};
use kv_router_index::paged::PagedIndex;

#[test]
fn examples() {
    Suite::new(PagedIndex::new).run_examples();
}

#[test]
fn random_histories() {
    Suite::new(PagedIndex::new).run_histories();
}

#[test]
fn a_long_churn_leaves_nothing() {
    Suite::new(PagedIndex::new).run_churn(200_000);
}

#[test]
fn many_threads() {
    for seed in 0..3 {
        let mut run = ConcurrentRun::default().expecting(Consistency::Between);
        run.seed = seed;
        run.run(&PagedIndex::new());
    }
}
