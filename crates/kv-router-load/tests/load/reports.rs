//! Faults that users of such routers reported, and the rules of the contract, one by one.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Clock, blocks, check, check_empty, demand, rank, tracker};
use kv_router_load::{
    AddRankError, BookError, BookingState, Demand, EngineReport, Hooks, LoadConfig, LoadConfigError,
    LoadListener, LoadSnapshot, LoadTracker,
};
use kv_router_types::{RequestId, WorkerId, WorkerRank};
use parking_lot::Mutex;

const TTL: Duration = Duration::from_secs(300);

#[test]
fn section_6_the_life_of_a_request() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let booking = tracker.book(worker, demand(Some(9), 40, &blocks(&[1, 2, 3]), 1), clock.at(0)).unwrap();
    assert_eq!((booking.worker(), booking.request()), (worker, Some(RequestId::new(9))));
    check(&tracker, worker, (40, 4, 1));
    assert_eq!(booking.prefill_completed(clock.at(1)), BookingState::Held);
    check(&tracker, worker, (0, 4, 1));
    booking.prefill_completed(clock.at(1));
    check(&tracker, worker, (0, 4, 1));
    booking.set_output_blocks(2, clock.at(2));
    check(&tracker, worker, (0, 6, 1));
    booking.set_output_blocks(1, clock.at(3)); // a report that was overtaken
    check(&tracker, worker, (0, 6, 1));
    booking.grow_output(3, clock.at(4));
    check(&tracker, worker, (0, 9, 1));
    booking.release();
    check_empty(&tracker, 1);
}

#[test]
fn section_6_output_ends_the_prefill_when_nobody_said_so() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let booking = tracker.book(worker, demand(None, 40, &[], 0), clock.at(0)).unwrap();
    booking.set_output_blocks(0, clock.at(1));
    check(&tracker, worker, (40, 0, 1));
    booking.grow_output(1, clock.at(2));
    check(&tracker, worker, (0, 1, 1));
}

#[test]
fn a_shared_prefix_counts_once() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let first = tracker.book(worker, demand(None, 0, &blocks(&[1, 2, 3]), 0), clock.at(0)).unwrap();
    let second = tracker.book(worker, demand(None, 0, &blocks(&[1, 2, 4]), 0), clock.at(0)).unwrap();
    check(&tracker, worker, (0, 4, 2));
    drop(first);
    check(&tracker, worker, (0, 3, 1));
    drop(second);
    check_empty(&tracker, 1);
}

#[test]
fn section_6_a_cancelled_request_leaves_the_worker_idle() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    drop(tracker.book(worker, demand(Some(1), 99, &blocks(&[1]), 1), clock.at(0)).unwrap());
    check_empty(&tracker, 1);
    // Its id may be used again.
    drop(tracker.book(worker, demand(Some(1), 99, &blocks(&[1]), 1), clock.at(0)).unwrap());
    check_empty(&tracker, 1);
}

#[test]
fn section_6_expiry_follows_inactivity_and_never_age() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let live = tracker.book(worker, demand(Some(1), 10, &blocks(&[1, 2]), 0), clock.at(0)).unwrap();
    let idle = tracker.book(worker, demand(Some(2), 10, &blocks(&[1, 3]), 0), clock.at(0)).unwrap();
    for minute in 1..=60 {
        assert_eq!(live.touch(clock.at(60 * minute)), BookingState::Held);
        for expired in tracker.expire_idle(clock.at(60 * minute), TTL) {
            assert_eq!(minute, 5, "dies at its time to live, not before and not after");
            assert_eq!((expired.worker, expired.request), (worker, Some(RequestId::new(2))));
            assert_eq!(expired.idle, TTL);
        }
    }
    check(&tracker, worker, (10, 2, 1));
    assert_eq!(idle.grow_output(5, clock.at(3600)), BookingState::Gone);
    drop(idle);
    check(&tracker, worker, (10, 2, 1));
    drop(live);
    check_empty(&tracker, 1);
}

