//! Whole replays: the same every time, nothing lost, and every policy told the truth.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use kv_router_sim::engine::EngineConfig;
use kv_router_sim::fleet::{FleetConfig, FleetNaming, Headless, Host, ReplayError, replay};
use kv_router_sim::metrics::Outcome;
use kv_router_sim::model::CacheModel;
use kv_router_sim::policy::{
    BestPrefix, LeastLoaded, POLICIES, Policy, PolicyContext, PolicyError, RoundRobin,
};
use kv_router_sim::progress::{Milestone, Progress};
use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::request::SimRequest;
use kv_router_sim::time::SimTime;
use kv_router_sim::trace::Trace;
use kv_router_sim::workload::{Utilisation, Workload};

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kv_router_transport::EventBatch;
use kv_router_types::{WorkerId, WorkerRank};

fn fleet(engines: u32) -> FleetConfig {
    let block_size = TraceBlockSize::new(128).unwrap();
    let engine = EngineConfig { block_size, pool_blocks: 2_048, ..EngineConfig::default() };
    FleetConfig { engines, engine, ..FleetConfig::default() }
}

/// `sessions` conversations of `turns` turns each, in turn: every prompt continues the one before it. Answers
/// have `output` tokens and a few more.
fn conversations(sessions: u64, turns: u64, output: u64) -> Trace {
    let mut text = String::new();
    for turn in 0..turns {
        for session in 0..sessions {
            let pieces = 2 * (turn + 1);
            let ids: Vec<u64> = (0..pieces).map(|piece| session * 1_000 + piece).collect();
            let (at, input) = ((turn * sessions + session) * 700, pieces * 512 - 100);
            text.push_str(&format!(
                "{{\"timestamp\":{at},\"input_length\":{input},\"output_length\":{},\"hash_ids\":{ids:?}}}\n",
                output + session * 7
            ));
        }
    }
    Trace::read(text.as_bytes()).unwrap()
}

fn workload(fleet: &FleetConfig) -> Workload {
    Workload::new(conversations(12, 9, 20), fleet.engine.block_size)
        .at_utilisation(Utilisation::DEFAULT, fleet)
}

fn run(fleet: &FleetConfig, workload: &Workload, policy: &mut dyn Policy) -> Outcome {
    replay(fleet, workload, policy, &mut Headless).unwrap()
}

#[test]
fn the_same_seed_is_the_same_replay() {
    let fleet = fleet(4);
    let (workload, workers) = (workload(&fleet), fleet.workers());
    for entry in POLICIES {
        let outcome = |seed| {
            let context = PolicyContext { workers: &workers, engine: fleet.engine, seed };
            run(&fleet, &workload, (entry.build)(&context).unwrap().as_mut())
        };
        assert_eq!(outcome(1), outcome(1), "{}", entry.name);
        let Outcome { finished, refused, .. } = outcome(2);
        assert_eq!((finished, refused), (108, 0));
    }
}

/// A host whose clock runs wild.
struct Wild(u64);

impl Host for Wild {
    fn real_time(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(31) % 1_000_003;
        Duration::from_millis(self.0)
    }

    fn progress(&mut self, settled: usize, total: usize) {
        assert!(settled <= total);
    }
}

#[test]
fn real_time_is_measured_and_changes_nothing() {
    let fleet = fleet(4);
    let workload = workload(&fleet);
    let policy = || LeastLoaded::new(&fleet.workers(), 3);
    let calm = run(&fleet, &workload, &mut policy());
    let mut wild = replay(&fleet, &workload, &mut policy(), &mut Wild(7)).unwrap();
    assert!(wild.decision.p99 > 0.0);
    wild.decision = calm.decision;
    assert_eq!(wild, calm);
}

#[test]
fn names_are_opaque_to_a_policy() {
    let outcome = |naming| {
        let fleet = FleetConfig { naming, ..fleet(4) };
        run(&fleet, &workload(&fleet), &mut BestPrefix::new(&fleet.workers(), 3))
    };
    let shared = outcome(FleetNaming::Shared);
    assert_eq!(shared, outcome(FleetNaming::PerEngine(9)));
    assert_eq!(shared, outcome(FleetNaming::Serial));
}

#[test]
fn looking_at_caches_pays_and_the_bound_holds() {
    let fleet = fleet(4);
    let workload = workload(&fleet);
    let bound = workload.hit_bound().ratio();
    let aware = run(&fleet, &workload, &mut BestPrefix::new(&fleet.workers(), 3));
    let blind = run(&fleet, &workload, &mut LeastLoaded::new(&fleet.workers(), 3));
    assert!(aware.hit_ratio() > blind.hit_ratio() + 0.2, "{} {}", aware.hit_ratio(), blind.hit_ratio());
    assert!(aware.ttft.mean < blind.ttft.mean);
    assert!(aware.hit_ratio() <= bound && bound < 1.0);
}

#[test]
fn one_engine_of_memory_enough_reaches_the_bound() {
    let fleet = fleet(1);
    let workload = Workload::new(conversations(3, 4, 20), fleet.engine.block_size)
        .at_utilisation(Utilisation::new(0.05).unwrap(), &fleet);
    let outcome = run(&fleet, &workload, &mut RoundRobin::new(&fleet.workers()));
    let bound = workload.hit_bound();
    assert_eq!((outcome.hit_blocks, outcome.prompt_blocks), (bound.hit_blocks, bound.prompt_blocks));
    assert_eq!(outcome.imbalance, 1.0);
}

