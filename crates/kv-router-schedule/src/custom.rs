//! Rules of the caller's own: filters, terms of the cost, and who has the last word.
//!
//! They run on the thread that decides, for each candidate, without a lock of ours: keep them quick, and let them read
//! what they need from memory. Nothing here is asked while a selector has no custom rules, and then nothing is paid.

use std::fmt;
use std::sync::Arc;

use crate::config::at_most;
use crate::select::Watch;
use crate::{Candidate, ConfigError, Contender, CostTerms, Entropy, Excluded, SelectRequest};

/// Leaves ranks out for a reason of its own, for example because a circuit breaker is open.
///
/// Asked after all built-in filters have passed a rank, and before preferred taints are looked at. What it answers is
/// taken as true for this decision alone: nothing is remembered.
pub trait Filter: Send + Sync {
    /// What explanations call it.
    fn name(&self) -> &'static str;

    /// Whether the rank may serve the request.
    fn admits(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> bool;
}

/// Adds a term to the cost of each rank, for example for its distance.
///
/// # What it may answer
///
/// A number from 0 to [`CustomRules::HIGHEST_COST`]. A rank for which it says anything else (not a number, infinite,
/// negative, too high) has no cost that could be compared: it is left out of the decision, as
/// [`Excluded::BadScore`], with the name of the scorer and what it said.
pub trait Scorer: Send + Sync {
    /// What explanations call it.
    fn name(&self) -> &'static str;

    /// What giving the request to the rank costs, in blocks, before the weight of the scorer.
    fn cost(&self, request: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64;
}

/// Has the last word among those who passed every filter.
///
/// # What it may answer
///
/// The index of one of `contenders`, which are in the order of the candidates and never none; nobody who was left out is
/// among them. `None` leaves the choice to the temperature, the spread or the lowest cost, whatever is configured. An
/// index that is out of range fails the decision, with [`SelectError::BadPick`](crate::SelectError::BadPick): to put
/// somebody else in its place would hide the fault.
pub trait Picker: Send + Sync {
    /// What explanations call it.
    fn name(&self) -> &'static str;

