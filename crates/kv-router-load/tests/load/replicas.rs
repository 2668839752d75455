//! Replicas that tell each other of their bookings over a network that loses, repeats and reorders.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::common::{Clock, blocks, check, check_empty, demand, rank};
use kv_router_load::{
    BookError, Booking, BookingName, BookingsPart, BookingsWish, DeltaBatch, Hooks, JournalConfig,
    LoadConfig, LoadConfigError, LoadDelta, LoadTracker, ReplicaId, ReplicaLife, ReplicaSync, SharedBooking,
    SyncConfig, SyncConfigError, SyncOutcome,
};
use kv_router_types::{SequenceHash, WorkerRank};

mod histories;

fn life(replica: u64, life: u64) -> ReplicaLife {
    ReplicaLife { replica: ReplicaId::new(replica), life }
}

/// A replica with its own tracker and its view of the others.
struct Replica {
    tracker: LoadTracker,
    sync: ReplicaSync,
    bookings: Vec<Booking>,
}

impl Replica {
    /// With messages as small as they may be.
    fn new(life: ReplicaLife, max_pending: usize) -> Self {
        let journal = JournalConfig { life, max_pending, max_message_bytes: 1_024 };
        let hooks = Hooks { journal: Some(journal), ..Hooks::default() };
        let tracker = LoadTracker::with_hooks(LoadConfig::default(), hooks).unwrap();
        (0..3).for_each(|worker| tracker.add_rank(rank(worker, 0)).unwrap());
        let config = SyncConfig { max_ahead: 3, ..SyncConfig::default() };
        Self { sync: ReplicaSync::new(tracker.clone(), config).unwrap(), tracker, bookings: Vec::new() }
    }

    fn book(&mut self, clock: Clock, at: u64, worker: u64, prompt: &[SequenceHash]) {
        self.bookings
            .push(self.tracker.book(rank(worker, 0), demand(None, 32, prompt, 1), clock.at(at)).unwrap());
    }

    fn batch(&self) -> DeltaBatch {
        self.tracker.take_deltas(usize::MAX).unwrap()
    }

    /// Everything that there is to tell, and that there is no more.
    fn tell(&self, to: &mut Self, now: Instant) {
        let mut is_more = true;
        while is_more {
            let batch = self.batch();
            is_more = !batch.deltas.is_empty();
            to.sync.receive(batch, now);
        }
    }

    fn parts(&self, names: Range<BookingName>) -> Vec<BookingsPart> {
        self.tracker.bookings_parts(names).unwrap().collect()
    }

    /// All bookings, where they fit one message.
    fn whole(&self) -> BookingsPart {
        let [whole] = <[_; 1]>::try_from(self.parts(BookingName::ALL)).unwrap();
        whole
    }

    /// Whom it asks.
    fn asks(&mut self, now: Instant) -> Vec<ReplicaId> {
        self.sync.wanted(now).into_iter().map(|wish| wish.of).collect()
    }
}

fn pair() -> (Clock, Replica, Replica) {
    (Clock::start(), Replica::new(life(1, 1), 100), Replica::new(life(2, 1), 100))
}

#[test]
fn section_10_a_replica_counts_what_the_other_has_booked() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &blocks(&[1, 2, 3]));
    two.book(clock, 0, 1, &blocks(&[1, 2, 4]));
    assert_eq!(two.sync.receive(one.batch(), clock.at(0)), SyncOutcome::Applied);
    assert_eq!(one.sync.receive(two.batch(), clock.at(0)), SyncOutcome::Applied);
    // The shared prefix counts once, over both: 4 prompt blocks and 2 private ones.
    check(&one.tracker, rank(1, 0), (64, 6, 2));
    check(&two.tracker, rank(1, 0), (64, 6, 2));

    let _ = one.bookings[0].prefill_completed(clock.at(1));
    let _ = one.bookings[0].grow_output(5, clock.at(1));
    let _ = one.bookings[0].touch(clock.at(1));
    let progress = one.batch();
    assert_eq!(progress.deltas.len(), 2, "a touch is nothing to tell");
    two.sync.receive(progress, clock.at(1));
    check(&two.tracker, rank(1, 0), (32, 11, 2));
    one.bookings.clear();
    two.sync.receive(one.batch(), clock.at(2));
    check(&two.tracker, rank(1, 0), (32, 4, 1));
}

