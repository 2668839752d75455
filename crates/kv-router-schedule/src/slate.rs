//! A fleet in columns, kept from one decision to the next.
//!
//! Most of what a decision knows of a rank was the same a moment ago: its load changes when a request comes or goes
//! there, its overlap is nothing for almost every prompt. So the half of the cost that is the rank's own is kept, and
//! a decision adds the half that is the request's: one number for all who hold nothing of it, computed one by one for
//! the few who do.

use kv_router_types::{BlockSize, Tier, WorkerRank};

use crate::cost::active_prefill_blocks;
use crate::entropy::below;
use crate::pool::Rule;
use crate::select::{Tally, trust};
use crate::{
    Candidate, Contender, Draw, Entropy, Excluded, ExclusionCounts, Preference, Scratch, SelectError,
    SelectRequest, Selection, Selector,
};

/// What one rank of a slate has of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which rank.
    pub position: usize,
    /// Leading blocks of the prompt that it has cached, each at its best tier, by [`Tier::index`].
    pub overlap: [u32; Tier::COUNT],
    /// Blocks that it would have to hold more: see [`Candidate::incoming_blocks`].
    pub incoming_blocks: u32,
}

/// What the filters make of a rank, whatever the request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    /// There is no such rank at the moment.
    Absent,
    Excluded(Excluded),
    /// Can be chosen, but is above the threshold of the queue.
    Above,
    Open,
}

/// What the credit of a rank depends on besides its overlap.
#[derive(Clone, Copy, Debug, Default)]
struct CreditTerms {
    /// Prompt blocks that it has still to compute.
    backlog: f64,
    /// The share that the freshness of its stream leaves.
    trust: f64,
}

/// The ranks of a fleet for many decisions of one [`Selector`]: it chooses what [`Selector::select`] would choose among
/// the same candidates, bit for bit and draw for draw, in a fraction of the time.
///
/// The caller numbers the ranks, keeps what it knows of them, and tells the slate with [`set`](Self::set) whenever the
/// load, the capacity or the freshness of one changed. Nothing here is shared: keep one for each thread that decides.
///
/// ```
/// use kv_router_schedule::{
///     Candidate, CostConfig, FilterConfig, Holding, Scratch, SelectRequest, Selector, Slate, SplitMix64, WorkerTraits,
/// };
/// use kv_router_types::{BlockSize, WorkerId};
///
/// let selector = Selector::new(CostConfig::default(), FilterConfig::default())?;
/// let (block_size, traits) = (BlockSize::new(16)?, WorkerTraits::default());
/// let fleet: Vec<_> = (0..4_000).map(|id| Candidate::idle(WorkerId::new(id).into(), &traits)).collect();
/// let mut slate = Slate::new(selector, block_size);
/// for (position, rank) in fleet.iter().enumerate() {
///     slate.set(position, Some(rank));
/// }
///
/// // For each request: who holds something, and what everybody else would have to hold.
/// let request = SelectRequest::new(60, block_size);
/// let holding = Holding { position: 7, overlap: [48, 0, 0, 0], incoming_blocks: 60 };
/// let candidate = |position: usize| fleet.get(position).copied();
/// let selection =
///     slate.select(&request, 60, [holding], candidate, &mut SplitMix64::new(42), &mut Scratch::new())?;
/// assert_eq!((selection.position, selection.cost), (7, 72.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// [`set`](Self::set): a few nanoseconds. A decision: one addition and two comparisons a rank, in columns that the
/// processor takes several at a time, and one credit for each that holds something. A request with constraints is judged
/// candidate by candidate, and every request is under [custom rules](crate::CustomRules). A temperature or [`Spread::TwoChoices`](crate::Spread::TwoChoices) adds a copy of those who
/// can still win.
#[derive(Clone, Debug)]
pub struct Slate {
    selector: Selector,
    block_size: BlockSize,
    /// The half of the cost that does not depend on the request; infinite for ranks that cannot be chosen, which no
    /// cost is.
    base: Vec<f64>,
    standing: Vec<Standing>,
    /// What a credit depends on besides the request.
    credit: Vec<CreditTerms>,
    workers: Vec<WorkerRank>,
    /// Sums over `standing`.
    excluded: ExclusionCounts,
    eligible: u32,
    open: u32,
}

