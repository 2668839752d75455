//! Which ranks hold every block of a request so far, page after page.

use super::holders;
use super::lines::Lines;
use super::page::Header;
use super::words::Holding;
use crate::rank_set::Word;

/// The ranks of one lookup. A set of slots is a bit each, as in [`Word`].
#[derive(Default)]
pub(super) struct Ranks {
    /// Slots that hold every block so far.
    full: Vec<u64>,
    /// Slots that hold every block before the page and none of it.
    gone: Vec<u64>,
    /// Reach and slot of those that drop out inside the page.
    partial: Vec<u64>,
}

impl Ranks {
    /// Before the first page everybody is in. Slot numbers are below `slots`.
    pub(super) fn begin(&mut self, slots: usize) {
        self.full.clear();
        self.full.resize(slots.div_ceil(64), u64::MAX);
        self.gone.resize(self.full.len(), 0);
    }

    /// Slots that hold every common block up to and with the last page.
    #[inline]
    pub(super) fn full(&self) -> &[u64] {
        &self.full
    }

    /// Slots that hold everything before the last page and nothing of it.
    #[inline]
    pub(super) fn gone(&self) -> &[u64] {
        &self.gone
    }

    /// Slots that drop out inside the last page, and how many of its blocks they hold; shallowest first.
    #[inline]
    pub(super) fn partial(&mut self) -> impl Iterator<Item = (u32, usize)> {
        let reach = |&rank: &u64| rank >> 32;
        if !self.partial.is_sorted_by_key(reach) {
            self.partial.sort_unstable_by_key(reach);
        }
        self.partial.iter().map(|&rank| (rank as u32, (rank >> 32) as usize))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.full.iter().all(|&word| word == 0)
    }

    pub(super) fn is_single(&self) -> bool {
        let mut used = self.full.iter().filter(|&&word| word != 0);
        used.next().is_some_and(|word| word.is_power_of_two()) && used.next().is_none()
    }

