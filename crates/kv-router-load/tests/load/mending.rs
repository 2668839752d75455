//! What comes out of turn, word by word: one replica tells, and each of its messages is made by hand.

use kv_router_load::{
    BookingName, BookingsPart, DeltaBatch, Hooks, JournalConfig, LoadConfig, LoadDelta, LoadTracker,
    ReplicaId, ReplicaLife, ReplicaSync, SharedBooking, SyncConfig, SyncOutcome,
};

use crate::common::{Clock, blocks, check, check_empty, rank};

const TELLER: ReplicaLife = ReplicaLife { replica: ReplicaId::new(1), life: 1 };

fn listener(ranks: u64) -> (LoadTracker, ReplicaSync) {
    let life = ReplicaLife { replica: ReplicaId::new(2), life: 1 };
    let hooks = Hooks { journal: Some(JournalConfig::new(life)), ..Hooks::default() };
    let tracker = LoadTracker::with_hooks(LoadConfig::default(), hooks).unwrap();
    (0..ranks).for_each(|worker| tracker.add_rank(rank(worker, 0)).unwrap());
    let sync = ReplicaSync::new(tracker.clone(), SyncConfig::default()).unwrap();
    (tracker, sync)
}

/// 32 tokens, two blocks of a prompt and one more.
fn booking(name: u64, worker: u64) -> SharedBooking {
    SharedBooking {
        name: BookingName::new(name),
        worker: rank(worker, 0),
        prefill_tokens: 32,
        prompt_blocks: blocks(&[1_000 + name, 2_000 + name]),
        private_blocks: 1,
        output_blocks: 0,
    }
}

fn booked(name: u64) -> LoadDelta {
    LoadDelta::Booked(booking(name, 0))
}

fn released(name: u64) -> LoadDelta {
    LoadDelta::Released { name: BookingName::new(name) }
}

fn progressed(name: u64, prefill_tokens: u64, output_blocks: u32) -> LoadDelta {
    LoadDelta::Progressed { name: BookingName::new(name), prefill_tokens, output_blocks }
}

fn deltas(first: u64, deltas: &[LoadDelta]) -> DeltaBatch {
    DeltaBatch { from: TELLER, first, deltas: deltas.to_vec() }
}

fn part(next: u64, names: (u64, u64), bookings: Vec<SharedBooking>) -> BookingsPart {
    let names = BookingName::new(names.0)..BookingName::new(names.1);
    BookingsPart { from: TELLER, next, names, bookings }
}

#[test]
fn what_comes_before_its_booking_is_not_forgotten() {
    let (clock, (tracker, mut sync)) = (Clock::start(), listener(1));
    // 0 books 7, 1 to 3 take it further; 4 books 8, 5 takes it further, 6 ends it.
    sync.receive(deltas(3, &[progressed(7, 0, 5)]), clock.at(0));
    sync.receive(deltas(1, &[progressed(7, 16, 0), progressed(7, 0, 2)]), clock.at(0));
    sync.receive(deltas(6, &[released(8)]), clock.at(0));
    sync.receive(deltas(5, &[progressed(8, 0, 1)]), clock.at(0));
    check(&tracker, rank(0, 0), (0, 0, 0));
    assert_eq!(sync.receive(deltas(4, &[booked(8)]), clock.at(0)), SyncOutcome::Ahead);
    check(&tracker, rank(0, 0), (0, 0, 0));
    assert_eq!(sync.receive(deltas(0, &[booked(7)]), clock.at(0)), SyncOutcome::Applied);
    check(&tracker, rank(0, 0), (0, 3 + 5, 1));
    assert_eq!((sync.stats().behind, sync.stats().ahead), (0, 0));
    sync.receive(deltas(7, &[released(7)]), clock.at(0));
    check_empty(&tracker, 1);
}

