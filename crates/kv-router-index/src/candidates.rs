//! The ranks that are still in during a lookup, and what each is credited for.

use kv_router_types::Tier;

use crate::holders::{Holders, LOWER};
use crate::rank_set::Word;

/// Buffers of a lookup, kept in [`Overlaps`](crate::Overlaps) so that a lookup allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) candidates: Candidates,
    /// What an index remembers block by block along the match.
    pub(crate) trail: Vec<u32>,
}

/// The ranks that hold every block so far.
///
/// A rank leaves at the first block that it does not hold. Sets of slots are compared, never their sizes:
/// equal numbers of holders at two blocks need not be the same holders.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// Sorted by index; no word is empty.
    live: Vec<Word>,
    /// Blocks credited at each lower tier, by slot; longer than any slot that has one. All zero between
    /// lookups.
    lower: Vec<[u32; LOWER]>,
}

impl Candidates {
    /// Starts with the holders of the first block.
    pub(crate) fn begin(&mut self, first: &Holders) {
        self.begin_with(first, |_| ());
    }

    /// Starts with those holders of the first block whose bits `keep` leaves on.
    #[inline]
    pub(crate) fn begin_with(&mut self, first: &Holders, mut keep: impl FnMut(&mut Word)) {
        self.live.clear();
        first.add_to(&mut self.live);
        self.live.retain_mut(|word| {
            keep(word);
            word.bits != 0
        });
        self.credit(first);
    }

    /// Keeps those that hold the block at `depth` (from 0) too. Those that do not are handed to `dropped`
    /// with their blocks by tier, which sum to `depth`.
    #[inline]
    pub(crate) fn narrow(
        &mut self,
        holders: &Holders,
        depth: u32,
        mut dropped: impl FnMut(u32, [u32; Tier::COUNT]),
    ) {
        let mut emptied = false;
        for word in &mut self.live {
            let gone = word.bits & !holders.word(word.index);
            if gone != 0 {
                word.bits &= !gone;
                emptied |= word.bits == 0;
                Word::slots(word.index, gone)
                    .for_each(|slot| dropped(slot, take_credit(&mut self.lower, slot, depth)));
            }
        }
        if emptied {
            self.live.retain(|word| word.bits != 0);
        }
        self.credit(holders);
    }

    /// Credits the block to every candidate whose best copy is below the device.
    #[inline]
    fn credit(&mut self, holders: &Holders) {
        let Some(tiers) = holders.lower() else { return };
        for word in &self.live {
            let mut uncredited = word.bits & !holders.device_word(word.index);
            for (tier, set) in tiers.iter().enumerate() {
                let best_here = uncredited & set.word(word.index);
                uncredited &= !best_here;
                for slot in Word::slots(word.index, best_here) {
                    let slot = slot as usize;
                    if slot >= self.lower.len() {
                        self.lower.resize(slot + 1, [0; LOWER]);
                    }
                    self.lower[slot][tier] += 1;
                }
            }
        }
    }

    /// Starts with the holders of a block, without credit for it.
    pub(crate) fn gather(&mut self, holders: &Holders) {
        self.live.clear();
        holders.add_to(&mut self.live);
    }

    /// Starts with one rank, without credit.
    pub(crate) fn only(&mut self, slot: u32) {
        self.live.clear();
        self.live.push(Word::of(slot));
    }

    /// Drops, before they have any credit, those that `keep` does not keep.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        for word in &mut self.live {
            for slot in Word::slots(word.index, word.bits) {
                if !keep(slot) {
                    word.bits &= !Word::of(slot).bits;
                }
            }
        }
        self.live.retain(|word| word.bits != 0);
    }

    /// Those that are still in.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.live.iter().flat_map(|word| Word::slots(word.index, word.bits))
    }

    /// Whether all that are still in hold a block, in any tier.
    #[inline]
    pub(crate) fn all_in(&self, holders: &Holders) -> bool {
        self.live.iter().all(|word| word.bits & !holders.word(word.index) == 0)
    }

    /// Whether no rank is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Whether one rank alone is left.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.live.as_slice(), [word] if word.bits.is_power_of_two())
    }

    /// Hands over all that are left, each with `depth` blocks.
    pub(crate) fn finish(&mut self, depth: u32, mut reached: impl FnMut(u32, [u32; Tier::COUNT])) {
        for word in self.live.drain(..) {
            Word::slots(word.index, word.bits)
                .for_each(|slot| reached(slot, take_credit(&mut self.lower, slot, depth)));
        }
    }
}

/// `depth` blocks by best tier: what is not credited below is on the device.
fn take_credit(lower: &mut [[u32; LOWER]], slot: u32, depth: u32) -> [u32; Tier::COUNT] {
    let [host, disk, object] = lower.get_mut(slot as usize).map(std::mem::take).unwrap_or_default();
    [depth - host - disk - object, host, disk, object]
}
