//! The decision.

use std::error::Error;
use std::fmt;

use kv_router_types::WorkerRank;

use crate::pool::{Contender, Rule};
use crate::{
    Candidate, ConfigError, CostConfig, CostTerms, Draw, Entropy, Excluded, ExclusionCounts, FilterConfig,
    Scratch, SelectRequest, Spread, StaleRule,
};

/// Chooses a worker rank for each request. Immutable: share one among all threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    cost: CostConfig,
    filters: FilterConfig,
}

/// What became of the preferred taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The request has none.
    NotAsked,
    /// The winner carries them all.
    Met,
    /// Nobody who is eligible carries them all; the winner does not.
    Relaxed,
}

/// The winner of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a selection that is not booked does not count as load"]
#[non_exhaustive]
pub struct Selection {
    /// Position among the candidates, from 0.
    pub position: usize,
    /// The rank.
    pub worker: WorkerRank,
    /// Its cost, in blocks. [`Selector::cost`] has the terms.
    pub cost: f64,
    /// How it was found.
    pub draw: Draw,
    /// What became of the preferred taints.
    pub preference: Preference,
    /// Candidates that were scored and could have won.
    pub eligible: u32,
    /// Candidates that were left out.
    pub excluded: ExclusionCounts,
}

/// What is missing when nobody is eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// There was no candidate at all.
    NoCandidates,
    /// No candidate matches the request: waiting will not help.
    NoneMatch,
    /// Those that match are above a busy threshold: wait, or shed load.
    AllBusy,
    /// Those that match, and are not busy, have stale caches: wait until they have caught up.
    AllStale,
}

/// Why nobody was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectError {
    /// Every candidate was left out.
    NoEligibleWorker {
        /// What is missing.
        shortage: Shortage,
        /// How many were left out, by reason.
        excluded: ExclusionCounts,
    },
    /// There are eligible ranks, and all of them are above [`FilterConfig::wait_prefill`]: the request has to wait
    /// until one has worked off its prefill.
    MustWait {
        /// How many there are.
        eligible: u32,
        /// How many were left out, by reason.
        excluded: ExclusionCounts,
    },
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shortage, excluded) = match self {
            Self::NoEligibleWorker { shortage, excluded } => (shortage, excluded),
            Self::MustWait { eligible, excluded } => {
                return write!(
                    f,
                    "all {eligible} eligible workers have their prefill full (excluded: {excluded}): queue the \
                     request, or retry when one has worked some off"
                );
            }
        };
        match shortage {
            Shortage::NoCandidates => f.write_str("there is no worker: wait until one has registered"),
            Shortage::NoneMatch => {
                write!(f, "no worker matches the request ({excluded}): relax its constraints or add workers")
            }
            Shortage::AllBusy => {
                write!(f, "every worker that matches is busy ({excluded}): retry later or add workers")
            }
            Shortage::AllStale => write!(
                f,
                "every worker that matches is catching up with its events ({excluded}): retry soon, or let stale \
                 workers serve"
            ),
        }
    }
}

impl Error for SelectError {}

