//! A corpus on one thread, step by step: how long an index takes, and how often it is wrong.

use std::sync::Arc;
use std::time::Instant;

use kv_router_types::LocalBlockHash;

use crate::clock::{Clock, Times};
use crate::corpus::{Change, Corpus, Held, Step};
use crate::subjects::{Find, Script, Subject};

/// What one replay of one index gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayed {
    /// Requested, stored and removed blocks of the measured part for each second inside the index.
    pub block_ops_per_s: f64,
    /// Lookup times at 50 %, 99 % and 99.9 %, in nanoseconds.
    pub lookup_ns: [f64; 3],
    /// Lookups of the whole stream, and of the end state, that differ from the reference.
    pub wrong_lookups: u64,
    /// All lookups that were compared.
    pub lookups: u64,
}

/// Replays a corpus through a fresh index.
pub fn replay<S: Subject>(corpus: &Arc<Corpus>, clock: Clock) -> Replayed {
    let script = Timed::<S>::new(Arc::clone(corpus), clock, S::detour_ns(1));
    let (subject, mut script) = S::open(corpus.workers()).drive(script);
    for (query, truth) in corpus.finals() {
        script.asker.ask(subject.finder(), query, clock);
        script.asker.compare(subject.finder(), truth);
    }
    script.outcome()
}

/// Asks, keeps the time, and compares.
pub(crate) struct Asker<F: Find> {
    query: F::Query,
    answer: F::Answer,
    got: Vec<Held>,
    wrong: u64,
    compared: u64,
}

impl<F: Find> Asker<F> {
    pub(crate) fn new() -> Self {
        Self {
            query: F::Query::default(),
            answer: F::Answer::default(),
            got: Vec::new(),
            wrong: 0,
            compared: 0,
        }
    }

    /// Nanoseconds of one lookup.
    pub(crate) fn ask(&mut self, finder: &F, query: &[LocalBlockHash], clock: Clock) -> u64 {
        finder.prepare(query, &mut self.query);
        let start = clock.start();
        finder.find(&mut self.query, &mut self.answer);
        clock.stop(start)
    }

    /// Holds the last answer against the truth.
    pub(crate) fn compare(&mut self, finder: &F, truth: &[Held]) {
        self.got.clear();
        finder.read(&self.answer, &mut self.got);
        self.got.sort_unstable();
        self.compared += 1;
        self.wrong += u64::from(self.got != truth);
    }

    pub(crate) fn wrong(&self) -> u64 {
        self.wrong
    }

    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }
}

/// The corpus step by step, every step timed alone.
struct Timed<S: Subject> {
    corpus: Arc<Corpus>,
    clock: Clock,
    detour_ns: u64,
    at: usize,
    builder: S::Builder,
    asker: Asker<S::Finder>,
    lookups: Times,
    events_ns: u64,
    block_ops: u64,
    /// The event that the index is at: when it began, and its blocks.
    running: Option<(Instant, usize)>,
}

impl<S: Subject> Timed<S> {
    fn new(corpus: Arc<Corpus>, clock: Clock, detour_ns: u64) -> Self {
        Self {
            clock,
            detour_ns,
            at: 0,
            builder: S::builder(&corpus),
            asker: Asker::new(),
            lookups: Times::with_capacity(corpus.len() - corpus.warm_up()),
            events_ns: 0,
            block_ops: 0,
            running: None,
            corpus,
        }
    }

    fn outcome(self) -> Replayed {
        let ns = (self.lookups.total_ns() + self.events_ns).max(1);
        Replayed {
            block_ops_per_s: self.block_ops as f64 / ns as f64 * 1e9,
            wrong_lookups: self.asker.wrong(),
            lookups: self.asker.compared(),
            lookup_ns: self.lookups.percentiles([0.5, 0.99, 0.999]),
        }
    }
}

impl<S: Subject> Script<S> for Timed<S> {
    fn next(&mut self, finder: &S::Finder, batch: &mut Vec<S::Event>) -> bool {
        if let Some((start, blocks)) = self.running.take() {
            let ns = self.clock.stop(start).saturating_sub(self.detour_ns);
            // Clears and replacements name no block: their time is not part of a rate of blocks.
            if self.at > self.corpus.warm_up() && blocks > 0 {
                self.events_ns += ns;
                self.block_ops += blocks as u64;
            }
        }
        batch.clear();
        let corpus = Arc::clone(&self.corpus);
        while let Some(step) = corpus.step(self.at) {
            let measured = self.at >= corpus.warm_up();
            self.at += 1;
            match step {
                Step::Find { query, answer } => {
                    let ns = self.asker.ask(finder, query, self.clock);
                    if measured {
                        self.lookups.add(ns);
                        self.block_ops += query.len() as u64;
                    }
                    self.asker.compare(finder, answer);
                }
                Step::Change(change) => return self.begin(change, batch),
            }
        }
        false
    }
}

impl<S: Subject> Timed<S> {
    fn begin(&mut self, change: Change<'_>, batch: &mut Vec<S::Event>) -> bool {
        batch.push(S::event(&mut self.builder, change));
        self.running = Some((self.clock.start(), change.blocks()));
        true
    }
}

#[cfg(test)]
mod tests;
