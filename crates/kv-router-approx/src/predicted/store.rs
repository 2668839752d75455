//! The blocks of all ranks, in three orders: by place, by age, by deadline.

use std::collections::BTreeMap;

use kv_router_types::{SequenceHash, WorkerRank};
use rustc_hash::FxHashMap;

use super::list::{Links, List};
use super::wheel::{Tick, Wheel};
use crate::tables::shrink_if_sparse;

/// A predicted block of one rank.
#[derive(Clone, Copy, Debug)]
struct Entry {
    rank: WorkerRank,
    place: SequenceHash,
    /// The entry of the block before it; `None` at the root.
    parent: Option<u32>,
    deadline: Tick,
    /// Its slot in the wheel.
    slot: u8,
}

/// What recording one path did, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) added: usize,
    pub(super) renewed: usize,
    pub(super) pruned: usize,
}

/// Predicted blocks.
///
/// Invariants, for every block that is not a root: its parent is there; the parent's deadline is no earlier than its
/// own; and it stands before the parent in the order of age. So the first in the order of age is a leaf, and what
/// is due at some time can go all at once without leaving an orphan.
#[derive(Clone, Debug)]
pub(super) struct Store {
    entries: Vec<Entry>,
    /// Unused entries.
    free: Vec<u32>,
    /// Oldest use first; of one decision, the deepest block first.
    by_age: List,
    age_links: Links,
    wheel: Wheel,
    /// Only ranks that have blocks.
    ranks: BTreeMap<WorkerRank, FxHashMap<SequenceHash, u32>>,
    /// The ranks that have each first block, in order. No list is empty.
    roots: FxHashMap<SequenceHash, Vec<WorkerRank>>,
    /// Buffers, empty between calls.
    path: Vec<u32>,
    drained: Vec<u32>,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_age: List::EMPTY,
            age_links: Links::default(),
            wheel: Wheel::new(),
            ranks: BTreeMap::new(),
            roots: FxHashMap::default(),
            path: Vec::new(),
            drained: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks.len()
    }

    pub(super) fn roots(&self) -> usize {
        self.roots.len()
    }

    pub(super) fn now(&self) -> Tick {
        self.wheel.now()
    }

    /// Every rank that has `root` as its first block, in order.
    pub(super) fn holders(&self, root: SequenceHash) -> &[WorkerRank] {
        self.roots.get(&root).map_or(&[], Vec::as_slice)
    }

    /// Leading blocks of `sequence` that `rank` has and that are not due at `now`. Since no block outlives its
    /// prefix, a binary search finds the end.
    pub(super) fn depth(&self, rank: WorkerRank, sequence: &[SequenceHash], now: Tick) -> usize {
        let Some(places) = self.ranks.get(&rank) else { return 0 };
        sequence.partition_point(|place| {
            places.get(place).is_some_and(|&id| self.entries[id as usize].deadline > now)
        })
    }

    /// Makes the blocks of `sequence` the youngest of all, and lets them live until `deadline` at least. At most `cap`
    /// blocks are kept, of this sequence and over all: the oldest leaves make room.
    pub(super) fn record(
        &mut self,
        rank: WorkerRank,
        sequence: &[SequenceHash],
        deadline: Tick,
        cap: usize,
    ) -> Stored {
        let sequence = &sequence[..sequence.len().min(cap)];
        let mut stored = Stored::default();
        let mut path = std::mem::take(&mut self.path);

        // What is there is taken out of the order of age, so that making room cannot take it.
        for place in sequence {
            let Some(id) = self.find(rank, *place) else { break };
            // A place found elsewhere is another block whose hash collides: the path ends before it.
            if self.entries[id as usize].parent != path.last().copied() {
                break;
            }
            self.age_links.take_out(&mut self.by_age, id);
            path.push(id);
        }
        stored.renewed = path.len();
        for place in &sequence[stored.renewed..] {
            if self.find(rank, *place).is_some() {
                break;
            }
            if self.len() >= cap {
                let Some(oldest) = self.age_links.take_first(&mut self.by_age) else { break };
                self.cancel(oldest);
                self.forget(oldest);
                stored.pruned += 1;
            }
            path.push(self.create(rank, *place, path.last().copied(), deadline));
        }
        stored.added = path.len() - stored.renewed;

        for id in path.drain(..).rev() {
            let entry = &mut self.entries[id as usize];
            entry.deadline = entry.deadline.max(deadline);
            self.age_links.push_last(&mut self.by_age, id);
        }
        self.path = path;
        stored
    }

    /// Moves on to `now` and forgets every block that is due. Returns how many those were.
    pub(super) fn expire(&mut self, now: Tick) -> usize {
        let mut drained = std::mem::take(&mut self.drained);
        self.wheel.advance(now, &mut drained);
        let before = self.len();
        for id in drained.drain(..) {
            let deadline = self.entries[id as usize].deadline;
            if deadline > self.wheel.now() {
                self.entries[id as usize].slot = self.wheel.schedule(id, deadline);
            } else {
                // Its children are due too and were drained with it, so their order does not matter.
                self.age_links.take_out(&mut self.by_age, id);
                self.forget(id);
            }
        }
        self.drained = drained;
        self.release_if_empty();
        before - self.len()
    }

    /// Forgets all blocks of a rank. Returns how many those were.
    pub(super) fn remove(&mut self, rank: WorkerRank) -> usize {
        let before = self.len();
        let ids: Vec<u32> =
            self.ranks.get(&rank).into_iter().flat_map(|places| places.values()).copied().collect();
        for id in ids {
            self.age_links.take_out(&mut self.by_age, id);
            self.cancel(id);
            self.forget(id);
        }
        self.release_if_empty();
        before - self.len()
    }

    /// The ranks from `first` to `last` that have blocks.
    pub(super) fn ranks_in(&self, first: WorkerRank, last: WorkerRank) -> Vec<WorkerRank> {
        self.ranks.range(first..=last).map(|(&rank, _)| rank).collect()
    }

    fn find(&self, rank: WorkerRank, place: SequenceHash) -> Option<u32> {
        self.ranks.get(&rank)?.get(&place).copied()
    }

    /// A new block, which is not in the order of age yet.
    fn create(&mut self, rank: WorkerRank, place: SequenceHash, parent: Option<u32>, deadline: Tick) -> u32 {
        let id = self.free.pop().unwrap_or(self.entries.len() as u32);
        let entry = Entry { rank, place, parent, deadline, slot: self.wheel.schedule(id, deadline) };
        if id as usize == self.entries.len() {
            self.entries.push(entry);
            self.age_links.cover(id);
        } else {
            self.entries[id as usize] = entry;
        }
        self.ranks.entry(rank).or_default().insert(place, id);
        if parent.is_none() {
            let holders = self.roots.entry(place).or_default();
            if let Err(at) = holders.binary_search(&rank) {
                holders.insert(at, rank);
            }
        }
        id
    }

    fn cancel(&mut self, id: u32) {
        self.wheel.cancel(id, self.entries[id as usize].slot);
    }

    /// Takes a block out of the tables. It is in no list any more.
    fn forget(&mut self, id: u32) {
        let Entry { rank, place, parent, .. } = self.entries[id as usize];
        self.free.push(id);
        if let Some(places) = self.ranks.get_mut(&rank) {
            places.remove(&place);
            shrink_if_sparse(places);
            if places.is_empty() {
                self.ranks.remove(&rank);
            }
        }
        if parent.is_none()
            && let Some(holders) = self.roots.get_mut(&place)
        {
            if let Ok(at) = holders.binary_search(&rank) {
                holders.remove(at);
            }
            if holders.is_empty() {
                self.roots.remove(&place);
                shrink_if_sparse(&mut self.roots);
            }
        }
    }

    fn release_if_empty(&mut self) {
        if self.len() == 0 {
            self.entries = Vec::new();
            self.free = Vec::new();
            self.age_links.release();
            self.wheel.release();
            self.path = Vec::new();
            self.drained = Vec::new();
        }
    }
}

