//! Recorded traffic: what a fleet of simulated engines asked and announced, in order and with its times.

use std::error::Error;

use kv_router_sim::engine::EngineConfig;
use kv_router_sim::fleet::{FleetConfig, Headless, replay};
use kv_router_sim::policy::{KvAware, Policy, PolicyContext, PolicyError};
use kv_router_sim::progress::Milestone;
use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::request::SimRequest;
use kv_router_sim::time::SimTime;
use kv_router_sim::trace::Trace;
use kv_router_sim::workload::{Utilisation, Workload};
use kv_router_transport::EventBatch;
use kv_router_types::{KvEvent, LocalBlockHash, WorkerRank};

/// One thing that an index has to do.
#[derive(Clone, Debug)]
pub enum Op {
    /// A request arrived: who holds how much of it?
    Find(Vec<LocalBlockHash>),
    /// An engine's cache changed.
    Apply(WorkerRank, KvEvent),
}

impl Op {
    /// Blocks asked for, stored or removed: the unit of throughput.
    pub fn block_ops(&self) -> u64 {
        match self {
            Self::Find(query) => query.len() as u64,
            Self::Apply(_, event) => event.block_count() as u64,
        }
    }
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// What reports call it.
    pub name: String,
    /// Worker ranks of the fleet.
    pub workers: Vec<WorkerRank>,
    /// Everything that happened, by virtual time.
    pub ops: Vec<(SimTime, Op)>,
    /// Ops before this one fill the caches and are not measured.
    pub warm_up: usize,
}

/// The part of a recording that fills the caches.
const WARM_UP_SHARE: f64 = 0.3;

impl Corpus {
    /// Records a trace on `engines` engines behind the router.
    ///
    /// # Errors
    ///
    /// When the fleet cannot be built.
    pub fn record(
        name: String,
        trace: Trace,
        engines: u32,
        block_size: TraceBlockSize,
    ) -> Result<Self, Box<dyn Error>> {
        let engine = EngineConfig { block_size, ..EngineConfig::default() };
        let fleet = FleetConfig { engines, engine, ..FleetConfig::default() };
        let workload = Workload::new(trace, block_size)
            .hashed_by(KvAware::hash)
            .at_utilisation(Utilisation::DEFAULT, &fleet);
        let workers = fleet.workers();
        let policy = KvAware::new(&PolicyContext { workers: &workers, engine, seed: 1 })?;
        let mut recorder = Recorder { policy, now: SimTime::ZERO, ops: Vec::new() };
        replay(&fleet, &workload, &mut recorder, &mut Headless)?;
        let ops = recorder.ops;
        let warm_up = (ops.len() as f64 * WARM_UP_SHARE) as usize;
        Ok(Self { name, workers, ops, warm_up })
    }

    /// The measured part.
    pub fn measured(&self) -> &[(SimTime, Op)] {
        &self.ops[self.warm_up..]
    }

    /// Blocks asked for, stored and removed in the measured part.
    pub fn block_ops(&self) -> u64 {
        self.measured().iter().map(|(_, op)| op.block_ops()).sum()
    }
}

struct Recorder {
    policy: KvAware,
    /// Events carry no time of their own: they happen at the milestone or arrival next to them.
    now: SimTime,
    ops: Vec<(SimTime, Op)>,
}

impl Policy for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn prepare(&mut self, request: &SimRequest) {
        self.policy.prepare(request);
    }

    fn choose(&mut self, request: &SimRequest, now: SimTime) -> Result<WorkerRank, PolicyError> {
        self.now = now;
        self.ops.push((now, Op::Find(request.blocks().to_vec())));
        self.policy.choose(request, now)
    }

    fn on_events(&mut self, batch: EventBatch) {
        let now = self.now;
        self.ops.extend(batch.events.iter().map(|event| (now, Op::Apply(batch.from, event.clone()))));
        self.policy.on_events(batch);
    }

    fn on_progress(&mut self, milestone: &Milestone) {
        self.now = self.now.max(milestone.at);
        self.policy.on_progress(milestone);
    }
}
