//! Every index of this crate against the oracle.

use kv_router_index::conformance::{Shared, Suite};
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Oracle,
    Overlaps, PrefixIndex, RadixTree,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};
use parking_lot::Mutex;

#[test]
fn the_oracle_gives_the_answers_worked_out_by_hand() {
    Suite::new(Oracle::new).with_a_node_per_place().run_examples();
}

#[test]
fn the_oracle_survives_its_own_dump_and_empties() {
    let suite = Suite::new(Oracle::new).with_a_node_per_place();
    suite.search(64).unwrap();
}

#[test]
fn radix_tree() {
    let suite = Suite::new(RadixTree::new).with_a_node_per_place();
    suite.run_examples();
    suite.run_histories();
    suite.run_churn(1_000_000);
}

#[test]
fn an_index_that_is_written_to_through_a_reference() {
    let suite = Suite::new(|| Shared(Locked(Mutex::new(RadixTree::new())))).with_a_node_per_place();
    suite.run_examples();
    suite.search(16).unwrap();
}

/// The simplest index that many threads can share.
struct Locked(Mutex<RadixTree>);

impl ApplyEvents for &Locked {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.0.lock().apply(from, event)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.0.lock().remove_worker(worker)
    }
}

impl PrefixIndex for Locked {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        self.0.lock().find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        self.0.lock().certainty()
    }
}

impl DumpEvents for Locked {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.0.lock().dump(emit);
    }
}

impl Inspect for Locked {
    fn occupancy(&self) -> Occupancy {
        self.0.lock().occupancy()
    }
}
