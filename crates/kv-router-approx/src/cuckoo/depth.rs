//! How deep a prefix can reach, from tests that may say yes too often.

/// Blocks before a supposed end that are looked at again. Each is a chance to find it too deep.
const VERIFIED: usize = 4;

/// Searches after the first, each begun because a verification found a block that is absent. Far from what
/// happens with filters; it bounds the work against one that says yes at every second block.
const RESTARTS: usize = 8;

/// An upper bound of the number of leading blocks that are present, of `blocks` blocks.
///
/// `may_be_present(i)` must be true for every block that is present, and may be true for others.
///
/// # Why it is an upper bound
///
/// What is returned is `blocks`, or some `end` for which `may_be_present(end)` was false. In the second case the
/// block `end` is absent, so the truth, which counts blocks before the first absent one, is at most `end`. Nothing
/// else is assumed: not that presence is closed under prefixes, so holes do no harm, and nothing about which
/// blocks test falsely positive. A positive test is only ever a reason to search deeper, never a proof.
///
/// # How tight it is
///
/// Without holes, the answer is above the truth when false positives mislead the binary search and all
/// [`VERIFIED`] blocks before its end are false positives too. Behind a hole, an island of that many present
/// blocks may be taken for the prefix; the first block is always asked about, so that a lost head gives 0.
///
/// Cost: O(log blocks) tests.
pub(super) fn prefix_depth(blocks: usize, mut may_be_present: impl FnMut(usize) -> bool) -> usize {
    if blocks == 0 || !may_be_present(0) {
        return 0;
    }
    let mut end = blocks;
    for _ in 0..=RESTARTS {
        // Every value that `end` takes is `blocks` or a block that tested absent.
        let mut start = 1;
        while start < end {
            let middle = start + (end - start) / 2;
            if may_be_present(middle) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        let verified = end.saturating_sub(VERIFIED).max(1)..end;
        match verified.clone().find(|&block| !may_be_present(block)) {
            Some(absent) => end = absent,
            None => break,
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `present` and the false positives, each a word of bits per block.
    fn check(present: &[bool], positive: &[bool]) -> (usize, usize, usize) {
        let truth = present.iter().take_while(|&&held| held).count();
        let mut tests = 0;
        let depth = prefix_depth(present.len(), |block| {
            tests += 1;
            present[block] || positive[block]
        });
        (truth, depth, tests)
    }

    proptest! {
        #[test]
        fn never_below_the_truth(
            blocks in prop::collection::vec((prop::bool::weighted(0.8), prop::bool::weighted(0.2)), 0..200),
        ) {
            let (present, positive): (Vec<bool>, Vec<bool>) = blocks.into_iter().unzip();
            let (truth, depth, _) = check(&present, &positive);
            prop_assert!(depth >= truth, "{depth} < {truth}");
            prop_assert!(depth <= present.len());
        }

        #[test]
        fn exact_without_holes_and_false_positives(blocks in 0usize..2_000, held in 0usize..2_000) {
            let present: Vec<bool> = (0..blocks).map(|block| block < held).collect();
            let (truth, depth, tests) = check(&present, &vec![false; blocks]);
            prop_assert_eq!(depth, truth);
            prop_assert!(tests <= 1 + 11 + VERIFIED, "{tests} tests");
        }

        #[test]
        fn one_false_positive_never_counts(held in 0usize..300, gap in 0usize..300, rest in 0usize..300) {
            // Directly behind the end it would be one with the prefix; anywhere else it is found out.
            let at = held + 1 + gap;
            let blocks = at + 1 + rest;
            let present: Vec<bool> = (0..blocks).map(|block| block < held).collect();
            let positive: Vec<bool> = (0..blocks).map(|block| block == at).collect();
            let (truth, depth, _) = check(&present, &positive);
            prop_assert_eq!(depth, truth);
        }
    }

    #[test]
    fn holes() {
        let without = |hole: usize| -> Vec<bool> { (0..100).map(|block| block != hole).collect() };
        let depth = |hole| check(&without(hole), &[false; 100]).1;
        assert_eq!(depth(0), 0, "a lost head");
        assert_eq!([depth(99), depth(98), depth(96)], [99, 98, 96], "holes in the last blocks are found");
        assert_eq!(
            depth(40),
            100,
            "an island of 59 blocks passes for the prefix: above the truth, never below"
        );
    }

    #[test]
    fn every_second_block_positive_is_bounded_work() {
        let positive: Vec<bool> = (0..1 << 16).map(|block| block % 2 == 0).collect();
        let (_, _, tests) = check(&vec![false; 1 << 16], &positive);
        assert!(tests <= (RESTARTS + 1) * (17 + VERIFIED), "{tests} tests");
    }
}
