//! A set of rank slots, small where a block has few holders and dense where it has many.
//!
//! A slot is the dense number that an index gives a worker rank. Up to [`FEW`] slots stand inline, sorted;
//! more are words of 64 slots, only those words that have a member. Memory is at most 16 bytes a member above
//! the inline form, whatever the number of ranks in the fleet.

/// Slots that fit inline: with the length and the tag this makes 24 bytes.
const FEW: usize = 5;

/// A set of words that has shrunk to this many members goes inline again. Below [`FEW`], so that a holder
/// that comes and goes does not make the set change form each time.
const FEW_AGAIN: usize = FEW - 2;

/// 64 neighbouring slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Slots `64 * index ..`.
    pub(crate) index: u32,
    pub(crate) bits: u64,
}

impl Word {
    #[inline]
    pub(crate) const fn of(slot: u32) -> Self {
        Self { index: slot / 64, bits: 1 << (slot % 64) }
    }

    /// The slots of `bits` within the word at `index`, in order.
    #[inline]
    pub(crate) fn slots(index: u32, mut bits: u64) -> impl Iterator<Item = u32> {
        std::iter::from_fn(move || {
            let slot = (bits != 0).then(|| 64 * index + bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(slot)
        })
    }
}

/// A set of rank slots.
#[derive(Clone, Debug)]
pub(crate) struct RankSet(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// `slots[..len]` are the members, sorted.
    Few { len: u8, slots: [u32; FEW] },
    /// More than [`FEW_AGAIN`] members. Sorted by index; no word is empty.
    Many(Box<[Word]>),
}

impl RankSet {
    pub(crate) const EMPTY: Self = Self(Repr::Few { len: 0, slots: [0; FEW] });

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.0, Repr::Few { len: 0, .. })
    }

    /// The members among slots `64 * index .. 64 * index + 64`, as bits: what lookups are made of.
    #[inline]
    pub(crate) fn word(&self, index: u32) -> u64 {
        match &self.0 {
            Repr::Few { len, slots } => slots[..usize::from(*len)]
                .iter()
                .map(|&slot| Word::of(slot))
                .filter(|word| word.index == index)
                .fold(0, |bits, word| bits | word.bits),
            Repr::Many(words) => match words.get(index as usize) {
                // A set without empty words among its first has each word at its own index.
                Some(word) if word.index == index => word.bits,
                _ => find(words, index).map_or(0, |at| words[at].bits),
            },
        }
    }

    /// Adds all members to `words`, which is sorted by index and stays so.
    pub(crate) fn add_to(&self, words: &mut Vec<Word>) {
        let mut add = |word: Word| match words.binary_search_by_key(&word.index, |word| word.index) {
            Ok(at) => words[at].bits |= word.bits,
            Err(at) => words.insert(at, word),
        };
        match &self.0 {
            Repr::Few { len, slots } => {
                slots[..usize::from(*len)].iter().for_each(|&slot| add(Word::of(slot)));
            }
            Repr::Many(words) => words.iter().for_each(|&word| add(word)),
        }
    }

    /// Adds a slot; false when it was in.
    pub(crate) fn insert(&mut self, slot: u32) -> bool {
        match &mut self.0 {
            Repr::Few { len, slots } => {
                let used = usize::from(*len);
                let at = slots[..used].partition_point(|&member| member < slot);
                if slots[..used].get(at) == Some(&slot) {
                    return false;
                }
                if used == FEW {
                    self.0 = Repr::Many(words_of(slots));
                    return self.insert(slot);
                }
                slots.copy_within(at..used, at + 1);
                slots[at] = slot;
                *len += 1;
                true
            }
            Repr::Many(words) => {
                let new = Word::of(slot);
                if let Some(at) = find(words, new.index) {
                    let absent = words[at].bits & new.bits == 0;
                    words[at].bits |= new.bits;
                    return absent;
                }
                let mut more = std::mem::take(words).into_vec();
                let at = more.partition_point(|word| word.index < new.index);
                more.insert(at, new);
                *words = more.into_boxed_slice();
                true
            }
        }
    }

    /// Takes a slot out; false when it was not in.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        match &mut self.0 {
            Repr::Few { len, slots } => {
                let used = usize::from(*len);
                let Ok(at) = slots[..used].binary_search(&slot) else { return false };
                slots.copy_within(at + 1..used, at);
                *len -= 1;
                true
            }
            Repr::Many(words) => {
                let gone = Word::of(slot);
                let Some(at) = find(words, gone.index).filter(|&at| words[at].bits & gone.bits != 0) else {
                    return false;
                };
                words[at].bits &= !gone.bits;
                if words[at].bits == 0 {
                    *words = words.iter().copied().filter(|word| word.bits != 0).collect();
                }
                self.go_inline_when_small();
                true
            }
        }
    }

    fn go_inline_when_small(&mut self) {
        let Repr::Many(words) = &self.0 else { return };
        let mut members = 0;
        for word in words {
            members += word.bits.count_ones() as usize;
            if members > FEW_AGAIN {
                return;
            }
        }
        let mut slots = [0; FEW];
        let all = words.iter().flat_map(|word| Word::slots(word.index, word.bits));
        slots.iter_mut().zip(all).for_each(|(to, slot)| *to = slot);
        self.0 = Repr::Few { len: members as u8, slots };
    }
}

