//! The prompts in flight, as a tree of runs: which rank holds which prefix, and how often.
//!
//! A sequence hash names a whole prefix, so two prompts that agree at one position agree at every position before
//! it. A run of blocks therefore matches as soon as its last hash does, and where two prompts part is found by
//! halving: nothing here costs a step for each block but the copy of a run.
//!
//! The tree stays minimal: every run but the root ends a prompt or forks, so there are at most twice as many runs
//! as requests, whatever came and went before.

use kv_router_types::SequenceHash;
use rustc_hash::FxHashMap;

/// A run of the tree. Stays the same through splits and merges for as long as a prompt ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunId(u32);

/// The empty prefix. Empty prompts end here.
const ROOT: RunId = RunId(0);

impl RunId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place of a rank inside its shard. Small and dense, unlike its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

#[derive(Clone, Copy, Debug)]
struct Holder {
    slot: Slot,
    /// Requests of the rank whose prompt runs through here; never 0.
    requests: u32,
}

#[derive(Debug)]
struct Run {
    parent: RunId,
    /// Empty in the root alone.
    blocks: Box<[SequenceHash]>,
    /// Ordered by slot. The holders of a run are among those of its parent, each with at most its count there.
    holders: Vec<Holder>,
    /// Prompts that end with this run.
    ends: u32,
    children: u32,
    /// All child ids, combined by exclusive or: the id of the only child when there is one. A list would make
    /// leaving a fork of many thousand prompts as slow as the fork is wide.
    child_xor: u32,
}

impl Run {
    const fn new(parent: RunId, blocks: Box<[SequenceHash]>) -> Self {
        Self { parent, blocks, holders: Vec::new(), ends: 0, children: 0, child_xor: 0 }
    }

    fn link(&mut self, child: RunId) {
        self.children += 1;
        self.child_xor ^= child.0;
    }

    fn unlink(&mut self, child: RunId) {
        self.children -= 1;
        self.child_xor ^= child.0;
    }

    fn only_child(&self) -> Option<RunId> {
        (self.children == 1).then_some(RunId(self.child_xor))
    }

    /// Counts one more request of a rank. Returns the blocks that the rank had not held before.
    fn hold(&mut self, slot: Slot) -> u64 {
        match self.holders.binary_search_by_key(&slot, |holder| holder.slot) {
            Ok(at) => {
                self.holders[at].requests += 1;
                0
            }
            Err(at) => {
                self.holders.insert(at, Holder { slot, requests: 1 });
                self.blocks.len() as u64
            }
        }
    }

    /// Counts one request less of a rank. Returns the blocks that the rank no longer holds.
    fn let_go(&mut self, slot: Slot) -> u64 {
        let Ok(at) = self.holders.binary_search_by_key(&slot, |holder| holder.slot) else {
            debug_assert!(false, "{slot:?} does not hold this run");
            return 0;
        };
        self.holders[at].requests -= 1;
        if self.holders[at].requests > 0 {
            return 0;
        }
        self.holders.remove(at);
        self.blocks.len() as u64
    }
}

/// Where a prompt leaves the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fork {
    /// The last run on the way.
    run: RunId,
    /// Blocks of that run that match: all of them, or the prompt parts inside.
    matched: usize,
    /// Blocks of the prompt that are stored.
    pub(crate) depth: usize,
}

/// What the end of a prompt changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Blocks that the rank no longer holds.
    pub(crate) held: u64,
    /// Blocks that nobody holds, and that are therefore no longer stored.
    pub(crate) stored: u64,
}

/// The prompts in flight on the ranks of one shard.
#[derive(Debug)]
pub(crate) struct PromptTree {
    runs: Vec<Run>,
    free: Vec<RunId>,
    /// From a run and the first hash below it to the child. The parent is part of the key so that hashes which
    /// break their promise (one hash under two prefixes) cost accuracy alone, never the shape of the tree.
    edges: FxHashMap<(RunId, SequenceHash), RunId>,
}

impl PromptTree {
    pub(crate) fn new() -> Self {
        Self { runs: vec![Run::new(ROOT, Box::new([]))], free: Vec::new(), edges: FxHashMap::default() }
    }

    /// Runs in use, without the root.
    pub(crate) fn run_count(&self) -> usize {
        self.runs.len() - self.free.len() - 1
    }

    /// The runs that a prompt shares, from the root down, each with how many of its blocks match.
    fn path(&self, prompt: &[SequenceHash]) -> impl Iterator<Item = (RunId, usize)> {
        let mut rest = prompt;
        let mut at = Some(ROOT);
        std::iter::from_fn(move || {
            let child = *self.edges.get(&(at?, *rest.first()?))?;
            let run = &self.runs[child.index()];
            let matched = common_prefix(&run.blocks, rest);
            rest = &rest[matched..];
            at = (matched == run.blocks.len()).then_some(child);
            Some((child, matched))
        })
    }

    /// Calls `each` with the blocks that a rank shares with `prompt`, once for each run that it shares: the shared
    /// prefix of a rank is the sum.
    pub(crate) fn for_each_share(&self, prompt: &[SequenceHash], mut each: impl FnMut(Slot, u32)) {
        for (run, matched) in self.path(prompt) {
            let matched = u32::try_from(matched).unwrap_or(u32::MAX);
            for holder in &self.runs[run.index()].holders {
                each(holder.slot, matched);
            }
        }
    }

