//! Lookups while ranks change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

/// Lets one rank go through `cycle` again and again while others ask, and checks each answer about it.
#[track_caller]
fn check_during(
    index: &PositionalIndexer,
    cycles: usize,
    cycle: &[KvEvent],
    asked: &[LocalBlockHash],
    allowed: impl Fn(Overlap) -> bool + Sync,
) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut out = Overlaps::new();
                    while !is_over.load(Ordering::Relaxed) {
                        index.find_into(asked, FindOptions::new(), &mut out);
                        if let Some(overlap) = out.get(rank(1)) {
                            assert!(allowed(overlap), "never there at once: {overlap:?}");
                        }
                    }
                })
            })
            .collect();
        let mut writer = index;
        for event in std::iter::repeat_n(cycle, cycles).flatten() {
            if readers.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
            writer.apply(rank(1), event).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn blocks_held_at_different_times_do_not_add_up() {
    let mut index = &with_jump(1);
    index.apply(rank(1), &store(None, 0..4)).unwrap();
    index.apply(rank(1), &remove([2])).unwrap();
    // Never blocks 0 and 2 at once.
    let cycle = [remove([0]), store(Some(1), [2]), remove([2]), store(None, [0])];
    check_during(index, 20_000, &cycle, &query(0..4), |overlap| overlap.blocks() <= 2);
}

#[test]
fn jumps_do_not_add_up_either() {
    let mut index = &with_jump(64);
    index.apply(rank(1), &store(None, 0..200)).unwrap();
    index.apply(rank(1), &remove([50])).unwrap();
    let cycle = [remove([0]), store(Some(49), [50]), remove([50]), store(None, [0])];
    check_during(index, 20_000, &cycle, &query(0..200), |overlap| overlap.blocks() <= 50);
}

#[test]
fn credit_held_at_different_times_does_not_add_up() {
    let mut index = &with_jump(64);
    let host = |n: u64| store_in(Tier::Host, Some(n - 1), [(n, n)]);
    index.apply(rank(1), &store(None, 0..100)).unwrap();
    index.apply(rank(1), &host(90)).unwrap();
    index.apply(rank(1), &remove([90])).unwrap();
    // Never blocks 10 and 90 on the device at once.
    let cycle = [host(10), remove([10]), store(Some(89), [90]), host(90), remove([90]), store(Some(9), [10])];
    check_during(index, 20_000, &cycle, &query(0..100), |overlap| {
        overlap.blocks() == 100 && overlap.credited_at(Tier::Device) < 100
    });
}

#[test]
fn a_slot_that_changes_hands_is_not_taken_for_its_last_owner() {
    let mut index = &with_jump(64);
    // Rank 1 never holds more than 5 blocks; whoever sits in its place next holds 100.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (asked, mut out) = (query(0..100), Overlaps::new());
            while !is_over.load(Ordering::Relaxed) {
                index.find_into(&asked, FindOptions::new(), &mut out);
                assert!(out.blocks(rank(1)) <= 5);
                assert!(out.iter().all(|overlap| overlap.worker() != rank(0)));
            }
        });
        for _ in 0..3_000 {
            index.apply(rank(1), &store(None, 0..5)).unwrap();
            index.remove_worker(WorkerId::new(1));
            index.apply(rank(2), &store(None, 0..100)).unwrap();
            index.remove_worker(WorkerId::new(2));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(index.occupancy(), Occupancy::default());
}

#[test]
fn one_rank_on_two_threads_stays_in_order() {
    let index = &PositionalIndexer::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut index = index;
                for _ in 0..2_000 {
                    index.apply(rank(1), &store(None, 0..3)).unwrap();
                    index.apply(rank(1), &remove([1, 0])).unwrap();
                    index.apply(rank(1), &KvEvent::Cleared).unwrap();
                }
            });
        }
    });
    assert_eq!(index.occupancy(), Occupancy::default());
    assert_eq!((index.entries.len(), index.fleet.len()), (0, 0));
}

/// Writers with ranks of their own, each beside an oracle; ranks do not influence each other.
#[test]
fn many_writers_end_equal_to_the_oracle() {
    let index = &with_jump(8);
    let is_over = AtomicBool::new(false);
    let path: Vec<u64> = (0..40).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (asked, mut out) = (query(path.iter().copied()), Overlaps::new());
            while !is_over.load(Ordering::Relaxed) {
                index.find_into(&asked, FindOptions::new().early_exit(), &mut out);
            }
        });
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                scope.spawn(move || {
                    let (mut index, mut oracle) = (index, Oracle::new());
                    let mut state = writer + 1;
                    let mut below = |bound: u64| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (state >> 33) % bound
                    };
                    for _ in 0..6_000 {
                        let id = rank(writer * 10 + below(3));
                        let from = below(40);
                        let event = match below(8) {
                            0..4 => store(from.checked_sub(1), from..40.min(from + 1 + below(20))),
                            4 => store(None, 0..40),
                            5 | 6 => remove([from, below(40), below(40)]),
                            _ if below(10) == 0 => KvEvent::Cleared,
                            _ => store_in(Tier::Host, None, [(0, 0), (1, 1)]),
                        };
                        assert_eq!(index.apply(id, &event), oracle.apply(id, &event));
                    }
                    oracle
                })
            })
            .collect();
        let oracles: Vec<Oracle> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        let found = index.find(&query(0..40));
        for (writer, oracle) in oracles.iter().enumerate() {
            for id in (0..3).map(|n| rank(writer as u64 * 10 + n)) {
                assert_eq!(found.get(id), oracle.find(&query(0..40)).get(id));
            }
        }
    });
}