#[test]
fn every_kind_of_report_is_activity_and_time_never_goes_back() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let bookings: Vec<_> =
        (0..4).map(|id| tracker.book(worker, demand(Some(id), 1, &[], 0), clock.at(0)).unwrap()).collect();
    bookings[0].touch(clock.at(200));
    bookings[1].prefill_completed(clock.at(200));
    bookings[2].set_output_blocks(0, clock.at(200));
    bookings[3].grow_output(1, clock.at(200));
    for booking in &bookings {
        booking.touch(clock.at(100));
    }
    assert!(tracker.expire_idle(clock.at(499), TTL).is_empty());
    assert_eq!(tracker.expire_idle(clock.at(500), TTL).len(), 4);
    check_empty(&tracker, 1);
}

#[test]
fn section_6_a_duplicate_is_refused_on_every_worker_and_changes_nothing() {
    let (clock, one, two) = (Clock::start(), rank(1, 0), rank(2, 0));
    let tracker = tracker(&[one, two]);
    let booking = tracker.book(one, demand(Some(7), 10, &blocks(&[1]), 0), clock.at(0)).unwrap();
    for worker in [one, two] {
        let refused = tracker.book(worker, demand(Some(7), 20, &blocks(&[2]), 3), clock.at(0)).unwrap_err();
        assert_eq!(refused, BookError::DuplicateRequest { request: RequestId::new(7), worker: one });
    }
    check(&tracker, one, (10, 1, 1));
    check(&tracker, two, (0, 0, 0));
    drop(booking);
    check_empty(&tracker, 2);
}

#[test]
fn section_6_a_release_before_its_booking_leaves_nothing_behind() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    assert_eq!(tracker.release_request(RequestId::new(7)), None);
    check_empty(&tracker, 1);
    let booking = tracker.book(worker, demand(Some(7), 10, &[], 0), clock.at(0)).unwrap();
    check(&tracker, worker, (10, 0, 1));
    assert_eq!(tracker.release_request(RequestId::new(7)), Some(worker));
    assert_eq!(tracker.release_request(RequestId::new(7)), None);
    check_empty(&tracker, 1);
    // The id has a new owner; the old guard must not end it.
    let again = tracker.book(worker, demand(Some(7), 20, &[], 0), clock.at(0)).unwrap();
    drop(booking);
    check(&tracker, worker, (20, 0, 1));
    drop(again);
    check_empty(&tracker, 1);
}

#[test]
fn an_old_booking_does_not_touch_a_new_life_of_its_rank() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let old = tracker.book(worker, demand(Some(1), 10, &blocks(&[1, 2]), 1), clock.at(0)).unwrap();
    let load = tracker.remove_rank(worker).unwrap();
    assert_eq!((load.prefill_tokens, load.blocks, load.requests), (10, 3, 1));
    assert_eq!(tracker.remove_rank(worker), None);
    assert_eq!(old.touch(clock.at(1)), BookingState::Gone);
    check_empty(&tracker, 0);
    let refused = tracker.book(worker, demand(None, 1, &[], 0), clock.at(0)).unwrap_err();
    assert_eq!(refused, BookError::UnknownRank { worker });

    tracker.add_rank(worker).unwrap();
    let new = tracker.book(worker, demand(Some(1), 5, &blocks(&[1, 2]), 0), clock.at(1)).unwrap();
    old.set_output_blocks(50, clock.at(2));
    drop(old);
    check(&tracker, worker, (5, 2, 1));
    tracker.add_rank(worker).unwrap(); // known already: keeps its load
    check(&tracker, worker, (5, 2, 1));
    drop(new);
    check_empty(&tracker, 1);
}

#[test]
fn a_worker_goes_with_all_its_ranks() {
    let clock = Clock::start();
    let ranks: Vec<_> = (0..20).map(|dp| rank(1, dp)).collect();
    let tracker = tracker(&ranks);
    tracker.add_rank(rank(2, 0)).unwrap();
    let bookings: Vec<_> = ranks
        .iter()
        .map(|&rank| tracker.book(rank, demand(None, 1, &blocks(&[1]), 0), clock.at(0)).unwrap())
        .collect();
    assert_eq!(tracker.remove_worker(WorkerId::new(1)), 20);
    assert_eq!(tracker.remove_worker(WorkerId::new(1)), 0);
    check_empty(&tracker, 1);
    drop(bookings);
    check_empty(&tracker, 1);
}