impl Slate {
    /// An empty slate for requests of this block size.
    pub fn new(selector: Selector, block_size: BlockSize) -> Self {
        Self {
            selector,
            block_size,
            base: Vec::new(),
            standing: Vec::new(),
            credit: Vec::new(),
            workers: Vec::new(),
            excluded: ExclusionCounts::default(),
            eligible: 0,
            open: 0,
        }
    }

    /// Who judges.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.base.len()
    }

    /// Whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.base.is_empty()
    }

    /// Forgets all ranks.
    pub fn clear(&mut self) {
        self.base.clear();
        self.standing.clear();
        self.credit.clear();
        self.workers.clear();
        (self.excluded, self.eligible, self.open) = (ExclusionCounts::default(), 0, 0);
    }

    /// Says what the rank at a position is like now; `None` for a position without one. Its overlap, its incoming
    /// blocks and its labels are not looked at. Positions up to this one that were never set have no rank.
    pub fn set(&mut self, position: usize, rank: Option<&Candidate<'_>>) {
        if position >= self.base.len() {
            self.base.resize(position + 1, f64::INFINITY);
            self.standing.resize(position + 1, Standing::Absent);
            self.credit.resize(position + 1, CreditTerms::default());
            self.workers.resize(position + 1, WorkerRank::default());
        }
        self.count(self.standing[position], u32::wrapping_sub);
        let standing = rank.map_or(Standing::Absent, |rank| self.judge(rank));
        self.count(standing, u32::wrapping_add);
        self.standing[position] = standing;
        self.credit[position] = rank.map_or_else(CreditTerms::default, |rank| CreditTerms {
            backlog: active_prefill_blocks(self.block_size, rank),
            trust: trust(self.selector.filter_config().stale_rule(rank.stream)),
        });
        self.workers[position] = rank.map_or_else(WorkerRank::default, |rank| rank.worker);
        self.base[position] = match (standing, rank) {
            (Standing::Open | Standing::Above, Some(rank)) => {
                self.selector.cost_config().base(self.block_size, rank)
            }
            _ => f64::INFINITY,
        };
    }

    fn judge(&self, rank: &Candidate<'_>) -> Standing {
        match self.selector.filter_config().check(&SelectRequest::new(0, self.block_size), rank) {
            Err(reason) => Standing::Excluded(reason),
            Ok(_) if self.selector.filter_config().is_open(rank) => Standing::Open,
            Ok(_) => Standing::Above,
        }
    }

    /// Adds one to the sums, or takes one off.
    fn count(&mut self, standing: Standing, step: fn(u32, u32) -> u32) {
        match standing {
            Standing::Absent => {}
            Standing::Excluded(reason) => {
                let count = self.excluded.of(&reason);
                *count = step(*count, 1);
            }
            Standing::Above => self.eligible = step(self.eligible, 1),
            Standing::Open => {
                self.eligible = step(self.eligible, 1);
                self.open = step(self.open, 1);
            }
        }
    }

    /// Chooses among all ranks.
    ///
    /// `holdings` name, in any order, the ranks that have something of the prompt, or that would have to hold more or
    /// less for it than `incoming_blocks`. `candidate` gives the rank at a position as it was [`set`](Self::set), with
    /// its overlap and its incoming blocks; it is asked only when the request has constraints, or the
    /// selector custom rules.
    ///
    /// # Errors
    ///
    /// As [`Selector::select`].
    pub fn select<'c>(
        &self,
        request: &SelectRequest<'_>,
        incoming_blocks: u32,
        holdings: impl IntoIterator<Item = Holding>,
        candidate: impl Fn(usize) -> Option<Candidate<'c>>,
        entropy: &mut impl Entropy,
        scratch: &mut Scratch,
    ) -> Result<Selection, SelectError> {
        let is_custom = self.selector.custom().is_some();
        if request.constraints.are_any() || is_custom || request.block_size != self.block_size {
            let all = (0..self.len()).filter_map(|position| Some((position, candidate(position)?)));
            let tally = self.selector.fill(request, all, scratch, &mut ());
            return self.selector.draw(request, tally, entropy, scratch);
        }
        let tally = Tally { excluded: self.excluded, eligible: self.eligible, open: self.open };
        tally.check()?;
        self.price(request, incoming_blocks, holdings, &mut scratch.costs);
        let (position, draw) = match self.selector.rule(request) {
            Rule::Lowest => lowest(&scratch.costs, &mut scratch.groups, entropy),
            rule => {
                let Scratch { preferred: pool, costs, .. } = &mut *scratch;
                pool.begin(rule);
                for (position, &cost) in costs.iter().enumerate().filter(|(_, cost)| cost.is_finite()) {
                    pool.offer(Contender { position, worker: self.workers[position], cost });
                }
                pool.draw(entropy).map(|(winner, draw)| (winner.position, draw))
            }
        }
        .ok_or_else(|| tally.nobody())?;
        Ok(Selection {
            position,
            worker: self.workers[position],
            cost: scratch.costs[position],
            draw,
            preference: Preference::NotAsked,
            eligible: self.eligible,
            excluded: self.excluded,
        })
    }

    /// Fills `costs`: infinite for those who cannot be chosen.
    fn price(
        &self,
        request: &SelectRequest<'_>,
        incoming_blocks: u32,
        holdings: impl IntoIterator<Item = Holding>,
        costs: &mut Vec<f64>,
    ) {
        let rules = self.selector.cost_config();
        let share = rules.share(request.prompt_blocks, 0.0, incoming_blocks);
        costs.clear();
        costs.extend(self.base.iter().map(|base| base + share));
        for Holding { position, overlap, incoming_blocks } in holdings {
            let Some(&CreditTerms { backlog, trust }) = self.credit.get(position) else { continue };
            let credit = rules.credit(request.prompt_blocks, &overlap, backlog, trust);
            costs[position] =
                self.base[position] + rules.share(request.prompt_blocks, credit, incoming_blocks);
        }
    }
}