#[test]
fn a_repeated_message_changes_nothing_and_an_own_one_is_ignored() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &[]);
    let batch = one.batch();
    assert_eq!(two.sync.receive(batch.clone(), clock.at(0)), SyncOutcome::Applied);
    assert_eq!(two.sync.receive(batch.clone(), clock.at(0)), SyncOutcome::Known);
    assert_eq!(one.sync.receive(batch, clock.at(0)), SyncOutcome::Stale);
    check(&one.tracker, rank(1, 0), (32, 1, 1));
    check(&two.tracker, rank(1, 0), (32, 1, 1));
}

#[test]
fn messages_out_of_order_wait_for_each_other() {
    let (clock, mut one, mut two) = pair();
    let mut batches = Vec::new();
    for worker in 0..3 {
        one.book(clock, 0, worker, &[]);
        batches.push(one.batch());
    }
    assert_eq!(two.sync.receive(batches.pop().unwrap(), clock.at(0)), SyncOutcome::Ahead);
    assert_eq!(two.sync.receive(batches.pop().unwrap(), clock.at(0)), SyncOutcome::Ahead);
    assert_eq!((two.sync.stats().ahead, two.sync.stats().behind), (2, 1));
    // They count already: what a change says does not depend on the one before.
    check(&two.tracker, rank(2, 0), (32, 1, 1));
    assert!(two.sync.wanted(clock.at(0)).is_empty(), "it may be on its way");
    assert_eq!(two.sync.receive(batches.pop().unwrap(), clock.at(0)), SyncOutcome::Applied);
    assert_eq!((two.sync.stats().ahead, two.sync.stats().behind, two.sync.stats().applied), (0, 0, 3));
    assert!(two.sync.wanted(clock.at(9)).is_empty());
}

#[test]
fn a_lost_last_word_is_noticed_by_the_heartbeat_and_healed_by_a_snapshot() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &blocks(&[1, 2]));
    one.book(clock, 0, 2, &blocks(&[1, 2]));
    two.sync.receive(one.batch(), clock.at(0));
    drop(one.bookings.remove(0));
    one.book(clock, 0, 0, &blocks(&[9]));
    drop(one.batch()); // lost
    assert_eq!(two.sync.receive(one.batch(), clock.at(1)), SyncOutcome::Ahead);
    assert_eq!(two.asks(clock.at(2)), [ReplicaId::new(1)]);
    assert!(two.sync.wanted(clock.at(2)).is_empty(), "asked already");
    assert_eq!(two.asks(clock.at(3)), [ReplicaId::new(1)], "the answer was lost");
    let snapshot = one.whole();
    assert_eq!(two.sync.receive_part(snapshot.clone(), clock.at(3)), SyncOutcome::Applied);
    for worker in 0..3 {
        assert_eq!(two.tracker.load(rank(worker, 0)), one.tracker.load(rank(worker, 0)));
    }
    assert_eq!((two.sync.stats().behind, two.sync.stats().bookings), (0, 2));
    // An older snapshot would undo what came since.
    one.bookings.clear();
    two.sync.receive(one.batch(), clock.at(4));
    assert_eq!(two.sync.receive_part(snapshot, clock.at(4)), SyncOutcome::Known);
    check_empty(&two.tracker, 3);
}

#[test]
fn section_10_a_joiner_starts_with_a_snapshot() {
    let (clock, mut one, mut two) = pair();
    (0..20).for_each(|number| one.book(clock, 0, number % 3, &blocks(&[number])));
    one.bookings.truncate(5);
    drop(one.batch()); // said before the joiner was there
    two.sync.receive(one.batch(), clock.at(0));
    assert_eq!(two.asks(clock.at(1)), [ReplicaId::new(1)]);
    two.sync.receive_part(one.whole(), clock.at(1));
    assert_eq!(two.sync.stats().bookings, 5);
    one.bookings.clear();
    two.sync.receive(one.batch(), clock.at(2));
    check_empty(&two.tracker, 3);
}

