//! Situations in which routing policies differ, each with its workload, its fleet, its faults and its contenders.
//!
//! ```
//! use kv_router_sim::fleet::Headless;
//! use kv_router_sim::scenario::{Scenario, StageOptions};
//!
//! let stage = Scenario::HotPrefix.stage(&StageOptions { requests: Some(200), ..StageOptions::default() })?;
//! let comparison = stage.run(|_| true, |_| Headless, |_| {})?;
//! assert_eq!(comparison.policies[0].policy, "kv-aware");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod contender;
mod generate;
mod stage;
mod workloads;

use std::error::Error;
use std::fmt;
use std::str::FromStr;

pub use contender::Contender;
pub use stage::{Stage, StageError, StageOptions};

use crate::policy::Knobs;

/// A situation. Everything about it follows from its name, a seed and a number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// One prefix is in most prompts.
    HotPrefix,
    /// Requests come in waves.
    Bursty,
    /// A few prompts are very long, and the engines are unequal.
    LongTail,
    /// Caches overflow into slower tiers.
    Tiers,
    /// Several routers share a fleet.
    ManyRouters,
    /// Workers die and come back.
    WorkerLoss,
    /// Events are late, lost and out of order.
    StaleEvents,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::HotPrefix,
        Self::Bursty,
        Self::LongTail,
        Self::Tiers,
        Self::ManyRouters,
        Self::WorkerLoss,
        Self::StaleEvents,
    ];

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HotPrefix => "hot-prefix",
            Self::Bursty => "bursty",
            Self::LongTail => "long-tail",
            Self::Tiers => "tiers",
            Self::ManyRouters => "many-routers",
            Self::WorkerLoss => "worker-loss",
            Self::StaleEvents => "stale-events",
        }
    }

    /// What it is, in one line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::HotPrefix => "one prefix is in most prompts: follow it and one worker drowns",
            Self::Bursty => "conversations whose turns come in waves",
            Self::LongTail => {
                "a few prompts are very long, and every second engine is half as fast and half as big"
            }
            Self::Tiers => "caches overflow from the device into host memory, disk and object store",
            Self::ManyRouters => "four routers over one fleet, with and without sharing their load",
            Self::WorkerLoss => "workers die, are noticed late, and come back empty",
            Self::StaleEvents => "cache events are late, out of order, and some are lost",
        }
    }

    /// Settings that suit it better than those for the first token do, if there are any: `docs/tuning.md` says why.
    pub fn knobs(self) -> Option<Knobs> {
        match self {
            Self::Bursty => "device_weight=1.5".parse().ok(), // tested
            _ => None,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(name: &str) -> Result<Self, UnknownScenario> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name).ok_or(UnknownScenario)
    }
}

/// No scenario has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownScenario;

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such scenario: use")?;
        Scenario::ALL.iter().try_for_each(|scenario| write!(f, " {scenario}"))
    }
}

impl Error for UnknownScenario {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(scenario));
        }
        assert_eq!(Scenario::Bursty.knobs().map(|knobs| knobs.cost().device_weight), Some(1.5));
        assert_eq!("hot".parse::<Scenario>(), Err(UnknownScenario));
        assert!(UnknownScenario.to_string().contains("many-routers worker-loss"));
    }
}
