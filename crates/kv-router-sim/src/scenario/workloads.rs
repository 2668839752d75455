//! What each scenario is made of.
//!
//! Numbers are small enough for a run of seconds, and large enough that caches overflow and queues form: without
//! either, every policy is as good as any other.

use std::time::Duration;

use super::generate::{Maker, Talk};
use super::{Contender, Scenario, Stage, StageError, StageOptions};
use crate::engine::{EngineConfig, LadderConfig, TierConfig};
use crate::faults::{Faults, Link, Outage};
use crate::fleet::FleetConfig;
use crate::policy::KvAware;
use crate::time::SimTime;
use crate::trace::{Trace, TraceRecord};
use crate::workload::{Utilisation, Workload};

/// Routers in `many-routers`, and how often they tell each other of their load.
const ROUTERS: u32 = 4;
const EXCHANGE: Duration = Duration::from_millis(100);

/// Conversations of a few turns over instructions that some share.
const TALK: Talk = Talk {
    at_once: 160,
    instructions: 24,
    instruction_pieces: 4,
    turns: 3..=10,
    turn_pieces: 1..=4,
    output: 20..=200,
};

/// What a scenario has of its own before it is put together.
struct Plan {
    fleet: FleetConfig,
    records: Vec<TraceRecord>,
    utilisation: f64,
    contenders: Vec<Contender>,
    faults: Faults,
}

impl Scenario {
    pub(super) fn make(self, options: &StageOptions) -> Result<Stage, StageError> {
        let plan = self.plan(options)?;
        let utilisation = Utilisation::new(plan.utilisation)?;
        let workload = Workload::new(Trace::from_records(plan.records)?, plan.fleet.engine.block_size)
            .hashed_by(KvAware::hash)
            .at_utilisation(utilisation, &plan.fleet);
        let setting = format!(
            "{self}: {} requests; {} engines, {} blocks of {} tokens each; utilisation {:.2} without hits, seed {}",
            workload.len(),
            plan.fleet.engines,
            plan.fleet.engine.pool_blocks,
            plan.fleet.engine.block_size.get(),
            plan.utilisation,
            options.seed,
        );
        let faults = self.faults(plan.faults, &workload, options.seed);
        Ok(Stage {
            setting,
            fleet: plan.fleet,
            workload,
            faults,
            contenders: plan.contenders,
            seed: options.seed,
        })
    }

    fn plan(self, options: &StageOptions) -> Result<Plan, StageError> {
        let maker = &mut Maker::new(options.seed);
        let requests = options.requests.unwrap_or(if self == Self::Tiers { 2_000 } else { 3_000 });
        let steady = |maker: &mut Maker, _: usize| maker.wait(100);
        let plain = |fleet, records, utilisation| Plan {
            fleet,
            records,
            utilisation,
            contenders: Contender::plain(),
            faults: Faults::default(),
        };
        Ok(match self {
            Self::HotPrefix => plain(FleetConfig::default(), hot_prefix(maker, requests)?, 1.2),
            Self::Bursty => plain(FleetConfig::default(), bursty(maker, requests)?, 0.8),
            Self::LongTail => {
                let engine = EngineConfig::default();
                let slow = EngineConfig {
                    pool_blocks: engine.pool_blocks / 2,
                    prefill_tokens_per_second: engine.prefill_tokens_per_second / 2,
                    decode_step: engine.decode_step * 2,
                    ..engine
                };
                let fleet = FleetConfig { every_other: Some(slow), ..FleetConfig::default() };
                plain(fleet, long_tail(maker, requests)?, 0.9)
            }
            Self::Tiers => {
                let ladder = LadderConfig::default();
                let ladder = LadderConfig {
                    host: TierConfig { blocks: 4_096, ..ladder.host },
                    disk: TierConfig { blocks: 8_192, ..ladder.disk },
                    object: TierConfig { blocks: 65_536, ..ladder.object },
                    ..ladder
                };
                let engine =
                    EngineConfig { pool_blocks: 3_072, ladder: Some(ladder), ..EngineConfig::default() };
                let fleet = FleetConfig { engine, ..FleetConfig::default() };
                plain(fleet, TALK.make(maker, requests, steady)?, 0.9)
            }
            Self::ManyRouters => {
                let fleet = FleetConfig { engines: 16, ..FleetConfig::default() };
                let contenders = Contender::several(ROUTERS, EXCHANGE);
                Plan { contenders, ..plain(fleet, TALK.make(maker, requests, steady)?, 1.1) }
            }
            Self::WorkerLoss | Self::StaleEvents => {
                plain(FleetConfig::default(), TALK.make(maker, requests, steady)?, 0.9)
            }
        })
    }

