//! The claim of the project, in small: routing by cached prefix beats every policy that does not look at caches.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;

use kv_router_sim::fleet::{FleetConfig, Headless, replay};
use kv_router_sim::metrics::Outcome;
use kv_router_sim::policy::{KvAware, POLICIES, Policy, PolicyContext};
use kv_router_sim::trace::Trace;
use kv_router_sim::workload::{Utilisation, Workload};

fn fleet(engines: u32) -> (FleetConfig, Workload) {
    let fleet = FleetConfig { engines, ..FleetConfig::default() };
    let trace = Trace::sample().unwrap().head(1_500);
    let workload = Workload::new(trace, fleet.engine.block_size)
        .hashed_by(KvAware::hash)
        .at_utilisation(Utilisation::DEFAULT, &fleet);
    (fleet, workload)
}

fn outcomes(engines: u32) -> BTreeMap<&'static str, Outcome> {
    let (fleet, workload) = fleet(engines);
    let workers = fleet.workers();
    let context = PolicyContext { workers: &workers, engine: fleet.engine, seed: 1 };
    let outcome = |policy: &mut dyn Policy| replay(&fleet, &workload, policy, &mut Headless).unwrap();
    POLICIES.iter().map(|entry| (entry.name, outcome(&mut *(entry.build)(&context).unwrap()))).collect()
}

#[track_caller]
fn kv_aware_wins(engines: u32) {
    let outcomes = outcomes(engines);
    assert_eq!(outcomes.len(), 4);
    let ours = &outcomes["kv-aware"];
    for (name, other) in outcomes.iter().filter(|(name, _)| **name != "kv-aware") {
        assert!(ours.hit_ratio() > 1.2 * other.hit_ratio(), "hits of {name}: {other:?}, ours {ours:?}");
        assert!(ours.ttft.mean < other.ttft.mean, "first token of {name}: {other:?}, ours {ours:?}");
    }
}

#[test]
fn it_beats_the_others_on_a_small_fleet() {
    kv_aware_wins(8);
}

#[test]
fn it_beats_the_others_on_a_large_fleet() {
    kv_aware_wins(64);
}

#[test]
fn the_router_ends_without_load_and_knows_what_the_engines_hold() {
    let (fleet, workload) = fleet(8);
    let workers = fleet.workers();
    let mut policy =
        KvAware::new(&PolicyContext { workers: &workers, engine: fleet.engine, seed: 1 }).unwrap();
    let outcome = replay(&fleet, &workload, &mut policy, &mut Headless).unwrap();
    let stats = policy.router().stats();
    assert_eq!((stats.load.requests, stats.load.prompt_blocks, stats.unknown_rank_batches), (0, 0, 0));
    // Every engine announced more than fits into its pool and holds at most that, and nothing was refused.
    assert!(outcome.hit_ratio() > 0.0 && stats.index.names > 0);
    assert!(stats.index.names <= 8 * fleet.engine.pool_blocks as usize, "{:?}", stats.index);
    for stream in policy.router().streams() {
        assert_eq!((stream.events.refused(), stream.events.applied.unknown), (0, 0), "{stream:?}");
    }
}