    /// Picks one. Luck must come from `entropy` for decisions to be repeatable.
    fn pick(
        &self,
        request: &SelectRequest<'_>,
        contenders: &[Contender],
        entropy: &mut dyn Entropy,
    ) -> Option<usize>;
}

/// One term that a [`Scorer`] added to a cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CustomTerm {
    /// The name of the scorer.
    pub scorer: &'static str,
    /// What it said.
    pub value: f64,
    /// What that added to the cost, in blocks: its weight times the value. 0 for a value that it may not say.
    pub term: f64,
}

/// Custom rules for a [`Selector`](crate::Selector). Cheap to clone.
///
/// ```
/// use kv_router_schedule::{
///     Candidate, CostConfig, CustomRules, FilterConfig, Scorer, Scratch, SelectRequest, Selector, SplitMix64,
///     WorkerTraits,
/// };
/// use kv_router_types::{BlockSize, WorkerId};
///
/// /// Blocks that the way to a worker is worth.
/// struct Distance;
///
/// impl Scorer for Distance {
///     fn name(&self) -> &'static str {
///         "distance"
///     }
///
///     fn cost(&self, _: &SelectRequest<'_>, candidate: &Candidate<'_>) -> f64 {
///         if candidate.worker.worker.get() < 100 { 0.0 } else { 20.0 }
///     }
/// }
///
/// let selector = Selector::new(CostConfig::default(), FilterConfig::default())?
///     .with_custom(CustomRules::new().scorer(0.5, Distance))?;
/// let traits = WorkerTraits::default();
/// let fleet = [7, 107].map(|id| Candidate::idle(WorkerId::new(id).into(), &traits));
/// let request = SelectRequest::new(60, BlockSize::new(16)?);
/// let explanation = selector.explain(&request, fleet, &mut SplitMix64::new(1), &mut Scratch::new());
/// assert_eq!(explanation.outcome?.worker.worker, WorkerId::new(7));
/// assert_eq!(explanation.candidates[1].custom[0].term, 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// With any custom rule every rank is judged one by one in every decision, also by a [`Slate`](crate::Slate): O(ranks)
/// with a call for each rank that passed and each rule, instead of a column that is only added up. With one filter and
/// one scorer that is some 40 ns a rank: at 4,000 ranks fifty times a plain decision, for a small fleet nothing to notice.
#[derive(Clone, Default)]
pub struct CustomRules {
    filters: Vec<Arc<dyn Filter>>,
    scorers: Vec<(f64, Arc<dyn Scorer>)>,
    picker: Option<Arc<dyn Picker>>,
}

impl CustomRules {
    /// The most that a scorer may say of a rank, in blocks: 1e9.
    pub const HIGHEST_COST: f64 = 1e9;

    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a filter. Filters are asked in the order in which they were added, up to the first that objects.
    #[must_use]
    pub fn filter(mut self, filter: impl Filter + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    /// With a term of the cost: `weight`, from 0 to 1e9, times what the scorer says.
    #[must_use]
    pub fn scorer(mut self, weight: f64, scorer: impl Scorer + 'static) -> Self {
        self.scorers.push((weight, Arc::new(scorer)));
        self
    }

    /// With a picker. The last one counts.
    #[must_use]
    pub fn picker(mut self, picker: impl Picker + 'static) -> Self {
        self.picker = Some(Arc::new(picker));
        self
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.scorers.is_empty() && self.picker.is_none()
    }

    /// Whether there is a filter.
    pub fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Checks the weights.
    ///
    /// # Errors
    ///
    /// The name of the first scorer whose weight is not a number from 0 to 1e9.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut weights = self.scorers.iter().map(|(weight, scorer)| (scorer.name(), *weight));
        weights.try_for_each(|(name, weight)| at_most(name, weight, Self::HIGHEST_COST))
    }

    pub(crate) fn last_word(&self) -> Option<&dyn Picker> {
        self.picker.as_deref()
    }

    /// Asks the filters.
    pub(crate) fn check(
        &self,
        request: &SelectRequest<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<(), Excluded> {
        let objector = self.filters.iter().find(|filter| !filter.admits(request, candidate));
        objector.map_or(Ok(()), |filter| Err(Excluded::Refused { filter: filter.name() }))
    }

    /// Adds what the scorers say to `terms`. All of them are asked, so that an explanation is complete; the first one
    /// that says what it may not is the reason given.
    pub(crate) fn score(
        &self,
        request: &SelectRequest<'_>,
        candidate: &Candidate<'_>,
        terms: &mut CostTerms,
        watch: &mut impl Watch,
    ) -> Result<(), Excluded> {
        let mut outcome = Ok(());
        for (weight, scorer) in &self.scorers {
            let (name, value) = (scorer.name(), scorer.cost(request, candidate));
            let is_good = (0.0..=Self::HIGHEST_COST).contains(&value);
            let term = if is_good { weight * value } else { 0.0 };
            if !is_good && outcome.is_ok() {
                outcome = Err(Excluded::BadScore { scorer: name, value });
            }
            terms.custom_term += term;
            watch.custom(CustomTerm { scorer: name, value, term });
        }
        terms.cost += terms.custom_term;
        outcome
    }
}

/// The names of the rules.
impl fmt::Debug for CustomRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters: Vec<_> = self.filters.iter().map(|filter| filter.name()).collect();
        let scorers: Vec<_> = self.scorers.iter().map(|(weight, scorer)| (scorer.name(), *weight)).collect();
        let picker = self.picker.as_ref().map(|picker| picker.name());
        f.debug_struct("CustomRules")
            .field("filters", &filters)
            .field("scorers", &scorers)
            .field("picker", &picker)
            .finish()
    }
}