#[test]
fn a_dead_replica_expires_and_a_live_one_does_not() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &blocks(&[1]));
    two.sync.receive(one.batch(), clock.at(0));
    for second in 1..100 {
        two.sync.receive(one.batch(), clock.at(second));
        assert!(two.sync.expire(clock.at(second)).is_empty());
        // Our own sweep leaves the others' requests alone: they know whether theirs are idle.
        assert!(two.tracker.expire_idle(clock.at(second), Duration::from_secs(5)).is_empty());
    }
    check(&two.tracker, rank(1, 0), (32, 2, 1));
    assert_eq!(two.sync.expire(clock.at(109)), [ReplicaId::new(1)]);
    check_empty(&two.tracker, 3);
}

#[test]
fn what_expires_at_home_expires_everywhere() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &blocks(&[1]));
    two.sync.receive(one.batch(), clock.at(0));
    assert_eq!(one.tracker.expire_idle(clock.at(300), Duration::from_secs(300)).len(), 1);
    two.sync.receive(one.batch(), clock.at(300));
    check_empty(&two.tracker, 3);
}

#[test]
fn a_restarted_replica_starts_over() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &blocks(&[1]));
    let old = one.batch();
    two.sync.receive(old.clone(), clock.at(0));
    let mut reborn = Replica::new(life(1, 2), 100);
    reborn.book(clock, 1, 2, &blocks(&[2]));
    assert_eq!(two.sync.receive(reborn.batch(), clock.at(1)), SyncOutcome::Applied);
    check(&two.tracker, rank(1, 0), (0, 0, 0));
    check(&two.tracker, rank(2, 0), (32, 2, 1));
    assert_eq!(two.sync.receive(old, clock.at(2)), SyncOutcome::Stale);
    let stale = one.whole();
    assert_eq!(two.sync.receive_part(stale, clock.at(2)), SyncOutcome::Stale);
    check(&two.tracker, rank(1, 0), (0, 0, 0));
    assert!(two.sync.forget(ReplicaId::new(1)) && !two.sync.forget(ReplicaId::new(1)));
    check_empty(&two.tracker, 3);
}

#[test]
fn a_rank_that_comes_later_gets_the_bookings_of_others() {
    let (clock, mut one, mut two) = pair();
    two.tracker.remove_rank(rank(1, 0)).unwrap();
    one.book(clock, 0, 1, &blocks(&[1]));
    two.sync.receive(one.batch(), clock.at(0));
    assert_eq!((two.sync.stats().refused, two.sync.stats().bookings), (1, 0));
    two.tracker.add_rank(rank(1, 0)).unwrap();
    two.sync.rank_added(clock.at(0));
    assert_eq!(two.asks(clock.at(0)), [ReplicaId::new(1)]);
    two.sync.receive_part(one.whole(), clock.at(0));
    check(&two.tracker, rank(1, 0), (32, 2, 1));
    // It leaves here alone and comes back: the booking is one of its past life, and is made again.
    two.tracker.remove_rank(rank(1, 0)).unwrap();
    two.tracker.add_rank(rank(1, 0)).unwrap();
    two.sync.rank_added(clock.at(1));
    two.sync.receive_part(one.whole(), clock.at(1));
    check(&two.tracker, rank(1, 0), (32, 2, 1));
}

