//! The candidates that are left, and the draw among them.

use std::fmt;

use kv_router_types::WorkerRank;

use crate::Entropy;
use crate::entropy::{below, unit};

/// A candidate that can still win.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender {
    /// Position among the candidates, from 0.
    pub position: usize,
    /// The rank.
    pub worker: WorkerRank,
    /// Its cost, in blocks. Never NaN.
    pub cost: f64,
}

/// How a winner is found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Rule {
    /// The lowest cost; equals are drawn from uniformly.
    #[default]
    Lowest,
    /// The cheaper of two drawn among those that are at most this far above the lowest cost, in blocks.
    TwoChoices(f64),
    /// Softmax at this temperature, above 0.
    Softmax(f64),
    /// A custom picker says.
    Picked,
}

/// The candidates of one decision that can still win.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    rule: Rule,
    contenders: Vec<Contender>,
    /// The lowest cost offered.
    lowest: f64,
    /// One for each contender, once a draw with a temperature has been made.
    weights: Vec<f64>,
    /// How many were offered.
    offered: u32,
}

/// How the winner was found.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Draw {
    /// One candidate was left. No entropy was used.
    Single,
    /// Several were left with the same cost, or with no way to tell them apart, and one was drawn uniformly.
    Tie {
        /// How many.
        contenders: u32,
        /// Which of them, in the order of the candidates, from 0.
        drawn: u32,
    },
    /// Two were drawn uniformly among those that cost about the same, and the cheaper one won, or the first of equals.
    TwoChoices {
        /// Among how many.
        contenders: u32,
        /// Which of them was drawn first, in the order of the candidates, from 0.
        first: u32,
        /// Which of the others was drawn second, counted in the same way.
        second: u32,
    },
    /// A custom [`Picker`](crate::Picker) picked one.
    Picked {
        /// Its name.
        picker: &'static str,
        /// Among how many.
        contenders: u32,
        /// Which of them, in the order of the candidates, from 0.
        picked: u32,
    },
    /// One was drawn with a temperature.
    Sampled {
        /// Among how many.
        contenders: u32,
        /// The number drawn, from 0 to 1: the winner is where it falls when the probabilities are laid end to end
        /// in the order of the candidates.
        point: f64,
    },
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => f.write_str("no draw needed"),
            Self::Tie { contenders, drawn } => {
                write!(f, "drew {drawn} among {contenders} equals, counted from 0")
            }
            Self::TwoChoices { contenders, first, second } => {
                write!(f, "drew {first} and {second} among {contenders} near equals, counted from 0")
            }
            Self::Picked { picker, contenders, picked } => {
                write!(f, "{picker} picked {picked} among {contenders}, counted from 0")
            }
            Self::Sampled { contenders, point } => {
                write!(f, "drew {point:.4} over the probabilities of {contenders}")
            }
        }
    }
}

impl Pool {
    pub(crate) fn begin(&mut self, rule: Rule) {
        self.rule = rule;
        self.contenders.clear();
        self.lowest = f64::INFINITY;
        self.weights.clear();
        self.offered = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.contenders.is_empty()
    }

    pub(crate) fn offered(&self) -> u32 {
        self.offered
    }

    pub(crate) fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// Goes on under another rule. All of those offered must still be there, as under [`Rule::Picked`].
    pub(crate) fn change_rule(&mut self, rule: Rule) {
        let contenders = std::mem::take(&mut self.contenders);
        self.begin(rule);
        contenders.into_iter().for_each(|contender| self.offer(contender));
    }

    /// Takes a candidate if it can win. Without a temperature, a lower cost sends the others home.
    #[inline]
    pub(crate) fn offer(&mut self, contender: Contender) {
        self.offered += 1;
        let cost = contender.cost;
        let margin = match self.rule {
            Rule::Lowest => 0.0,
            Rule::TwoChoices(margin) => margin,
            Rule::Softmax(_) | Rule::Picked => return self.contenders.push(contender),
        };
        if cost > self.lowest + margin {
            return;
        }
        if cost < self.lowest {
            self.lowest = cost;
            // With a margin, some may have to go; they are sorted out before the draw.
            if margin <= 0.0 {
                self.contenders.clear();
            }
        }
        self.contenders.push(contender);
    }

