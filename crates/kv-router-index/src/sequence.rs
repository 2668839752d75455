//! The check that a store names no block twice.

use kv_router_types::{ExternalSequenceHash, StoredBlock};
use rustc_hash::FxHashSet;

/// Up to this many blocks are compared each with each: cheaper than hashing, and without memory.
const COMPARE_ALL: usize = 16;

/// A table that has grown beyond this is not kept: emptying it would cost every later check.
const KEEP: usize = 4096;

/// Finds names that stand twice in a store; keeps its table from one store to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceCheck {
    seen: FxHashSet<ExternalSequenceHash>,
}

impl SequenceCheck {
    /// The first name that equals the parent or a block before it.
    pub(crate) fn first_repeat(
        &mut self,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Option<ExternalSequenceHash> {
        let names = blocks.iter().map(|block| block.external);
        if blocks.len() <= COMPARE_ALL {
            return names
                .enumerate()
                .find(|&(at, name)| {
                    parent == Some(name) || blocks[..at].iter().any(|block| block.external == name)
                })
                .map(|(_, name)| name);
        }
        self.seen.extend(parent);
        let repeat = names.into_iter().find(|&name| !self.seen.insert(name));
        if self.seen.capacity() > KEEP {
            self.seen = FxHashSet::default();
        }
        self.seen.clear();
        repeat
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_find_the_first(
            parent in prop::option::of(0u64..60),
            names in prop_oneof![
                prop::collection::vec(0u64..60, 0..40),
                prop::collection::vec(0u64..1000, 0..40),
            ],
        ) {
            let blocks: Vec<_> = names
                .iter()
                .map(|&name| StoredBlock::new(ExternalSequenceHash::new(name), Default::default()))
                .collect();
            let mut before = Vec::from_iter(parent);
            let expected = names.iter().find(|name| {
                let repeats = before.contains(name);
                before.push(**name);
                repeats
            });
            let mut check = SequenceCheck::default();
            for _ in 0..2 {
                let found = check.first_repeat(parent.map(ExternalSequenceHash::new), &blocks);
                prop_assert_eq!(found, expected.copied().map(ExternalSequenceHash::new));
            }
        }
    }

    #[test]
    fn a_giant_store_leaves_no_giant_table() {
        let mut check = SequenceCheck::default();
        let blocks: Vec<_> = (0..100_000)
            .map(|n| StoredBlock::new(ExternalSequenceHash::new(n), Default::default()))
            .collect();
        assert_eq!(check.first_repeat(None, &blocks), None);
        assert!(check.seen.capacity() <= KEEP);
    }
}
