//! A scenario made ready, and its run.

use std::error::Error;
use std::fmt;

use super::{Contender, Scenario};
use crate::faults::Faults;
use crate::fleet::{FleetConfig, Host, ReplayError, replay_with};
use crate::policy::{Knobs, PolicyContext, PolicyError};
use crate::prompt::PromptError;
use crate::report::{Comparison, PolicyReport};
use crate::trace::TraceError;
use crate::workload::{UtilisationError, Workload};

/// What may be chosen about a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct StageOptions {
    /// Decides the workload, the faults and every draw of the policies. Default 1.
    pub seed: u64,
    /// Requests, if not the scenario's own number.
    pub requests: Option<usize>,
    /// Other settings of the router: each is one more contender, after the router with default settings and the one
    /// with those of [`Scenario::knobs`].
    pub knobs: Vec<Knobs>,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self { seed: 1, requests: None, knobs: Vec::new() }
    }
}

/// A scenario made ready.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What is compared, in one line.
    pub setting: String,
    /// The engines.
    pub fleet: FleetConfig,
    /// The requests.
    pub workload: Workload,
    /// What goes wrong.
    pub faults: Faults,
    /// Who takes part, in the order of the report.
    pub contenders: Vec<Contender>,
    pub(super) seed: u64,
}

impl Stage {
    /// Any fleet and any requests, nothing goes wrong, and every policy takes part: the router with default settings
    /// first, then with each of `knobs`, the yardstick last.
    pub fn plain(
        setting: String,
        fleet: FleetConfig,
        workload: Workload,
        seed: u64,
        knobs: &[Knobs],
    ) -> Self {
        let (faults, contenders) = (Faults::default(), Contender::plain());
        let mut stage = Self { setting, fleet, workload, faults, contenders, seed };
        stage.add_knobs(knobs);
        stage
    }

    /// Puts other settings of the router behind the ones with default settings.
    pub(super) fn add_knobs(&mut self, knobs: &[Knobs]) {
        let routers: Vec<Contender> = self.contenders.clone();
        let mut at = 0;
        for router in &routers {
            at += 1;
            for tuned in knobs.iter().filter_map(|knobs| router.tuned(knobs)) {
                self.contenders.insert(at, tuned);
                at += 1;
            }
        }
    }

    /// Runs those contenders that `is_wanted`, one after the other: `host` makes the surroundings of each, and `done`
    /// is told of each that has finished.
    ///
    /// # Errors
    ///
    /// [`StageError`] when a policy cannot be built or a replay not be run.
    pub fn run<H: Host>(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        mut host: impl FnMut(&str) -> H,
        mut done: impl FnMut(&PolicyReport),
    ) -> Result<Comparison, StageError> {
        let workers = self.fleet.workers();
        let context = PolicyContext { workers: &workers, engine: self.fleet.engine, seed: self.seed };
        let mut comparison = Comparison {
            setting: self.setting.clone(),
            bound: self.workload.hit_bound(),
            policies: Vec::new(),
        };
        for contender in self.contenders.iter().filter(|contender| is_wanted(contender.name())) {
            let mut policy = contender.build(&context)?;
            let mut host = host(contender.name());
            let outcome = replay_with(&self.fleet, &self.workload, &self.faults, policy.as_mut(), &mut host)?;
            let report = PolicyReport { policy: contender.name().to_owned(), outcome };
            done(&report);
            comparison.policies.push(report);
        }
        Ok(comparison)
    }
}

impl Scenario {
    /// Makes it ready.
    ///
    /// # Errors
    ///
    /// [`StageError::Trace`] when no request is asked for.
    pub fn stage(self, options: &StageOptions) -> Result<Stage, StageError> {
        let mut stage = self.make(options)?;
        // What the router does as it comes stands beside, so that nobody takes the one for the other.
        let beside = [Some(Knobs::router_defaults()), self.knobs()].into_iter().flatten();
        let knobs: Vec<Knobs> = beside.chain(options.knobs.iter().cloned()).collect();
        stage.add_knobs(&knobs);
        Ok(stage)
    }
}

/// Why a scenario could not be made ready or run.
#[derive(Debug)]
#[non_exhaustive]
pub enum StageError {
    /// The requests are no trace.
    Trace(TraceError),
    /// A prompt is none. No seed makes one.
    Prompt(PromptError),
    /// The pace is none. No scenario has one.
    Utilisation(UtilisationError),
    /// A policy could not be built.
    Policy(PolicyError),
    /// The replay could not be run.
    Replay(ReplayError),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(source) => source.fmt(f),
            Self::Prompt(source) => source.fmt(f),
            Self::Utilisation(source) => source.fmt(f),
            Self::Policy(source) => source.fmt(f),
            Self::Replay(source) => source.fmt(f),
        }
    }
}

impl Error for StageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Trace(source) => Some(source),
            Self::Prompt(source) => Some(source),
            Self::Utilisation(source) => Some(source),
            Self::Policy(source) => Some(source),
            Self::Replay(source) => Some(source),
        }
    }
}

macro_rules! from {
    ($($variant:ident($source:ty)),*) => {$(
        impl From<$source> for StageError {
            fn from(source: $source) -> Self {
                Self::$variant(source)
            }
        }
    )*};
}

from!(
    Trace(TraceError),
    Prompt(PromptError),
    Utilisation(UtilisationError),
    Policy(PolicyError),
    Replay(ReplayError)
);
