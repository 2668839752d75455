//! A policy of one's own against the baselines, on the bundled trace:
//! `cargo run --release -p kv-router-sim --example compare`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router_sim::fleet::{FleetConfig, Headless, replay};
use kv_router_sim::policy::{BestPrefix, LeastLoaded, Policy, PolicyError, RoundRobin};
use kv_router_sim::report::{Comparison, PolicyReport, table};
use kv_router_sim::request::SimRequest;
use kv_router_sim::time::SimTime;
use kv_router_sim::trace::Trace;
use kv_router_sim::workload::{Utilisation, Workload};
use kv_router_types::WorkerRank;

/// Requests that begin alike go to the same worker, by the hash of their second 512 tokens. No state, no
/// load.
struct Sticky {
    workers: Vec<WorkerRank>,
}

impl Policy for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn choose(&mut self, request: &SimRequest, _: SimTime) -> Result<WorkerRank, PolicyError> {
        let blocks = request.blocks();
        let key = blocks.get(32).or(blocks.last()).map_or(0, |block| block.get());
        let chosen = usize::try_from(key % self.workers.len().max(1) as u64).unwrap_or_default();
        self.workers.get(chosen).copied().ok_or(PolicyError::NoWorkers)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let fleet = FleetConfig { engines: 16, ..FleetConfig::default() };
    let workers = fleet.workers();
    let workload =
        Workload::new(Trace::sample()?, fleet.engine.block_size).at_utilisation(Utilisation::DEFAULT, &fleet);

    let policies: [Box<dyn Policy>; 4] = [
        Box::new(Sticky { workers: workers.clone() }),
        Box::new(BestPrefix::new(&workers, 1)),
        Box::new(LeastLoaded::new(&workers, 1)),
        Box::new(RoundRobin::new(&workers)),
    ];
    let mut comparison = Comparison {
        setting: format!("{} requests, {} engines", workload.len(), fleet.engines),
        bound: workload.hit_bound(),
        policies: Vec::new(),
    };
    for mut policy in policies {
        let outcome = replay(&fleet, &workload, policy.as_mut(), &mut Headless)?;
        comparison.policies.push(PolicyReport { policy: policy.name().to_owned(), outcome });
    }
    print!("{}", table(&comparison));
    Ok(())
}
