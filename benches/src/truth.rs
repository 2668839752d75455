//! The answers that the oracle gives to a corpus, and the check of an index against them.

use kv_router_index::{ApplyEvents, FindOptions, Oracle, Overlap, Overlaps, PrefixIndex};

use crate::corpus::{Corpus, Op};
use crate::subject::Subject;

/// The oracle's answer to every lookup of a corpus, in order.
#[derive(Clone, Debug)]
pub struct Truth {
    answers: Vec<Vec<Overlap>>,
    /// Copies held at the end of the corpus, over all ranks.
    pub held_blocks: usize,
}

impl Truth {
    /// Asks the oracle.
    pub fn of(corpus: &Corpus) -> Self {
        let mut oracle = Oracle::new();
        let mut overlaps = Overlaps::new();
        let mut answers = Vec::new();
        let mut held = 0_u64;
        for (_, op) in &corpus.ops {
            match op {
                Op::Find(query) => {
                    oracle.find_into(query, FindOptions::new(), &mut overlaps);
                    answers.push(sorted(&overlaps));
                }
                Op::Apply(from, event) => {
                    if let Ok(applied) = oracle.apply(*from, event) {
                        held = held + applied.stored - applied.removed;
                    }
                }
            }
        }
        Self { answers, held_blocks: held as usize }
    }

    /// How many lookups there are.
    pub fn lookups(&self) -> usize {
        self.answers.len()
    }

    /// Replays the corpus on one thread. Returns how many lookups differ from the oracle's.
    pub fn wrong_answers(&self, corpus: &Corpus, subject: &dyn Subject) -> usize {
        let mut overlaps = Overlaps::new();
        let mut truth = self.answers.iter();
        let mut wrong = 0;
        for (_, op) in &corpus.ops {
            match op {
                Op::Find(query) => {
                    subject.find(query, &mut overlaps);
                    wrong += usize::from(truth.next() != Some(&sorted(&overlaps)));
                }
                Op::Apply(from, event) => subject.apply(*from, event),
            }
        }
        wrong
    }
}

fn sorted(overlaps: &Overlaps) -> Vec<Overlap> {
    let mut entries: Vec<Overlap> = overlaps.iter().collect();
    entries.sort_unstable();
    entries
}