/// Sees each candidate as the decision does. The decision does not depend on who watches.
pub(crate) trait Watch {
    fn excluded(&mut self, candidate: &Candidate<'_>, reason: Excluded);
    fn scored(&mut self, candidate: &Candidate<'_>, terms: CostTerms);
}

/// Nobody watches: the calls vanish.
impl Watch for () {
    fn excluded(&mut self, _: &Candidate<'_>, _: Excluded) {}
    fn scored(&mut self, _: &Candidate<'_>, _: CostTerms) {}
}

impl Selector {
    /// A selector with these rules.
    ///
    /// # Errors
    ///
    /// The first field outside its range.
    pub fn new(cost: CostConfig, filters: FilterConfig) -> Result<Self, ConfigError> {
        cost.validate()?;
        filters.validate()?;
        Ok(Self { cost, filters })
    }

    /// The rules of the cost.
    pub fn cost_config(&self) -> &CostConfig {
        &self.cost
    }

    /// The rules of the filters.
    pub fn filter_config(&self) -> &FilterConfig {
        &self.filters
    }

    /// Chooses among `candidates`. Each is read once; a list, an iterator over columns, anything goes.
    ///
    /// Uses entropy once when there is something to draw, and not at all otherwise. Cost: see the crate.
    ///
    /// # Errors
    ///
    /// [`SelectError::NoEligibleWorker`] when the filters leave nobody.
    pub fn select<'c>(
        &self,
        request: &SelectRequest<'_>,
        candidates: impl IntoIterator<Item = Candidate<'c>>,
        entropy: &mut impl Entropy,
        scratch: &mut Scratch,
    ) -> Result<Selection, SelectError> {
        let tally = self.fill(request, candidates.into_iter().enumerate(), scratch, &mut ());
        self.draw(request, tally, entropy, scratch)
    }

    /// The cost of one candidate, whether or not the filters would pass it.
    pub fn cost(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> CostTerms {
        self.cost.terms(request, candidate, trust(self.filters.stale_rule(candidate.stream)))
    }

    /// How the winner is found among those who passed the filters.
    pub(crate) fn rule(&self, request: &SelectRequest<'_>) -> Rule {
        match request.spread {
            _ if self.cost.temperature > 0.0 => Rule::Softmax(self.cost.temperature),
            Spread::Lowest => Rule::Lowest,
            Spread::TwoChoices { within_blocks } => Rule::TwoChoices(f64::from(within_blocks)),
        }
    }

    /// First half of a decision: filters and scores. The contenders are then in `scratch`.
    pub(crate) fn fill<'c>(
        &self,
        request: &SelectRequest<'_>,
        candidates: impl IntoIterator<Item = (usize, Candidate<'c>)>,
        scratch: &mut Scratch,
        watch: &mut impl Watch,
    ) -> Tally {
        scratch.begin(self.rule(request));
        let mut excluded = ExclusionCounts::default();
        let (mut open, mut open_preferred) = (0, 0);
        let preferred = request.constraints.preferred_taints;
        for (position, candidate) in candidates {
            let trust = match self.filters.check(request, &candidate) {
                Ok(trust) => trust,
                Err(reason) => {
                    *excluded.of(&reason) += 1;
                    watch.excluded(&candidate, reason);
                    continue;
                }
            };
            let terms = self.cost.terms(request, &candidate, trust);
            watch.scored(&candidate, terms);
            let is_open = u32::from(self.filters.is_open(&candidate));
            let pool = if preferred.is_empty() || candidate.traits.has_all(preferred) {
                open_preferred += is_open;
                &mut scratch.preferred
            } else {
                open += is_open;
                &mut scratch.others
            };
            let contender = Contender { position, worker: candidate.worker, cost: terms.cost };
            pool.offer(contender);
        }
        if scratch.preferred.is_empty() {
            return Tally { excluded, eligible: scratch.others.offered(), open };
        }
        excluded.not_preferred = scratch.others.offered();
        Tally { excluded, eligible: scratch.preferred.offered(), open: open_preferred }
    }

    /// Second half of a decision: the draw.
    pub(crate) fn draw(
        &self,
        request: &SelectRequest<'_>,
        tally: Tally,
        entropy: &mut impl Entropy,
        scratch: &mut Scratch,
    ) -> Result<Selection, SelectError> {
        let (pool, preference) = if request.constraints.preferred_taints.is_empty() {
            (&mut scratch.preferred, Preference::NotAsked)
        } else if !scratch.preferred.is_empty() {
            (&mut scratch.preferred, Preference::Met)
        } else {
            (&mut scratch.others, Preference::Relaxed)
        };
        tally.check()?;
        let (winner, draw) = pool.draw(entropy).ok_or_else(|| tally.nobody())?;
        Ok(Selection {
            position: winner.position,
            worker: winner.worker,
            cost: winner.cost,
            draw,
            preference,
            eligible: tally.eligible,
            excluded: tally.excluded,
        })
    }
}

/// The share of its credit that a rank keeps, which is all of it where it is not looked at.
pub(crate) fn trust(rule: StaleRule) -> f64 {
    match rule {
        StaleRule::Credit(trust) => trust,
        StaleRule::Exclude => 1.0,
    }
}

/// What the filters left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) excluded: ExclusionCounts,
    pub(crate) eligible: u32,
    /// Those of the eligible who are not above the threshold of the queue.
    pub(crate) open: u32,
}

impl Tally {
    /// Refuses when there is nobody to choose, or nobody for now.
    pub(crate) fn check(&self) -> Result<(), SelectError> {
        match self {
            Self { eligible: 0, .. } => Err(self.nobody()),
            Self { open: 0, .. } => {
                Err(SelectError::MustWait { eligible: self.eligible, excluded: self.excluded })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn nobody(&self) -> SelectError {
        SelectError::NoEligibleWorker { shortage: shortage(&self.excluded), excluded: self.excluded }
    }
}

/// Load and staleness are looked at last: whoever fails there matches the request.
fn shortage(excluded: &ExclusionCounts) -> Shortage {
    match excluded {
        counts if counts.total() == 0 => Shortage::NoCandidates,
        ExclusionCounts { busy: 1.., .. } => Shortage::AllBusy,
        ExclusionCounts { stale: 1.., .. } => Shortage::AllStale,
        _ => Shortage::NoneMatch,
    }
}