/// Where the word with this index stands in a sorted list.
fn find(words: &[Word], index: u32) -> Option<usize> {
    words.binary_search_by_key(&index, |word| word.index).ok()
}

fn words_of(sorted: &[u32]) -> Box<[Word]> {
    let mut words: Vec<Word> = Vec::with_capacity(1);
    for word in sorted.iter().map(|&slot| Word::of(slot)) {
        match words.last_mut() {
            Some(last) if last.index == word.index => last.bits |= word.bits,
            _ => words.push(word),
        }
    }
    words.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn slots(set: &RankSet) -> Vec<u32> {
        let mut words = Vec::new();
        set.add_to(&mut words);
        words.iter().flat_map(|word| Word::slots(word.index, word.bits)).collect()
    }

    #[track_caller]
    fn check(set: &RankSet, model: &BTreeSet<u32>) {
        assert_eq!(slots(set), Vec::from_iter(model.iter().copied()));
        assert_eq!(set.is_empty(), model.is_empty());
        for index in 0..8 {
            let expected =
                model.range(64 * index..64 * (index + 1)).fold(0, |bits, slot| bits | 1 << (slot % 64));
            assert_eq!(set.word(index), expected, "word {index} of {set:?}");
        }
        match &set.0 {
            Repr::Few { len, slots } => assert!(slots[..usize::from(*len)].is_sorted()),
            Repr::Many(words) => {
                assert!(model.len() > FEW_AGAIN);
                assert!(words.iter().all(|word| word.bits != 0));
                assert!(words.is_sorted_by(|a, b| a.index < b.index));
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_btree_set(
            span in prop_oneof![Just(4u32), Just(12), Just(70), Just(500)],
            steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..120),
        ) {
            let (mut set, mut model) = (RankSet::EMPTY, BTreeSet::new());
            for (insert, slot) in steps {
                let slot = slot % span;
                if insert {
                    prop_assert_eq!(set.insert(slot), model.insert(slot));
                } else {
                    prop_assert_eq!(set.remove(slot), model.remove(&slot));
                }
                check(&set, &model);
            }
        }

        #[test]
        fn a_union_is_a_union(
            one in prop::collection::btree_set(0u32..300, 0..20),
            other in prop::collection::btree_set(0u32..300, 0..20),
        ) {
            let mut words = Vec::new();
            for members in [&one, &other] {
                let mut set = RankSet::EMPTY;
                members.iter().for_each(|&slot| assert!(set.insert(slot)));
                set.add_to(&mut words);
            }
            prop_assert!(words.is_sorted_by(|a, b| a.index < b.index));
            let union: Vec<u32> = words.iter().flat_map(|word| Word::slots(word.index, word.bits)).collect();
            prop_assert_eq!(union, Vec::from_iter(one.union(&other).copied()));
        }
    }

    #[test]
    fn a_set_is_24_bytes() {
        assert_eq!(size_of::<RankSet>(), 24);
    }

    #[test]
    fn the_last_slot_has_a_word() {
        let mut set = RankSet::EMPTY;
        let all = [u32::MAX, 0, 63, 64, u32::MAX - 64, 1 << 20];
        all.iter().for_each(|&slot| assert!(set.insert(slot)));
        assert_eq!(slots(&set), BTreeSet::from(all).into_iter().collect::<Vec<_>>());
        all.iter().for_each(|&slot| assert!(set.remove(slot)));
        assert!(set.is_empty());
    }
}
