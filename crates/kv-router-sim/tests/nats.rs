//! Whole routers over a real NATS server: each fault by itself, and all of them at random.
#![expect(clippy::disallowed_methods, reason = "a real server runs on the real clock")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![expect(clippy::print_stdout, reason = "the time to exact is for people to read")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kv_router_sim::nats::chaos::{NatsChaosConfig, run};
use kv_router_sim::nats::scenario::Scenario;

/// A folder for a server, taken away when the test is through.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("nats-{}-{name}", std::process::id());
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}

#[track_caller]
fn check(name: &str, scenario: Scenario) -> String {
    let folder = Folder::new(name);
    let end = scenario.play(&folder.0, Instant::now).unwrap();
    println!("{end}");
    assert!(end.is_exact() && end.blocks > 1_000, "{end}");
    end.to_string()
}

#[test]
fn a_broker_that_starts_again_costs_nothing_for_good() {
    let end = check("restart", Scenario::BrokerRestart);
    assert!(!end.contains("\n  0 batches were never sent"), "the test was to lose some: {end}");
}

#[test]
fn a_router_that_was_cut_off_catches_up() {
    check("router", Scenario::RouterPartition);
}

#[test]
fn workers_that_were_taken_for_gone_come_back() {
    check("workers", Scenario::WorkerPartition);
}

#[test]
fn a_router_that_was_too_slow_gets_back_what_it_dropped() {
    let end = check("slow", Scenario::SlowConsumer);
    assert!(!end.lines().nth(1).unwrap().contains(" dropped: 0,"), "the test was to drop some: {end}");
}

#[test]
fn a_worker_in_a_new_life_leaves_nothing_of_the_old_one() {
    check("life", Scenario::WorkerRestart);
}

#[test]
fn a_fresh_replica_starts_from_the_snapshot_of_another() {
    let end = check("fresh", Scenario::FreshReplica { blocks: 100_000 });
    assert!(end.contains(" restored: 16,"), "relays do not reach back: {end}");
}

#[test]
fn whatever_goes_wrong_routers_come_out_exact() {
    let folder = Folder::new("random");
    let config = NatsChaosConfig::default();
    assert_eq!(config.lasts, Duration::from_secs(5));
    let report = run(&config, &folder.0, Instant::now).unwrap();
    println!("{report}");
    assert!(report.end.is_exact(), "{report}");
    assert!(report.faults.len() >= 3 && report.routed > 0, "{report}");
}
