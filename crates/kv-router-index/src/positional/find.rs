//! The lookup: jumps, and what makes them exact.

use std::mem;

use kv_router_types::{LocalBlockHash, SequenceHash, Tier};

use super::cell::Watch;
use super::entries::{Entries, Entry, Key};
use super::exceptions::Buckets;
use super::fleet::Cells;
use super::rolling::Rolling;
use crate::candidates::Candidates;
use crate::holders::Holders;
use crate::{Overlap, Overlaps};

/// Buffers of a lookup, kept in [`Overlaps`] so that a lookup allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// By slot; means something for candidates.
    watches: Vec<Watch>,
    pub(super) hashes: Vec<SequenceHash>,
    /// Ranks that have just left, with their blocks by tier.
    left: Vec<(u32, [u32; Tier::COUNT])>,
    reached: Vec<Overlap>,
    /// Slots of ranks that shrank meanwhile.
    unsettled: Vec<u32>,
}

/// What a look at the far end of a jump shows.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Some candidate is not there.
    NotAll,
    /// All are there.
    All,
    /// All are at the one prefix that stands there, if that is the one of the query.
    AllIf(SequenceHash),
    /// Several prefixes stand there.
    Ambiguous,
}

/// What a lookup reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) entries: &'a Entries,
    pub(super) cells: &'a Cells,
    /// Blocks to jump over at most; not 0.
    pub(super) jump: u32,
}

