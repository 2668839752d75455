//! The filter as its users see it: a multiset that never denies what it holds, at the rate and size that it promises.
#![expect(clippy::unwrap_used, reason = "a helper of a test may panic, as the test may")]

use std::collections::BTreeMap;

use kv_router_approx::cuckoo::{CuckooFilter, FilterFull};
use kv_router_types::SequenceHash;
use proptest::prelude::*;

fn hash(raw: u64) -> SequenceHash {
    SequenceHash::new(raw)
}

fn filled(hashes: std::ops::Range<u64>, mut filter: CuckooFilter) -> CuckooFilter {
    hashes.for_each(|raw| filter.insert(hash(raw)).unwrap());
    filter
}

/// Bytes of a filter, all overhead included, for each of its entries.
fn bytes_per_entry(filter: &CuckooFilter) -> f64 {
    (filter.heap_bytes() + size_of::<CuckooFilter>()) as f64 / filter.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn is_a_multiset_with_false_positives(
        steps in prop::collection::vec((any::<bool>(), 0u64..300, 1u32..40), 0..300),
        restore_at in 0usize..300,
    ) {
        let mut filter = CuckooFilter::new();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        for (step, (insert, raw, many)) in steps.into_iter().enumerate() {
            if insert {
                // Runs of neighbours, so that the table grows; repeats, so that there are copies.
                for raw in raw..raw + u64::from(many) {
                    filter.insert(hash(raw)).unwrap();
                    *model.entry(raw).or_insert(0) += 1;
                }
            } else {
                for raw in raw..raw + u64::from(many) {
                    let held = model.get_mut(&raw);
                    prop_assert_eq!(filter.remove(hash(raw)), held.is_some());
                    if let Some(copies) = held {
                        *copies -= 1;
                        if *copies == 0 {
                            model.remove(&raw);
                        }
                    }
                }
            }
            prop_assert_eq!(filter.len(), model.values().sum::<u32>() as usize);
            prop_assert!(model.keys().all(|&raw| filter.may_contain(hash(raw))), "a false negative");
            if step == restore_at {
                let bytes = filter.to_bytes();
                filter = CuckooFilter::from_bytes(&bytes, CuckooFilter::MAX_ENTRIES).unwrap();
                prop_assert_eq!(filter.to_bytes(), bytes);
            }
        }
        for (raw, copies) in model {
            (0..copies).for_each(|_| assert!(filter.remove(hash(raw))));
            prop_assert!(!filter.remove(hash(raw)), "more copies than were inserted");
        }
        prop_assert_eq!(filter, CuckooFilter::new());
    }
}

#[test]
fn nothing_is_lost_while_it_grows_and_shrinks() {
    let mut filter = CuckooFilter::new();
    let check = |filter: &CuckooFilter, held: std::ops::Range<u64>| {
        assert_eq!(filter.len() as u64, held.end - held.start);
        for raw in held {
            assert!(filter.may_contain(hash(raw)), "{raw} of {}", filter.len());
        }
    };
    for raw in 0..200_000 {
        filter.insert(hash(raw)).unwrap();
        if raw % 25_000 == 0 {
            check(&filter, 0..raw + 1);
        }
    }
    assert_eq!(filter.side_entries(), 0);
    for raw in 0..200_000 {
        assert!(filter.remove(hash(raw)));
        if raw % 25_000 == 0 {
            check(&filter, raw + 1..200_000);
        }
    }
    assert_eq!(filter, CuckooFilter::new());
}

/// The share of hashes that were never inserted and yet seem held.
fn false_positives(filter: &CuckooFilter, probes: u64) -> f64 {
    let start = 1 << 40;
    let wrong = (start..start + probes).filter(|&raw| filter.may_contain(hash(raw))).count();
    wrong as f64 / probes as f64
}

/// `8 * load / 65535`, as a filter that holds one entry a slot and compares 16 bits has it. Each of the two buckets
/// that a lookup reads has four slots.
#[track_caller]
fn check_rate(filter: &CuckooFilter, load: f64) {
    let found = filter.occupied_slots() as f64 / filter.slots() as f64;
    assert!((found - load).abs() < 0.005, "the load is {found}, not {load}");
    let expected = 8.0 * load / 65_535.0;
    // At least 240 are expected, so one standard deviation is 6 %, and these bounds are many away.
    let rate = false_positives(filter, 4_000_000);
    assert!(rate < 1.4 * expected, "{rate:e} is far above {expected:e} at a load of {load}");
    assert!(
        rate > 0.6 * expected,
        "{rate:e} is far below {expected:e} at a load of {load}: does it compare at all?"
    );
}

