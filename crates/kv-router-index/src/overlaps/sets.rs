//! Ranks that hold equally much, as a set of numbers: an index that knows ranks by small numbers answers in one word for
//! up to 64 of them.

use kv_router_types::WorkerRank;

use super::Overlap;
use crate::rank_set::Word;

/// Ranks of one depth.
#[derive(Clone, Copy)]
struct Set {
    ranks: Word,
    blocks: u32,
}

/// An answer in sets, shallowest first, and what the numbers stand for.
#[derive(Default)]
pub(crate) struct Sets {
    sets: Vec<Set>,
    /// Ranks in `sets`.
    len: usize,
    ranks: Vec<WorkerRank>,
    /// Which of the numbers stand for a rank.
    alive: Vec<u64>,
    /// Which numbering this is.
    edition: Edition,
}

/// An index, counted from 1, and how often its numbering had changed.
pub(crate) type Edition = (u64, u64);

impl Sets {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.sets.clear();
        self.len = 0;
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds numbers, each once, shallowest first.
    #[inline]
    pub(crate) fn push(&mut self, ranks: Word, blocks: u32) {
        self.sets.push(Set { ranks, blocks });
    }

    /// Whether this is the edition in which the numbers are known.
    #[inline]
    pub(crate) fn is(&self, edition: Edition) -> bool {
        self.edition == edition
    }

    /// Takes over what the numbers from 0 on stand for.
    pub(crate) fn renumber(&mut self, edition: Edition, ranks: impl Iterator<Item = Option<WorkerRank>>) {
        self.ranks.clear();
        self.alive.clear();
        for (number, rank) in (0..).zip(ranks) {
            let Word { index, bits } = Word::of(number);
            if bits == 1 {
                self.alive.push(0);
            }
            self.alive[index as usize] |= if rank.is_some() { bits } else { 0 };
            self.ranks.push(rank.unwrap_or_default());
        }
        self.edition = edition;
    }

    /// Drops numbers that stand for nobody. Whether the last set is left.
    #[inline]
    pub(crate) fn settle(&mut self) -> bool {
        let Self { sets, alive, len, .. } = self;
        let mut is_left = false;
        sets.retain_mut(|set| {
            set.ranks.bits &= alive.get(set.ranks.index as usize).copied().unwrap_or(0);
            *len += set.ranks.bits.count_ones() as usize;
            is_left = set.ranks.bits != 0;
            is_left
        });
        is_left
    }

    /// Each rank with its number and blocks, shallowest first.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (WorkerRank, u32, u32)> {
        self.sets.iter().flat_map(|set| self.members(*set))
    }

    /// Deepest first, all in device memory.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Overlap> {
        let deepest_first = self.sets.iter().rev().flat_map(|set| self.members(*set));
        deepest_first.map(|(rank, _, blocks)| Overlap::on_device(rank, blocks))
    }

    #[inline]
    fn members(&self, Set { ranks, blocks }: Set) -> impl Iterator<Item = (WorkerRank, u32, u32)> {
        let numbers = Word::slots(ranks.index, ranks.bits);
        numbers.filter_map(move |number| Some((*self.ranks.get(number as usize)?, number, blocks)))
    }
}
