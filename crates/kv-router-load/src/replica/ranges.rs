//! Sets of numbers most of which lie side by side.

use std::collections::BTreeMap;
use std::ops::Range;

/// Half-open ranges, none of which touches another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// Adds numbers. `false`, and nothing is added, when there would be more than `most` ranges then.
    #[must_use]
    pub(super) fn insert(&mut self, range: Range<u64>, most: usize) -> bool {
        if range.is_empty() {
            return true;
        }
        let Range { mut start, mut end } = range;
        let before = self.0.range(..=start).next_back().filter(|&(_, &end)| end >= start);
        let from = before.map_or(start, |(&start, _)| start);
        let touched: Vec<(u64, u64)> = self.0.range(from..=end).map(|(&start, &end)| (start, end)).collect();
        if touched.is_empty() && self.0.len() >= most {
            return false;
        }
        for (old_start, old_end) in touched {
            self.0.remove(&old_start);
            (start, end) = (start.min(old_start), end.max(old_end));
        }
        self.0.insert(start, end);
        true
    }

    /// Forgets all below `number`, and those that follow on it. Returns the first number from there on that is not in
    /// the set.
    pub(super) fn advance(&mut self, mut number: u64) -> u64 {
        while let Some(first) = self.0.first_entry().filter(|first| *first.key() <= number) {
            number = number.max(first.remove());
        }
        number
    }

    /// The first ranges of `within` that are not in the set, at most `most`.
    pub(super) fn holes(&self, within: Range<u64>, most: usize) -> Vec<Range<u64>> {
        let mut holes = Vec::new();
        let mut at = within.start;
        for (&start, &end) in &self.0 {
            if start >= within.end || holes.len() >= most {
                break;
            }
            if at < start {
                holes.push(at..start);
            }
            at = at.max(end);
        }
        if at < within.end && holes.len() < most {
            holes.push(at..within.end);
        }
        holes
    }

    /// How many numbers there are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_as_a_set_of_numbers(
            steps in prop::collection::vec((0..60u64, 0..12u64, any::<bool>()), 0..40),
            most in 1..20usize,
        ) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (start, length, advances) in steps {
                if advances && length == 0 {
                    let mut next = start;
                    model.retain(|&number| number >= start);
                    while model.remove(&next) {
                        next += 1;
                    }
                    prop_assert_eq!(ranges.advance(start), next);
                } else if ranges.insert(start..start + length, most) {
                    model.extend(start..start + length);
                }
                prop_assert!(ranges.0.len() <= most);
                let starts = ranges.0.iter().zip(ranges.0.keys().skip(1));
                prop_assert!(starts.into_iter().all(|((_, end), next)| end < next));
                (0..80).for_each(|number| assert_eq!(ranges.contains(number), model.contains(&number)));
                prop_assert_eq!(ranges.count(), model.len() as u64);
                let holes = ranges.holes(5..70, usize::MAX);
                let lacking: Vec<u64> = holes.iter().cloned().flatten().collect();
                let expected: Vec<u64> = (5..70).filter(|number| !model.contains(number)).collect();
                prop_assert_eq!(lacking, expected);
                let first: Vec<_> = holes.iter().take(2).cloned().collect();
                prop_assert_eq!(ranges.holes(5..70, 2), first);
            }
        }
    }

    #[test]
    fn the_ends_of_all_numbers_fit() {
        let mut ranges = Ranges::default();
        assert!(ranges.insert(0..u64::MAX, 1) && ranges.insert(7..9, 1) && ranges.insert(3..3, 1));
        assert_eq!(ranges.holes(0..u64::MAX, 9), []);
        assert_eq!(ranges.advance(5), u64::MAX);
        assert!(ranges.insert(4..6, 1) && !ranges.insert(8..9, 1) && ranges.insert(6..8, 1));
        assert_eq!(ranges.holes(0..10, 9), [0..4, 8..10]);
    }
}