    /// Picks the winner. `None` when nobody was offered.
    pub(crate) fn draw(&mut self, entropy: &mut impl Entropy) -> Option<(Contender, Draw)> {
        if let Rule::TwoChoices(margin) = self.rule {
            let highest = self.lowest + margin;
            self.contenders.retain(|contender| contender.cost <= highest);
        }
        match self.contenders[..] {
            [] => return None,
            [only] => return Some((only, Draw::Single)),
            _ => {}
        }
        let contenders = self.contenders.len() as u32;
        let total = match self.rule {
            Rule::Lowest | Rule::Picked => None,
            Rule::TwoChoices(_) => return self.draw_two(contenders, entropy),
            Rule::Softmax(temperature) => self.weigh(temperature),
        };
        let Some(total) = total else {
            let drawn = below(u64::from(contenders), entropy) as u32;
            return Some((*self.contenders.get(drawn as usize)?, Draw::Tie { contenders, drawn }));
        };
        let point = unit(entropy);
        let mut left = point * total;
        let mut winner = None;
        for (contender, &weight) in self.contenders.iter().zip(&self.weights) {
            // Rounding may leave a crumb at the end: it goes to the last one who could win at all.
            if weight > 0.0 {
                winner = Some(contender);
                if left < weight {
                    break;
                }
                left -= weight;
            }
        }
        Some((*winner?, Draw::Sampled { contenders, point }))
    }

    /// Two different contenders, the cheaper of which wins.
    fn draw_two(&self, contenders: u32, entropy: &mut impl Entropy) -> Option<(Contender, Draw)> {
        let first = below(u64::from(contenders), entropy) as u32;
        let other = below(u64::from(contenders) - 1, entropy) as u32;
        let second = other + u32::from(other >= first); // the first is left out of the count
        let pair = (self.contenders.get(first as usize)?, self.contenders.get(second as usize)?);
        let winner = if pair.1.cost < pair.0.cost { pair.1 } else { pair.0 };
        Some((*winner, Draw::TwoChoices { contenders, first, second }))
    }

    /// The chance of each contender, in order of position, as it was in the last draw.
    pub(crate) fn probabilities(&self) -> impl Iterator<Item = (usize, f64)> {
        let total: f64 = self.weights.iter().sum();
        let count = self.contenders.len() as f64;
        // Under two choices: the pairs in which nobody is cheaper, half of those with an equal, out of all.
        let mut costs = Vec::new();
        if let Rule::TwoChoices(_) = self.rule
            && self.contenders.len() > 1
        {
            costs.extend(self.contenders.iter().map(|contender| contender.cost));
            costs.sort_unstable_by(f64::total_cmp);
        }
        self.contenders.iter().enumerate().map(move |(index, contender)| {
            let chance = if let Some(weight) = self.weights.get(index) {
                weight / total
            } else if costs.is_empty() {
                1.0 / count
            } else {
                let cheaper = costs.partition_point(|&cost| cost < contender.cost) as f64;
                let not_costlier = costs.partition_point(|&cost| cost <= contender.cost) as f64;
                let equals = not_costlier - cheaper - 1.0;
                (count - not_costlier + equals / 2.0) / (count * (count - 1.0) / 2.0)
            };
            (contender.position, chance)
        })
    }

    /// Softmax over costs normalised by their range. Returns the sum of the weights; `None`, and no weights, when
    /// all costs are equal: nothing to prefer. An infinite cost has no chance beside a finite one.
    fn weigh(&mut self, temperature: f64) -> Option<f64> {
        let finite =
            || self.contenders.iter().map(|contender| contender.cost).filter(|cost| cost.is_finite());
        let lowest = finite().fold(f64::INFINITY, f64::min);
        let range = finite().fold(f64::NEG_INFINITY, f64::max) - lowest;
        let all_equal = range <= 0.0 && finite().count() == self.contenders.len();
        if !lowest.is_finite() || all_equal {
            return None;
        }
        // One finite cost beside infinite ones has no range: any will do, it is at its own lowest.
        let range = if range > 0.0 { range } else { 1.0 };
        let weight = |contender: &Contender| {
            // The lowest cost has distance 0 and weight 1, whatever the temperature: the sum is never 0.
            let distance = (contender.cost - lowest) / range;
            if distance > 0.0 { (-distance / temperature).exp() } else { 1.0 }
        };
        self.weights.extend(self.contenders.iter().map(weight));
        Some(self.weights.iter().sum())
    }
}

/// Room to work in, to be used again: a decision allocates nothing once it has grown to the number of candidates.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Those with every preferred taint: everybody, when the request prefers none.
    pub(crate) preferred: Pool,
    /// The others who passed. They count only while nobody is preferred.
    pub(crate) others: Pool,
    /// The cost of every rank of a slate.
    pub(crate) costs: Vec<f64>,
    /// The lowest of every few of them.
    pub(crate) groups: Vec<f64>,
}

impl Scratch {
    /// Empty room.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn begin(&mut self, rule: Rule) {
        self.preferred.begin(rule);
        self.others.begin(rule);
    }
}

#[cfg(test)]
mod tests;