#[test]
fn a_booking_that_found_no_room_is_counted_when_there_is_some() {
    let (clock, mut one) = (Clock::start(), Replica::new(life(1, 1), 100));
    let hooks = Hooks { journal: Some(JournalConfig::new(life(2, 1))), ..Hooks::default() };
    let config = LoadConfig { max_peer_requests: 1, ..LoadConfig::default() };
    let tracker = LoadTracker::with_hooks(config, hooks).unwrap();
    tracker.add_rank(rank(1, 0)).unwrap();
    let mut sync = ReplicaSync::new(tracker.clone(), SyncConfig::default()).unwrap();
    one.book(clock, 0, 1, &[]);
    one.book(clock, 0, 1, &[]);
    one.book(clock, 0, 2, &[]); // a rank that is unknown there: nothing to wait for
    sync.receive(one.batch(), clock.at(0));
    check(&tracker, rank(1, 0), (32, 1, 1));
    assert_eq!((sync.stats().bookings, sync.stats().refused), (1, 2));

    // As long as there is no room it would be told all over again for nothing.
    assert!((1..=5).all(|at| sync.wanted(clock.at(at)).is_empty()));
    drop(one.bookings.remove(0));
    sync.receive(one.batch(), clock.at(5));
    check(&tracker, rank(1, 0), (0, 0, 0));
    assert_eq!(sync.wanted(clock.at(5)).len(), 1, "now there is");
    (6..9).for_each(|at| {
        if !sync.wanted(clock.at(at)).is_empty() {
            sync.receive_part(one.whole(), clock.at(at));
        }
    });
    check(&tracker, rank(1, 0), (32, 1, 1));
    assert!((9..20).all(|at| sync.wanted(clock.at(at)).is_empty()), "nothing is lacking any more");
    one.bookings.clear();
    sync.receive(one.batch(), clock.at(20));
    check_empty(&tracker, 1);
}

#[test]
fn section_11_what_others_book_takes_no_room_of_our_own() {
    let (clock, mut one) = (Clock::start(), Replica::new(life(1, 1), 100));
    let hooks = Hooks { journal: Some(JournalConfig::new(life(2, 1))), ..Hooks::default() };
    let config = LoadConfig {
        max_requests: 2,
        max_prompt_blocks: 4,
        max_peer_requests: 3,
        max_peer_prompt_blocks: 6,
        ..LoadConfig::default()
    };
    let tracker = LoadTracker::with_hooks(config, hooks).unwrap();
    (0..3).for_each(|worker| tracker.add_rank(rank(worker, 0)).unwrap());
    let mut sync = ReplicaSync::new(tracker.clone(), SyncConfig::default()).unwrap();
    let book = |prompt: &[u64]| tracker.book(rank(1, 0), demand(None, 32, &blocks(prompt), 0), clock.at(0));

    // As much as is counted of others.
    for prompt in [&[1, 2, 3][..], &[1, 2, 4], &[5], &[]] {
        one.book(clock, 0, 1, &blocks(prompt));
    }
    sync.receive(one.batch(), clock.at(0));
    let stats = tracker.stats();
    assert_eq!((sync.stats().bookings, sync.stats().refused), (3, 1));
    assert_eq!((stats.requests, stats.peer_requests), (0, 3));
    // 1, 2, 3 and 4 are stored; 5 did not fit beside 1, 2, 3 and 1, 2, 4.
    assert_eq!((stats.prompt_blocks, stats.peer_prompt_blocks), (4, 6));

    // We have all the room that we have without them, whether we share with them or not.
    let own = [book(&[11, 12]).unwrap(), book(&[1, 9, 10]).unwrap()];
    assert_eq!(book(&[]).unwrap_err(), BookError::TooManyRequests { limit: 2 });
    assert_eq!((tracker.stats().requests, tracker.stats().prompt_blocks), (2, 8));
    drop(own);
    let own = book(&[11, 12, 13, 14]).unwrap();
    // What we share with them is stored for them, until they are gone. Then it counts as ours.
    one.bookings.clear();
    sync.receive(one.batch(), clock.at(1));
    assert_eq!((tracker.stats().peer_requests, tracker.stats().peer_prompt_blocks), (0, 0));
    let too_many = BookError::TooManyPromptBlocks { needed: 1, limit: 4 };
    assert_eq!(book(&[15]).unwrap_err(), too_many);
    drop(own);
    check_empty(&tracker, 3);
}

