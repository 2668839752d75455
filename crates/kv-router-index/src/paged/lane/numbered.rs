//! Stores and removals by number: a rank whose blocks have dense numbers needs an array where others have a table.

use std::iter;
use std::ops::Range;

use kv_router_types::{LocalBlockHash, Tier, TierSet};
use rustc_hash::FxHashSet;

use super::calls::{ById, Calls, tail};
use super::tails::Tail;
use super::walk::Job;
use super::{Lane, Named};
use crate::Applied;
use crate::paged::id::{BlockId, BlockRun, IdError};
use crate::paged::names::Place;
use crate::paged::shared::Shared;
use crate::paged::touch::touch;

/// Numbers of a store that are compared with each other one by one.
const FEW_RUNS: usize = 8;

impl Lane {
    /// Stores blocks by number, or nothing at all.
    #[inline(never)]
    pub(in crate::paged) fn store_numbered(
        &mut self,
        shared: &Shared,
        tier: Tier,
        parent: Option<BlockId>,
        runs: &[BlockRun],
        locals: &[LocalBlockHash],
    ) -> Result<Applied, IdError> {
        if let Some(parent) = parent {
            // Each of the locks below waits for whatever is on its way from memory: ask for all of it before the first.
            self.touch(shared, self.tails.guess(tail(parent)));
        }
        check_runs(parent, runs, locals, shared.config.max_ids_per_rank)?;
        let parent = match parent {
            None => None,
            Some(parent) => {
                let place = self.named(u64::from(parent.get())).map(Named::place);
                Some(place.ok_or(IdError::UnknownParent { parent })?)
            }
        };
        let known = self.known(runs);
        let len = self.len() + locals.len() - known;
        self.check_limits(shared, parent, locals, known, len)?;
        let slot = self.take_slot(shared, locals.is_empty())?;
        let calls = ById(runs);
        let mut applied = Applied::default();
        if known > 0 {
            applied.moved = self.release_moved(shared, parent, &calls, locals);
        }
        let is_simple = known == 0 && tier == Tier::Device;
        let job = Job { pages: &shared.pages, slot, tier, blocks: locals, calls, is_simple };
        self.walk(&job, parent, &mut applied);
        self.copies += applied.stored;
        applied.stored -= applied.moved;
        Ok(applied)
    }

    /// How many of these numbers are in use.
    #[inline]
    fn known(&self, runs: &[BlockRun]) -> usize {
        let Some(ids) = &self.ids else { return 0 };
        let first: usize = runs.iter().map(|&run| ids.used(run)).sum();
        if self.twins.is_empty() {
            return first;
        }
        first + ById(runs).names().filter(|&name| self.twins.get(name).is_some()).count()
    }

    /// Removes copies by number.
    #[inline(never)]
    pub(in crate::paged) fn remove_numbered(
        &mut self,
        shared: &Shared,
        tier: Tier,
        runs: &[BlockRun],
    ) -> Applied {
        self.touch(shared, self.last_removed);
        let limit = shared.config.max_ids_per_rank as u64;
        let (mut removed, mut all) = (0, 0);
        for run in runs {
            all += u64::from(run.len());
            // Above the limit nothing is held, however much a run claims.
            let end = run.end().min(limit);
            let (mut at, mut left) =
                (run.first().get(), end.saturating_sub(u64::from(run.first().get())) as usize);
            while left > 0 {
                let (count, gone) = self.remove_stretch(shared, tier, at, left);
                removed += gone;
                left -= count;
                at += count as u32;
            }
        }
        self.copies -= removed;
        self.flush_all(&shared.pages);
        Applied { removed, unknown: all - removed, ..Applied::default() }
    }

