//! Bytes on the heap of an index after a corpus. Needs a counting allocator, so it runs in a program of its own.

use std::sync::Arc;

use crate::corpus::{Corpus, Step};
use crate::subjects::{Script, Subject};

/// Plays the events of a corpus into a fresh index and returns what `live_bytes` grew by. The index is alive then, its
/// events are gone.
pub fn grown<S: Subject>(corpus: &Arc<Corpus>, live_bytes: fn() -> usize) -> usize {
    let before = live_bytes();
    let script = Events { corpus: Arc::clone(corpus), at: 0 };
    let (subject, script) = S::open(corpus.workers()).drive(script);
    drop(script);
    let grown = live_bytes().saturating_sub(before);
    drop(subject);
    grown
}

struct Events {
    corpus: Arc<Corpus>,
    at: usize,
}

impl<S: Subject> Script<S> for Events {
    fn next(&mut self, _finder: &S::Finder, batch: &mut Vec<S::Event>) -> bool {
        batch.clear();
        while let Some(step) = self.corpus.step(self.at) {
            self.at += 1;
            if let Step::Change(change) = step {
                batch.push(S::event(change));
                return true;
            }
        }
        // The batch itself must not be counted as the index's.
        *batch = Vec::new();
        false
    }
}