#[test]
fn every_bound_holds() {
    let clock = Clock::start();
    let mut one = Replica::new(life(1, 1), 2);
    let mut two = Replica::new(life(2, 1), 2);
    let config = SyncConfig { max_replicas: 1, ..SyncConfig::default() };
    two.sync = ReplicaSync::new(two.tracker.clone(), config).unwrap();
    // More changes than the journal keeps: the others see a gap.
    (0..3).for_each(|worker| one.book(clock, 0, worker, &[]));
    let batch = one.batch();
    assert_eq!((batch.first, batch.deltas.len()), (2, 1));
    assert_eq!(two.sync.receive(batch, clock.at(0)), SyncOutcome::Ahead);
    let third = Replica::new(life(3, 1), 2);
    assert_eq!(two.sync.receive(third.batch(), clock.at(0)), SyncOutcome::TooManyReplicas);
    assert_eq!(two.sync.stats().replicas, 1);

    let none = SyncConfig { max_replicas: 0, ..SyncConfig::default() };
    assert_eq!(ReplicaSync::new(two.tracker, none).unwrap_err(), SyncConfigError::MaxReplicas);
    let plain = LoadTracker::new(LoadConfig::default()).unwrap();
    assert!(plain.take_deltas(1).is_none() && plain.bookings_parts(BookingName::ALL).is_none());
    assert_eq!(ReplicaSync::new(plain, SyncConfig::default()).unwrap_err(), SyncConfigError::NoJournal);
    for given in [0, 1_023, (1 << 30) + 1] {
        let journal = JournalConfig { max_message_bytes: given, ..JournalConfig::new(life(1, 1)) };
        let hooks = Hooks { journal: Some(journal), ..Hooks::default() };
        let error = LoadTracker::with_hooks(LoadConfig::default(), hooks).unwrap_err();
        assert_eq!(error, LoadConfigError::MaxMessageBytes { given });
    }
}

/// 40 bookings of 20 blocks each: 201 bytes, so four of them fit a message.
fn many(clock: Clock) -> (Replica, Replica) {
    let (mut one, two) = (Replica::new(life(1, 1), 1_000), Replica::new(life(2, 1), 100));
    let prompt: Vec<u64> = (0..20).collect();
    (0..40).for_each(|number| one.book(clock, 0, number % 3, &blocks(&prompt)));
    (one, two)
}

#[track_caller]
fn agree(one: &Replica, two: &Replica) {
    (0..3)
        .for_each(|worker| assert_eq!(one.tracker.load(rank(worker, 0)), two.tracker.load(rank(worker, 0))));
}

#[test]
fn section_10_only_the_parts_that_got_lost_are_asked_for_again() {
    let clock = Clock::start();
    let (mut one, mut two) = many(clock);
    let batches: Vec<_> =
        std::iter::repeat_with(|| one.batch()).take_while(|batch| !batch.deltas.is_empty()).collect();
    assert_eq!(batches.len(), 10, "they are bounded too, and these were all lost");
    two.sync.receive(one.batch(), clock.at(0));
    let [wish] = <[_; 1]>::try_from(two.sync.wanted(clock.at(1))).unwrap();
    assert_eq!((wish.of, wish.names), (ReplicaId::new(1), BookingName::ALL));
    let mut parts = one.parts(BookingName::ALL);
    assert_eq!(parts.len(), 10);
    // They arrive in any order, two got lost, and one comes twice.
    let lost = [parts.remove(8), parts.remove(3)];
    parts.reverse();
    for part in &parts {
        assert_eq!(two.sync.receive_part(part.clone(), clock.at(1)), SyncOutcome::Applied);
    }
    assert_eq!(two.sync.receive_part(parts[2].clone(), clock.at(1)), SyncOutcome::Known);
    assert_eq!((two.sync.stats().bookings, two.sync.stats().parts, two.sync.stats().snapshots), (32, 8, 0));
    // Meanwhile the world goes on. What was told of is given back, what was not yet too, and there is more.
    one.bookings.truncate(20);
    (0..3).for_each(|worker| one.book(clock, 1, worker, &blocks(&[7])));
    let _ = one.bookings[0].set_output_blocks(9, clock.at(1));
    one.tell(&mut two, clock.at(1));
    assert!(two.sync.wanted(clock.at(1)).is_empty(), "the rest may be under way");
    let wishes = two.sync.wanted(clock.at(2));
    let names: Vec<_> = wishes.iter().map(|wish| wish.names.clone()).collect();
    assert_eq!(names, [lost[1].names.clone(), lost[0].names.clone()]);
    for wish in wishes {
        for part in one.parts(wish.names) {
            assert_eq!(two.sync.receive_part(part, clock.at(2)), SyncOutcome::Applied);
        }
    }
    assert_eq!((two.sync.stats().behind, two.sync.stats().snapshots), (0, 1));
    agree(&one, &two);
    // What was under way all the time brings nothing back.
    for part in lost {
        assert_eq!(two.sync.receive_part(part, clock.at(2)), SyncOutcome::Known);
    }
    for batch in batches {
        assert_eq!(two.sync.receive(batch, clock.at(2)), SyncOutcome::Known);
    }
    agree(&one, &two);
    one.bookings.clear();
    one.tell(&mut two, clock.at(3));
    check_empty(&two.tracker, 3);
}

