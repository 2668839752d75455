//! Random lifecycles against the most literal model of the contract, and back to zero.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::{Clock, check_empty, demand, rank, tracker};
use kv_router_load::{BookError, Booking, BookingState, EngineReport, LoadSnapshot, LoadTracker};
use kv_router_types::{RequestId, SequenceHash, WorkerId, WorkerRank};
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Step {
    Book { worker: WorkerRank, id: Option<u128>, tokens: u64, prompt: Vec<u8>, private: u32 },
    Prefilled(Index),
    SetOutput(Index, u32),
    GrowOutput(Index, u32),
    Touch(Index),
    Drop(Index),
    ReleaseById(u128),
    Wait(u64),
    Expire(u64),
    Remove(WorkerRank),
    RemoveWorker(u64),
    Add(WorkerRank),
    Report(WorkerRank, Option<u64>, Option<u64>, Option<u32>),
    ExpireReports,
}

fn ranks() -> impl Strategy<Value = WorkerRank> {
    (0..4u64, 0..2u32).prop_map(|(worker, dp)| rank(worker, dp))
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let prompt = prop::collection::vec(0..2u8, 0..8);
    prop_oneof![
        8 => (ranks(), prop::option::of(0..12u128), 0..100u64, prompt, 0..3u32).prop_map(
            |(worker, id, tokens, prompt, private)| Step::Book { worker, id, tokens, prompt, private }
        ),
        3 => index().prop_map(Step::Prefilled),
        2 => (index(), 0..9u32).prop_map(|(booking, total)| Step::SetOutput(booking, total)),
        2 => (index(), 0..4u32).prop_map(|(booking, more)| Step::GrowOutput(booking, more)),
        2 => index().prop_map(Step::Touch),
        4 => index().prop_map(Step::Drop),
        1 => (0..12u128).prop_map(Step::ReleaseById),
        3 => (0..50u64).prop_map(Step::Wait),
        1 => (0..100u64).prop_map(Step::Expire),
        1 => ranks().prop_map(Step::Remove),
        1 => (0..4u64).prop_map(Step::RemoveWorker),
        3 => ranks().prop_map(Step::Add),
        2 => (ranks(), prop::option::of(0..300u64), prop::option::of(0..30u64), prop::option::of(0..8u32))
            .prop_map(|(worker, tokens, blocks, requests)| Step::Report(worker, tokens, blocks, requests)),
        1 => Just(Step::ExpireReports),
    ]
}

/// One request, with every block by name.
struct Entry {
    worker: WorkerRank,
    id: Option<u128>,
    tokens: u64,
    prompt: Vec<SequenceHash>,
    private: u32,
    output: u32,
    heard: u64,
}

/// The contract, said as plainly as possible.
#[derive(Default)]
struct Model {
    ranks: BTreeSet<WorkerRank>,
    /// What engines reported beyond what was booked.
    foreign: BTreeMap<WorkerRank, (u64, u64, u32)>,
    requests: BTreeMap<usize, Entry>,
}

impl Model {
    fn of(&self, worker: WorkerRank) -> impl Iterator<Item = &Entry> {
        self.requests.values().filter(move |entry| entry.worker == worker)
    }

    fn load(&self, worker: WorkerRank) -> (u64, u64, u32) {
        let booked = self.booked(worker);
        let foreign = self.foreign.get(&worker).copied().unwrap_or_default();
        (booked.0 + foreign.0, booked.1 + foreign.1, booked.2 + foreign.2)
    }

    fn booked(&self, worker: WorkerRank) -> (u64, u64, u32) {
        let prompts: BTreeSet<_> = self.of(worker).flat_map(|entry| &entry.prompt).collect();
        let own: u64 = self.of(worker).map(|entry| u64::from(entry.private + entry.output)).sum();
        let tokens = self.of(worker).map(|entry| entry.tokens).sum();
        (tokens, prompts.len() as u64 + own, self.of(worker).count() as u32)
    }

    fn shared(&self, worker: WorkerRank, query: &[SequenceHash]) -> u32 {
        let prompts: BTreeSet<_> = self.of(worker).flat_map(|entry| &entry.prompt).collect();
        query.iter().take_while(|hash| prompts.contains(hash)).count() as u32
    }