    /// Removes what lies in a row from a number on: how many numbers that were, and how many had a copy there.
    #[inline]
    fn remove_stretch(&mut self, shared: &Shared, tier: Tier, first: u32, most: usize) -> (usize, u64) {
        let Some(ids) = &mut self.ids else { return (most, 0) };
        let Some(place) = ids.get(u64::from(first)) else {
            let (_, count) = ids.stretch(first, most);
            return (count, self.remove_twins(tier, u64::from(first)..u64::from(first) + count as u64));
        };
        let record = &mut self.records[place.record()];
        if tier != Tier::Device || !record.is_plain() || !self.twins.is_empty() {
            return (1, u64::from(self.remove_one(u64::from(first), tier)));
        }
        let (_, count) = ids.stretch(first, most);
        if !record.is_dirty {
            // Needed when this is shown to readers.
            touch(|| shared.pages.headers.at(record.page).holders());
            self.last_removed = Tail { place, page: record.page, line: 0 };
        }
        ids.free_run(first, count);
        record.give_up(place.offset(), count);
        self.mark(place.record());
        (count, count as u64)
    }

    /// Removes the copies of second names among numbers that are no first names: how many had one. A run may claim more
    /// numbers than there are.
    #[inline]
    fn remove_twins(&mut self, tier: Tier, among: Range<u64>) -> u64 {
        if self.twins.is_empty() {
            return 0;
        }
        let names: Vec<u64> = if among.end - among.start > self.twins.len() as u64 {
            self.twins.iter().map(|(name, ..)| name).filter(|name| among.contains(name)).collect()
        } else {
            among.collect()
        };
        names.into_iter().map(|name| u64::from(self.remove_one(name, tier))).sum()
    }

    /// Numbers a block that was not held: the copy is new.
    pub(super) fn number_first(&mut self, place: Place, name: u64, tier: Tier) -> bool {
        self.records[place.record()].set_tiers(place.offset(), TierSet::only(tier));
        self.call(name, place);
        true
    }

    /// Numbers a block that was held. Whether the copy is new.
    pub(super) fn number_again(&mut self, place: Place, name: u64, tier: Tier) -> bool {
        if self.find(name) == Some(place) {
            let record = &mut self.records[place.record()];
            let tiers = record.tiers(place.offset());
            record.set_tiers(place.offset(), tiers.with(tier));
            return !tiers.contains(tier);
        }
        self.add_twin(name, place, tier)
    }
}

/// What the store alone decides.
#[inline]
fn check_runs(
    parent: Option<BlockId>,
    runs: &[BlockRun],
    locals: &[LocalBlockHash],
    limit: usize,
) -> Result<(), IdError> {
    let ids = runs.iter().map(|run| u64::from(run.len())).sum();
    if ids != locals.len() as u64 {
        return Err(IdError::Length { ids, locals: locals.len() });
    }
    if let Some(run) = runs.iter().find(|run| !run.is_empty() && run.end() > limit as u64) {
        let first = run.first().get().max(u32::try_from(limit).unwrap_or(u32::MAX));
        return Err(IdError::OutOfRange { id: BlockId::new(first), limit });
    }
    let is_own_parent = parent.is_some_and(|parent| runs.iter().any(|run| run.contains(parent)));
    if is_own_parent || overlap(runs) {
        let mut seen = FxHashSet::from_iter(parent);
        if let Some(id) = runs.iter().flat_map(|run| run.ids()).find(|&id| !seen.insert(id)) {
            return Err(IdError::Repeated { id });
        }
    }
    Ok(())
}

/// Whether a number is in two of the runs.
fn overlap(runs: &[BlockRun]) -> bool {
    let meet = |one: &BlockRun, other: &BlockRun| {
        u64::from(one.first().get()) < other.end() && u64::from(other.first().get()) < one.end()
    };
    let runs = runs.iter().filter(|run| !run.is_empty());
    if runs.clone().nth(FEW_RUNS).is_none() {
        let mut rest = runs;
        return iter::from_fn(|| rest.next().map(|run| (run, rest.clone())))
            .any(|(run, mut rest)| rest.any(|other| meet(run, other)));
    }
    let mut sorted: Vec<&BlockRun> = runs.collect();
    sorted.sort_unstable_by_key(|run| run.first());
    sorted.windows(2).any(|pair| meet(pair[0], pair[1]))
}