/// Wraps a policy, and checks that what it is told is complete and in order.
struct Witness {
    inner: RoundRobin,
    caches: HashMap<WorkerRank, (CacheModel, u64)>,
    sent: HashMap<u32, WorkerRank>,
    ended: HashSet<u32>,
    now: SimTime,
}

impl Policy for Witness {
    fn name(&self) -> &str {
        "witness"
    }

    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError> {
        assert!(now >= self.now && now == request.arrival());
        self.now = now;
        let worker = self.inner.choose(request, now)?;
        assert!(self.sent.insert(request.index(), worker).is_none());
        Ok(worker)
    }

    fn on_events(&mut self, batch: EventBatch) {
        let (cache, next) = self.caches.entry(batch.from).or_default();
        assert_eq!(batch.sequence, *next);
        *next += 1;
        for event in &batch.events {
            cache.apply(event).unwrap();
        }
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        assert!(milestone.at >= self.now);
        self.now = milestone.at;
        let request = &milestone.request;
        assert_eq!(self.sent.get(&request.index()), Some(&milestone.worker));
        match milestone.progress {
            // Cache changes are told first, so the prompt is known to be there by the time that it is
            // computed.
            Progress::PrefillCompleted => {
                let (cache, _) = &self.caches[&milestone.worker];
                assert_eq!(cache.longest_prefix(request.blocks()), request.blocks().len());
            }
            Progress::Finished | Progress::Refused => assert!(self.ended.insert(request.index())),
            Progress::Admitted { .. }
            | Progress::OutputGrown { .. }
            | Progress::Preempted
            | Progress::Lost => {}
        }
    }
}

#[test]
fn a_policy_is_told_everything_at_the_moment_it_happens() {
    let fleet = FleetConfig { naming: FleetNaming::Serial, ..fleet(3) };
    let mut witness = Witness {
        inner: RoundRobin::new(&fleet.workers()),
        caches: HashMap::new(),
        sent: HashMap::new(),
        ended: HashSet::new(),
        now: SimTime::ZERO,
    };
    let outcome = run(&fleet, &workload(&fleet), &mut witness);
    assert_eq!((witness.sent.len(), witness.ended.len()), (108, 108));
    assert_eq!((outcome.finished, witness.caches.len()), (108, 3));
}

#[test]
fn what_does_not_fit_is_refused_and_told() {
    let mut fleet = fleet(2);
    fleet.engine.block_size = TraceBlockSize::new(16).unwrap();
    fleet.engine.pool_blocks = 500; // the last turns take more
    let workload = Workload::new(conversations(12, 9, 800), fleet.engine.block_size);
    let mut policy = LeastLoaded::new(&fleet.workers(), 1);
    let outcome = run(&fleet, &workload, &mut policy);
    assert!(outcome.refused > 0 && outcome.preemptions > 0, "{outcome:?}");
    assert_eq!(outcome.finished + outcome.refused, 108);
}

/// Chooses one worker always, or nobody.
struct Fixed(Option<u64>);

impl Policy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn choose(&mut self, _: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        self.0.map(|id| WorkerRank::from(WorkerId::new(id))).ok_or(PolicyError::NoWorkers)
    }
}

#[test]
fn faults_of_a_policy() {
    let fleet = fleet(2);
    let workload = workload(&fleet);
    let outcome = run(&fleet, &workload, &mut Fixed(None));
    assert_eq!((outcome.finished, outcome.refused, outcome.imbalance), (0, 108, 1.0));

    let error = replay(&fleet, &workload, &mut Fixed(Some(2)), &mut Headless).unwrap_err();
    assert_eq!(error, ReplayError::UnknownWorker { worker: WorkerId::new(2).into(), request: 0 });

    let outcome = run(&fleet, &workload, &mut Fixed(Some(1)));
    assert_eq!((outcome.finished, outcome.imbalance), (108, 2.0));
}

#[test]
fn a_fleet_is_checked_before_it_runs() {
    let workload = workload(&fleet(2));
    let refused = |fleet| replay(&fleet, &workload, &mut Fixed(Some(0)), &mut Headless).unwrap_err();
    assert_eq!(refused(fleet(0)), ReplayError::FleetSize { engines: 0 });
    assert_eq!(refused(fleet(u32::MAX)), ReplayError::FleetSize { engines: u32::MAX });
    let mut broken = fleet(1);
    broken.engine.pool_blocks = 0;
    assert!(matches!(refused(broken), ReplayError::Engine(_)));
}

#[test]
fn a_router_may_hash_tokens_itself() {
    use kv_router_types::LocalBlockHash;

    let fleet = fleet(4);
    let derived = workload(&fleet);
    let hashed = derived.clone().hashed_by(|prompt, size| {
        let tokens: Vec<u32> = prompt.tokens().collect();
        let hash = |block: &[u32]| {
            block.iter().fold(7u64, |sum, &token| sum.wrapping_mul(1_000_003) ^ u64::from(token))
        };
        tokens.chunks_exact(size.get().as_usize()).map(|block| LocalBlockHash::new(hash(block))).collect()
    });
    let request = (derived.request(5).unwrap(), hashed.request(5).unwrap());
    assert_ne!(request.0.blocks(), request.1.blocks());
    assert_eq!(request.0.blocks().len(), request.1.blocks().len());
    let outcome = |workload| run(&fleet, workload, &mut BestPrefix::new(&fleet.workers(), 3));
    assert_eq!(outcome(&derived), outcome(&hashed), "equal content is equal under either hash");
}
