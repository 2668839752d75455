//! What goes wrong between engines and routers, and what the routers believe when it is over.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::collections::BTreeSet;
use std::time::Duration;

use kv_router::Router;
use kv_router_sim::engine::{EngineConfig, LadderConfig};
use kv_router_sim::faults::{Faults, Link, Outage};
use kv_router_sim::fleet::{FleetConfig, FleetNaming, Host, ReplayError, replay_with};
use kv_router_sim::metrics::Outcome;
use kv_router_sim::policy::{
    BEST_PREFIX, Knobs, KvAware, POLICIES, Policy, PolicyContext, Several, SharedLoad,
};
use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::time::SimTime;
use kv_router_sim::trace::Trace;
use kv_router_sim::workload::{Utilisation, Workload};
use kv_router_transport::EventBatch;
use kv_router_types::{ExternalSequenceHash, KvEvent, Tier, WorkerRank};

type Copies = BTreeSet<(WorkerRank, ExternalSequenceHash, Tier)>;

fn note(copies: &mut Copies, from: WorkerRank, event: &KvEvent) {
    match event {
        KvEvent::Stored { tier, blocks, .. } => {
            copies.extend(blocks.iter().map(|block| (from, block.external, *tier)));
        }
        KvEvent::Removed { tier, blocks } => {
            for &name in blocks {
                copies.remove(&(from, name, *tier));
            }
        }
        KvEvent::Cleared => copies.retain(|(worker, ..)| *worker != from),
    }
}

/// Keeps the truth, as the engines tell it.
#[derive(Default)]
struct Truth {
    copies: Copies,
    deaths: usize,
}

impl Host for Truth {
    fn real_time(&mut self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, _: usize, _: usize) {}

    fn published(&mut self, batch: &EventBatch) {
        batch.events.iter().for_each(|event| note(&mut self.copies, batch.from, event));
    }

    fn died(&mut self, worker: WorkerRank) {
        self.deaths += 1;
        note(&mut self.copies, worker, &KvEvent::Cleared);
    }
}

fn belief(router: &Router) -> Copies {
    let mut copies = Copies::new();
    router.dump(&mut |from, event| note(&mut copies, from, &event));
    copies
}

fn fleet() -> (FleetConfig, Workload) {
    let block_size = TraceBlockSize::new(32).unwrap();
    let ladder = Some(LadderConfig::default());
    let engine = EngineConfig { block_size, pool_blocks: 4_096, ladder, ..EngineConfig::default() };
    let fleet =
        FleetConfig { engines: 4, engine, naming: FleetNaming::PerEngine(7), ..FleetConfig::default() };
    let workload = Workload::new(Trace::sample().unwrap().head(160), engine.block_size)
        .hashed_by(KvAware::hash)
        .at_utilisation(Utilisation::new(0.9).unwrap(), &fleet);
    (fleet, workload)
}

