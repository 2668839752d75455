//! What engines say of themselves, and the ends of attempts in any order.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::common::{Clock, blocks, check, check_empty, demand, rank, tracker};
use kv_router_load::{
    AttemptEnd, BookError, Demand, EngineReport, LoadConfig, LoadSnapshot, LoadTracker, RankCapacity,
};
use kv_router_types::RequestId;

fn report(prefill_tokens: u64, blocks: u64, requests: u32) -> EngineReport {
    EngineReport { prefill_tokens: Some(prefill_tokens), blocks: Some(blocks), requests: Some(requests) }
}

#[test]
fn what_we_booked_and_the_engine_counts_too_counts_once() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let booking = tracker.book(worker, demand(None, 100, &blocks(&[1, 2]), 1), clock.at(0)).unwrap();
    assert!(tracker.report(worker, &report(100, 3, 1), clock.at(1)));
    check(&tracker, worker, (100, 3, 1));
    // Somebody else sends there too.
    tracker.report(worker, &report(150, 13, 3), clock.at(2));
    check(&tracker, worker, (150, 13, 3));
    // What we book after the report comes on top; what we release goes.
    let second = tracker.book(worker, demand(None, 10, &[], 2), clock.at(3)).unwrap();
    check(&tracker, worker, (160, 15, 4));
    drop(booking);
    check(&tracker, worker, (60, 12, 3));
    // The next report says how it is.
    tracker.report(worker, &report(10, 2, 1), clock.at(4));
    check(&tracker, worker, (10, 2, 1));
    drop(second);
    check_empty(&tracker, 1);
}

#[test]
fn an_engine_that_lags_behind_takes_nothing_off_our_bookings() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker]);
    let _booking = tracker.book(worker, demand(None, 100, &[], 5), clock.at(0)).unwrap();
    tracker.report(worker, &report(0, 0, 0), clock.at(1));
    check(&tracker, worker, (100, 5, 1));
    // One that says less than all is believed in what it says.
    tracker.report(worker, &EngineReport { blocks: Some(9), ..EngineReport::default() }, clock.at(2));
    check(&tracker, worker, (100, 9, 1));
    assert_eq!(tracker.foreign_load(worker).map(|load| load.blocks), Some(4));
}

#[test]
fn reports_expire_and_go_with_their_rank() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = tracker(&[worker, rank(2, 0)]);
    tracker.report(worker, &report(u64::MAX, u64::MAX, u32::MAX), clock.at(0));
    let _held = tracker.book(worker, demand(None, 100, &[], 5), clock.at(0)).unwrap();
    assert_eq!(tracker.expire_reports(clock.at(59), Duration::from_secs(60)), 0);
    assert_eq!(tracker.expire_reports(clock.at(60), Duration::from_secs(60)), 1);
    check(&tracker, worker, (100, 5, 1));
    tracker.report(worker, &report(900, 900, 900), clock.at(61));
    assert_eq!(tracker.remove_rank(worker).map(|load| load.requests), Some(900));
    assert!(!tracker.report(worker, &report(1, 1, 1), clock.at(62)));
    tracker.add_rank(worker).unwrap();
    check_empty(&tracker, 2);
}

#[test]
fn capacity_is_part_of_the_snapshot() {
    let ranks = [rank(1, 0), rank(2, 0)];
    let tracker = tracker(&ranks);
    let (mut snapshot, capacity) = (LoadSnapshot::new(), RankCapacity::default());
    tracker.snapshot_into(&[], &mut snapshot);
    assert!(snapshot.iter().all(|rank| rank.capacity == capacity));
    let capacity = RankCapacity { batched_tokens: NonZeroU32::new(8_192), total_blocks: NonZeroU32::new(9) };
    assert!(tracker.set_capacity(ranks[0], capacity) && !tracker.set_capacity(rank(3, 0), capacity));
    tracker.snapshot_into(&[], &mut snapshot);
    assert!(snapshot.changed().count() > 0);
    for rank in snapshot.iter() {
        assert_eq!(rank.capacity == capacity, rank.worker == ranks[0]);
        assert_eq!(tracker.capacity(rank.worker), Some(rank.capacity));
    }
    assert_eq!(tracker.capacity(rank(3, 0)), None);
}

fn attempt(id: u128, attempt: u32) -> Demand<'static> {
    Demand { attempt, ..demand(Some(id), 10, &[], 1) }
}

