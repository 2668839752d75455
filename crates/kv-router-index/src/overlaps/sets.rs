//! Ranks that hold equally much, as a set of numbers: an index that knows ranks by small numbers answers in one word for
//! up to 64 of them.

use kv_router_types::WorkerRank;

use super::Overlap;

/// Numbers under one word.
const WORD: usize = 64;

/// Ranks of one depth.
#[derive(Clone, Copy)]
struct Set {
    /// A bit for each.
    ranks: u64,
    /// 64 times this is what the lowest bit stands for.
    word: u32,
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

    /// Adds numbers, each once, shallowest first. `word` times 64 is what the lowest bit stands for.
    #[inline]
    pub(crate) fn push(&mut self, word: usize, ranks: u64, blocks: u32) {
        self.sets.push(Set { ranks, word: word as u32, blocks });
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
        for (number, rank) in ranks.enumerate() {
            if number % WORD == 0 {
                self.alive.push(0);
            }
            self.alive[number / WORD] |= u64::from(rank.is_some()) << (number % WORD);
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
            set.ranks &= alive.get(set.word as usize).copied().unwrap_or(0);
            *len += set.ranks.count_ones() as usize;
            is_left = set.ranks != 0;
            is_left
        });
        is_left
    }

    /// Each rank with its number and blocks, shallowest first.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (WorkerRank, u32, u32)> {
        self.sets.iter().flat_map(move |set| {
            let bits = (0..WORD as u32).filter(|bit| set.ranks >> bit & 1 != 0);
            bits.filter_map(move |bit| {
                let number = set.word * WORD as u32 + bit;
                Some((*self.ranks.get(number as usize)?, number, set.blocks))
            })
        })
    }

    /// Deepest first, all in device memory.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Overlap> {
        self.sets.iter().rev().flat_map(move |set| {
            let mut rest = set.ranks;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                let rank = self.ranks.get(set.word as usize * WORD + bit as usize)?;
                Some(Overlap::on_device(*rank, set.blocks))
            })
        })
    }
}
