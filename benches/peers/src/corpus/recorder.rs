//! Records a stream and answers its lookups as they come.

use std::error::Error;
use std::fmt;

use kv_router_types::{ExternalSequenceHash, LocalBlockHash, StoredBlock};

use super::{Change, Corpus, Op};
use crate::reference::Reference;

/// Lookups that are answered a second time, against the state after the last step.
const FINALS: usize = 1_000;

/// A stream that no engine would send: a store under a block that is not held, or a removal of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenStream {
    /// The step at fault.
    pub step: usize,
}

impl fmt::Display for BrokenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} names a block that the worker does not hold: mend the corpus", self.step)
    }
}

impl Error for BrokenStream {}

/// A corpus in the making.
#[derive(Debug)]
pub struct Recorder {
    corpus: Corpus,
    reference: Reference,
    broken: Option<BrokenStream>,
    is_warm: bool,
}

impl Recorder {
    /// An empty stream of a fleet.
    pub fn new(workers: u32) -> Self {
        let corpus = Corpus {
            workers,
            ops: Vec::new(),
            warm_up: 0,
            queries: Vec::new(),
            answers: Vec::new(),
            blocks: Vec::new(),
            names: Vec::new(),
            finals: Vec::new(),
            final_answers: Vec::new(),
            held: 0,
        };
        Self { corpus, reference: Reference::new(workers), broken: None, is_warm: false }
    }

    /// Requested, stored and removed blocks so far.
    pub fn block_ops(&self) -> usize {
        self.corpus.queries.len() + self.corpus.blocks.len() + self.corpus.names.len()
    }

    /// What follows is measured. Only the first call counts.
    pub fn end_warm_up(&mut self) {
        if !self.is_warm {
            (self.is_warm, self.corpus.warm_up) = (true, self.corpus.ops.len());
        }
    }

    /// A request arrives.
    pub fn find(&mut self, query: &[LocalBlockHash]) {
        let corpus = &mut self.corpus;
        let (from, answer) = (corpus.queries.len(), corpus.answers.len());
        corpus.queries.extend_from_slice(query);
        self.reference.find_into(query, &mut corpus.answers);
        let op = Op::Find { query: from..corpus.queries.len(), answer: answer..corpus.answers.len() };
        corpus.ops.push(op);
    }

    /// Blocks are stored; nothing happens when there are none.
    pub fn store(&mut self, worker: u32, parent: Option<ExternalSequenceHash>, blocks: &[StoredBlock]) {
        if !blocks.is_empty() {
            self.apply(Change::Store { worker, parent, blocks });
            let from = self.corpus.blocks.len();
            self.corpus.blocks.extend_from_slice(blocks);
            self.corpus.ops.push(Op::Store { worker, parent, blocks: from..self.corpus.blocks.len() });
        }
    }

    /// Blocks are evicted; nothing happens when there are none.
    pub fn remove(&mut self, worker: u32, names: &[ExternalSequenceHash]) {
        if !names.is_empty() {
            self.apply(Change::Remove { worker, names });
            let from = self.corpus.names.len();
            self.corpus.names.extend_from_slice(names);
            self.corpus.ops.push(Op::Remove { worker, names: from..self.corpus.names.len() });
        }
    }

    /// A cache is dropped.
    pub fn clear(&mut self, worker: u32) {
        self.apply(Change::Clear { worker });
        self.corpus.ops.push(Op::Clear { worker });
    }

    /// A worker goes away, an empty one takes its number.
    pub fn replace(&mut self, worker: u32) {
        self.apply(Change::Replace { worker });
        self.corpus.ops.push(Op::Replace { worker });
    }

    fn apply(&mut self, change: Change<'_>) {
        if !self.reference.apply(change) {
            self.broken.get_or_insert(BrokenStream { step: self.corpus.ops.len() });
        }
    }

    /// The stream is complete.
    ///
    /// # Errors
    ///
    /// [`BrokenStream`] names the first step that no engine would send.
    pub fn finish(mut self) -> Result<Corpus, BrokenStream> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let lookups = self.corpus.lookups();
        let corpus = &mut self.corpus;
        for &at in &lookups[lookups.len().saturating_sub(FINALS)..] {
            let Op::Find { query, .. } = &corpus.ops[at] else { continue };
            let from = corpus.final_answers.len();
            self.reference.find_into(&corpus.queries[query.clone()], &mut corpus.final_answers);
            corpus.finals.push((at, from..corpus.final_answers.len()));
        }
        corpus.held = self.reference.held();
        Ok(self.corpus)
    }
}
