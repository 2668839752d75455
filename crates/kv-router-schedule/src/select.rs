//! The decision.

use std::error::Error;
use std::fmt;

use kv_router_types::WorkerRank;

use crate::pool::Contender;
use crate::{
    Candidate, ConfigError, CostConfig, CostTerms, Draw, Entropy, Excluded, ExclusionCounts, FilterConfig,
    Scratch, SelectRequest, StaleRule,
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
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NoEligibleWorker { shortage, excluded } = self;
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
        let excluded = self.fill(request, candidates, scratch, &mut ());
        self.draw(request, excluded, entropy, scratch)
    }

    /// The cost of one candidate, whether or not the filters would pass it.
    pub fn cost(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> CostTerms {
        let trust = match self.filters.stale_rule(candidate.stream) {
            StaleRule::Credit(trust) => trust,
            StaleRule::Exclude => 1.0,
        };
        self.cost.terms(request, candidate, trust)
    }

    /// First half of a decision: filters and scores. The contenders are then in `scratch`.
    pub(crate) fn fill<'c>(
        &self,
        request: &SelectRequest<'_>,
        candidates: impl IntoIterator<Item = Candidate<'c>>,
        scratch: &mut Scratch,
        watch: &mut impl Watch,
    ) -> ExclusionCounts {
        scratch.clear();
        let mut excluded = ExclusionCounts::default();
        let preferred = request.constraints.preferred_taints;
        for (position, candidate) in candidates.into_iter().enumerate() {
            let trust = match self.filters.check(request, &candidate) {
                Ok(trust) => trust,
                Err(reason) => {
                    excluded.add(&reason);
                    watch.excluded(&candidate, reason);
                    continue;
                }
            };
            let terms = self.cost.terms(request, &candidate, trust);
            watch.scored(&candidate, terms);
            let pool = if preferred.is_empty() || candidate.traits.has_all(preferred) {
                &mut scratch.preferred
            } else {
                &mut scratch.others
            };
            let contender = Contender { position, worker: candidate.worker, cost: terms.cost };
            pool.offer(contender, self.cost.temperature);
        }
        if !scratch.preferred.is_empty() {
            excluded.not_preferred = scratch.others.offered();
        }
        excluded
    }

    /// Second half of a decision: the draw.
    pub(crate) fn draw(
        &self,
        request: &SelectRequest<'_>,
        excluded: ExclusionCounts,
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
        let Some((winner, draw)) = pool.draw(self.cost.temperature, entropy) else {
            return Err(SelectError::NoEligibleWorker { shortage: shortage(&excluded), excluded });
        };
        Ok(Selection {
            position: winner.position,
            worker: winner.worker,
            cost: winner.cost,
            draw,
            preference,
            eligible: pool.offered(),
            excluded,
        })
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