#[test]
fn the_rate_of_false_positives_follows_the_load() {
    let slots = CuckooFilter::with_room_for(498_073).slots();
    assert_eq!(slots, 1 << 19);
    for load in [0.50, 0.80, 0.95] {
        let entries = (slots as f64 * load) as u64;
        check_rate(&filled(0..entries, CuckooFilter::with_room_for(498_073)), load);
    }
}

#[test]
fn a_table_between_two_powers_of_two_is_as_good() {
    for room in [300_000, 400_000, 480_000] {
        let filter = CuckooFilter::with_room_for(room);
        let slots = filter.slots();
        assert!(!slots.is_power_of_two());
        for load in [0.50, 0.80, 0.87] {
            let filter = filled(0..(slots as f64 * load) as u64, filter.clone());
            assert_eq!(filter.slots(), slots, "it did not grow");
            check_rate(&filter, load);
        }
    }
}

/// Growth that used up fingerprint bits would multiply the rate by 2,000 here.
#[test]
fn a_table_that_grew_from_nothing_is_as_good() {
    let filter = filled(0..400_000, CuckooFilter::new());
    let load = filter.occupied_slots() as f64 / filter.slots() as f64;
    check_rate(&filter, load);
}

#[test]
fn an_entry_takes_less_than_four_bytes() {
    let mut filter = CuckooFilter::new();
    let mut worst = 0.0f64;
    for raw in 0..1_000_000 {
        filter.insert(hash(raw)).unwrap();
        // The fullest moment of a growing table and the emptiest are a sixteenth apart.
        if raw >= 500_000 && raw % 1_000 == 0 {
            worst = worst.max(bytes_per_entry(&filter));
        }
    }
    assert!(worst < 4.0, "{worst} bytes an entry");
    assert!(filter.to_bytes().len() < filter.len() * 4);
    assert_eq!(filter.side_entries(), 0);
}

#[test]
fn a_million_cycles_end_where_they_began() {
    let mut filter = filled(0..10_000, CuckooFilter::new());
    let bytes = filter.heap_bytes();
    for raw in 0..1_000_000 {
        filter.insert(hash(raw + 10_000)).unwrap();
        assert!(filter.remove(hash(raw)));
    }
    assert_eq!((filter.len(), filter.side_entries()), (10_000, 0));
    assert!(filter.heap_bytes() <= bytes * 17 / 16, "{} from {bytes}", filter.heap_bytes());
    (1_000_000..1_010_000).for_each(|raw| assert!(filter.remove(hash(raw))));
    assert_eq!(filter, CuckooFilter::new());
}

#[test]
fn a_restored_filter_goes_on_as_the_original_would() {
    let mut original = filled(0..5_000, CuckooFilter::new());
    (0..2_000).for_each(|raw| assert!(original.remove(hash(raw))));
    let mut restored = CuckooFilter::from_bytes(&original.to_bytes(), CuckooFilter::MAX_ENTRIES).unwrap();
    for filter in [&mut original, &mut restored] {
        (5_000..9_000).for_each(|raw| filter.insert(hash(raw)).unwrap());
        (2_000..8_000).for_each(|raw| assert!(filter.remove(hash(raw))));
    }
    assert_eq!(original.to_bytes(), restored.to_bytes());
}

#[test]
fn the_limit_refuses_and_keeps() {
    let mut filter = filled(0..10, CuckooFilter::with_limit(10));
    assert_eq!(filter.insert(hash(10)), Err(FilterFull { limit: 10 }));
    assert_eq!(filter.insert(hash(3)), Err(FilterFull { limit: 10 }), "a copy is an entry");
    assert_eq!(filter.len(), 10);
    assert!(filter.remove(hash(3)));
    assert_eq!(filter.insert(hash(10)), Ok(()));
}

/// Local hashes of the root are anything, such as small numbers.
#[test]
fn hashes_need_not_be_random() {
    for step in [1, 1 << 16, 1 << 32, 1 << 48] {
        let mut filter = CuckooFilter::new();
        (0..20_000u64).for_each(|n| filter.insert(hash(n.wrapping_mul(step))).unwrap());
        assert_eq!(filter.occupied_slots(), 20_000);
        assert!(filter.slots() < 30_000, "{} slots", filter.slots());
    }
}
