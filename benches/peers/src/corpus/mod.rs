//! Recorded traffic: what a router was asked, what the engines announced, and what was true at every lookup.
//!
//! A corpus keeps its blocks in a few flat slabs, so that walking it costs the memory bandwidth of its bytes and no
//! allocation. Recording twice gives the same bytes: every draw comes from a seed.

mod catalog;
mod churn;
mod engine;
mod fanout;
mod fleet;
mod recorder;
mod short;
#[cfg(test)]
mod tests;
mod trace;

use std::ops::Range;

use kv_router_types::{ExternalSequenceHash, LocalBlockHash, StoredBlock};

pub use catalog::{Kind, Routing, Scale, Source, build};
pub use recorder::{BrokenStream, Recorder};

/// Blocks that the prefix cache of one worker holds.
pub const CACHE_BLOCKS: usize = 16_384;

/// A worker and how many leading blocks of a request it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The worker, counted from 0.
    pub worker: u32,
    /// Leading blocks, above 0.
    pub blocks: u32,
}

/// A change of one worker's cache, borrowed from the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Blocks were stored, one behind the other.
    Store {
        /// Whose.
        worker: u32,
        /// The block that the first one continues; `None` at the start of a prompt.
        parent: Option<ExternalSequenceHash>,
        /// Names and content.
        blocks: &'a [StoredBlock],
    },
    /// Blocks were evicted.
    Remove {
        /// Whose.
        worker: u32,
        /// Their names.
        names: &'a [ExternalSequenceHash],
    },
    /// The cache was dropped, the worker lives on.
    Clear {
        /// Whose.
        worker: u32,
    },
    /// The worker went away; an empty one took its number.
    Replace {
        /// Whose.
        worker: u32,
    },
}

impl Change<'_> {
    /// Blocks named: the unit of throughput. Clears and replacements name none and are not part of it.
    pub fn blocks(&self) -> usize {
        match self {
            Self::Store { blocks, .. } => blocks.len(),
            Self::Remove { names, .. } => names.len(),
            Self::Clear { .. } | Self::Replace { .. } => 0,
        }
    }
}

/// One step of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A request arrived.
    Find {
        /// Its blocks.
        query: &'a [LocalBlockHash],
        /// Who holds how much of it, by worker; who holds nothing is left out.
        answer: &'a [Held],
    },
    /// A cache changed.
    Change(Change<'a>),
}

/// A step by its places in the slabs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    Find { query: Range<usize>, answer: Range<usize> },
    Store { worker: u32, parent: Option<ExternalSequenceHash>, blocks: Range<usize> },
    Remove { worker: u32, names: Range<usize> },
    Clear { worker: u32 },
    Replace { worker: u32 },
}

/// A recorded stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    workers: u32,
    ops: Vec<Op>,
    /// Steps before this one fill the caches and are not measured.
    warm_up: usize,
    queries: Vec<LocalBlockHash>,
    answers: Vec<Held>,
    blocks: Vec<StoredBlock>,
    names: Vec<ExternalSequenceHash>,
    /// Lookups, by step, and their places in `final_answers`.
    finals: Vec<(usize, Range<usize>)>,
    final_answers: Vec<Held>,
    held: u64,
}

impl Corpus {
    /// Workers of the fleet, numbered from 0.
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Steps, the warm-up included.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no step at all.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Steps that fill the caches.
    pub fn warm_up(&self) -> usize {
        self.warm_up
    }

    /// Copies held after the last step: (worker, block) pairs.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// A step; `None` behind the last one.
    pub fn step(&self, at: usize) -> Option<Step<'_>> {
        Some(match self.ops.get(at)? {
            Op::Find { query, answer } => {
                Step::Find { query: &self.queries[query.clone()], answer: &self.answers[answer.clone()] }
            }
            &Op::Store { worker, parent, ref blocks } => {
                Step::Change(Change::Store { worker, parent, blocks: &self.blocks[blocks.clone()] })
            }
            &Op::Remove { worker, ref names } => {
                Step::Change(Change::Remove { worker, names: &self.names[names.clone()] })
            }
            &Op::Clear { worker } => Step::Change(Change::Clear { worker }),
            &Op::Replace { worker } => Step::Change(Change::Replace { worker }),
        })
    }

    /// Steps that are lookups.
    pub fn lookups(&self) -> Vec<usize> {
        (0..self.ops.len()).filter(|&at| matches!(self.ops[at], Op::Find { .. })).collect()
    }

    /// The last lookups of the stream with what is true after its last step.
    pub fn finals(&self) -> impl Iterator<Item = (&[LocalBlockHash], &[Held])> {
        self.finals.iter().filter_map(|(at, answer)| match &self.ops[*at] {
            Op::Find { query, .. } => {
                Some((&self.queries[query.clone()], &self.final_answers[answer.clone()]))
            }
            _ => None,
        })
    }
}

/// A small churn for tests of other modules.
#[cfg(test)]
pub(crate) fn churn_for_tests() -> Corpus {
    churn::record(2, 300_000).unwrap()
}
