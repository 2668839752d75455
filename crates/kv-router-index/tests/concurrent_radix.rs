//! The concurrent tree against the oracle, alone and under threads.
#![cfg(not(kv_router_loom))]

use kv_router_index::ConcurrentRadixTree;
use kv_router_index::conformance::{ConcurrentRun, Shared, Suite};

#[test]
fn one_thread() {
    let suite = Suite::new(|| Shared(ConcurrentRadixTree::new())).with_a_node_per_place();
    suite.run_examples();
    suite.run_histories();
    suite.run_churn(1_000_000);
}

#[test]
fn many_threads() {
    ConcurrentRun::default().run(&ConcurrentRadixTree::new());
}