#[test]
fn every_bound_refuses_and_changes_nothing() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let config = LoadConfig { max_requests: 2, max_prompt_blocks: 4, max_ranks: 1, ..LoadConfig::default() };
    let tracker = LoadTracker::new(config).unwrap();
    tracker.add_rank(worker).unwrap();
    assert_eq!(tracker.add_rank(rank(2, 0)), Err(AddRankError::TooManyRanks { limit: 1 }));
    assert_eq!(tracker.add_rank(worker), Ok(()));

    let book =
        |id, prompt: &[u64]| tracker.book(worker, demand(Some(id), 1, &blocks(prompt), 0), clock.at(0));
    let long = book(1, &[1, 2, 3, 4, 5]).unwrap_err();
    assert_eq!(long, BookError::TooManyPromptBlocks { needed: 5, limit: 4 });
    check_empty(&tracker, 1);
    let first = book(1, &[1, 2, 3]).unwrap();
    let long = book(2, &[1, 2, 4, 5]).unwrap_err();
    assert_eq!(long, BookError::TooManyPromptBlocks { needed: 2, limit: 4 });
    let second = book(2, &[1, 2, 4]).unwrap(); // shares two of its blocks
    assert_eq!(book(3, &[]).unwrap_err(), BookError::TooManyRequests { limit: 2 });
    check(&tracker, worker, (2, 4, 2));
    drop((first, second));

    let tokens = Demand::MAX_PREFILL_TOKENS + 1;
    let refused = tracker.book(worker, demand(None, tokens, &[], 0), clock.at(0)).unwrap_err();
    assert_eq!(refused, BookError::PrefillTooLong { tokens });
    check_empty(&tracker, 1);
    drop(book(3, &[1, 2, 3, 4]).unwrap());
    let nowhere = LoadConfig { max_ranks: 0, ..LoadConfig::default() };
    assert_eq!(LoadTracker::new(nowhere).unwrap_err(), LoadConfigError::MaxRanks);
}

#[test]
fn output_saturates_instead_of_overflowing() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let booking = tracker.book(worker, demand(None, 1, &[], u32::MAX), clock.at(0)).unwrap();
    booking.grow_output(u32::MAX, clock.at(0));
    booking.grow_output(u32::MAX, clock.at(0));
    check(&tracker, worker, (0, 2 * u64::from(u32::MAX), 1));
    drop(booking);
    check_empty(&tracker, 1);
}

#[test]
fn a_snapshot_shows_every_rank_and_what_it_shares() {
    let clock = Clock::start();
    let ranks: Vec<_> = (0..100).map(|worker| rank(worker, 0)).collect();
    let tracker = tracker(&ranks);
    let mut snapshot = LoadSnapshot::new();
    let _one = tracker.book(ranks[1], demand(None, 16, &blocks(&[1, 2, 3]), 0), clock.at(0)).unwrap();
    let _two = tracker.book(ranks[2], demand(None, 32, &blocks(&[1]), 5), clock.at(0)).unwrap();
    tracker.snapshot_into(&blocks(&[1, 2, 4]), &mut snapshot);
    assert_eq!((snapshot.len(), snapshot.is_empty()), (100, false));
    for (position, rank) in snapshot.iter().enumerate() {
        let expected = match rank.worker.worker.get() {
            1 => (16, 3, 1, 2),
            2 => (32, 6, 1, 1),
            _ => (0, 0, 0, 0),
        };
        let load = rank.load;
        assert_eq!((load.prefill_tokens, load.blocks, load.requests, rank.shared_blocks), expected);
        assert_eq!(snapshot.get(position), Some(rank));
    }
    assert_eq!(snapshot.get(100), None);
}