fn with_context<R>(fleet: &FleetConfig, use_it: impl FnOnce(&PolicyContext<'_>) -> R) -> R {
    let workers = fleet.workers();
    use_it(&PolicyContext { workers: &workers, engine: fleet.engine, seed: 1 })
}

fn run(faults: &Faults, policy: &mut dyn Policy) -> (Outcome, Truth) {
    let (fleet, workload) = fleet();
    let mut truth = Truth::default();
    let outcome = replay_with(&fleet, &workload, faults, policy, &mut truth).unwrap();
    assert_eq!(outcome.finished, 160, "every request ends, whatever goes wrong");
    (outcome, truth)
}

fn kv_aware() -> KvAware {
    with_context(&fleet().0, KvAware::new).unwrap()
}

/// Until half of the requests have come.
fn half() -> Option<SimTime> {
    Some(fleet().1.arrival(80).unwrap())
}

fn link(delay_ms: u64, jitter_ms: u64, lost_per_mille: u32) -> Faults {
    let link = Link {
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::from_millis(jitter_ms),
        lost_per_mille,
        until: half(),
    };
    Faults { link, seed: 3, ..Faults::default() }
}

fn gaps(policy: &KvAware) -> u64 {
    policy.router().streams().iter().map(|stream| stream.stream.gaps).sum()
}

#[test]
fn without_faults_the_router_knows_every_copy_in_every_tier() {
    let mut policy = kv_aware();
    let (_, truth) = run(&Faults::default(), &mut policy);
    assert_eq!(belief(policy.router()), truth.copies);
    for tier in Tier::ALL.into_iter().filter(|tier| *tier != Tier::Object) {
        assert!(truth.copies.iter().any(|copy| copy.2 == tier), "{tier:?} is used");
    }
}

#[test]
fn late_events_all_come_in_the_end() {
    let mut policy = kv_aware();
    // No jitter: whoever is late is late by the same, so nothing overtakes until the delay ends.
    let faults = Faults { link: Link { until: None, ..link(700, 0, 0).link }, ..Faults::default() };
    let (_, truth) = run(&faults, &mut policy);
    assert_eq!(gaps(&policy), 0);
    assert_eq!(belief(policy.router()), truth.copies);
}

#[test]
fn lost_events_leave_less_and_never_more() {
    let mut policy = kv_aware();
    let (_, truth) = run(&link(0, 0, 30), &mut policy);
    assert!(gaps(&policy) > 0);
    let belief = belief(policy.router());
    // It may be a lot less: what continues something that was forgotten is refused, for as long as the engine has no
    // reason to announce that again.
    assert!(belief.is_subset(&truth.copies) && belief.len() < truth.copies.len());
}

#[test]
fn events_out_of_order_leave_less_and_never_more() {
    let mut policy = kv_aware();
    let (_, truth) = run(&link(5, 400, 0), &mut policy);
    assert!(gaps(&policy) > 0);
    let belief = belief(policy.router());
    assert!(belief.is_subset(&truth.copies) && belief.len() < truth.copies.len());
}

#[test]
fn a_new_life_ends_what_was_lost() {
    let (fleet, workload) = fleet();
    let outage = |engine| Outage {
        engine,
        at: workload.arrival(100).unwrap(),
        noticed_after: Duration::ZERO,
        back_after: Duration::ZERO,
    };
    let faults = Faults { outages: (0..fleet.engines).map(outage).collect(), ..link(0, 0, 30) };
    let mut policy = kv_aware();
    let (_, truth) = run(&faults, &mut policy);
    assert_eq!(belief(policy.router()), truth.copies);
}

#[test]
fn a_dead_worker_is_forgotten_and_its_requests_are_sent_again() {
    let (_, workload) = fleet();
    let outage = |engine, request| Outage {
        engine,
        at: workload.arrival(request).unwrap(),
        noticed_after: Duration::from_secs(1),
        back_after: Duration::from_secs(4),
    };
    // The second one dies again before it is noticed, and once more when it is back; late events of its past lives come
    // when it is in a new one.
    let outages = vec![outage(0, 40), outage(1, 60), outage(1, 60), outage(1, 90)];
    let slow = Link { delay: Duration::from_secs(6), ..Link::default() };
    for link in [Link::default(), slow] {
        let faults = Faults { link, outages: outages.clone(), seed: 3 };
        let mut policy = kv_aware();
        let (outcome, truth) = run(&faults, &mut policy);
        assert_eq!((truth.deaths, outcome.refused), (3, 0));
        assert!(outcome.resent > 0);
        let stats = policy.router().stats();
        assert_eq!((stats.load.requests, stats.load.prompt_blocks, stats.ranks), (0, 0, 4));
        let belief = belief(policy.router());
        assert!(belief.is_subset(&truth.copies));
        assert!(
            [0, 1].iter().all(|id| belief.iter().any(|copy| copy.0.worker.get() == *id)),
            "both are back"
        );
        if link == Link::default() {
            assert_eq!(belief, truth.copies);
        }
    }
}

#[test]
fn every_policy_lives_through_everything_and_repeats() {
    let (fleet, workload) = fleet();
    let outage = Outage {
        engine: 2,
        at: workload.arrival(30).unwrap(),
        noticed_after: Duration::from_millis(500),
        back_after: Duration::from_secs(20),
    };
    let faults = Faults { outages: vec![outage], ..link(50, 50, 20) };
    for entry in POLICIES.iter().chain([&BEST_PREFIX]) {
        let outcome =
            || with_context(&fleet, |context| run(&faults, &mut *(entry.build)(context).unwrap())).0;
        assert_eq!(outcome(), outcome(), "{}", entry.name);
    }
}

#[test]
fn routers_that_share_end_with_one_idea_of_load_and_those_that_do_not_with_their_own() {
    let (fleet, _) = fleet();
    let faults = Faults::default();
    let knobs = Knobs::default();
    let mut sharing = with_context(&fleet, |context| {
        SharedLoad::new("kv-aware", context, &knobs, 3, Duration::from_millis(50)).unwrap()
    });
    let (outcome, truth) = run(&faults, &mut sharing);
    sharing.exchange(outcome.end);
    for stats in sharing.sync_stats() {
        assert!(stats.applied > 0, "each hears of the others");
        assert_eq!((stats.replicas, stats.behind, stats.bookings, stats.refused), (2, 0, 0, 0));
    }
    for member in sharing.members() {
        assert_eq!(belief(member.router()), truth.copies);
        let stats = member.router().stats().load;
        assert_eq!((stats.requests, stats.prompt_blocks), (0, 0), "all bookings are given back everywhere");
    }
    let mut alone = with_context(&fleet, |context| {
        let members = (0..3).map(|_| KvAware::new(context).unwrap()).collect();
        Several::new("kv-aware alone", members)
    });
    let (blind, _) = run(&faults, &mut alone);
    assert_ne!(outcome.ttft, blind.ttft, "what the others do changes decisions");
}

#[test]
fn an_outage_of_nobody_is_refused() {
    let (fleet, workload) = fleet();
    let nobody =
        Outage { engine: 4, at: SimTime::ZERO, noticed_after: Duration::ZERO, back_after: Duration::ZERO };
    let faults = Faults { outages: vec![nobody], ..Faults::default() };
    let error = replay_with(&fleet, &workload, &faults, &mut kv_aware(), &mut Truth::default()).unwrap_err();
    assert_eq!(error, ReplayError::UnknownEngine { engine: 4 });
}
