//! Lookups: no lock, no store to shared memory, no allocation once warm.
//!
//! A lookup walks the pages of the request, then checks that none of them has changed in a way that matters (see
//! [`page`](super::page)): then every hold that it saw in a page before the last was still there when it saw the last,
//! and no sum of holds is above what the rank held at that moment. When something changed it starts again.

use kv_router_types::{LocalBlockHash, Tier};

use super::holders;
use super::lines::{LINE, Line};
use super::page::State;
use super::shared::Shared;
use super::sizes::{ATTEMPTS, SLOT_BITS};
use super::slots::Slot;
use super::words::ROOT;
use crate::sync::atomic::{Ordering, fence};
use crate::{Certainty, FindOptions, Overlap, Overlaps};

/// Buffers of a lookup, kept in its answer.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The pages of the request: number, state when first seen, blocks in common.
    path: Vec<Step>,
    /// Slots that hold every block so far, a bit each.
    live: Vec<u64>,
    next: Vec<u64>,
    /// Reach and slot of those that drop out inside the page.
    partial: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Step {
    page: u32,
    state: State,
    blocks: u32,
}

impl Shared {
    pub(super) fn find(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        let mut scratch = out.paged.take().unwrap_or_default();
        if !(0..ATTEMPTS).any(|_| self.attempt(query, options, out, &mut scratch)) {
            self.find_locked(query, options, out, &mut scratch);
        }
        out.paged = Some(scratch);
    }

    /// The last resort, so that a lookup ends: keeps writers out of the pages of the request. Writers hold a page for
    /// well under a microsecond.
    #[cold]
    fn find_locked(
        &self,
        query: &[LocalBlockHash],
        options: FindOptions,
        out: &mut Overlaps,
        scratch: &mut Scratch,
    ) {
        loop {
            let mut locked = Vec::new();
            let (mut parent, mut offset, mut rest) = (ROOT, 0, query);
            while let Some(first) = rest.first() {
                let Some((page, ..)) = self.pages.child(parent, offset, first.get()) else { break };
                let page = self.pages.headers.lock(page);
                if !page.is_alive() || !page.shape().hangs_at(parent, offset) {
                    break;
                }
                let blocks = common(self.pages.lines.at(page.content().extent()), page.shape().len(), rest);
                (parent, offset, rest) = (page.page(), blocks, &rest[blocks..]);
                locked.push(page);
            }
            if self.attempt(query, options, out, scratch) {
                return;
            }
        }
    }

    /// Whether the answer is good.
    fn attempt(
        &self,
        query: &[LocalBlockHash],
        options: FindOptions,
        out: &mut Overlaps,
        scratch: &mut Scratch,
    ) -> bool {
        out.begin(query.len(), Certainty::Exact);
        scratch.path.clear();
        let pages = &self.pages;
        let (mut parent, mut offset, mut depth) = (ROOT, 0, 0);
        let mut alone = false;
        while let Some(first) = query.get(depth) {
            let Some((page, header, state)) = pages.child(parent, offset, first.get()) else { break };
            let shape = header.shape();
            let lines = pages.lines.at(header.content().extent());
            let blocks = common(lines, shape.len(), &query[depth..]);
            if shape.len() == 0 {
                // Nobody holds any of it, and its last writer is about to free it.
                break;
            }
            if blocks == 0 {
                // The page begins as the request goes on, so its content is somebody else's by now.
                return false;
            }
            scratch.path.push(Step { page, state, blocks: blocks as u32 });
            let deepest = if depth == 0 {
                self.first_page(header, blocks, scratch)
            } else {
                self.further_page(header, blocks, scratch)
            };
            if deepest > shape.len() {
                // The page has grown since we compared: who holds more than we saw may never have held just that.
                return false;
            }
            // Whatever is looked at from here on is at least as new as what the holders showed: what hangs behind the
            // page, what comes next in it, and whose slots these are.
            fence(Ordering::Acquire);
            if depth > 0 {
                self.report_all(&scratch.next, depth, out, &scratch.path);
            }
            self.report_partial(depth, out, scratch);
            depth += blocks;
            if scratch.live.iter().all(|&word| word == 0) {
                break;
            }
            if depth == query.len() || !header.may_continue_at(blocks) {
                break;
            }
            if options.early_exit && is_single(&scratch.live) {
                alone = true;
                break;
            }
            (parent, offset) = (page, blocks);
        }
        if !scratch.path.is_empty() && self.report_all(&scratch.live, depth, out, &scratch.path) && alone {
            out.mark_lower_bound();
        }

        fence(Ordering::Acquire);
        scratch.path.iter().all(|step| pages.headers.at(step.page).state() == step.state)
    }

    /// Splits the holders of the first page in those that hold all the common blocks and those that hold less. Gives
    /// the deepest reach.
    #[inline]
    fn first_page(&self, header: &super::page::Header, blocks: usize, scratch: &mut Scratch) -> usize {
        let Scratch { live, partial, .. } = scratch;
        let mut deepest = 0;
        live.clear();
        live.resize(self.slots.high().div_ceil(SLOT_BITS), 0);
        partial.clear();
        holders::for_each(&self.pages.lines, header, |entry| {
            let (slot, reach) = (entry.slot() as usize, entry.reach());
            deepest = deepest.max(reach);
            if reach >= blocks {
                if let Some(word) = live.get_mut(slot / SLOT_BITS) {
                    *word |= 1 << (slot % SLOT_BITS);
                }
            } else if reach > 0 {
                partial.push((reach as u64) << 32 | slot as u64);
            }
        });
        deepest
    }

