//! Eight ranks, every dialect in turn, two routers, and everything that goes wrong, on real sockets.
#![expect(clippy::disallowed_methods, reason = "real sockets run on the real clock")]

use std::time::{Duration, Instant};

use kv_router_engines::{DecodeLimits, Ingest, IngestConfig, WireBatch};
use kv_router_hash::{HashScheme, Window};
use kv_router_index::ApplyEvents;
use kv_router_index::paged::PagedIndex;
use kv_router_sim::holdings::holdings;
use kv_router_sim::wire::chaos::{ChaosConfig, run};
use kv_router_sim::wire::scenario::{self, Scenario, ScenarioConfig};
use kv_router_sim::wire::{DIALECTS, Fault, FaultRates, WireCache};
use kv_router_types::{BlockSize, DpRank, WorkerId, WorkerRank};

#[test]
fn routers_hold_what_engines_hold_once_it_is_quiet() {
    let config = ChaosConfig { lasts: Duration::from_secs(5), ..ChaosConfig::default() };
    let report = run(&config, Instant::now).unwrap();
    println!("{report}");
    assert!(report.is_exact(), "{report}");
    assert!(report.blocks > 1_000 && report.faults.total() > 100, "{report}");
    for (router, _) in &report.routers {
        // What went wrong on the way of single batches is in the counters, each in its own.
        assert!(router.gaps > 0 && router.duplicates > 0 && router.undecodable > 0 && router.other_rank > 0);
        // Replays that fail, or that do not show what they have to.
        let bad_replays = router.failed_replays + router.second_tries + router.new_lives;
        assert!(router.disconnects > 0 && bad_replays > 0 && router.forgets > 0, "{report}");
        assert!(router.new_lives >= u64::from(report.faults.get(Fault::Restart) > 0), "{report}");
        assert_eq!((router.dropped, router.refused), (0, 0), "{report}");
    }
}

#[test]
fn each_scenario_ends_exact_and_is_in_the_counters() {
    let config = ScenarioConfig { batches: 100, ..ScenarioConfig::default() };
    for scenario in Scenario::ALL {
        let report = scenario::run(scenario, &config, Instant::now).unwrap();
        println!("{report}");
        assert!(report.is_well(), "{report}, {:?}", report.saw);
        assert!(report.blocks > 1_000 || scenario == Scenario::EngineRestartThenSilence, "{report}");
    }
}

/// Lives so short that the next one is often past the last number before a router is connected again.
#[test]
fn engines_that_restart_all_the_time_leave_nothing_of_their_old_lives() {
    let faults = FaultRates {
        batches_in_10_000: 50,
        engine_every: Duration::from_millis(30),
        lasts: Duration::ZERO,
        of_engines: &[Fault::Restart],
    };
    let config = ChaosConfig { faults, seed: 2, lasts: Duration::from_secs(3), ..ChaosConfig::default() };
    let report = run(&config, Instant::now).unwrap();
    assert!(report.is_exact(), "{report}");
    assert!(report.faults.get(Fault::Restart) > 50, "{report}");
    for (router, _) in &report.routers {
        assert_eq!(router.refused, 0, "{report}");
    }
}

#[test]
fn every_dialect_says_what_its_cache_holds() {
    let rank = WorkerRank::new(WorkerId::new(3), DpRank::new(1));
    let scheme = HashScheme::new(BlockSize::new(16).unwrap(), Window::Plain);
    for (seed, dialect) in (1..).zip(DIALECTS) {
        let mut cache = WireCache::new(dialect, scheme, 500, seed);
        let config = IngestConfig { presence: dialect.presence, ..IngestConfig::new(scheme) };
        let (mut ingest, mut index) = (Ingest::new(config), PagedIndex::new());
        let (mut batch, mut events) = (WireBatch::new(), Vec::new());
        for step in 0..2_000 {
            let payload = cache.step(f64::from(step), Some(rank.rank));
            batch.decode(&payload, &DecodeLimits::default()).unwrap();
            assert!(!batch.is_lossy(), "{}", dialect.name);
            events.clear();
            ingest.apply(&batch, &mut events);
            for event in &events {
                index.apply(rank, event).unwrap();
            }
        }
        assert!(cache.len() > 100, "{}: {}", dialect.name, cache.len());
        assert_eq!(holdings(&index), cache.holdings(rank), "{}", dialect.name);
        assert_eq!(ingest.counters().skips.total(), 0, "{}", dialect.name);
    }
}

#[test]
fn without_faults_there_is_nothing_to_recover() {
    let faults = FaultRates { batches_in_10_000: 0, engine_every: Duration::MAX, ..FaultRates::default() };
    let config = ChaosConfig { faults, seed: 5, lasts: Duration::from_secs(1), ..ChaosConfig::default() };
    let report = run(&config, Instant::now).unwrap();
    assert!(report.is_exact(), "{report}");
    for (router, _) in &report.routers {
        assert_eq!((router.undecodable, router.other_rank, router.new_lives, router.refused), (0, 0, 0, 0));
        assert_eq!((router.failed_replays, router.disconnects, router.healed), (0, 0, 0), "{report}");
    }
}
