//! The set of free numbers beside a plain set.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_number_is_given_out_once_and_below_the_limit(
        limit in 1usize..400,
        steps in prop::collection::vec((any::<bool>(), any::<u32>(), 1usize..40), 1..300),
    ) {
        let (mut numbers, mut model) = (Numbers::new(limit), BTreeSet::new());
        for (takes, pick, left) in steps {
            let picked = model.iter().copied().nth(pick as usize % model.len().max(1));
            if takes {
                let taken = numbers.take(picked, left);
                prop_assert_eq!(taken.is_none(), model.len() == limit, "none only when all are out");
                if let Some(id) = taken {
                    prop_assert!((id as usize) < limit && model.insert(id));
                    let next = picked.map(|id| id + 1).filter(|next| (*next as usize) < limit && (*next == id || !model.contains(next)));
                    prop_assert!(next.is_none_or(|next| next == id), "the next one if it is free");
                }
            } else if let Some(id) = picked {
                numbers.free(id);
                model.remove(&id);
            }
            prop_assert_eq!(numbers.used().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            for (at, &line) in numbers.lines.iter().enumerate() {
                prop_assert_eq!(numbers.empty.0[at / 64] >> (at % 64) & 1 != 0, line == 0);
                prop_assert_eq!(numbers.open.0[at / 64] >> (at % 64) & 1 != 0, line != u16::MAX);
            }
        }
    }
}

#[test]
fn what_comes_together_gets_numbers_in_a_row_and_room_to_grow() {
    let mut numbers = Numbers::new(1 << 20);
    let chain = |len: usize, numbers: &mut Numbers| {
        let mut before = None;
        let ids: Vec<u32> = (0..len)
            .map(|at| {
                before = numbers.take(before, len - at);
                before.unwrap()
            })
            .collect();
        ids
    };
    let (one, two) = (chain(20, &mut numbers), chain(20, &mut numbers));
    assert_eq!(one, (0..20).collect::<Vec<_>>());
    assert_eq!(two, (32..52).collect::<Vec<_>>());
    assert_eq!(numbers.take(Some(19), 1), Some(20));
    assert_eq!(numbers.take(Some(51), 1), Some(52));
}

#[test]
fn numbers_do_not_grow_while_there_are_free_ones() {
    const COUNT: usize = 100_000;
    let mut numbers = Numbers::new(1 << 20);
    let mut all: Vec<u32> = (0..COUNT).map(|_| numbers.take(None, 1).unwrap()).collect();
    for round in 0..40 {
        let (freed, kept) = all.into_iter().partition::<Vec<_>, _>(|id| id % 20 == round % 20);
        freed.iter().for_each(|&id| numbers.free(id));
        all = kept;
        all.extend(freed.iter().map(|_| numbers.take(None, 1).unwrap()));
    }
    let most = all.iter().max().copied().unwrap() as usize;
    assert!(most < 2 * COUNT + IDLE, "{most}");
}
