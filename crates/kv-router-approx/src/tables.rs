//! Hash tables that give memory back.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Tables smaller than this are left alone.
const SMALL: usize = 64;

/// Halves a table that is three quarters empty, so that memory follows what is held now, not what once was.
/// Amortised O(1) when it is called after a removal.
pub(crate) fn shrink_if_sparse<K: Eq + Hash, V>(table: &mut FxHashMap<K, V>) {
    if table.is_empty() {
        *table = FxHashMap::default();
    } else if table.capacity() > SMALL && table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drained_table_ends_without_memory() {
        let mut table: FxHashMap<u32, u32> = (0..10_000).map(|n| (n, n)).collect();
        for n in 0..10_000 {
            table.remove(&n);
            shrink_if_sparse(&mut table);
            assert!(
                table.capacity() <= SMALL.max(table.len() * 8),
                "{} for {}",
                table.capacity(),
                table.len()
            );
        }
        assert_eq!(table.capacity(), 0);
    }
}