#[test]
fn a_part_is_older_than_what_was_told_of_its_bookings_since() {
    let (clock, (tracker, mut sync)) = (Clock::start(), listener(1));
    sync.receive(deltas(2, &[]), clock.at(0)); // 0 and 1 booked 7 and 8, and were lost
    sync.receive(deltas(2, &[progressed(7, 0, 4), released(8)]), clock.at(0));
    let all = part(2, (0, u64::MAX), vec![booking(7, 0), booking(8, 0)]);
    assert_eq!(sync.receive_part(all, clock.at(0)), SyncOutcome::Applied);
    check(&tracker, rank(0, 0), (0, 3 + 4, 1));
    assert_eq!(sync.stats().behind, 0);
}

/// Of two parts made at the same time one may have a booking that the other has not.
#[test]
fn a_booking_that_its_change_told_of_is_not_lost_by_a_part_that_is_older() {
    let (clock, (tracker, mut sync)) = (Clock::start(), listener(1));
    sync.receive(deltas(3, &[]), clock.at(0));
    // It was made when 5 had booked 9 already.
    sync.receive_part(part(3, (0, 100), vec![booking(9, 0)]), clock.at(0));
    check(&tracker, rank(0, 0), (32, 3, 1));
    sync.rank_added(clock.at(0));
    sync.receive(deltas(3, &[progressed(1, 0, 0), progressed(1, 0, 0), booked(9)]), clock.at(0));
    // This one was made before.
    assert_eq!(sync.receive_part(part(3, (0, u64::MAX), vec![]), clock.at(0)), SyncOutcome::Applied);
    assert_eq!(sync.stats().behind, 0);
    check(&tracker, rank(0, 0), (32, 3, 1));
}

#[test]
fn a_rank_that_is_added_between_two_parts_gets_what_the_first_one_told() {
    let (clock, (tracker, mut sync)) = (Clock::start(), listener(1));
    sync.receive(deltas(2, &[]), clock.at(0));
    assert_eq!(sync.wanted(clock.at(1)).len(), 1);
    sync.receive_part(part(2, (0, 8), vec![booking(7, 1)]), clock.at(1));
    assert_eq!(sync.stats().refused, 1);
    tracker.add_rank(rank(1, 0)).unwrap();
    sync.rank_added(clock.at(1));
    sync.receive_part(part(2, (8, u64::MAX), vec![booking(8, 0)]), clock.at(1));
    assert_eq!(sync.stats().behind, 1, "7 is lacking");
    let wishes = sync.wanted(clock.at(2));
    assert_eq!(wishes.len(), 1);
    assert_eq!(wishes[0].names, BookingName::new(0)..BookingName::new(8));
    sync.receive_part(part(2, (0, 8), vec![booking(7, 1)]), clock.at(2));
    assert_eq!(sync.stats().behind, 0);
    check(&tracker, rank(1, 0), (32, 3, 1));
    check(&tracker, rank(0, 0), (32, 3, 1));
}

/// More is told ahead of what is missing than is kept: it is asked for from the beginning, and then it is right.
#[test]
fn more_than_is_kept_is_mended_from_the_beginning() {
    let (clock, (tracker, mut sync)) = (Clock::start(), listener(1));
    // 0 books one of them and is under way; the others end what is not known here.
    let many: Vec<_> = (0..70_000).map(released).collect();
    sync.receive(deltas(1, &many), clock.at(0));
    assert_eq!((sync.stats().ahead, sync.stats().behind), (70_000, 1));
    // It comes after all. That is not enough any more: nobody remembers that it ended.
    sync.receive(deltas(0, &[booked(5)]), clock.at(0));
    assert_eq!((sync.stats().bookings, sync.stats().behind), (1, 1));
    assert_eq!(sync.wanted(clock.at(0)).len(), 1);
    sync.receive_part(part(70_001, (0, u64::MAX), vec![booking(1_000_000, 0)]), clock.at(0));
    assert_eq!((sync.stats().bookings, sync.stats().behind), (1, 0));
    sync.receive(deltas(70_001, &[released(1_000_000)]), clock.at(0));
    check_empty(&tracker, 1);
}
