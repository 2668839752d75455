//! The work that each kind of operation is: one thread, one operation after the other, in the order of the recording.
//!
//! The ladder shows what a fleet gets; this shows why. Time is taken around each operation and what the clock itself
//! costs is taken off.

use std::time::{Duration, Instant};

use kv_router_index::Overlaps;
use kv_router_types::KvEvent;

use crate::corpus::{Corpus, Op};
use crate::subject::Subject;

/// Time and blocks of one kind of operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    calls: u64,
    blocks: u64,
    time: Duration,
}

impl Tally {
    fn add(&mut self, blocks: u64, time: Duration) {
        self.calls += 1;
        self.blocks += blocks;
        self.time += time;
    }

    /// Nanoseconds a block; 0 when there was none.
    pub fn nanos_a_block(&self, clock: Duration) -> f64 {
        let own = self.time.as_nanos() as f64 - clock.as_nanos() as f64 * self.calls as f64;
        if self.blocks == 0 { 0.0 } else { own.max(0.0) / self.blocks as f64 }
    }
}

/// What the operations of a corpus cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Lookups.
    pub asked: Tally,
    /// Stores.
    pub stored: Tally,
    /// Removals.
    pub removed: Tally,
}

/// Does the measured part of a corpus on this thread.
pub fn run(corpus: &Corpus, subject: &dyn Subject) -> Work {
    let mut work = Work::default();
    let mut overlaps = Overlaps::new();
    for (_, op) in corpus.measured() {
        let begin = now();
        let tally = match op {
            Op::Find(query) => {
                subject.find(query, &mut overlaps);
                &mut work.asked
            }
            Op::Apply(from, event) => {
                subject.apply(*from, event);
                // What is queued is not done.
                subject.settle();
                match event {
                    KvEvent::Stored { .. } => &mut work.stored,
                    KvEvent::Removed { .. } | KvEvent::Cleared => &mut work.removed,
                }
            }
        };
        tally.add(op.block_ops(), begin.elapsed());
    }
    work
}

/// What it costs to look at the clock around an operation.
pub fn clock_cost() -> Duration {
    const TIMES: u32 = 100_000;
    let begin = now();
    let sum: Duration = (0..TIMES).map(|_| now().elapsed()).sum();
    // Two readings a time; the inner one's share is `sum`, which also keeps the loop alive.
    (begin.elapsed() / TIMES).min(sum / TIMES)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_taken_off_once_a_call() {
        let mut tally = Tally::default();
        tally.add(10, Duration::from_nanos(130));
        tally.add(20, Duration::from_nanos(230));
        assert_eq!(tally.nanos_a_block(Duration::from_nanos(30)), 10.0);
        assert_eq!(tally.nanos_a_block(Duration::from_nanos(500)), 0.0);
        assert_eq!(Tally::default().nanos_a_block(Duration::ZERO), 0.0);
    }
}
