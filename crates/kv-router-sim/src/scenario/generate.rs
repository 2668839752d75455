//! Requests made up by a seed. Whole numbers all the way, so that a seed is the same trace on every machine.

use std::ops::RangeInclusive;

use crate::prompt::{PIECE_TOKENS, Prompt, PromptError};
use crate::random::SeededRandom;
use crate::trace::TraceRecord;

/// Draws what a workload is made of.
#[derive(Debug)]
pub(super) struct Maker {
    random: SeededRandom,
    /// Ids below it are taken.
    next_id: u64,
    now_ms: u64,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: SeededRandom::new(seed), next_id: 0, now_ms: 0 }
    }

    /// A number from `range`, each with the same chance.
    pub(super) fn from(&mut self, range: &RangeInclusive<u32>) -> u32 {
        let span = range.end().saturating_sub(*range.start()) as usize + 1;
        range.start() + self.random.below(span) as u32
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    /// One of `count`; the n-th has 1/n of the chance of the first.
    pub(super) fn popular(&mut self, count: usize) -> usize {
        const WEIGHT: usize = 1 << 20;
        let weight = |index: usize| WEIGHT / (index + 1);
        let mut left = self.random.below((0..count).map(weight).sum());
        let found = (0..count).find(|&index| {
            let here = weight(index);
            let is_here = left < here;
            left = left.saturating_sub(here);
            is_here
        });
        found.unwrap_or(0)
    }

    /// One of `count`, each with the same chance.
    pub(super) fn any(&mut self, count: usize) -> usize {
        self.random.below(count)
    }

    /// Pieces that nobody had before.
    pub(super) fn fresh(&mut self, pieces: u32) -> impl Iterator<Item = u64> + use<> {
        let first = self.next_id;
        self.next_id += u64::from(pieces);
        first..self.next_id
    }

    /// Lets time pass: 0 to twice `mean_ms`, evenly drawn.
    pub(super) fn wait(&mut self, mean_ms: u32) {
        self.now_ms += u64::from(self.from(&(0..=mean_ms * 2)));
    }

    /// A request now. The last piece is cut short by up to half, as prompts are.
    pub(super) fn request(
        &mut self,
        ids: Vec<u64>,
        output: &RangeInclusive<u32>,
    ) -> Result<TraceRecord, PromptError> {
        let cut = self.from(&(0..=PIECE_TOKENS / 2));
        let tokens = (ids.len() as u32 * PIECE_TOKENS).saturating_sub(cut);
        let output_tokens = self.from(output);
        Ok(TraceRecord { timestamp_ms: self.now_ms, prompt: Prompt::new(ids, tokens)?, output_tokens })
    }
}

/// People who talk: each prompt of a conversation continues the one before it.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    /// Conversations going on at one time; each request is the next turn of any of them.
    pub(super) at_once: usize,
    /// Instructions that a conversation begins with, shared with others: the first are the most popular.
    pub(super) instructions: usize,
    /// Their length in pieces.
    pub(super) instruction_pieces: u32,
    /// Turns of a conversation.
    pub(super) turns: RangeInclusive<u32>,
    /// Pieces that a turn adds.
    pub(super) turn_pieces: RangeInclusive<u32>,
    /// Tokens of an answer.
    pub(super) output: RangeInclusive<u32>,
}

impl Talk {
    /// Makes `requests` requests; `pause` lets the time between them pass.
    pub(super) fn make(
        &self,
        maker: &mut Maker,
        requests: usize,
        mut pause: impl FnMut(&mut Maker, usize),
    ) -> Result<Vec<TraceRecord>, PromptError> {
        let instructions: Vec<Vec<u64>> =
            (0..self.instructions).map(|_| maker.fresh(self.instruction_pieces).collect()).collect();
        let begin = |maker: &mut Maker| {
            let instruction = maker.popular(instructions.len());
            (instructions.get(instruction).cloned().unwrap_or_default(), maker.from(&self.turns))
        };
        let mut talks: Vec<(Vec<u64>, u32)> = (0..self.at_once.max(1)).map(|_| begin(maker)).collect();
        let mut records = Vec::with_capacity(requests);
        for index in 0..requests {
            pause(maker, index);
            let chosen = maker.any(talks.len());
            let added = maker.from(&self.turn_pieces);
            let added = maker.fresh(added);
            let (ids, turns) = &mut talks[chosen];
            ids.extend(added);
            *turns -= 1;
            let (ids, is_over) = (ids.clone(), *turns == 0);
            records.push(maker.request(ids, &self.output)?);
            if is_over {
                talks[chosen] = begin(maker);
            }
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TALK: Talk = Talk {
        at_once: 3,
        instructions: 2,
        instruction_pieces: 2,
        turns: 2..=3,
        turn_pieces: 1..=2,
        output: 5..=9,
    };

    #[test]
    fn turns_continue_and_a_seed_decides() {
        let make = |seed| TALK.make(&mut Maker::new(seed), 200, |maker, _| maker.wait(10)).unwrap();
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        let records = make(1);
        assert!(records.is_sorted_by_key(|record| record.timestamp_ms));
        let continued = records.iter().enumerate().filter(|(index, record)| {
            records[..*index]
                .iter()
                .any(|before| record.prompt.piece_ids().starts_with(before.prompt.piece_ids()))
        });
        assert!(
            (80..150).contains(&continued.count()),
            "two or three turns each, the first continues nothing"
        );
        assert!(records.iter().all(|record| (5..=9).contains(&record.output_tokens)));
    }

    #[test]
    fn popularity_falls_with_rank() {
        let mut maker = Maker::new(1);
        let mut seen = [0; 4];
        for _ in 0..25_000 {
            seen[maker.popular(4)] += 1;
        }
        // 12 : 6 : 4 : 3
        for (count, share) in seen.into_iter().zip([12_000, 6_000, 4_000, 3_000]) {
            assert!((share - 400..share + 400).contains(&count), "{seen:?}");
        }
    }
}