#[test]
fn parts_can_be_told_bit_by_bit() {
    let clock = Clock::start();
    let (one, mut two) = many(clock);
    while !one.batch().deltas.is_empty() {}
    two.sync.receive(one.batch(), clock.at(0));
    let mut rest = BookingName::ALL;
    while !rest.is_empty() {
        let mut parts = one.tracker.bookings_parts(rest).unwrap();
        parts
            .by_ref()
            .take(3)
            .for_each(|part| assert_eq!(two.sync.receive_part(part, clock.at(0)), SyncOutcome::Applied));
        rest = parts.rest();
    }
    assert_eq!(two.sync.stats().behind, 0);
    agree(&one, &two);
    let empty = one.tracker.bookings_parts(BookingName::new(3)..BookingName::new(3)).unwrap();
    assert_eq!(empty.count(), 0);
}

#[test]
fn a_prompt_that_no_message_carries_is_told_as_blocks_of_its_own() {
    let (clock, mut one, mut two) = pair();
    let long: Vec<u64> = (0..300).collect();
    one.book(clock, 0, 1, &blocks(&long));
    one.book(clock, 0, 1, &blocks(&long));
    let told = |booking: &SharedBooking| (booking.prompt_blocks.len(), booking.private_blocks);
    for _ in 0..2 {
        let batch = one.batch();
        let [LoadDelta::Booked(booking)] = &batch.deltas[..] else { panic!("one fills a message") };
        assert_eq!(told(booking), (114, 1 + 186));
        two.sync.receive(batch, clock.at(0));
    }
    assert_eq!((one.sync.stats().shortened, two.sync.stats().shortened), (2, 0));
    // We know that they share all of it, the other that they share what was told.
    check(&one.tracker, rank(1, 0), (64, 300 + 2, 2));
    check(&two.tracker, rank(1, 0), (64, 114 + 2 * (186 + 1), 2));
    // A part tells the same.
    two.sync.rank_added(clock.at(1));
    for part in one.parts(BookingName::ALL) {
        assert_eq!(part.bookings.iter().map(told).collect::<Vec<_>>(), [(114, 187)]);
        two.sync.receive_part(part, clock.at(1));
    }
    assert_eq!(two.sync.stats().behind, 0);
    check(&two.tracker, rank(1, 0), (64, 114 + 2 * (186 + 1), 2));
    one.bookings.clear();
    two.sync.receive(one.batch(), clock.at(2));
    check_empty(&two.tracker, 3);
}

#[test]
fn section_10_what_is_late_does_not_undo_a_goodbye() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &[]);
    let (late, part) = (one.batch(), one.whole());
    two.sync.receive(late.clone(), clock.at(0));
    assert!(two.sync.forget(ReplicaId::new(1)));
    assert_eq!(two.sync.receive(late.clone(), clock.at(0)), SyncOutcome::Stale);
    assert_eq!(two.sync.receive_part(part, clock.at(0)), SyncOutcome::Stale);
    assert!(!two.sync.forget(ReplicaId::new(1)));
    check_empty(&two.tracker, 3);
    // A restart is welcome, and can say goodbye too. Then both lives are over.
    let reborn = Replica::new(life(1, 2), 100);
    assert_eq!(two.sync.receive(reborn.batch(), clock.at(1)), SyncOutcome::Known);
    assert!(two.sync.forget(ReplicaId::new(1)));
    assert_eq!(two.sync.receive(reborn.batch(), clock.at(2)), SyncOutcome::Stale);
    assert_eq!(two.sync.receive(late.clone(), clock.at(2)), SyncOutcome::Stale);
    // So many are remembered, and no more.
    for other in 10..10 + 256 {
        two.sync.receive(DeltaBatch { from: life(other, 1), first: 0, deltas: Vec::new() }, clock.at(3));
        assert!(two.sync.forget(ReplicaId::new(other)));
    }
    assert_eq!(two.sync.receive(late, clock.at(3)), SyncOutcome::Applied);
    assert_eq!(two.sync.stats().replicas, 1);
}

