//! Lookups: no lock, no store to shared memory, no allocation once warm.
//!
//! A lookup walks the pages of the request, then checks that none of them has changed in a way that matters (see
//! [`page`](super::page)): then every hold that it saw in a page before the last was still there when it saw the last,
//! and no sum of holds is above what the rank held at that moment. When something changed it starts again.

use kv_router_types::Tier;

use super::holders;
use super::locals::{Locals, Query};
use super::page::State;
use super::ranks::Ranks;
use super::shared::Shared;
use super::sizes::ATTEMPTS;
use super::words::ROOT;
use crate::overlaps::Sets;
use crate::rank_set::Word;
use crate::sync::atomic::{Ordering, fence};
use crate::{Certainty, FindOptions, Overlap, Overlaps};

/// Buffers of a lookup, kept in its answer.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The pages of the request: number, state when first seen, blocks in common.
    path: Vec<Step>,
    ranks: Ranks,
}

#[derive(Clone, Copy)]
struct Step {
    page: u32,
    state: State,
    blocks: u32,
}

impl Shared {
    pub(super) fn find(&self, query: Query<'_>, options: FindOptions, out: &mut Overlaps) {
        let mut scratch = out.paged.take().unwrap_or_default();
        if !(0..ATTEMPTS).any(|_| self.attempt(query, options, out, &mut scratch)) {
            self.find_locked(query, options, out, &mut scratch);
        }
        out.paged = Some(scratch);
    }

    /// The last resort, so that a lookup ends: keeps writers out of the pages of the request. Writers hold a page for
    /// well under a microsecond.
    #[cold]
    fn find_locked(&self, query: Query<'_>, options: FindOptions, out: &mut Overlaps, scratch: &mut Scratch) {
        loop {
            let mut locked = Vec::new();
            let (mut parent, mut offset, mut rest) = (ROOT, 0, query);
            while let Some(first) = rest.locals.first() {
                let Some((page, ..)) = self.pages.child(parent, offset, first.get()) else { break };
                let page = self.pages.headers.lock(page);
                if !page.is_alive() || !page.shape().hangs_at(parent, offset) {
                    break;
                }
                let blocks =
                    Locals::of(&self.pages.lines, &page).common(page.shape().len(), rest, &self.pages.keys);
                (parent, offset, rest) = (page.page(), blocks, rest.behind(blocks));
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
        query: Query<'_>,
        options: FindOptions,
        out: &mut Overlaps,
        scratch: &mut Scratch,
    ) -> bool {
        out.begin(query.locals.len(), Certainty::Exact);
        let pages = &self.pages;
        let child = |parent, offset, depth: usize| {
            let first = query.locals.get(depth)?;
            pages.child(parent, offset, first.get())
        };
        let Some(mut next) = child(ROOT, 0, 0) else {
            // Nobody holds the first block: most requests of some kinds, and there is nothing to check.
            return true;
        };
        scratch.path.clear();
        scratch.ranks.begin(self.slots.high());
        let mut depth = 0;
        let mut alone = false;
        loop {
            let (page, header, state) = next;
            let shape = header.shape();
            let blocks =
                Locals::of(&pages.lines, header).common(shape.len(), query.behind(depth), &pages.keys);
            if shape.len() == 0 {
                // Nobody holds any of it, and its last writer is about to free it.
                break;
            }
            if blocks == 0 {
                // The page begins as the request goes on, so its content is somebody else's by now.
                return false;
            }
            scratch.path.push(Step { page, state, blocks: blocks as u32 });
            if let Some(next) = query.locals.get(depth + blocks) {
                // Whether anything hangs there is asked after the holders; it is far away.
                pages.touch_child(header, page, blocks, next.get());
            }
            let deepest = scratch.ranks.enter(&pages.lines, header, blocks);
            if deepest > shape.len() {
                // The page has grown since we compared: who holds more than we saw may never have held just that.
                return false;
            }
            // Whatever is looked at from here on is at least as new as what the holders showed: what hangs behind the
            // page, what comes next in it, and whose slots these are.
            fence(Ordering::Acquire);
            let sets = &mut out.sets;
            if depth > 0 {
                push_all(sets, scratch.ranks.gone(), depth);
            }
            for (slot, reach) in scratch.ranks.partial() {
                sets.push(Word::of(slot), (depth + reach) as u32);
            }
            depth += blocks;
            if scratch.ranks.is_empty() || depth == query.locals.len() || !header.may_continue_at(blocks) {
                break;
            }
            if options.early_exit && scratch.ranks.is_single() {
                alone = true;
                break;
            }
            match child(page, blocks, depth) {
                Some(child) => next = child,
                None => break,
            }
        }
        if depth > 0 {
            push_all(&mut out.sets, scratch.ranks.full(), depth);
        }
        if !self.settle(alone, out, &scratch.path) {
            return false;
        }
        fence(Ordering::Acquire);
        scratch.path.iter().all(|step| pages.headers.at(step.page).state() == step.state)
    }

    /// Finds out whom the slots of an answer stand for, and where their copies are. False when that is not to be told.
    ///
    /// What each slot stands for may be read one after the other while ranks come and go. None of those in the answer
    /// comes to stand for another without a change of a page on the path; and who sees a cleared rank in its new slot
    /// sees that the old one is retired. A copy that mixes two editions is kept under the older, and so not used again.
    fn settle(&self, alone: bool, out: &mut Overlaps, path: &[Step]) -> bool {
        let edition = self.slots.edition();
        if !out.sets.is(edition) {
            out.sets.renumber(edition, self.slots.all());
        }
        if out.sets.settle() && alone {
            out.mark_lower_bound();
        }
        self.pages.tiers.is_unused() || self.tell_tiers(out, path)
    }

    /// Says of each rank where its copies are. False when one has changed since the ranks were found.
    #[cold]
    fn tell_tiers(&self, out: &mut Overlaps, path: &[Step]) -> bool {
        let mut sets = std::mem::take(&mut out.sets);
        let is_same = sets.numbered().all(|(rank, slot, blocks)| {
            let by_tier = self.by_tier(slot, blocks as usize, path);
            by_tier.map(|by_tier| out.push(Overlap::new(rank, by_tier))).is_some()
        });
        sets.clear();
        out.sets = sets;
        is_same
    }

    /// Where the copies of the first `blocks` blocks are: goes over the path again. `None` if the rank holds more or less
    /// of it by now: a credit belongs to the reach that was seen with it.
    #[cold]
    fn by_tier(&self, slot: u32, blocks: usize, path: &[Step]) -> Option<[u32; Tier::COUNT]> {
        let (mut by_tier, mut rest) = ([blocks as u32, 0, 0, 0], blocks);
        for step in path {
            let here = rest.min(step.blocks as usize);
            let mut found = None;
            holders::for_each_word(&self.pages.lines, self.pages.headers.at(step.page), |holding| {
                found = found.or_else(|| holding.entry_of(slot));
            });
            let entry = found.filter(|entry| entry.reach().min(step.blocks as usize) == here)?;
            let lower = self.pages.tiers.count(entry.tiers(), here);
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
        Some(by_tier)
    }
}

/// Adds a set of slots to an answer.
#[inline]
fn push_all(sets: &mut Sets, slots: &[u64], blocks: usize) {
    for (index, &bits) in (0..).zip(slots) {
        if bits != 0 {
            sets.push(Word { index, bits }, blocks as u32);
        }
    }
}
