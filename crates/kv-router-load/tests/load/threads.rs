//! Several threads on one tracker: no torn numbers on the way, nothing left at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Clock, blocks, check_empty, demand, rank, tracker};
use kv_router_load::{
    Booking, BookingName, BookingState, BookingsPart, Hooks, JournalConfig, LoadConfig, LoadSnapshot,
    LoadTracker, ReplicaId, ReplicaLife, ReplicaSync, SyncConfig,
};

const TTL: Duration = Duration::from_secs(60);

#[test]
fn handles_and_guards_may_cross_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<LoadTracker>();
    check::<Booking>();
    check::<LoadSnapshot>();
}

/// A small generator: the tests of two threads need different, repeatable choices.
fn choices(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn a_reader_never_sees_numbers_that_do_not_belong_together() {
    let (clock, ranks) = (Clock::start(), [rank(1, 0), rank(2, 0)]);
    let tracker = tracker(&ranks);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|seed| {
                let (tracker, ranks) = (tracker.clone(), &ranks);
                scope.spawn(move || {
                    let mut choose = choices(seed);
                    let mut held = Vec::new();
                    for _ in 0..4_000 {
                        let rank = ranks[choose(2) as usize];
                        // Every request weighs 7 tokens and 3 blocks.
                        held.push(tracker.book(rank, demand(None, 7, &[], 3), clock.at(0)).unwrap());
                        if held.len() > 5 {
                            drop(held.swap_remove(choose(5) as usize));
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut snapshot = LoadSnapshot::new();
            while !done.load(Ordering::Relaxed) {
                tracker.snapshot_into(&[], &mut snapshot);
                for rank in snapshot.iter() {
                    let requests = u64::from(rank.load.requests);
                    assert_eq!((rank.load.prefill_tokens, rank.load.blocks), (7 * requests, 3 * requests));
                }
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    check_empty(&tracker, 2);
}

#[test]
fn an_id_is_unique_at_every_moment() {
    let (clock, ranks) = (Clock::start(), [rank(1, 0), rank(2, 0), rank(3, 0), rank(4, 0)]);
    let tracker = tracker(&ranks);
    for round in 0..500 {
        let booked: Vec<Option<Booking>> = thread::scope(|scope| {
            let threads: Vec<_> = ranks[..2]
                .iter()
                .map(|&rank| {
                    let tracker = &tracker;
                    scope.spawn(move || tracker.book(rank, demand(Some(round), 1, &[], 0), clock.at(0)).ok())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(booked.iter().flatten().count(), 1);
    }
    check_empty(&tracker, 4);
}

#[test]
fn everything_at_once_ends_at_zero() {
    let clock = Clock::start();
    let ranks: Vec<_> = (0..16).map(|worker| rank(worker / 2, (worker % 2) as u32)).collect();
    let tracker = tracker(&ranks);
    thread::scope(|scope| {
        for seed in 0..4u64 {
            let (tracker, ranks) = (tracker.clone(), &ranks);
            scope.spawn(move || {
                let mut choose = choices(seed + 100);
                let mut held: Vec<Booking> = Vec::new();
                let mut snapshot = LoadSnapshot::new();
                for tick in 0..3_000 {
                    let now = clock.at(tick);
                    let rank = ranks[choose(16) as usize];
                    match choose(12) {
                        0..5 => {
                            let prompt: Vec<u64> = (1..=1 + choose(6)).collect();
                            let id = (choose(2) == 0).then(|| u128::from(choose(40)));
                            held.extend(
                                tracker.book(rank, demand(id, choose(99), &blocks(&prompt), 1), now).ok(),
                            );
                        }
                        5..8 if !held.is_empty() => {
                            held.swap_remove(choose(held.len() as u64) as usize).release();
                        }
                        8 => {
                            for booking in &held {
                                if booking.prefill_completed(now) == BookingState::Held {
                                    booking.grow_output(1, now);
                                }
                            }
                        }
                        9 => {
                            tracker.release_request(kv_router_types::RequestId::new(u128::from(choose(40))));
                        }
                        10 if choose(20) == 0 => {
                            tracker.remove_worker(rank.worker);
                        }
                        10 => drop(tracker.expire_idle(now, TTL)),
                        _ => {
                            tracker.add_rank(rank).unwrap();
                            tracker.snapshot_into(&blocks(&[1, 2, 3]), &mut snapshot);
                        }
                    }
                }
            });
        }
    });
    let ranks = tracker.stats().ranks;
    check_empty(&tracker, ranks);
}

/// Snapshots are taken while bookings come and go, arrive late, and a part of the changes is lost.
#[test]
fn a_replica_that_looks_on_agrees_in_the_end() {
    let (clock, ranks) = (Clock::start(), [rank(0, 0), rank(1, 0), rank(2, 0)]);
    let replica = |id| {
        let life = ReplicaLife { replica: ReplicaId::new(id), life: 1 };
        let journal = JournalConfig { max_message_bytes: 1_024, ..JournalConfig::new(life) };
        let hooks = Hooks { journal: Some(journal), ..Hooks::default() };
        let tracker = LoadTracker::with_hooks(LoadConfig::default(), hooks).unwrap();
        ranks.iter().for_each(|&rank| tracker.add_rank(rank).unwrap());
        tracker
    };
    let (one, two) = (replica(1), replica(2));
    let mut sync = ReplicaSync::new(two.clone(), SyncConfig::default()).unwrap();
    let done = AtomicBool::new(false);
    let mut left: Vec<Booking> = Vec::new();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|seed| {
                let one = one.clone();
                scope.spawn(move || {
                    let mut choose = choices(seed);
                    let mut held: Vec<Booking> = Vec::new();
                    for _ in 0..3_000 {
                        let prompt = blocks(&[choose(3), 10 + choose(3)]);
                        let rank = ranks[choose(3) as usize];
                        held.push(one.book(rank, demand(None, 7, &prompt, 1), clock.at(0)).unwrap());
                        let _ = held[choose(held.len() as u64) as usize].grow_output(1, clock.at(0));
                        if held.len() > 8 {
                            drop(held.swap_remove(choose(8) as usize));
                        }
                    }
                    held
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let (mut choose, mut late, mut now) = (choices(9), Vec::<BookingsPart>::new(), 0);
            while !done.load(Ordering::Relaxed) {
                now += 1;
                let batch = one.take_deltas(20).unwrap();
                if choose(7) > 0 {
                    sync.receive(batch, clock.at(now));
                }
                // They were made a moment ago, and more was said since. Some get lost.
                for part in late.drain(..).filter(|_| choose(9) > 0) {
                    sync.receive_part(part, clock.at(now));
                }
                for wish in sync.wanted(clock.at(now)) {
                    late.extend(one.bookings_parts(wish.names).unwrap());
                }
            }
            now
        });
        left = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    // The network is well for a while.
    let mut heal = || {
        while !one.take_deltas(usize::MAX).unwrap().deltas.is_empty() {}
        sync.receive(one.take_deltas(usize::MAX).unwrap(), clock.at(1 << 40));
        for part in one.bookings_parts(BookingName::ALL).unwrap() {
            sync.receive_part(part, clock.at(1 << 40));
        }
    };
    heal();
    ranks.iter().for_each(|&rank| assert_eq!(one.load(rank), two.load(rank)));
    left.clear();
    heal();
    check_empty(&one, 3);
    check_empty(&two, 3);
}
