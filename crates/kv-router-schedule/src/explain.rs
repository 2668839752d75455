//! The evidence of a decision.

use std::fmt;

use kv_router_types::{Tier, WorkerRank};

use crate::select::Watch;
use crate::{
    Candidate, CostTerms, CustomTerm, Draw, Entropy, Excluded, Preference, Scratch, SelectError,
    SelectRequest, Selection, Selector, StreamFreshness, Taint,
};

/// What a decision made of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It was left out, and not scored but for [`Excluded::NotPreferred`].
    Excluded(Excluded),
    /// It could have won.
    Scored {
        /// Its cost.
        terms: CostTerms,
        /// Its chance in the draw, 0 to 1; under a custom picker 1 for the one picked and 0 for the others.
        probability: f64,
    },
}

/// One candidate of a decision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// The rank.
    pub worker: WorkerRank,
    /// Its cached blocks, by [`Tier::index`].
    pub overlap: [u32; Tier::COUNT],
    /// How far they could be trusted.
    pub stream: StreamFreshness,
    /// What custom scorers said of it, in their order. Empty for one that was left out before they were asked.
    pub custom: Vec<CustomTerm>,
    /// What became of it.
    pub verdict: Verdict,
}

/// A decision with its evidence: every candidate, what filtered it, each term of each cost, the draw.
///
/// `Display` gives a few lines for people: the outcome, then one line a candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// What was decided.
    pub outcome: Result<Selection, SelectError>,
    /// The candidates, by position.
    pub candidates: Vec<Explained>,
}

impl Selector {
    /// Chooses exactly as [`select`](Self::select) would, and says why. Allocates one list of all candidates.
    pub fn explain<'c>(
        &self,
        request: &SelectRequest<'_>,
        candidates: impl IntoIterator<Item = Candidate<'c>>,
        entropy: &mut impl Entropy,
        scratch: &mut Scratch,
    ) -> Explanation {
        let mut record = Record { preferred: request.constraints.preferred_taints, ..Record::default() };
        let tally = self.fill(request, candidates.into_iter().enumerate(), scratch, &mut record);
        let outcome = self.draw(request, tally, entropy, scratch);
        let Record { mut seen, others, .. } = record;
        let pool = if scratch.preferred.is_empty() {
            &scratch.others
        } else {
            for position in others {
                seen[position].verdict = Verdict::Excluded(Excluded::NotPreferred);
            }
            &scratch.preferred
        };
        let picked = match outcome {
            Ok(Selection { draw: Draw::Picked { .. }, position, .. }) => Some(position),
            _ => None,
        };
        for (position, chance) in pool.probabilities() {
            // What a custom picker might have picked otherwise is not known.
            let chance = picked.map_or(chance, |picked| f64::from(u8::from(picked == position)));
            if let Verdict::Scored { probability, .. } = &mut seen[position].verdict {
                *probability = chance;
            }
        }
        Explanation { outcome, candidates: seen }
    }
}

/// What a decision saw, in order of position.
#[derive(Default)]
struct Record<'a> {
    preferred: &'a [Taint],
    seen: Vec<Explained>,
    /// Positions of those who passed without every preferred taint.
    others: Vec<usize>,
    /// Of the candidate that is being judged.
    custom: Vec<CustomTerm>,
}

impl Record<'_> {
    fn push(&mut self, candidate: &Candidate<'_>, verdict: Verdict) {
        let Candidate { worker, overlap, stream, .. } = *candidate;
        let custom = std::mem::take(&mut self.custom);
        self.seen.push(Explained { worker, overlap, stream, custom, verdict });
    }
}

impl Watch for Record<'_> {
    fn excluded(&mut self, candidate: &Candidate<'_>, reason: Excluded) {
        self.push(candidate, Verdict::Excluded(reason));
    }

    fn scored(&mut self, candidate: &Candidate<'_>, terms: CostTerms) {
        if !candidate.traits.has_all(self.preferred) {
            self.others.push(self.seen.len());
        }
        self.push(candidate, Verdict::Scored { terms, probability: 0.0 });
    }

    fn custom(&mut self, term: CustomTerm) {
        self.custom.push(term);
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(selection) => {
                let Selection { worker, cost, draw, eligible, excluded, preference, .. } = selection;
                write!(
                    f,
                    "{worker} at {cost:.2} blocks, among {eligible} eligible; {draw}; excluded: {excluded}"
                )?;
                if *preference == Preference::Relaxed {
                    f.write_str("; nobody has the preferred taints")?;
                }
            }
            Err(error) => write!(f, "nobody: {error}")?,
        }
        self.candidates.iter().try_for_each(|candidate| write!(f, "\n  {candidate}"))
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.worker)?;
        let (terms, probability) = match &self.verdict {
            Verdict::Excluded(reason) => return write!(f, "excluded, {reason}"),
            Verdict::Scored { terms, probability } => (terms, probability),
        };
        let CostTerms { cost, prefill_term, potential_decode, request_term, .. } = terms;
        write!(
            f,
            "cost {cost:.2} = prefill {prefill_term:.2} ({:.2} queued + {:.0} new - {:.2} credit) \
             + decode {potential_decode:.2} + requests {request_term:.2}",
            terms.active_prefill_blocks, terms.incoming_prompt_blocks, terms.overlap_credit,
        )?;
        for CustomTerm { scorer, term, .. } in &self.custom {
            write!(f, " + {scorer} {term:.2}")?;
        }
        write!(f, "; chance {probability:.4}; cached")?;
        let mut cached = Tier::ALL.into_iter().filter(|tier| self.overlap[tier.index()] > 0).peekable();
        if cached.peek().is_none() {
            f.write_str(" nothing")?;
        }
        for tier in cached {
            write!(f, " {} {tier}", self.overlap[tier.index()])?;
        }
        if self.stream == StreamFreshness::Fresh { Ok(()) } else { write!(f, "; stream {}", self.stream) }
    }
}
