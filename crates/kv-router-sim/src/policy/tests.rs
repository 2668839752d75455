//! Policies one decision at a time.

use std::sync::Arc;

use kv_router_types::WorkerId;

use super::*;
use crate::engine::EngineConfig;
use crate::progress::Progress;
use crate::prompt::{Prompt, TraceBlockSize};

fn workers(count: u64) -> Vec<WorkerRank> {
    (0..count).map(|id| WorkerRank::from(WorkerId::new(id))).collect()
}

fn request(index: u32) -> Arc<SimRequest> {
    let size = TraceBlockSize::new(16).unwrap();
    Arc::new(SimRequest::new(index, SimTime::ZERO, Prompt::new(vec![1], 64).unwrap(), 1, size))
}

fn choose(policy: &mut dyn Policy, index: u32) -> WorkerRank {
    let request = request(index);
    policy.prepare(&request);
    policy.choose(&request, SimTime::ZERO).unwrap()
}

fn report(policy: &mut dyn Policy, index: u32, worker: WorkerRank, progress: Progress) {
    policy.on_progress(&Milestone { request: request(index), worker, at: SimTime::ZERO, progress });
}

#[test]
fn every_registered_policy_is_called_what_it_is_registered_as_and_needs_workers() {
    for entry in POLICIES {
        let build = |workers: &[WorkerRank]| {
            (entry.build)(&PolicyContext { workers, engine: EngineConfig::default(), seed: 1 })
        };
        let mut policy = build(&workers(2)).unwrap();
        assert_eq!(policy.name(), entry.name);
        assert!(workers(2).contains(&choose(policy.as_mut(), 0)));
        let nobody = build(&[]).and_then(|mut policy| policy.choose(&request(0), SimTime::ZERO));
        assert!(nobody.is_err(), "{}", entry.name);
    }
}

#[test]
fn round_robin_takes_turns() {
    let mut policy = RoundRobin::new(&workers(3));
    let chosen: Vec<u64> = (0..7).map(|index| choose(&mut policy, index).worker.get()).collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn random_is_even_and_decided_by_its_seed() {
    let draw = |seed| {
        let mut policy = Random::new(&workers(4), seed);
        (0..10_000).map(|index| choose(&mut policy, index).worker.get()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    for id in 0..4 {
        assert!((2_300..2_700).contains(&draw(1).iter().filter(|&&chosen| chosen == id).count()));
    }
}

#[test]
fn least_loaded_counts_what_is_outstanding() {
    let all = workers(2);
    let mut policy = LeastLoaded::new(&all, 1);
    let first = choose(&mut policy, 0);
    let second = choose(&mut policy, 1);
    assert_ne!(first, second);
    report(&mut policy, 0, first, Progress::PrefillCompleted); // still outstanding
    report(&mut policy, 1, second, Progress::Finished);
    assert_eq!(choose(&mut policy, 2), second);
    report(&mut policy, 2, second, Progress::Preempted); // still outstanding
    choose(&mut policy, 3);
    choose(&mut policy, 4); // two each now
    report(&mut policy, 0, first, Progress::Refused);
    report(&mut policy, 3, first, Progress::Refused);
    assert_eq!([5, 6].map(|index| choose(&mut policy, index)), [first, first]);
}

#[test]
fn ties_are_broken_evenly() {
    // A policy that breaks ties by position sends everything to the first worker of an idle fleet.
    let all = workers(4);
    let mut policy = LeastLoaded::new(&all, 5);
    let mut picks = [0u32; 4];
    for index in 0..10_000 {
        let chosen = choose(&mut policy, index);
        picks[chosen.worker.get() as usize] += 1;
        report(&mut policy, index, chosen, Progress::Finished);
    }
    assert!(picks.iter().all(|&count| (2_300..2_700).contains(&count)), "{picks:?}");
}