/// Ranks that are compared side by side, because one minimum after the other would wait for the one before.
const LANES: usize = 8;

/// Ranks whose lowest cost is looked at before they are, one by one.
const GROUP: usize = 64;

/// The lowest finite cost; equals are drawn from uniformly. `None` when there is none.
fn lowest(costs: &[f64], groups: &mut Vec<f64>, entropy: &mut impl Entropy) -> Option<(usize, Draw)> {
    groups.clear();
    groups.extend(costs.chunks(GROUP).map(minimum));
    let lowest = minimum(groups);
    if !lowest.is_finite() {
        return None;
    }
    // Counted, not collected: in an idle fleet everybody is an equal.
    let mut contenders = 0;
    for (group, _) in groups.iter().enumerate().filter(|&(_, &least)| least == lowest) {
        contenders += equals(costs, group, lowest);
    }
    let (mut left, draw) = match contenders {
        1 => (0, Draw::Single),
        _ => {
            let drawn = below(u64::from(contenders), entropy) as u32;
            (drawn, Draw::Tie { contenders, drawn })
        }
    };
    for (group, _) in groups.iter().enumerate().filter(|&(_, &least)| least == lowest) {
        let here = equals(costs, group, lowest);
        if left < here {
            let start = group * GROUP;
            let mut winners = (start..).zip(&costs[start..]).filter(|&(_, &cost)| cost == lowest);
            return winners.nth(left as usize).map(|(position, _)| (position, draw));
        }
        left -= here;
    }
    None
}

/// How many of a group cost the lowest.
fn equals(costs: &[f64], group: usize, lowest: f64) -> u32 {
    let end = costs.len().min((group + 1) * GROUP);
    costs[group * GROUP..end].iter().map(|&cost| u32::from(cost == lowest)).sum()
}

/// The least number; infinity without one.
fn minimum(costs: &[f64]) -> f64 {
    let lesser = |a: f64, b: f64| if b < a { b } else { a };
    let mut lanes = [f64::INFINITY; LANES];
    let (chunks, rest) = costs.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &cost) in lanes.iter_mut().zip(chunk) {
            *lane = lesser(*lane, cost);
        }
    }
    lanes.iter().chain(rest).fold(f64::INFINITY, |least, &cost| lesser(least, cost))
}