#[test]
fn a_snapshot_that_deltas_overtake_heals_too_and_brings_nothing_back() {
    let (clock, mut one, mut two) = pair();
    two.tracker.remove_rank(rank(1, 0)).unwrap();
    (0..3).for_each(|_| one.book(clock, 0, 1, &blocks(&[1])));
    let before = one.whole();
    one.book(clock, 0, 1, &blocks(&[2]));
    two.sync.receive(one.batch(), clock.at(0));
    two.tracker.add_rank(rank(1, 0)).unwrap();
    two.sync.rank_added(clock.at(0));
    assert_eq!(two.asks(clock.at(0)), [ReplicaId::new(1)]);
    let snapshot = one.whole();
    // While it is under way, one that it has ends, and others are booked.
    drop(one.bookings.remove(0));
    one.book(clock, 1, 1, &[]);
    one.book(clock, 1, 2, &[]);
    two.sync.receive(one.batch(), clock.at(1));
    assert_eq!(two.sync.receive_part(before, clock.at(1)), SyncOutcome::Known, "older than the rank");
    assert_eq!(two.sync.receive_part(snapshot, clock.at(1)), SyncOutcome::Applied);
    for worker in 0..3 {
        assert_eq!(two.tracker.load(rank(worker, 0)), one.tracker.load(rank(worker, 0)));
    }
    assert_eq!(two.sync.stats().behind, 0);
    one.bookings.clear();
    two.sync.receive(one.batch(), clock.at(2));
    check_empty(&two.tracker, 3);
}

#[test]
fn numbers_at_the_ends_of_their_range_do_no_harm() {
    let (clock, mut one, mut two) = pair();
    one.book(clock, 0, 1, &blocks(&[1, 1, 1, 2, 1]));
    let Some(LoadDelta::Booked(honest)) = one.batch().deltas.pop() else { panic!("one booking") };
    let from = life(1, 1);
    let wild = |name: u64| SharedBooking {
        name: BookingName::new(name),
        prefill_tokens: if name.is_multiple_of(2) { u64::MAX } else { 7 },
        private_blocks: u32::MAX,
        output_blocks: u32::MAX,
        ..honest.clone()
    };
    let deltas = vec![
        LoadDelta::Booked(wild(1)),
        LoadDelta::Booked(wild(2)),
        LoadDelta::Booked(wild(1)),
        LoadDelta::Progressed { name: BookingName::new(1), prefill_tokens: u64::MAX, output_blocks: 0 },
        LoadDelta::Progressed { name: BookingName::new(9), prefill_tokens: 0, output_blocks: u32::MAX },
        LoadDelta::Released { name: BookingName::new(9) },
    ];
    for first in [0, u64::MAX, u64::MAX - 1, u64::MAX - 6, 1 << 63] {
        two.sync.receive(DeltaBatch { from, first, deltas: deltas.clone() }, clock.at(0));
    }
    assert_eq!(two.sync.stats().bookings, 1);
    for next in [0, u64::MAX, u64::MAX, 5] {
        let bookings = vec![wild(1), wild(1), wild(3), wild(4)];
        let names = BookingName::ALL;
        two.sync.receive_part(BookingsPart { from, next, names, bookings }, clock.at(0));
        two.sync.receive(DeltaBatch { from, first: u64::MAX, deltas: deltas.clone() }, clock.at(0));
    }
    assert_eq!(two.sync.stats().bookings, 2);
    assert!(two.sync.forget(ReplicaId::new(1)));
    check_empty(&two.tracker, 3);
}
