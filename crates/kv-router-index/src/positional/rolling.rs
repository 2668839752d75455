//! The rolling hash of a query, no further than somebody asked.

use kv_router_hash::next_sequence_hash;
use kv_router_types::{LocalBlockHash, SequenceHash};

/// The sequence hashes of a query, computed up to the deepest position that was asked for.
#[derive(Debug)]
pub(super) struct Rolling<'a> {
    query: &'a [LocalBlockHash],
    /// Those of the first positions.
    known: &'a mut Vec<SequenceHash>,
}

impl<'a> Rolling<'a> {
    /// Starts at the root. The vector lends its memory.
    pub(super) fn new(query: &'a [LocalBlockHash], memory: &'a mut Vec<SequenceHash>) -> Self {
        memory.clear();
        Self { query, known: memory }
    }

    /// The hash at a position, if it was asked for before or deeper ones were.
    #[inline]
    pub(super) fn known(&self, position: u32) -> Option<SequenceHash> {
        self.known.get(position as usize).copied()
    }

    /// The hash of the prefix that ends at a position inside the query.
    #[inline]
    pub(super) fn at(&mut self, position: u32) -> SequenceHash {
        let position = position as usize;
        let mut last = self.known.last().copied();
        let from = self.known.len().min(position + 1);
        self.known.extend(self.query[from..=position].iter().map(|&local| {
            let next = next_sequence_hash(last, local);
            last = Some(next);
            next
        }));
        self.known[position]
    }
}

#[cfg(test)]
mod tests {
    use kv_router_hash::sequence_hashes_into;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn in_any_order_the_hashes_are_those_of_the_prefixes(
            query in prop::collection::vec((0u64..5).prop_map(LocalBlockHash::new), 1..50),
            asked in prop::collection::vec(any::<prop::sample::Index>(), 1..10),
        ) {
            let mut expected = Vec::new();
            sequence_hashes_into(&query, &mut expected);
            let mut memory = vec![SequenceHash::new(7)];
            let mut rolling = Rolling::new(&query, &mut memory);
            let mut deepest = None;
            for at in asked {
                let at = at.index(query.len());
                prop_assert_eq!(rolling.known(at as u32), (Some(at) <= deepest).then(|| expected[at]));
                prop_assert_eq!(rolling.at(at as u32), expected[at]);
                deepest = deepest.max(Some(at));
            }
            prop_assert_eq!(memory.len(), deepest.map_or(0, |deepest| deepest + 1), "hashed too far");
        }
    }
}