    fn owner(&self, id: u128) -> Option<(usize, WorkerRank)> {
        self.requests.iter().find(|(_, entry)| entry.id == Some(id)).map(|(&key, entry)| (key, entry.worker))
    }

    fn raise(&mut self, key: usize, total: impl FnOnce(u32) -> u32) {
        if let Some(entry) = self.requests.get_mut(&key) {
            let total = total(entry.output);
            if total > entry.output {
                entry.output = total;
                entry.tokens = 0;
            }
        }
    }

    /// Notes activity and says what the booking should answer.
    fn heard(&mut self, key: usize, now: u64) -> BookingState {
        let entry = self.requests.get_mut(&key);
        entry.map_or(BookingState::Gone, |entry| {
            entry.heard = now;
            BookingState::Held
        })
    }
}

fn rolling(contents: &[u8]) -> Vec<SequenceHash> {
    let mut path = 1u64;
    let roll = |&content: &u8| {
        path = path * 2 + u64::from(content);
        SequenceHash::new(path)
    };
    contents.iter().map(roll).collect()
}

struct Run {
    clock: Clock,
    now: u64,
    tracker: LoadTracker,
    model: Model,
    bookings: Vec<(usize, Booking)>,
    next: usize,
    snapshot: LoadSnapshot,
}

impl Run {
    fn new() -> Self {
        let all = [rank(0, 0), rank(1, 0), rank(1, 1)];
        let model = Model { ranks: all.into_iter().collect(), ..Model::default() };
        let (clock, tracker) = (Clock::start(), tracker(&all));
        Self { clock, now: 0, tracker, model, bookings: Vec::new(), next: 0, snapshot: LoadSnapshot::new() }
    }

    fn report(
        &mut self,
        index: Index,
        real: impl FnOnce(&Booking) -> BookingState,
        model: impl FnOnce(&mut Model, usize),
    ) {
        if self.bookings.is_empty() {
            return;
        }
        let (key, booking) = &self.bookings[index.index(self.bookings.len())];
        assert_eq!(real(booking), self.model.heard(*key, self.now));
        model(&mut self.model, *key);
    }

    fn step(&mut self, step: Step) {
        let now = self.clock.at(self.now);
        match step {
            Step::Book { worker, id, tokens, prompt, private } => {
                let prompt = rolling(&prompt);
                let booked = self.tracker.book(worker, demand(id, tokens, &prompt, private), now);
                if !self.model.ranks.contains(&worker) {
                    assert_eq!(booked.unwrap_err(), BookError::UnknownRank { worker });
                } else if let Some((id, (_, worker))) = id.and_then(|id| Some((id, self.model.owner(id)?))) {
                    let request = RequestId::new(id);
                    assert_eq!(booked.unwrap_err(), BookError::DuplicateRequest { request, worker });
                } else {
                    self.bookings.push((self.next, booked.unwrap()));
                    let entry = Entry { worker, id, tokens, prompt, private, output: 0, heard: self.now };
                    self.model.requests.insert(self.next, entry);
                    self.next += 1;
                }
            }
            Step::Prefilled(index) => self.report(
                index,
                |booking| booking.prefill_completed(now),
                |model, key| {
                    if let Some(entry) = model.requests.get_mut(&key) {
                        entry.tokens = 0;
                    }
                },
            ),
            Step::SetOutput(index, total) => self.report(
                index,
                |booking| booking.set_output_blocks(total, now),
                |model, key| model.raise(key, |_| total),
            ),
            Step::GrowOutput(index, more) => self.report(
                index,
                |booking| booking.grow_output(more, now),
                |model, key| model.raise(key, |output| output + more),
            ),
            Step::Touch(index) => self.report(index, |booking| booking.touch(now), |_, _| ()),
            Step::Drop(index) => {
                if !self.bookings.is_empty() {
                    let (key, booking) = self.bookings.swap_remove(index.index(self.bookings.len()));
                    drop(booking);
                    self.model.requests.remove(&key);
                }
            }
            Step::ReleaseById(id) => {
                let owner = self.model.owner(id);
                assert_eq!(self.tracker.release_request(RequestId::new(id)), owner.map(|(_, worker)| worker));
                owner.map(|(key, _)| self.model.requests.remove(&key));
            }
            Step::Wait(seconds) => self.now += seconds,
            Step::Expire(ttl) => {
                let expired = self.tracker.expire_idle(now, Duration::from_secs(ttl));
                let before = self.model.requests.len();
                let alive = |heard: u64| self.now - heard < ttl;
                self.model.requests.retain(|_, entry| alive(entry.heard));
                assert_eq!(expired.len(), before - self.model.requests.len());
                assert!(expired.iter().all(|expired| expired.idle.as_secs() >= ttl));
            }
            Step::Remove(worker) => {
                let expected = self.model.ranks.remove(&worker).then(|| self.model.load(worker));
                let load = self.tracker.remove_rank(worker);
                assert_eq!(load.map(|load| (load.prefill_tokens, load.blocks, load.requests)), expected);
                self.model.requests.retain(|_, entry| entry.worker != worker);
                self.model.foreign.remove(&worker);
            }
            Step::RemoveWorker(worker) => {
                let worker = WorkerId::new(worker);
                let before = self.model.ranks.len();
                self.model.ranks.retain(|rank| rank.worker != worker);
                assert_eq!(self.tracker.remove_worker(worker), before - self.model.ranks.len());
                self.model.requests.retain(|_, entry| entry.worker.worker != worker);
                self.model.foreign.retain(|rank, _| rank.worker != worker);
            }
            Step::Add(worker) => {
                self.tracker.add_rank(worker).unwrap();
                self.model.ranks.insert(worker);
            }
            Step::Report(worker, prefill_tokens, blocks, requests) => {
                let report = EngineReport { prefill_tokens, blocks, requests };
                let known = self.model.ranks.contains(&worker);
                assert_eq!(self.tracker.report(worker, &report, now), known);
                if known {
                    let booked = self.model.booked(worker);
                    let foreign = (
                        prefill_tokens.unwrap_or(0).saturating_sub(booked.0),
                        blocks.unwrap_or(0).saturating_sub(booked.1),
                        requests.unwrap_or(0).saturating_sub(booked.2),
                    );
                    self.model.foreign.insert(worker, foreign);
                }
            }
            Step::ExpireReports => {
                let expired = self.tracker.expire_reports(now, Duration::ZERO);
                assert_eq!(expired, std::mem::take(&mut self.model.foreign).len());
            }
        }
    }