    /// What goes wrong, at moments of the run.
    fn faults(self, faults: Faults, workload: &Workload, seed: u64) -> Faults {
        let at = |percent: u64| SimTime::from_nanos(workload.last_arrival().as_nanos() / 100 * percent);
        match self {
            Self::WorkerLoss => {
                let outage = |engine, percent, back_s| Outage {
                    engine,
                    at: at(percent),
                    noticed_after: Duration::from_secs(2),
                    back_after: Duration::from_secs(back_s),
                };
                Faults { outages: vec![outage(0, 25, 30), outage(3, 50, 5), outage(0, 75, 30)], ..faults }
            }
            Self::StaleEvents => {
                let link = Link {
                    delay: Duration::from_millis(500),
                    jitter: Duration::from_millis(30),
                    lost_per_mille: 1,
                    until: None,
                };
                Faults { link, seed, ..faults }
            }
            _ => faults,
        }
    }
}

/// Three of five prompts begin with the same 4,096 tokens, the others with one of 200 such prefixes; what follows is
/// new each time.
fn hot_prefix(maker: &mut Maker, requests: usize) -> Result<Vec<TraceRecord>, StageError> {
    const PIECES: u32 = 8;
    let hot: Vec<u64> = maker.fresh(PIECES).collect();
    let others: Vec<Vec<u64>> = (0..200).map(|_| maker.fresh(PIECES).collect()).collect();
    let mut records = Vec::with_capacity(requests);
    for _ in 0..requests {
        maker.wait(100);
        let mut ids =
            if maker.any(5) < 3 { hot.clone() } else { others[maker.popular(others.len())].clone() };
        let tail = maker.from(&(1..=4));
        ids.extend(maker.fresh(tail));
        records.push(maker.request(ids, &(20..=120))?);
    }
    Ok(records)
}

/// Conversations of which 100 turns at a time come in a second, and the next ones much later.
fn bursty(maker: &mut Maker, requests: usize) -> Result<Vec<TraceRecord>, StageError> {
    const WAVE: usize = 100;
    let pause = |maker: &mut Maker, index: usize| {
        maker.wait(10);
        if index.is_multiple_of(WAVE) {
            maker.wait(30_000);
        }
    };
    Ok(TALK.make(maker, requests, pause)?)
}

/// Short conversations, and one prompt in twenty of 8,192 to 49,152 tokens that is asked about once more now and then.
fn long_tail(maker: &mut Maker, requests: usize) -> Result<Vec<TraceRecord>, StageError> {
    let short = Talk { turns: 2..=5, turn_pieces: 1..=2, instruction_pieces: 2, ..TALK };
    let mut records = short.make(maker, requests, |maker, _| maker.wait(100))?;
    let mut documents: Vec<Vec<u64>> = Vec::new();
    for record in &mut records {
        if !maker.once_in(20) {
            continue;
        }
        if documents.is_empty() || maker.once_in(3) {
            let pieces = maker.from(&(16..=96));
            documents.push(maker.fresh(pieces).collect());
        }
        let recent = documents.len().min(8);
        let mut ids = documents[documents.len() - 1 - maker.any(recent)].clone();
        ids.extend(maker.fresh(1));
        let timestamp_ms = record.timestamp_ms;
        *record = TraceRecord { timestamp_ms, ..maker.request(ids, &(50..=300))? };
    }
    Ok(records)
}