/// One lookup.
///
/// Between steps every candidate holds all blocks up to the present position, and has been watched since
/// before the first of them was looked at.
pub(super) struct Lookup<'a> {
    index: Reader<'a>,
    query: &'a [LocalBlockHash],
    rolling: Rolling<'a>,
    candidates: &'a mut Candidates,
    watches: &'a mut Vec<Watch>,
    left: &'a mut Vec<(u32, [u32; Tier::COUNT])>,
    reached: &'a mut Vec<Overlap>,
    unsettled: &'a mut Vec<u32>,
    /// At least the exceptions of all candidates.
    exceptions: Buckets,
    /// Whether some have left since the exceptions were collected.
    may_have_fewer: bool,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(
        index: Reader<'a>,
        query: &'a [LocalBlockHash],
        candidates: &'a mut Candidates,
        buffers: &'a mut Buffers,
    ) -> Self {
        let Buffers { watches, hashes, left, reached, unsettled } = buffers;
        reached.clear();
        unsettled.clear();
        // Positions are 32 bits wide, and so are depths.
        let query = &query[..query.len().min(u32::MAX as usize)];
        Self {
            index,
            query,
            rolling: Rolling::new(query, hashes),
            candidates,
            watches,
            left,
            reached,
            unsettled,
            exceptions: Buckets::default(),
            may_have_fewer: false,
        }
    }

    /// Fills `out`, which has begun.
    pub(super) fn run(mut self, early_exit: bool, out: &mut Overlaps) {
        if self.query.is_empty() {
            return;
        }
        self.begin();
        if let Some(at) = self.walk(0, early_exit) {
            // The score of the last one is too low, which is right only as long as it is above all others.
            if self.unsettled.is_empty() {
                self.finish(at);
                if self.unsettled.is_empty() {
                    out.mark_lower_bound();
                }
            } else {
                self.walk(at, false);
            }
        }
        if !self.unsettled.is_empty() {
            self.settle();
            self.reached.sort_by_key(|overlap| overlap.blocks());
        }
        self.reached.drain(..).for_each(|overlap| out.push(overlap));
    }

    /// Watches the holders of the first block, then looks who of them still holds it.
    fn begin(&mut self) {
        let (key, sequence) = (self.key(0), self.rolling.at(0));
        let candidates = &mut *self.candidates;
        self.index.entries.read(key, |entry| {
            candidates.gather(entry.and_then(|entry| entry.holders(sequence)).unwrap_or(&Holders::NONE));
        });
        self.exceptions = Buckets::default();
        candidates.retain(|slot| {
            // Without a cell it came after this lookup, which need not know it.
            let Some(cell) = self.index.cells.get(slot) else { return false };
            let Some(watch) = cell.watch() else {
                self.unsettled.push(slot);
                return false;
            };
            remember(self.watches, slot, watch);
            self.exceptions = self.exceptions.union(watch.exceptions);
            true
        });
        self.narrow_at_first();
    }

    fn narrow_at_first(&mut self) {
        if self.candidates.is_empty() {
            return;
        }
        let (key, sequence) = (self.key(0), self.rolling.at(0));
        let (candidates, none) = (&mut *self.candidates, Holders::NONE);
        self.index.entries.read(key, |entry| {
            let holders = entry.and_then(|entry| entry.holders(sequence)).unwrap_or(&none);
            candidates.narrow(holders, 0, |_, _| ());
        });
    }

    /// Goes on from a position that all candidates hold, until none is left or the query ends. With
    /// `early_exit` stops at a single candidate, which is left in, and tells the position.
    fn walk(&mut self, mut at: u32, early_exit: bool) -> Option<u32> {
        // Within `u32`: see `new`.
        let last = self.query.len() as u32 - 1;
        let mut stride = self.index.jump;
        while at < last && !self.candidates.is_empty() {
            if early_exit && self.candidates.is_single() {
                return Some(at);
            }
            let to = at.saturating_add(stride).min(last);
            let Some(to) = self.plain_until(at + 1, to) else {
                at += 1;
                self.step(at);
                continue;
            };
            if self.all_hold(to) {
                at = to;
                stride = stride.saturating_mul(2).min(self.index.jump);
            } else {
                // Where ranks leave one soon after another, short jumps keep this as cheap as single steps.
                let leave = self.first_that_not_all_hold(at, to);
                stride = (leave - at).saturating_mul(2).min(self.index.jump);
                at = leave;
                self.step(at);
            }
        }
        self.finish(at);
        None
    }

    /// How far candidates have no exception, if they have none at `from`.
    fn plain_until(&mut self, from: u32, to: u32) -> Option<u32> {
        let plain = self.exceptions.plain_until(from, to);
        if plain == Some(to) || !mem::take(&mut self.may_have_fewer) {
            return plain;
        }
        let watches = &*self.watches;
        self.exceptions = self
            .candidates
            .slots()
            .fold(Buckets::default(), |all, slot| all.union(watches[slot as usize].exceptions));
        self.exceptions.plain_until(from, to)
    }

    /// Whether every candidate holds the block at `position`. Hashes the query only if it may be so.
    fn all_hold(&mut self, position: u32) -> bool {
        let key = self.key(position);
        loop {
            let known = self.rolling.known(position);
            let candidates = &*self.candidates;
            let look = |holders: &Holders, seen| if candidates.all_in(holders) { seen } else { Seen::NotAll };
            let seen = self.index.entries.read(key, |entry| match (entry, known) {
                (None, _) => Seen::NotAll,
                (Some(entry), Some(sequence)) => {
                    entry.holders(sequence).map_or(Seen::NotAll, |holders| look(holders, Seen::All))
                }
                (Some(Entry::Single(sequence, holders)), None) => look(holders, Seen::AllIf(*sequence)),
                (Some(Entry::Multi(_)), None) => Seen::Ambiguous,
            });
            match seen {
                Seen::NotAll => return false,
                Seen::All => return true,
                Seen::AllIf(sequence) => return sequence == self.rolling.at(position),
                Seen::Ambiguous => {
                    self.rolling.at(position);
                }
            }
        }
    }

    /// The first position after `at` that not all candidates hold, when they do not all hold `to` and none
    /// has an exception between: then whoever holds a block there holds all before it, and halving finds it.
    fn first_that_not_all_hold(&mut self, at: u32, to: u32) -> u32 {
        let (mut all, mut not_all) = (at, to);
        while not_all - all > 1 {
            let middle = all + (not_all - all) / 2;
            if self.all_hold(middle) {
                all = middle;
            } else {
                not_all = middle;
            }
        }
        not_all
    }

    /// Looks at one block, the next or one to which all candidates hold everything.
    fn step(&mut self, position: u32) {
        let (key, sequence) = (self.key(position), self.rolling.at(position));
        let (candidates, left, none) = (&mut *self.candidates, &mut *self.left, Holders::NONE);
        self.index.entries.read(key, |entry| {
            let holders = entry.and_then(|entry| entry.holders(sequence)).unwrap_or(&none);
            candidates.narrow(holders, position, |slot, by_tier| left.push((slot, by_tier)));
        });
        self.settle_left();
    }

    /// All candidates leave with everything up to `at`.
    fn finish(&mut self, at: u32) {
        let left = &mut *self.left;
        self.candidates.finish(at + 1, |slot, by_tier| left.push((slot, by_tier)));
        self.settle_left();
    }

    fn settle_left(&mut self) {
        self.may_have_fewer |= !self.left.is_empty();
        for (slot, by_tier) in self.left.drain(..) {
            let Some(cell) = self.index.cells.get(slot) else { continue };
            let overlap = Overlap::new(cell.id(), by_tier);
            if cell.confirm(self.watches[slot as usize]) {
                self.reached.push(overlap);
            } else {
                self.unsettled.push(slot);
            }
        }
    }

    /// Looks again at the ranks that shrank meanwhile, one by one, while each stands still.
    fn settle(&mut self) {
        while let Some(slot) = self.unsettled.pop() {
            let Some(cell) = self.index.cells.get(slot) else { continue };
            let _still = cell.stand_still();
            // Nobody sits there any more.
            let Some(watch) = cell.watch() else { continue };
            // A rank that left, came back and got the place of another has its score from where it was
            // before.
            if self.reached.iter().any(|overlap| overlap.worker() == cell.id()) {
                continue;
            }
            remember(self.watches, slot, watch);
            self.exceptions = watch.exceptions;
            self.candidates.only(slot);
            self.narrow_at_first();
            if !self.candidates.is_empty() {
                self.walk(0, false);
            }
        }
    }

    fn key(&self, position: u32) -> Key {
        Key { position, local: self.query[position as usize] }
    }
}

fn remember(watches: &mut Vec<Watch>, slot: u32, watch: Watch) {
    let slot = slot as usize;
    if slot >= watches.len() {
        watches.resize(slot + 1, Watch::default());
    }
    watches[slot] = watch;
}
