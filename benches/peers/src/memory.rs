//! Bytes on the heap of an index after a corpus. Needs a counting allocator, so it runs in a program of its own.

use std::sync::Arc;

use crate::corpus::{Corpus, Step};
use crate::subjects::{Script, Subject};

/// Plays the events of a corpus into a fresh index and returns what `live_bytes` grew by. Read inside the last call of
/// the script: everything that the index keeps for its writer is alive then, its events are gone.
pub fn grown<S: Subject>(corpus: &Arc<Corpus>, live_bytes: fn() -> usize) -> usize {
    let before = live_bytes();
    let builder = Some(S::builder(corpus));
    let script = Events::<S> { corpus: Arc::clone(corpus), at: 0, builder, live_bytes, after: before };
    let (_, script) = S::open(corpus.workers()).drive(script);
    script.after.saturating_sub(before)
}

struct Events<S: Subject> {
    corpus: Arc<Corpus>,
    at: usize,
    builder: Option<S::Builder>,
    live_bytes: fn() -> usize,
    after: usize,
}

impl<S: Subject> Script<S> for Events<S> {
    fn next(&mut self, _finder: &S::Finder, batch: &mut Vec<S::Event>) -> bool {
        batch.clear();
        while let Some(step) = self.corpus.step(self.at) {
            self.at += 1;
            if let (Step::Change(change), Some(builder)) = (step, &mut self.builder) {
                batch.push(S::event(builder, change));
                return true;
            }
        }
        // Neither the batch itself nor what built it is the index's.
        *batch = Vec::new();
        self.builder = None;
        self.after = (self.live_bytes)();
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::corpus::churn_for_tests;
    use crate::subjects::CompressedTree;

    #[test]
    fn bytes_are_read_twice_before_and_after_the_events() {
        static READINGS: AtomicUsize = AtomicUsize::new(0);
        let live = || 1_000 * READINGS.fetch_add(1, Ordering::Relaxed);
        assert_eq!(grown::<CompressedTree>(&Arc::new(churn_for_tests()), live), 1_000);
    }
}