#[test]
fn a_membership_names_ranks_and_positions_also_across_trackers() {
    let some: Vec<_> = (0..50).map(|worker| rank(worker, 0)).collect();
    let others: Vec<_> = (100..150).map(|worker| rank(worker, 0)).collect();
    let (first, second) = (tracker(&some), tracker(&others));
    let (mut snapshot, mut fresh) = (LoadSnapshot::new(), LoadSnapshot::new());
    let empty = snapshot.membership();
    first.snapshot_into(&[], &mut snapshot);
    let (before, names) = (snapshot.membership(), snapshot.workers().to_vec());
    assert_ne!(before, empty);
    first.snapshot_into(&blocks(&[1]), &mut snapshot);
    assert_eq!((snapshot.membership(), snapshot.workers()), (before, &*names));

    // A rank leaves and another comes: as many as before, not the same.
    for worker in 0..50 {
        first.remove_rank(some[worker]).unwrap();
        first.add_rank(others[worker]).unwrap();
        first.snapshot_into(&[], &mut snapshot);
        fresh.clone_from(&LoadSnapshot::new());
        first.snapshot_into(&[], &mut fresh);
        assert_ne!(snapshot.membership(), before);
        assert_eq!((snapshot.membership(), snapshot.workers()), (fresh.membership(), fresh.workers()));
    }
    second.snapshot_into(&[], &mut snapshot);
    assert_ne!(snapshot.membership(), fresh.membership());
    assert_eq!(snapshot.len(), 50);
    assert!(snapshot.workers().iter().all(|rank| others.contains(rank)));
}

#[derive(Debug, Default)]
struct Falls(Mutex<Vec<u64>>);

impl LoadListener for Falls {
    fn load_fell(&self, worker: WorkerRank) {
        self.0.lock().push(worker.worker.get());
    }
}

#[test]
fn a_listener_hears_of_every_fall_and_of_nothing_else() {
    let (clock, falls) = (Clock::start(), Arc::new(Falls::default()));
    let hooks = Hooks { listener: Some(Arc::<Falls>::clone(&falls)), ..Hooks::default() };
    let tracker = LoadTracker::with_hooks(LoadConfig::default(), hooks).unwrap();
    let heard = |expected: &[u64]| assert_eq!(std::mem::take(&mut *falls.0.lock()), expected);
    (1..=3).for_each(|worker| tracker.add_rank(rank(worker, 0)).unwrap());
    let book = |worker, id| tracker.book(rank(worker, 0), demand(Some(id), 9, &[], 1), clock.at(0)).unwrap();
    let (first, second, third) = (book(1, 1), book(2, 2), book(3, 3));
    first.touch(clock.at(1));
    heard(&[]);
    first.prefill_completed(clock.at(1));
    first.prefill_completed(clock.at(1));
    first.grow_output(1, clock.at(1));
    heard(&[1]);
    second.grow_output(1, clock.at(1)); // ends the prefill too
    heard(&[2]);
    drop(first);
    tracker.release_request(RequestId::new(2));
    drop(second);
    heard(&[1, 2]);
    tracker.expire_idle(clock.at(900), TTL);
    drop(third);
    heard(&[3]);
    let forth = book(1, 4);
    tracker.remove_rank(rank(1, 0));
    drop(forth);
    heard(&[]);
    let engine = |tokens| EngineReport { prefill_tokens: Some(tokens), ..EngineReport::default() };
    tracker.report(rank(2, 0), &engine(9), clock.at(900));
    heard(&[]);
    tracker.report(rank(2, 0), &engine(8), clock.at(900));
    tracker.expire_reports(clock.at(999), Duration::from_secs(1));
    heard(&[2, 2]);
}

#[test]
fn errors_say_what_to_do() {
    let error = BookError::DuplicateRequest { request: RequestId::new(7), worker: rank(1, 2) }.to_string();
    assert!(error.contains("1@2") && error.contains("release it first"), "{error}");
    let error = AddRankError::TooManyRanks { limit: 3 }.to_string();
    assert!(error.contains("max_ranks"), "{error}");
}
