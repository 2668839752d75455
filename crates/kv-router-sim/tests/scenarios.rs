//! The claim of each scenario, in small: the router with the settings for the first token is best or ties.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use kv_router_sim::fleet::Headless;
use kv_router_sim::metrics::Outcome;
use kv_router_sim::report::Comparison;
use kv_router_sim::scenario::{Scenario, StageOptions};

const BLIND: [&str; 3] = ["least-loaded", "round-robin", "random"];

fn run(scenario: Scenario) -> Comparison {
    let options = StageOptions { requests: Some(800), ..StageOptions::default() };
    scenario.stage(&options).unwrap().run(|_| true, |_| Headless, |_| {}).unwrap()
}

fn outcome<'a>(comparison: &'a Comparison, name: &str) -> &'a Outcome {
    &comparison.policies.iter().find(|report| report.policy == name).unwrap().outcome
}

/// Mean times to first token that differ by less are a tie: another seed turns them round.
const TIE: f64 = 1.03;

/// The router is best or ties on mean time to first token; with its defaults it beats everybody who does not look at
/// caches.
#[track_caller]
fn router_wins(scenario: Scenario) -> Comparison {
    let comparison = run(scenario);
    let mean = |name: &str| outcome(&comparison, name).ttft.mean;
    let ours = mean("kv-aware");
    for name in BLIND {
        assert!(ours < 0.9 * mean(name), "{scenario}: {ours} against {} of {name}", mean(name));
        let defaults = mean("kv-aware defaults");
        assert!(defaults < mean(name), "{scenario}: {defaults} against {name}");
    }
    assert!(ours < mean("best-prefix") * TIE, "{scenario}: {ours} against {}", mean("best-prefix"));
    if let Some(knobs) = scenario.knobs() {
        let better = mean(&format!("kv-aware {knobs}"));
        assert!(better < ours, "{scenario}: {better} against {ours}");
    }
    assert!(comparison.policies.iter().all(|report| report.outcome.refused == 0));
    comparison
}

#[test]
fn hot_prefix() {
    router_wins(Scenario::HotPrefix);
}

#[test]
fn bursty() {
    router_wins(Scenario::Bursty);
}

#[test]
fn long_tail() {
    router_wins(Scenario::LongTail);
}

#[test]
fn tiers() {
    let comparison = router_wins(Scenario::Tiers);
    let engines = &outcome(&comparison, "kv-aware").engines;
    assert!(engines.iter().all(|engine| engine.onboarded_blocks > 0 && engine.offloaded_blocks > 0));
}

#[test]
fn many_routers() {
    router_wins(Scenario::ManyRouters);
}

#[test]
fn worker_loss() {
    let comparison = router_wins(Scenario::WorkerLoss);
    assert!(comparison.policies.iter().all(|report| report.outcome.resent > 0));
}

#[test]
fn stale_events() {
    router_wins(Scenario::StaleEvents);
}

#[test]
fn a_seed_is_a_run_and_another_seed_is_another() {
    let outcome = |seed| {
        let options = StageOptions { seed, requests: Some(150), ..StageOptions::default() };
        let stage = Scenario::StaleEvents.stage(&options).unwrap();
        stage.run(|name| name == "kv-aware", |_| Headless, |_| {}).unwrap()
    };
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1).policies, outcome(2).policies);
}
