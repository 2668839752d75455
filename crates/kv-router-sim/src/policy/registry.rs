//! The policies a program may offer by name. A new one is a file and a line here.

use kv_router_types::WorkerRank;

use super::{BestPrefix, KvAware, LeastLoaded, Policy, PolicyError, Random, RoundRobin};
use crate::engine::EngineConfig;

/// What a policy is built from.
#[derive(Clone, Copy, Debug)]
pub struct PolicyContext<'a> {
    /// The fleet, in a fixed order.
    pub workers: &'a [WorkerRank],
    /// Size and speed of each engine; its block size is that of requests and events alike.
    pub engine: EngineConfig,
    /// Decides every draw of the policy.
    pub seed: u64,
}

/// A policy that can be had by name.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Its name, as [`Policy::name`] gives it.
    pub name: &'static str,
    /// Builds it.
    pub build: fn(&PolicyContext<'_>) -> Result<Box<dyn Policy>, PolicyError>,
}

/// All of them, in the order of a comparison.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry { name: "kv-aware", build: |context| Ok(Box::new(KvAware::new(context)?)) },
    PolicyEntry {
        name: "least-loaded",
        build: |context| Ok(Box::new(LeastLoaded::new(context.workers, context.seed))),
    },
    PolicyEntry { name: "round-robin", build: |context| Ok(Box::new(RoundRobin::new(context.workers))) },
    PolicyEntry { name: "random", build: |context| Ok(Box::new(Random::new(context.workers, context.seed))) },
];

/// The yardstick: what cache-awareness alone is worth, with exact events and no notion of memory. Not among
/// [`POLICIES`], because nobody should run it: see [`BestPrefix`].
pub const BEST_PREFIX: PolicyEntry = PolicyEntry {
    name: "best-prefix",
    build: |context| Ok(Box::new(BestPrefix::new(context.workers, context.seed))),
};
