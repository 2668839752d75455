//! The table against a map, also with hashes that send everything to one home.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// How a key of a test becomes a hash.
#[derive(Clone, Copy, Debug)]
enum Hashes {
    Good,
    /// Few tags and few buckets.
    Poor,
    /// One home for all.
    Equal,
}

impl Hashes {
    fn of(self, key: u32) -> u64 {
        match self {
            Self::Good => u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            Self::Poor => u64::from(key % 5) << 62 | u64::from(key % 3) << 30,
            Self::Equal => 7 << 33 | 7 << 29,
        }
    }
}

fn hashes() -> impl Strategy<Value = Hashes> {
    prop::sample::select(vec![Hashes::Good, Hashes::Poor, Hashes::Equal])
}

fn find(table: &Table, hash: u64, key: u32) -> Option<(Seat, u32)> {
    table.find(table.home(hash), |value| (value == key).then_some(value))
}

proptest! {
    #[test]
    fn matches_are_those_in_use(words in prop::array::uniform15(prop_oneof![0u32..3, any::<u32>()]), used in 0u32..1 << SLOTS, fields in any::<u16>(), wanted in 0u32..3, mask in prop::sample::select(vec![u32::MAX, !1, 0])) {
        let mut bucket = Bucket::default();
        bucket.0[..SLOTS].copy_from_slice(&words);
        bucket.0[META] = used | u32::from(fields) << AWAY;
        let wanted = wanted & mask;
        let expected: u32 = (0..SLOTS).filter(|&at| used >> at & 1 != 0 && words[at] & mask == wanted).map(|at| 1 << at).sum();
        prop_assert_eq!(bucket.matches(wanted, mask, USED), expected);
    }

    #[test]
    fn a_table_is_a_map(steps in prop::collection::vec((0u32..700, 0u32..4), 1..2500), hashes in hashes(), bits in 10u32..31) {
        let (mut table, mut model) = (Table::new(bits), BTreeMap::new());
        let rewrite = |table: &mut Table, model: &BTreeMap<u32, ()>, buckets: usize| {
            table.reset(buckets, bits);
            for &key in model.keys() {
                table.insert(table.home(hashes.of(key)), key);
            }
        };
        for (key, what) in steps {
            let home = table.home(hashes.of(key));
            let found = find(&table, hashes.of(key), key);
            prop_assert_eq!(found.is_some(), model.contains_key(&key));
            if what == 0 {
                prop_assert_eq!(table.remove(home, key), model.remove(&key).is_some());
                if let Some(buckets) = table.wants_shrinking() {
                    rewrite(&mut table, &model, buckets);
                }
            } else if found.is_none() {
                if let Some(buckets) = table.wants_growth(1) {
                    rewrite(&mut table, &model, buckets);
                }
                let home = table.home(hashes.of(key));
                let alone = table.insert_alone(home, 0);
                let seat = alone.unwrap_or_else(|| table.insert(home, 0));
                if alone.is_some() {
                    let same = model.keys().filter(|&&other| table.home(hashes.of(other)) == home).count();
                    prop_assert_eq!(same, 0);
                }
                table.set(seat, key);
                model.insert(key, ());
                prop_assert_eq!(table.value(seat), key);
            }
            prop_assert_eq!(table.len(), model.len());
        }
        for key in 0..700 {
            prop_assert_eq!(find(&table, hashes.of(key), key).is_some(), model.contains_key(&key));
        }
        let keys: Vec<_> = model.keys().copied().collect();
        for key in keys {
            prop_assert!(table.remove(table.home(hashes.of(key)), key));
        }
        // Nothing stays behind: no count, no distance, unless one got to the greatest number.
        let clean = |bucket: &Bucket| bucket.0[META] == 0 || bucket.field(AWAY) == MOST;
        prop_assert!(table.buckets.iter().all(clean));
    }
}
