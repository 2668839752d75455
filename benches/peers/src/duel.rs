//! One writer and one reader, each as fast as it can, on a core of its own.
//!
//! The writer applies the measured part of a corpus, built 256 events ahead off its clock. The reader asks for one of the
//! next 512 requests of the stream, which are not stored yet, so a lookup goes as deep as that of a real arrival. What
//! it is told meanwhile has no single right answer; the end state has, and is compared.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use kv_router_sim::random::SeededRandom;

use crate::clock::{Clock, Times};
use crate::corpus::{Change, Corpus, Step};
use crate::replay::Asker;
use crate::subjects::{Concurrent, Find, Script, Subject};

/// Events that a writer applies between two looks of the reader at its progress.
const BATCH: usize = 16;
/// Events built ahead.
const AHEAD: usize = 256;
/// Requests that the reader draws from.
const WINDOW: usize = 512;
/// Lookups between two looks at the writer's progress.
const ASKS: usize = 8;
/// The compressed tree of a peer recurses; the main thread has this much too.
const STACK_BYTES: usize = 8 << 20;

/// What one run of one index gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duelled {
    /// Events for each second of the writer inside the index.
    pub events_per_s: f64,
    /// Stored and removed blocks for each second of the writer inside the index.
    pub event_blocks_per_s: f64,
    /// Lookup times at 50 %, 99 %, 99.9 % and the longest, in nanoseconds.
    pub lookup_ns: [f64; 4],
    /// Lookups of the end state that differ from the reference.
    pub wrong_lookups: u64,
}

/// Runs a corpus through a fresh index while a reader asks.
///
/// # Errors
///
/// When the system has no thread for it.
pub fn duel<S: Concurrent + Send>(corpus: &Arc<Corpus>, clock: Clock) -> std::io::Result<Duelled> {
    let subject = S::open(corpus.workers());
    let finder = subject.finder().clone();
    let shared = Arc::new(Shared::default());
    let script = Writing::<S>::new(Arc::clone(corpus), clock, S::detour_ns(BATCH), Arc::clone(&shared));
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let core = |number: usize| cores.get(number % cores.len().max(1)).copied();
    let (readers_core, writers_core) = (core(0), core(1));
    thread::scope(|scope| {
        let writer = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || {
            pin(writers_core);
            subject.drive(script)
        })?;
        let shared = &shared;
        let reader = thread::Builder::new().spawn_scoped(scope, move || {
            pin(readers_core);
            read(finder, corpus, clock, shared)
        });
        let (subject, script) = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let times = reader?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut asker = Asker::<S::Finder>::new();
        for (query, truth) in corpus.finals() {
            asker.ask(subject.finder(), query, clock);
            asker.compare(subject.finder(), truth);
        }
        let seconds = script.ns.max(1) as f64 / 1e9;
        Ok(Duelled {
            events_per_s: script.events as f64 / seconds,
            event_blocks_per_s: script.blocks as f64 / seconds,
            lookup_ns: times.percentiles([0.5, 0.99, 0.999, 1.0]),
            wrong_lookups: asker.wrong(),
        })
    })
}

fn pin(core: Option<core_affinity::CoreId>) {
    if let Some(core) = core {
        core_affinity::set_for_current(core);
    }
}

/// What the two threads tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Lookups of the stream before the writer's place.
    progress: AtomicUsize,
    is_warm: AtomicBool,
    is_done: AtomicBool,
}

/// The events of a corpus in batches.
struct Writing<S: Subject> {
    corpus: Arc<Corpus>,
    clock: Clock,
    detour_ns: u64,
    shared: Arc<Shared>,
    at: usize,
    /// Lookups passed.
    passed: usize,
    builder: S::Builder,
    ahead: VecDeque<(S::Event, usize, usize)>,
    running: Option<Running>,
    ns: u64,
    events: u64,
    blocks: u64,
}