    /// The whole prompt that ends with a run.
    pub(crate) fn prompt(&self, end: RunId) -> Vec<SequenceHash> {
        let mut runs = Vec::new();
        let mut at = end;
        while at != ROOT {
            runs.push(&self.runs[at.index()]);
            at = self.runs[at.index()].parent;
        }
        runs.iter().rev().flat_map(|run| &run.blocks).copied().collect()
    }

    /// Finds where `prompt` leaves the tree. Good until the next change.
    pub(crate) fn find(&self, prompt: &[SequenceHash]) -> Fork {
        let root = Fork { run: ROOT, matched: 0, depth: 0 };
        self.path(prompt).fold(root, |fork, (run, matched)| Fork {
            run,
            matched,
            depth: fork.depth + matched,
        })
    }

    /// Adds a prompt of a rank at the fork that [`find`](Self::find) found for it. Returns the run that it ends
    /// with, and the blocks that the rank had not held before.
    pub(crate) fn insert(&mut self, fork: Fork, prompt: &[SequenceHash], slot: Slot) -> (RunId, u64) {
        let mut end = fork.run;
        if fork.matched < self.runs[end.index()].blocks.len() {
            end = self.split(end, fork.matched);
        }
        if let Some(&head) = prompt.get(fork.depth) {
            let tail = self.alloc(Run::new(end, prompt[fork.depth..].into()));
            self.edges.insert((end, head), tail);
            self.runs[end.index()].link(tail);
            end = tail;
        }
        self.runs[end.index()].ends += 1;
        let mut gained = 0;
        let mut at = end;
        while at != ROOT {
            let run = &mut self.runs[at.index()];
            gained += run.hold(slot);
            at = run.parent;
        }
        (end, gained)
    }

    /// Takes out a prompt of a rank that ends with `end`.
    pub(crate) fn remove(&mut self, end: RunId, slot: Slot) -> Released {
        self.runs[end.index()].ends -= 1;
        let mut released = Released::default();
        let mut lowest_left = None;
        let mut at = end;
        while at != ROOT {
            let run = &mut self.runs[at.index()];
            let parent = run.parent;
            released.held += run.let_go(slot);
            if run.holders.is_empty() {
                released.stored += run.blocks.len() as u64;
                self.unhook(at);
            } else {
                lowest_left.get_or_insert(at);
            }
            at = parent;
        }
        // No run above it lost a child or an end.
        if let Some(run) = lowest_left {
            self.merge_down(run);
        }
        released
    }

    /// Cuts a run after `keep` blocks. The lower part keeps the id, which bookings know; returns the new upper one.
    fn split(&mut self, lower: RunId, keep: usize) -> RunId {
        let run = &mut self.runs[lower.index()];
        let parent = run.parent;
        let (head, middle) = (run.blocks[0], run.blocks[keep]);
        let mut above = Run::new(parent, run.blocks[..keep].into());
        above.holders.clone_from(&run.holders);
        above.link(lower);
        run.blocks = run.blocks[keep..].into();
        let upper = self.alloc(above);
        self.runs[lower.index()].parent = upper;
        self.edges.insert((parent, head), upper);
        self.edges.insert((upper, middle), lower);
        let parent = &mut self.runs[parent.index()];
        parent.unlink(lower);
        parent.link(upper);
        upper
    }

    /// Joins a run that neither ends a prompt nor forks with its only child, which keeps its id.
    fn merge_down(&mut self, upper: RunId) {
        let run = &self.runs[upper.index()];
        let Some(lower) = run.only_child().filter(|_| run.ends == 0) else { return };
        let (parent, head) = (run.parent, run.blocks[0]);
        let below = &self.runs[lower.index()];
        let middle = below.blocks[0];
        let joined = [&*run.blocks, &*below.blocks].concat().into_boxed_slice();
        let below = &mut self.runs[lower.index()];
        below.blocks = joined;
        below.parent = parent;
        self.edges.remove(&(upper, middle));
        self.edges.insert((parent, head), lower);
        let above = &mut self.runs[parent.index()];
        above.unlink(upper);
        above.link(lower);
        self.free(upper);
    }

    /// Takes a run that nobody holds out of the tree.
    fn unhook(&mut self, id: RunId) {
        let run = &self.runs[id.index()];
        debug_assert!(
            run.children == 0 && run.ends == 0,
            "the holders of a child are among those of its parent"
        );
        let (parent, head) = (run.parent, run.blocks[0]);
        self.edges.remove(&(parent, head));
        self.runs[parent.index()].unlink(id);
        self.free(id);
    }

    fn alloc(&mut self, run: Run) -> RunId {
        if let Some(id) = self.free.pop() {
            self.runs[id.index()] = run;
            return id;
        }
        // Fits: at most twice `LoadConfig::MAX_REQUESTS` runs, and the root.
        let id = RunId(self.runs.len() as u32);
        self.runs.push(run);
        id
    }

    fn free(&mut self, id: RunId) {
        self.runs[id.index()] = Run::new(ROOT, Box::new([]));
        self.free.push(id);
    }
}

/// Leading blocks that two prefixes of the same length share.
fn common_prefix(run: &[SequenceHash], rest: &[SequenceHash]) -> usize {
    let len = run.len().min(rest.len());
    let (run, rest) = (&run[..len], &rest[..len]);
    if run.last() == rest.last() {
        return len;
    }
    // Equal up to the fork, different from there on: the first difference by halving.
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if run[middle] == rest[middle] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests;
