//! Any history of replicas over a network without manners ends in agreement, and at zero.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const REPLICAS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Book {
        at: usize,
        worker: u64,
        prompt: Vec<u8>,
    },
    Progress {
        at: usize,
        which: Index,
        prefilled: bool,
        output: u32,
    },
    Drop {
        at: usize,
        which: Index,
    },
    Send {
        from: usize,
        most: usize,
    },
    /// Message `which` of those under way arrives. It may arrive again.
    Arrive {
        which: Index,
        again: bool,
    },
    Lose(Index),
    Wait(u64),
    Sweep {
        at: usize,
    },
    Ask {
        at: usize,
    },
    Answer {
        from: usize,
        to: usize,
    },
    Remove {
        at: usize,
        worker: u64,
    },
    Add {
        at: usize,
        worker: u64,
    },
    Restart {
        at: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..REPLICAS;
    let which = any::<Index>;
    prop_oneof![
        6 => (at.clone(), 0..3u64, prop::collection::vec(0..2u8, 0..4))
            .prop_map(|(at, worker, prompt)| Step::Book { at, worker, prompt }),
        4 => (at.clone(), which(), any::<bool>(), 0..5u32)
            .prop_map(|(at, which, prefilled, output)| Step::Progress { at, which, prefilled, output }),
        4 => (at.clone(), which()).prop_map(|(at, which)| Step::Drop { at, which }),
        6 => (at.clone(), 0..4usize).prop_map(|(from, most)| Step::Send { from, most }),
        8 => (which(), any::<bool>()).prop_map(|(which, again)| Step::Arrive { which, again }),
        2 => which().prop_map(Step::Lose),
        2 => (0..4u64).prop_map(Step::Wait),
        1 => at.clone().prop_map(|at| Step::Sweep { at }),
        2 => at.clone().prop_map(|at| Step::Ask { at }),
        3 => (at.clone(), at.clone()).prop_map(|(from, to)| Step::Answer { from, to }),
        1 => (at.clone(), 0..3u64).prop_map(|(at, worker)| Step::Remove { at, worker }),
        1 => (at.clone(), 0..3u64).prop_map(|(at, worker)| Step::Add { at, worker }),
        1 => at.prop_map(|at| Step::Restart { at }),
    ]
}

/// Twelve blocks for each, so that two or three prompts fill a message.
fn rolling(contents: &[u8]) -> Vec<SequenceHash> {
    let mut path = 1u64;
    let roll = |&content: &u8| {
        path = path * 2 + u64::from(content);
        (0..12).map(move |block| SequenceHash::new(path * 12 + block))
    };
    contents.iter().flat_map(roll).collect()
}

#[derive(Clone)]
enum Message {
    Deltas(DeltaBatch),
    Part(BookingsPart),
}

struct World {
    clock: Clock,
    now: u64,
    lives: u64,
    replicas: Vec<Replica>,
    under_way: Vec<(usize, Message)>,
}

