//! What the threads know of each other: the queries, and each rank's states.

use std::collections::VecDeque;

use kv_router_types::{LocalBlockHash, Tier, WorkerRank};

use crate::conformance::rng::Rng;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Queries that everybody asks.
pub(super) const QUERIES: usize = 8;
/// Blocks of a query.
pub(super) const DEPTH: usize = 10;
/// Different blocks. Few, so that paths meet and part.
pub(super) const CONTENTS: usize = 2;
/// States of a rank that are kept.
const KEPT: usize = 4096;

/// Right answers for one rank in one state, by query.
pub(super) type Answers = [[u32; Tier::COUNT]; QUERIES];

/// The queries and the ranks.
pub(super) struct Board {
    pub(super) queries: Vec<Vec<LocalBlockHash>>,
    pub(super) ranks: Vec<Log>,
}

/// The states that one rank has been in and is going to be in.
pub(super) struct Log {
    pub(super) id: WorkerRank,
    /// Events that have begun.
    begun: AtomicU64,
    /// Events that are done.
    done: AtomicU64,
    states: Mutex<States>,
}

struct States {
    /// Number of the first state that is kept.
    first: u64,
    kept: VecDeque<Answers>,
}

impl Board {
    pub(super) fn new(ranks: impl Iterator<Item = WorkerRank>) -> Self {
        let mut rng = Rng::new(7);
        let queries = (0..QUERIES).map(|_| (0..DEPTH).map(|_| content(&mut rng)).collect()).collect();
        Self { queries, ranks: ranks.map(Log::new).collect() }
    }

    pub(super) fn log(&self, id: WorkerRank) -> Option<&Log> {
        self.ranks.iter().find(|log| log.id == id)
    }
}

/// A random block.
pub(super) fn content(rng: &mut Rng) -> LocalBlockHash {
    LocalBlockHash::new(rng.below(CONTENTS) as u64)
}

impl Log {
    fn new(id: WorkerRank) -> Self {
        let states = States { first: 0, kept: VecDeque::from([Answers::default()]) };
        Self { id, begun: AtomicU64::new(0), done: AtomicU64::new(0), states: Mutex::new(states) }
    }

    /// The writer is about to bring the rank into this state.
    pub(super) fn begin(&self, state: Answers) {
        {
            let mut states = self.states.lock();
            if states.kept.len() == KEPT {
                states.kept.pop_front();
                states.first += 1;
            }
            states.kept.push_back(state);
        }
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// The writer has.
    pub(super) fn end(&self) {
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    /// Events that have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Events that are done.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// The answers to one query in the states from one number to another; `None` when they are not all kept.
    pub(super) fn answers(&self, query: usize, from: u64, to: u64) -> Option<Vec<[u32; Tier::COUNT]>> {
        let states = self.states.lock();
        let start = usize::try_from(from.checked_sub(states.first)?).ok()?;
        let count = usize::try_from(to - from).ok()? + 1;
        Some(states.kept.iter().skip(start).take(count).map(|state| state[query]).collect())
    }
}