/// The batch that the index is at.
struct Running {
    start: Instant,
    events: usize,
    blocks: usize,
    passed: usize,
    is_measured: bool,
}

impl<S: Subject> Writing<S> {
    fn new(corpus: Arc<Corpus>, clock: Clock, detour_ns: u64, shared: Arc<Shared>) -> Self {
        Self {
            builder: S::builder(&corpus),
            corpus,
            clock,
            detour_ns,
            shared,
            at: 0,
            passed: 0,
            ahead: VecDeque::with_capacity(AHEAD),
            running: None,
            ns: 0,
            events: 0,
            blocks: 0,
        }
    }

    /// Builds the next events. Stops at the end of the warm-up, so that no batch lies on both sides of it.
    fn build_ahead(&mut self) {
        let until = if self.at < self.corpus.warm_up() { self.corpus.warm_up() } else { self.corpus.len() };
        while self.at < until && self.ahead.len() < AHEAD {
            let Some(step) = self.corpus.step(self.at) else { break };
            self.at += 1;
            match step {
                Step::Find { .. } => self.passed += 1,
                Step::Change(change) => {
                    self.ahead.push_back((
                        S::event(&mut self.builder, change),
                        Change::blocks(&change),
                        self.passed,
                    ));
                }
            }
        }
    }

    fn account(&mut self) {
        let Some(running) = self.running.take() else { return };
        let ns = self.clock.stop(running.start).saturating_sub(self.detour_ns);
        if running.is_measured {
            self.ns += ns;
            self.events += running.events as u64;
            self.blocks += running.blocks as u64;
        }
        self.shared.progress.store(running.passed, Ordering::Relaxed);
    }
}

impl<S: Subject> Drop for Writing<S> {
    /// However the writer ends, the reader does too.
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    fn end(&self) {
        self.is_warm.store(true, Ordering::Release);
        self.is_done.store(true, Ordering::Release);
    }
}

impl<S: Subject> Script<S> for Writing<S> {
    fn next(&mut self, _finder: &S::Finder, batch: &mut Vec<S::Event>) -> bool {
        self.account();
        batch.clear();
        if self.ahead.is_empty() {
            self.build_ahead();
            if self.at >= self.corpus.warm_up() && self.ahead.is_empty() {
                // Either the warm-up ended in lookups alone, or everything is applied.
                self.build_ahead();
            }
        }
        let is_measured = self.at > self.corpus.warm_up();
        if is_measured {
            self.shared.is_warm.store(true, Ordering::Release);
        }
        let (mut blocks, mut passed) = (0, self.passed);
        let count = BATCH.min(self.ahead.len());
        for (event, named, before) in self.ahead.drain(..count) {
            batch.push(event);
            blocks += named;
            passed = before;
        }
        if batch.is_empty() {
            self.shared.end();
            return false;
        }
        let (clock, events) = (self.clock, batch.len());
        self.running = Some(Running { start: clock.start(), events, blocks, passed, is_measured });
        true
    }
}

fn read<F: Find>(finder: F, corpus: &Corpus, clock: Clock, shared: &Shared) -> Times {
    let lookups = corpus.lookups();
    let mut asker = Asker::<F>::new();
    let mut times = Times::with_capacity(1 << 22);
    let mut random = SeededRandom::new(7);
    while !shared.is_warm.load(Ordering::Acquire) {
        thread::yield_now();
    }
    while !shared.is_done.load(Ordering::Acquire) {
        let window = WINDOW.min(lookups.len());
        let from = shared.progress.load(Ordering::Relaxed).min(lookups.len() - window);
        for _ in 0..ASKS {
            let Some(&at) = lookups.get(from + random.below(window)) else { return times };
            if let Some(Step::Find { query, .. }) = corpus.step(at) {
                times.add(asker.ask(&finder, query, clock));
            }
        }
    }
    times
}

#[cfg(test)]
mod tests;
