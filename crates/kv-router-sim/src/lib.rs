//! Mock inference engines with a real prefix cache, and a trace replay in virtual time: what routing policies
//! are compared on.
//!
//! ```
//! use kv_router_sim::fleet::{FleetConfig, Headless, replay};
//! use kv_router_sim::policy::{BestPrefix, RoundRobin};
//! use kv_router_sim::trace::Trace;
//! use kv_router_sim::workload::{Utilisation, Workload};
//!
//! // Two turns of two conversations: the second turn continues the first.
//! let trace = Trace::read(
//!     br#"{"timestamp": 0,    "input_length": 1024, "output_length": 8, "hash_ids": [1, 2]}
//!         {"timestamp": 100,  "input_length": 1024, "output_length": 8, "hash_ids": [7, 8]}
//!         {"timestamp": 5000, "input_length": 1536, "output_length": 8, "hash_ids": [7, 8, 9]}
//!         {"timestamp": 5100, "input_length": 1536, "output_length": 8, "hash_ids": [1, 2, 3]}"#
//!         .as_slice(),
//! )?;
//! let fleet = FleetConfig { engines: 2, ..FleetConfig::default() };
//! let workload = Workload::new(trace, fleet.engine.block_size).at_utilisation(Utilisation::new(0.1)?, &fleet);
//!
//! let blind = replay(&fleet, &workload, &mut RoundRobin::new(&fleet.workers()), &mut Headless)?;
//! let aware = replay(&fleet, &workload, &mut BestPrefix::new(&fleet.workers(), 1), &mut Headless)?;
//! assert_eq!(blind.hit_blocks, 0); // the turns went to the other engine
//! assert_eq!(aware.hit_blocks, workload.hit_bound().hit_blocks);
//! assert!(aware.ttft.mean < blind.ttft.mean);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want | type |
//! |---|---|
//! | to compare policies on a trace | [`replay`](fleet::replay), [`FleetConfig`](fleet::FleetConfig) |
//! | a policy of my own | [`Policy`](policy::Policy), and a line in [`POLICIES`](policy::POLICIES) |
//! | a scenario with its faults and its contenders | [`Scenario`](scenario::Scenario), [`Faults`](faults::Faults) |
//! | one engine, driven by hand | [`MockEngine`](engine::MockEngine) |
//! | requests | [`Trace`](trace::Trace), paced by a [`Workload`](workload::Workload) |
//! | to check what an engine announces | [`CacheModel`](model::CacheModel) |
//! | the best that any policy could do | [`HitBound`](bound::HitBound) |
//! | engines on real sockets, with faults | feature `wire`: `wire::WireEngine`, `wire::chaos::run` |
//! | routers and workers over a real NATS server, with faults | feature `nats`: `nats::chaos::run`, `nats::scenario` |
//! | tables, JSON, charts | [`Comparison`](report::Comparison) |
//!
//! # Guarantees
//!
//! * Deterministic: the same trace, configuration and seed give the same outcome on every machine. The library
//!   reads no clock; decision times come from the [`Host`](fleet::Host) and influence nothing.
//! * Engines are honest: replaying their events gives exactly the blocks their caches hold, after every step. A
//!   parent is never evicted before its children, and memory never exceeds the pool.
//! * Every request ends: finished, or refused by a typed error because it could never fit.
//! * A policy hears of every cache change and of all progress at the moment of virtual time that it happens.
//!
//! # Cost
//!
//! O(blocks of all prompts + steps x running requests), beside the policy: 6,000 requests of 12,000 tokens on
//! 8 or 64 engines take one to three seconds in a release build. Memory is the trace, the pools, and the
//! requests in flight.
//!
//! # Deliberately not here
//!
//! Adaptive batching, speculative decoding, network time and clients that give up. Generated text is never
//! the prefix of a later prompt unless the trace says so.
#![forbid(unsafe_code)]

pub mod bound;
pub mod engine;
pub mod faults;
pub mod fleet;
pub mod holdings;
pub mod metrics;
pub mod model;
#[cfg(feature = "nats")]
pub mod nats;
pub mod policy;
pub mod progress;
pub mod prompt;
mod queue;
pub mod random;
pub mod report;
pub mod request;
pub mod scenario;
pub mod time;
pub mod trace;
#[cfg(feature = "wire")]
pub mod wire;
pub mod workload;
