//! What is true: a set of holders for every block, and nothing else.
//!
//! A block is named by the hash of its whole path, so a worker holds the first n blocks of a request exactly when it is
//! in the holder sets of n names. The sets of one name after the other are intersected; a worker's score is where it
//! drops out. Nothing here knows trees, pages, runs or positions, and it shares no code with any index.

use kv_router_hash::next_sequence_hash;
use kv_router_types::{LocalBlockHash, SequenceHash};
use rustc_hash::FxHashMap;

use crate::corpus::{Change, Held};

/// Workers in one word of a holder set.
const WORD: u32 = u64::BITS;

/// The answers to compare with. Serves corpora whose engines name a block by its rolling hash.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Words of a holder set.
    words: usize,
    /// Where the holders of a name stand in `sets`. A name that lost its last holder keeps its place.
    places: FxHashMap<u64, usize>,
    sets: Vec<u64>,
    workers: u32,
    held: u64,
}

impl Reference {
    /// Nobody holds anything.
    pub fn new(workers: u32) -> Self {
        let words = workers.div_ceil(WORD) as usize;
        Self { words, places: FxHashMap::default(), sets: Vec::new(), workers, held: 0 }
    }

    /// Copies held: (worker, block) pairs.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Applies a change. `false`: an engine would not send it, for it stores under a block that the worker does not
    /// hold, or removes one.
    pub fn apply(&mut self, change: Change<'_>) -> bool {
        match change {
            Change::Store { worker, parent, blocks } => {
                let sound = parent.is_none_or(|parent| self.holds(worker, parent.get()));
                blocks.iter().for_each(|block| self.add(worker, block.external.get()));
                sound
            }
            Change::Remove { worker, names } => {
                // All of them go, whatever the first ones were.
                let unknown = names.iter().filter(|name| !self.take(worker, name.get())).count();
                unknown == 0
            }
            Change::Clear { worker } | Change::Replace { worker } => {
                let (word, bit) = place(worker);
                for set in self.sets.chunks_exact_mut(self.words) {
                    self.held -= u64::from(set[word] & bit != 0);
                    set[word] &= !bit;
                }
                true
            }
        }
    }

    fn holds(&self, worker: u32, name: u64) -> bool {
        let (word, bit) = place(worker);
        self.places.get(&name).is_some_and(|&at| self.sets[at + word] & bit != 0)
    }

    fn add(&mut self, worker: u32, name: u64) {
        let (word, bit) = place(worker);
        let at = *self.places.entry(name).or_insert(self.sets.len());
        if at == self.sets.len() {
            self.sets.resize(at + self.words, 0);
        }
        self.held += u64::from(self.sets[at + word] & bit == 0);
        self.sets[at + word] |= bit;
    }

    fn take(&mut self, worker: u32, name: u64) -> bool {
        let held = self.holds(worker, name);
        if let (true, Some(&at)) = (held, self.places.get(&name)) {
            let (word, bit) = place(worker);
            self.sets[at + word] &= !bit;
            self.held -= 1;
        }
        held
    }

    /// Appends every worker that holds the first block of `query`, by worker, with its leading blocks.
    pub fn find_into(&self, query: &[LocalBlockHash], out: &mut Vec<Held>) {
        let from = out.len();
        let mut left = vec![u64::MAX; self.words];
        let mut name: Option<SequenceHash> = None;
        let mut blocks = 0;
        for &local in query {
            let next = next_sequence_hash(name, local);
            name = Some(next);
            let set = self.places.get(&next.get()).map(|&at| &self.sets[at..at + self.words]);
            for (word, left) in left.iter_mut().enumerate() {
                let stay = *left & set.map_or(0, |set| set[word]);
                if blocks > 0 {
                    report(word, *left & !stay, blocks, self.workers, out);
                }
                *left = stay;
            }
            if left.iter().all(|&word| word == 0) {
                break;
            }
            blocks += 1;
        }
        if blocks > 0 {
            left.iter().enumerate().for_each(|(word, &left)| report(word, left, blocks, self.workers, out));
        }
        out[from..].sort_unstable();
    }
}

fn place(worker: u32) -> (usize, u64) {
    ((worker / WORD) as usize, 1 << (worker % WORD))
}

fn report(word: usize, mut set: u64, blocks: u32, workers: u32, out: &mut Vec<Held>) {
    while set != 0 {
        let worker = word as u32 * WORD + set.trailing_zeros();
        debug_assert!(worker < workers, "only workers of the fleet are in a set");
        out.push(Held { worker, blocks });
        set &= set - 1;
    }
}

#[cfg(test)]
mod tests;