#[test]
fn a_late_end_of_one_attempt_does_not_touch_the_next() {
    let (clock, worker, id) = (Clock::start(), rank(1, 0), RequestId::new(7));
    let tracker = tracker(&[worker]);
    let first = tracker.book(worker, attempt(7, 0), clock.at(0)).unwrap();
    assert_eq!(tracker.end_attempt(id, 0, clock.at(1)), AttemptEnd::Released(worker));
    let second = tracker.book(worker, attempt(7, 1), clock.at(2)).unwrap();
    assert_eq!(tracker.end_attempt(id, 0, clock.at(3)), AttemptEnd::Late);
    drop(first);
    check(&tracker, worker, (10, 1, 1));
    drop(second);
    check_empty(&tracker, 1);
}

#[test]
fn an_end_before_its_booking_keeps_it_out_once() {
    let (clock, worker, id) = (Clock::start(), rank(1, 0), RequestId::new(7));
    let tracker = tracker(&[worker]);
    assert_eq!(tracker.end_attempt(id, 3, clock.at(0)), AttemptEnd::Early);
    assert_eq!(tracker.stats().tombstones, 1);
    for earlier in [0, 2] {
        let refused = tracker.book(worker, attempt(7, earlier), clock.at(1)).unwrap_err();
        assert_eq!(refused, BookError::AlreadyEnded { request: id, attempt: earlier });
    }
    assert!(tracker.book(worker, attempt(7, 3), clock.at(1)).is_err());
    check_empty(&tracker, 1); // the tombstone has done its work
    drop(tracker.book(worker, attempt(7, 4), clock.at(1)).unwrap());
    check_empty(&tracker, 1);
}

#[test]
fn an_early_end_beside_an_earlier_attempt_keeps_the_later_one_out() {
    let (clock, worker, id) = (Clock::start(), rank(1, 0), RequestId::new(7));
    let tracker = tracker(&[worker]);
    let first = tracker.book(worker, attempt(7, 0), clock.at(0)).unwrap();
    assert_eq!(tracker.end_attempt(id, 1, clock.at(1)), AttemptEnd::Early);
    check(&tracker, worker, (10, 1, 1));
    drop(first);
    assert!(tracker.book(worker, attempt(7, 1), clock.at(2)).is_err());
    check_empty(&tracker, 1);
}

#[test]
fn tombstones_are_bounded_and_expire() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = LoadTracker::new(LoadConfig { max_tombstones: 3, ..LoadConfig::default() }).unwrap();
    tracker.add_rank(worker).unwrap();
    for id in 0..10 {
        tracker.end_attempt(RequestId::new(id), 0, clock.at(id as u64));
    }
    assert_eq!(tracker.stats().tombstones, 3);
    drop(tracker.book(worker, attempt(6, 0), clock.at(20)).unwrap()); // forgotten, the oldest first
    assert!(tracker.book(worker, attempt(7, 0), clock.at(20)).is_err());
    tracker.expire_idle(clock.at(68), Duration::from_secs(60));
    assert_eq!(tracker.stats().tombstones, 1);
    tracker.expire_idle(clock.at(69), Duration::from_secs(60));
    check_empty(&tracker, 1);
}

#[test]
fn each_attempt_that_ended_early_is_kept_out_in_whatever_order_they_come() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let (clock, worker, id) = (Clock::start(), rank(1, 0), RequestId::new(7));
        let tracker = tracker(&[worker]);
        for ended in 0..3 {
            assert_eq!(tracker.end_attempt(id, ended, clock.at(0)), AttemptEnd::Early);
        }
        for late in order {
            let refused = tracker.book(worker, attempt(7, late), clock.at(1)).unwrap_err();
            assert_eq!(refused, BookError::AlreadyEnded { request: id, attempt: late }, "{order:?}");
        }
        check_empty(&tracker, 1);
    }
}

#[test]
fn an_end_told_twice_and_one_that_has_done_its_work_take_no_room() {
    let (clock, worker) = (Clock::start(), rank(1, 0));
    let tracker = LoadTracker::new(LoadConfig { max_tombstones: 2, ..LoadConfig::default() }).unwrap();
    tracker.add_rank(worker).unwrap();
    tracker.end_attempt(RequestId::new(1), 0, clock.at(0));
    for second in 1..10 {
        tracker.end_attempt(RequestId::new(2), 0, clock.at(second));
    }
    assert_eq!(tracker.stats().tombstones, 2);
    assert!(tracker.book(worker, attempt(2, 0), clock.at(10)).is_err());
    for id in 3..10 {
        tracker.end_attempt(RequestId::new(id), 0, clock.at(10));
        assert!(tracker.book(worker, attempt(id, 0), clock.at(10)).is_err());
    }
    let kept_out = tracker.book(worker, attempt(1, 0), clock.at(11)).unwrap_err();
    assert_eq!(kept_out, BookError::AlreadyEnded { request: RequestId::new(1), attempt: 0 });
    check_empty(&tracker, 1);
}
