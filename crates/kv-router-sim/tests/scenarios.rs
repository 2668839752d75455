//! The claim of each scenario, in small: the router with the settings that suit it is best or ties.
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

/// The tuned router is at most `tie` times the best other on mean time to first token; the default one beats everybody
/// who does not look at caches.
#[track_caller]
fn router_wins(scenario: Scenario, tie: f64) -> Comparison {
    let comparison = run(scenario);
    let mean = |name: &str| outcome(&comparison, name).ttft.mean;
    let ours = mean(&format!("kv-aware {}", scenario.knobs()));
    for name in BLIND {
        assert!(ours < 0.9 * mean(name), "{scenario}: {ours} against {} of {name}", mean(name));
        assert!(mean("kv-aware") < mean(name), "{scenario}: {} against {name}", mean("kv-aware"));
    }
    assert!(ours < mean("best-prefix") * tie, "{scenario}: {ours} against {}", mean("best-prefix"));
    assert!(comparison.policies.iter().all(|report| report.outcome.refused == 0));
    comparison
}

#[test]
fn hot_prefix() {
    router_wins(Scenario::HotPrefix, 1.03);
}

#[test]
fn bursty() {
    router_wins(Scenario::Bursty, 1.0);
}

#[test]
fn long_tail() {
    router_wins(Scenario::LongTail, 1.03);
}

#[test]
fn tiers() {
    let comparison = router_wins(Scenario::Tiers, 1.03);
    let engines = &outcome(&comparison, "kv-aware").engines;
    assert!(engines.iter().all(|engine| engine.onboarded_blocks > 0 && engine.offloaded_blocks > 0));
}

#[test]
fn many_routers() {
    router_wins(Scenario::ManyRouters, 1.03);
}

#[test]
fn worker_loss() {
    let comparison = router_wins(Scenario::WorkerLoss, 1.03);
    assert!(comparison.policies.iter().all(|report| report.outcome.resent > 0));
}

#[test]
fn stale_events() {
    router_wins(Scenario::StaleEvents, 1.03);
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
