//! The check under threads must reject what it is there to find, and nothing else.
#![cfg(not(kv_router_loom))]

use std::time::Duration;

use kv_router_index::conformance::{ConcurrentRun, Consistency, FailedRun};
use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex,
    RadixTree,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};
use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// None: one lock around everything.
    None,
    /// The lock is let go between the blocks of an event.
    SplitsEvents,
    /// The second half of a query is answered later than the first.
    AddsUpTwoStates,
}

struct Locked {
    fault: Fault,
    tree: Mutex<RadixTree>,
}

impl Locked {
    fn new(fault: Fault) -> Self {
        Self { fault, tree: Mutex::new(RadixTree::new()) }
    }
}

impl PrefixIndex for Locked {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        if self.fault == Fault::AddsUpTwoStates && !query.is_empty() {
            let early = self.tree.lock().find(&query[..1]);
            std::thread::yield_now();
            let late = self.tree.lock().find(query);
            out.begin(query.len(), Certainty::Exact);
            // Who held the first block before, and whoever holds more now.
            let mut overlaps: Vec<_> =
                early.iter().map(|first| late.get(first.worker()).unwrap_or(first)).collect();
            overlaps.sort_by_key(|overlap| overlap.blocks());
            overlaps.into_iter().for_each(|overlap| out.push(overlap));
            return;
        }
        self.tree.lock().find_into(query, options, out);
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ApplyEvents for &Locked {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        match (self.fault, event) {
            (Fault::SplitsEvents, KvEvent::Removed { tier, blocks }) => {
                let mut applied = Applied::default();
                for &block in blocks {
                    applied += self
                        .tree
                        .lock()
                        .apply(from, &KvEvent::Removed { tier: *tier, blocks: vec![block] })?;
                    std::thread::yield_now();
                }
                Ok(applied)
            }
            _ => self.tree.lock().apply(from, event),
        }
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        self.tree.lock().remove_worker(worker)
    }
}

impl Inspect for Locked {
    fn occupancy(&self) -> Occupancy {
        self.tree.lock().occupancy()
    }
}

#[track_caller]
fn finds_a_wrong_score(fault: Fault) {
    // Long enough on a slow machine; the first failure ends it.
    match ConcurrentRun::default().lasting(Duration::from_secs(20)).check(&Locked::new(fault)) {
        Err(failed) => assert!(matches!(*failed, FailedRun::Score { .. }), "{fault:?}: {failed}"),
        Ok(report) => panic!("{fault:?} was not found: {report:?}"),
    }
}

#[test]
fn one_lock_around_everything_passes() {
    for consistency in [Consistency::WholeEvents, Consistency::Between] {
        let run = ConcurrentRun::default().lasting(Duration::from_millis(300)).expecting(consistency);
        run.run(&Locked::new(Fault::None));
    }
}

#[test]
fn half_an_event_is_found() {
    finds_a_wrong_score(Fault::SplitsEvents);
}

#[test]
fn a_score_of_no_state_is_found() {
    finds_a_wrong_score(Fault::AddsUpTwoStates);
}