#[cfg(test)]
impl Store {
    /// Checks the invariants.
    #[track_caller]
    pub(super) fn check(&self) {
        let by_age = self.age_links.iter(&self.by_age).collect::<Vec<_>>();
        assert_eq!(by_age.len(), self.len(), "every block has an age");
        let age: BTreeMap<u32, usize> = by_age.iter().enumerate().map(|(age, &id)| (id, age)).collect();
        let mut roots = 0;
        for &id in &by_age {
            let entry = self.entries[id as usize];
            assert_eq!(self.find(entry.rank, entry.place), Some(id));
            assert!(entry.deadline > self.wheel.now(), "what is due is gone");
            match entry.parent {
                Some(parent) => {
                    assert!(age[&id] < age[&parent], "a child is older than its parent");
                    assert!(entry.deadline <= self.entries[parent as usize].deadline);
                    assert_eq!(entry.rank, self.entries[parent as usize].rank);
                }
                None => {
                    roots += 1;
                    assert!(self.holders(entry.place).contains(&entry.rank));
                }
            }
        }
        assert_eq!(self.roots.values().map(Vec::len).sum::<usize>(), roots);
        assert_eq!(self.ranks.values().map(FxHashMap::len).sum::<usize>(), self.len());
        assert!(self.ranks.values().all(|places| !places.is_empty()));
    }

    /// Entries that there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity() + self.free.capacity() + self.roots.capacity()
    }
}