impl World {
    fn step(&mut self, step: Step) {
        let now = self.clock.at(self.now);
        match step {
            Step::Book { at, worker, prompt } => {
                let booked = self.replicas[at].tracker.book(
                    rank(worker, 0),
                    demand(None, 16, &rolling(&prompt), 1),
                    now,
                );
                self.replicas[at].bookings.extend(booked.ok());
            }
            Step::Progress { at, which, prefilled, output } => {
                let bookings = &self.replicas[at].bookings;
                if !bookings.is_empty() {
                    let booking = &bookings[which.index(bookings.len())];
                    let _ = booking.set_output_blocks(output, now);
                    if prefilled {
                        let _ = booking.prefill_completed(now);
                    }
                }
            }
            Step::Drop { at, which } => {
                let bookings = &mut self.replicas[at].bookings;
                if !bookings.is_empty() {
                    drop(bookings.swap_remove(which.index(bookings.len())));
                }
            }
            Step::Send { from, most } => {
                let batch = self.replicas[from].tracker.take_deltas(most).unwrap();
                let others = (0..REPLICAS).filter(|&to| to != from);
                self.under_way.extend(others.map(|to| (to, Message::Deltas(batch.clone()))));
            }
            Step::Arrive { which, again } if !self.under_way.is_empty() => {
                let which = which.index(self.under_way.len());
                let (to, message) = self.under_way[which].clone();
                match message {
                    Message::Deltas(batch) => self.replicas[to].sync.receive(batch, now),
                    Message::Part(part) => self.replicas[to].sync.receive_part(part, now),
                };
                if !again {
                    self.under_way.remove(which);
                }
            }
            Step::Lose(which) if !self.under_way.is_empty() => {
                self.under_way.remove(which.index(self.under_way.len()));
            }
            Step::Arrive { .. } | Step::Lose(_) => {}
            Step::Wait(seconds) => self.now += seconds,
            Step::Sweep { at } => {
                self.replicas[at].sync.expire(now);
            }
            Step::Ask { at } => {
                let answers = self.ask(at).into_iter().map(|part| (at, Message::Part(part)));
                self.under_way.extend(answers);
            }
            // It is taken now, and arrives when it does.
            Step::Answer { from, to } if from != to => {
                let parts = self.replicas[from].parts(BookingName::ALL);
                self.under_way.extend(parts.into_iter().map(|part| (to, Message::Part(part))));
            }
            Step::Answer { .. } => {}
            Step::Remove { at, worker } => {
                self.replicas[at].tracker.remove_rank(rank(worker, 0));
            }
            Step::Add { at, worker } => self.add(at, worker),
            Step::Restart { at } => {
                self.lives += 1;
                self.replicas[at] = Replica::new(life(at as u64, self.lives), 6);
            }
        }
    }

    fn add(&mut self, at: usize, worker: u64) {
        self.replicas[at].tracker.add_rank(rank(worker, 0)).unwrap();
        self.replicas[at].sync.rank_added(self.clock.at(self.now));
    }

    /// What is answered to all that a replica asks for.
    fn ask(&mut self, at: usize) -> Vec<BookingsPart> {
        let wishes = self.replicas[at].sync.wanted(self.clock.at(self.now));
        let answer = |wish: BookingsWish| self.replicas[wish.of.get() as usize].parts(wish.names);
        wishes.into_iter().flat_map(answer).collect()
    }

    /// The network is well for a while.
    fn heal(&mut self) {
        let ranks: Vec<(usize, u64)> =
            (0..REPLICAS).flat_map(|at| (0..3).map(move |worker| (at, worker))).collect();
        ranks.into_iter().for_each(|(at, worker)| self.add(at, worker));
        for _ in 0..4 {
            self.now += 2;
            let now = self.clock.at(self.now);
            for from in 0..REPLICAS {
                loop {
                    let batch = self.replicas[from].batch();
                    for to in (0..REPLICAS).filter(|&to| to != from) {
                        self.replicas[to].sync.receive(batch.clone(), now);
                    }
                    if batch.deltas.is_empty() {
                        break;
                    }
                }
            }
            for at in 0..REPLICAS {
                for part in self.ask(at) {
                    self.replicas[at].sync.receive_part(part, now);
                }
            }
        }
    }

    fn loads(&self, at: usize) -> Vec<(WorkerRank, kv_router_load::WorkerLoad)> {
        (0..3)
            .map(|worker| (rank(worker, 0), self.replicas[at].tracker.load(rank(worker, 0)).unwrap()))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn replicas_agree_in_the_end_and_end_at_zero(steps in prop::collection::vec(step(), 0..120)) {
        let replicas = (0..REPLICAS).map(|at| Replica::new(life(at as u64, 0), 6)).collect();
        let mut world = World { clock: Clock::start(), now: 0, lives: 0, replicas, under_way: Vec::new() };
        for step in steps {
            world.step(step);
        }
        world.heal();
        let first = world.loads(0);
        for at in 1..REPLICAS {
            prop_assert_eq!(&world.loads(at), &first);
            prop_assert_eq!(world.replicas[at].sync.stats().behind, 0);
        }
        world.replicas.iter_mut().for_each(|replica| replica.bookings.clear());
        world.heal();
        for replica in &world.replicas {
            check_empty(&replica.tracker, 3);
        }
    }
}