    /// All reads agree with the model.
    fn check(&mut self) {
        let query = rolling(&[0, 1, 1, 0, 1, 0]);
        let before: Vec<_> = self.snapshot.iter().collect();
        let membership = self.snapshot.membership();
        self.tracker.snapshot_into(&query, &mut self.snapshot);
        let changed: BTreeSet<_> = self.snapshot.changed().collect();
        let sharers: Vec<_> = self.snapshot.sharers().collect();
        assert_eq!(sharers.len(), sharers.iter().collect::<BTreeSet<_>>().len());
        for (position, rank) in self.snapshot.iter().enumerate() {
            let same = self.snapshot.membership() == membership && before[position].load == rank.load;
            assert!(same || changed.contains(&position), "a change of {rank:?} was not told");
            assert_eq!(rank.shared_blocks > 0, sharers.contains(&position));
        }
        let seen: BTreeSet<_> = self.snapshot.iter().map(|rank| rank.worker).collect();
        assert_eq!((self.snapshot.len(), &seen), (self.model.ranks.len(), &self.model.ranks));
        for rank in self.snapshot.iter() {
            let load = rank.load;
            let found = (load.prefill_tokens, load.blocks, load.requests);
            assert_eq!(found, self.model.load(rank.worker), "{:?}", rank.worker);
            assert_eq!(rank.shared_blocks, self.model.shared(rank.worker, &query));
            assert_eq!(self.tracker.load(rank.worker), Some(load));
        }
        let stats = self.tracker.stats();
        let ids = self.model.requests.values().filter(|entry| entry.id.is_some()).count();
        let expected = (self.model.ranks.len() as u64, self.model.requests.len() as u64, ids as u64);
        assert_eq!((stats.ranks, stats.requests, stats.request_ids), expected);
        assert!(stats.prompt_runs <= 2 * stats.requests);
    }
}

proptest! {
    #[test]
    fn random_lifecycles_follow_the_model_and_end_at_zero(steps in prop::collection::vec(step(), 0..150)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
            run.check();
        }
        run.bookings.clear();
        run.model.requests.clear();
        run.check();
        run.step(Step::ExpireReports);
        check_empty(&run.tracker, run.model.ranks.len() as u64);
    }
}