    /// Goes on to a page that has so many blocks in common with the request: splits the ranks that held everything
    /// before it. Gives the deepest reach of any of them.
    #[inline]
    pub(super) fn enter(&mut self, lines: &Lines, header: &Header, blocks: usize) -> usize {
        std::mem::swap(&mut self.full, &mut self.gone);
        let Self { full, gone, partial } = self;
        full.fill(0);
        partial.clear();
        let mut deepest = 0;
        holders::for_each_word(lines, header, |holding| {
            let (base, slots, reach) = match holding {
                Holding::Nobody => return,
                Holding::One(entry) => (entry.slot(), 1, entry.reach()),
                Holding::Crew(crew) => (crew.base(), crew.slots(), crew.reach()),
            };
            let (index, shift) = (base / 64, base % 64);
            let (Some(full), Some(gone)) = (full.get_mut(index as usize), gone.get_mut(index as usize))
            else {
                return;
            };
            // A rank that is on its way from one word to another counts once.
            let here = *gone & slots << shift;
            if here == 0 || reach == 0 {
                return;
            }
            *gone &= !here;
            deepest = deepest.max(reach);
            if reach >= blocks {
                *full |= here;
            } else {
                let packed = |slot| (reach as u64) << 32 | u64::from(slot);
                partial.extend(Word::slots(index, here).map(packed));
            }
        });
        deepest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::page::Headers;
    use super::super::words::{Content, Entry, Extent, ROOT, Shape};
    use super::*;

    const FLEET: u32 = 150;

    /// What a page says: of each holder, in the order in which they came, its slot, reach and end; and how many blocks
    /// the page has in common with the request.
    fn page() -> impl Strategy<Value = (Vec<(u32, usize, usize)>, usize)> {
        let order = prop_oneof![
            Just((0..FLEET).collect::<Vec<_>>()).boxed(),
            Just((0..FLEET).collect::<Vec<_>>()).prop_shuffle().boxed(),
        ];
        let count = prop_oneof![Just(FLEET as usize), 0..FLEET as usize, 0usize..4];
        let holds = prop_oneof![
            Just(vec![(9, 9); FLEET as usize]),
            prop::collection::vec(
                prop_oneof![4 => Just((9, 9)), 1 => (1usize..10, 0usize..10)],
                FLEET as usize
            ),
        ];
        (order, count, holds, 1usize..9).prop_map(|(order, count, holds, blocks)| {
            let holders = order.into_iter().zip(holds).map(|(slot, (end, cut))| (slot, end.min(cut), end));
            (holders.take(count).collect(), blocks)
        })
    }

    fn slots(set: &[u64]) -> Vec<u32> {
        let words = set.iter().zip(0u32..);
        words.flat_map(|(&bits, index)| Word::slots(index, bits)).collect()
    }

    proptest! {
        #[test]
        fn ranks_drop_out_as_in_a_map(pages in prop::collection::vec(page(), 1..6)) {
            let (lines, headers) = (Lines::new(), Headers::new());
            let (mut ranks, mut full) = (Ranks::default(), (0..FLEET).collect::<Vec<_>>());
            ranks.begin(FLEET as usize);
            for (index, (holders, blocks)) in pages.into_iter().enumerate() {
                let mut page = headers.allocate();
                page.revive(Shape::new(ROOT, 0, 9), Content::new(Extent::NONE, 0));
                for &(slot, reach, end) in &holders {
                    page.add_holder(&lines, Entry::new(slot, reach, end, 0));
                }
                let deepest = ranks.enter(&lines, &page, blocks);
                let of = holders.iter().map(|&(slot, reach, _)| (slot, reach));
                let held: BTreeMap<_, _> = of.filter(|(slot, _)| full.contains(slot)).collect();
                let reach = |slot: &u32| held.get(slot).copied().unwrap_or(0);
                prop_assert_eq!(deepest, held.values().copied().max().unwrap_or(0));
                let (gone, rest): (Vec<_>, Vec<_>) = full.iter().partition(|slot| reach(slot) == 0);
                if index > 0 {
                    prop_assert_eq!(slots(ranks.gone()), gone);
                }
                let (still, partial): (Vec<_>, Vec<_>) = rest.into_iter().partition(|slot| reach(slot) >= blocks);
                let mut dropped: Vec<_> = ranks.partial().collect();
                prop_assert!(dropped.is_sorted_by_key(|&(_, reach)| reach));
                prop_assert!(dropped.iter().all(|(slot, there)| reach(slot) == *there));
                dropped.sort_unstable();
                prop_assert_eq!(dropped.iter().map(|rank| rank.0).collect::<Vec<_>>(), partial);
                prop_assert_eq!(slots(ranks.full()), still.clone());
                prop_assert_eq!((ranks.is_empty(), ranks.is_single()), (still.is_empty(), still.len() == 1));
                full = still;
            }
        }

        #[test]
        fn a_list_of_holders_is_a_map(changes in prop::collection::vec((0..FLEET, 0usize..10, 0usize..10, 0u32..20), 1..600)) {
            let (lines, headers) = (Lines::new(), Headers::new());
            let mut page = headers.allocate();
            page.revive(Shape::new(ROOT, 0, 9), Content::new(Extent::NONE, 0));
            let mut known = BTreeMap::new();
            for (slot, end, cut, hint) in changes {
                if end == 0 {
                    prop_assert_eq!(page.remove_holder(&lines, slot, hint), known.remove(&slot));
                } else {
                    // Most hold all that is there, so that crews form, and some have a hole.
                    let end = if end > 3 { 9 } else { end };
                    let entry = Entry::new(slot, if cut > 2 { end } else { end.min(cut) }, end, u32::from(cut == 1));
                    let index = page.set_holder(&lines, entry, hint);
                    prop_assert_eq!(page.position(&lines, slot, index), Some((index as usize, entry)));
                    known.insert(slot, entry);
                }
                let mut listed = Vec::new();
                holders::for_each(&lines, &page, |entry| listed.push(entry));
                listed.sort_unstable_by_key(|entry| entry.slot());
                prop_assert_eq!(listed, known.values().copied().collect::<Vec<_>>());
                prop_assert_eq!(page.holders().count() == 0, known.is_empty());
            }
        }
    }
}