    /// The same for a further page, among those that hold everything before it. Who holds nothing of it is left in
    /// `next`.
    #[inline]
    fn further_page(&self, header: &super::page::Header, blocks: usize, scratch: &mut Scratch) -> usize {
        let Scratch { live, next, partial, .. } = scratch;
        let mut deepest = 0;
        next.clear();
        next.resize(live.len(), 0);
        partial.clear();
        holders::for_each(&self.pages.lines, header, |entry| {
            let (slot, reach) = (entry.slot() as usize, entry.reach());
            let bit = 1 << (slot % SLOT_BITS);
            let Some(word) = live.get_mut(slot / SLOT_BITS).filter(|word| **word & bit != 0 && reach > 0)
            else {
                return;
            };
            *word &= !bit;
            deepest = deepest.max(reach);
            if reach >= blocks {
                next[slot / SLOT_BITS] |= bit;
            } else {
                partial.push((reach as u64) << 32 | slot as u64);
            }
        });
        std::mem::swap(live, next);
        deepest
    }

    /// Reports those that drop out inside the page that begins at `depth`, shallowest first.
    #[inline]
    fn report_partial(&self, depth: usize, out: &mut Overlaps, scratch: &mut Scratch) {
        let Scratch { partial, path, .. } = scratch;
        if !partial.is_sorted_by_key(|&rank| rank >> 32) {
            partial.sort_unstable_by_key(|&rank| rank >> 32);
        }
        for &rank in partial.iter() {
            let (reach, slot) = ((rank >> 32) as usize, rank as u32);
            if let Some(slots) = self.slots.word(slot as usize / SLOT_BITS) {
                self.report(&slots[slot as usize % SLOT_BITS], slot, depth + reach, out, path);
            }
        }
    }

    /// Reports all slots of a set; whether any was alive.
    #[inline]
    fn report_all(&self, set: &[u64], blocks: usize, out: &mut Overlaps, path: &[Step]) -> bool {
        let mut any = false;
        for (index, &word) in set.iter().enumerate() {
            let mut rest = word;
            let Some(slots) = self.slots.word(index).filter(|_| rest != 0) else { continue };
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                any |= self.report(&slots[bit], (index * SLOT_BITS + bit) as u32, blocks, out, path);
                rest &= rest - 1;
            }
        }
        any
    }

    /// Adds a rank to the answer, unless its slot was retired.
    #[inline]
    fn report(&self, info: &Slot, slot: u32, blocks: usize, out: &mut Overlaps, path: &[Step]) -> bool {
        let Some(rank) = info.rank() else { return false };
        let overlap = if self.pages.tiers.is_unused() {
            Overlap::on_device(rank, blocks as u32)
        } else {
            Overlap::new(rank, self.by_tier(slot, blocks, path))
        };
        out.push(overlap);
        true
    }

    /// Where the copies of the first `blocks` blocks are: goes over the path again.
    #[cold]
    fn by_tier(&self, slot: u32, blocks: usize, path: &[Step]) -> [u32; Tier::COUNT] {
        let (mut by_tier, mut rest) = ([blocks as u32, 0, 0, 0], blocks);
        for step in path {
            let here = rest.min(step.blocks as usize);
            let mut lower = [0; super::tiers::LOWER];
            holders::for_each(&self.pages.lines, self.pages.headers.at(step.page), |entry| {
                if !entry.is_none() && entry.slot() == slot {
                    lower = self.pages.tiers.count(entry.tiers(), here);
                }
            });
            for (tier, count) in lower.into_iter().enumerate() {
                // What a page says while it is being changed need not add up; the answer is thrown away then.
                let count = count.min(by_tier[0]);
                by_tier[tier + 1] += count;
                by_tier[0] -= count;
            }
            rest -= here;
            if rest == 0 {
                break;
            }
        }
        by_tier
    }
}

/// How many leading blocks are the same.
#[inline]
pub(super) fn common(lines: &[Line], len: usize, query: &[LocalBlockHash]) -> usize {
    let len = len.min(query.len());
    let query = &query[..len];
    let (whole, rest) = query.as_chunks::<LINE>();
    for (index, (line, wanted)) in lines.iter().zip(whole).enumerate() {
        let mut differs = 0;
        for (word, wanted) in line.0.iter().zip(wanted) {
            differs |= word.load(Ordering::Relaxed) ^ wanted.get();
        }
        // Opaque, or the compiler makes eight branches of the eight comparisons.
        if std::hint::black_box(differs) != 0 {
            return index * LINE + same(line, wanted);
        }
    }
    let done = whole.len();
    done * LINE + lines.get(done).map_or(0, |line| same(line, rest))
}

#[inline]
fn same(line: &Line, wanted: &[LocalBlockHash]) -> usize {
    let pairs = line.0.iter().zip(wanted);
    pairs.take_while(|(word, wanted)| word.load(Ordering::Relaxed) == wanted.get()).count()
}

fn is_single(words: &[u64]) -> bool {
    let mut used = words.iter().filter(|&&word| word != 0);
    used.next().is_some_and(|word| word.is_power_of_two()) && used.next().is_none()
}
