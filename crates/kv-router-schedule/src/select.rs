//! The decision.

use std::error::Error;
use std::fmt;

use std::sync::Arc;

use kv_router_types::WorkerRank;

use crate::pool::Rule;
use crate::{
    Candidate, ConfigError, Contender, CostConfig, CostTerms, CustomRules, CustomTerm, Draw, Entropy,
    Excluded, ExclusionCounts, FilterConfig, Picker, Scratch, SelectRequest, Spread, StaleRule,
};

/// Chooses a worker rank for each request. Immutable: share one among all threads.
#[derive(Clone, Debug)]
pub struct Selector {
    cost: CostConfig,
    filters: FilterConfig,
    /// `None` rather than empty, so that a decision looks once.
    custom: Option<Arc<CustomRules>>,
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
    /// Custom rules leave out those that match, and are not busy or stale. Whether that changes only they know.
    AllRefused,
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
    /// A custom [`Picker`](crate::Picker) picked somebody who is not there.
    BadPick {
        /// Its name.
        picker: &'static str,
        /// What it picked.
        index: usize,
        /// How many there were to pick from.
        contenders: u32,
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
            Self::BadPick { picker, index, contenders } => {
                return write!(
                    f,
                    "the custom picker {picker} picked index {index} of {contenders} contenders: mend the picker"
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
            Shortage::AllRefused => write!(
                f,
                "custom rules leave out every worker that matches ({excluded}): explain the request to see which"
            ),
        }
    }
}

impl Error for SelectError {}

/// Sees each candidate as the decision does. The decision does not depend on who watches.
pub(crate) trait Watch {
    fn excluded(&mut self, candidate: &Candidate<'_>, reason: Excluded);
    fn scored(&mut self, candidate: &Candidate<'_>, terms: CostTerms);
    /// Comes before the other two for the same candidate.
    fn custom(&mut self, term: CustomTerm);
}

/// Nobody watches: the calls vanish.
impl Watch for () {
    fn excluded(&mut self, _: &Candidate<'_>, _: Excluded) {}
    fn scored(&mut self, _: &Candidate<'_>, _: CostTerms) {}
    fn custom(&mut self, _: CustomTerm) {}
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
        Ok(Self { cost, filters, custom: None })
    }

    /// The same selector with rules of the caller's own, in place of those that it had.
    ///
    /// # Errors
    ///
    /// The name of the first scorer whose weight is out of range.
    pub fn with_custom(mut self, rules: CustomRules) -> Result<Self, ConfigError> {
        rules.validate()?;
        self.custom = (!rules.is_empty()).then(|| Arc::new(rules));
        Ok(self)
    }

    /// The rules of the caller's own, if there are any.
    pub fn custom(&self) -> Option<&CustomRules> {
        self.custom.as_deref()
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
    /// [`SelectError::NoEligibleWorker`] when the filters leave nobody, [`SelectError::MustWait`] when all of them are
    /// above the threshold of the queue, [`SelectError::BadPick`] when a custom picker errs.
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

    /// The cost of one candidate, whether or not the filters would pass it. What a custom scorer may not say counts 0.
    pub fn cost(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> CostTerms {
        let trust = trust(self.filters.stale_rule(candidate.stream));
        let mut terms = self.cost.terms(request, candidate, trust);
        if let Some(custom) = &self.custom {
            let _ = custom.score(request, candidate, &mut terms, &mut ());
        }
        terms
    }

    fn picker(&self) -> Option<&dyn Picker> {
        self.custom.as_ref()?.last_word()
    }

    /// How the winner is found among those who passed the filters.
    pub(crate) fn rule(&self, request: &SelectRequest<'_>) -> Rule {
        if self.picker().is_some() { Rule::Picked } else { self.built_in_rule(request) }
    }

    fn built_in_rule(&self, request: &SelectRequest<'_>) -> Rule {
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
            let mut terms = self.cost.terms(request, &candidate, trust);
            if let Some(custom) = &self.custom
                && let Err(reason) = judge(custom, request, &candidate, &mut terms, watch)
            {
                *excluded.of(&reason) += 1;
                watch.excluded(&candidate, reason);
                continue;
            }
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
        if let Some(picker) = self.picker() {
            let contenders = pool.contenders().len() as u32;
            match picker.pick(request, pool.contenders(), &mut *entropy) {
                Some(index) => {
                    let name = picker.name();
                    let bad = SelectError::BadPick { picker: name, index, contenders };
                    let winner = *pool.contenders().get(index).ok_or(bad)?;
                    let draw = Draw::Picked { picker: name, contenders, picked: index as u32 };
                    return Ok(tally.won_by(winner, draw, preference));
                }
                None => pool.change_rule(self.built_in_rule(request)),
            }
        }
        let (winner, draw) = pool.draw(entropy).ok_or_else(|| tally.nobody())?;
        Ok(tally.won_by(winner, draw, preference))
    }
}

/// Custom rules on one candidate. Out of line: most selectors have none.
#[inline(never)]
fn judge(
    custom: &CustomRules,
    request: &SelectRequest<'_>,
    candidate: &Candidate<'_>,
    terms: &mut CostTerms,
    watch: &mut impl Watch,
) -> Result<(), Excluded> {
    custom.check(request, candidate)?;
    custom.score(request, candidate, terms, watch)
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
    fn won_by(&self, winner: Contender, draw: Draw, preference: Preference) -> Selection {
        Selection {
            position: winner.position,
            worker: winner.worker,
            cost: winner.cost,
            draw,
            preference,
            eligible: self.eligible,
            excluded: self.excluded,
        }
    }

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

/// Load, staleness and custom rules are looked at last: whoever fails there matches the request.
fn shortage(excluded: &ExclusionCounts) -> Shortage {
    match excluded {
        counts if counts.total() == 0 => Shortage::NoCandidates,
        ExclusionCounts { busy: 1.., .. } => Shortage::AllBusy,
        ExclusionCounts { stale: 1.., .. } => Shortage::AllStale,
        ExclusionCounts { refused: 1.., .. } | ExclusionCounts { bad_score: 1.., .. } => Shortage::AllRefused,
        _ => Shortage::NoneMatch,
    }
}
