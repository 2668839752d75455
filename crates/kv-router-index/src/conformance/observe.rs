//! Notes which states a history reaches, and what engines remember of what happened to them.

use std::collections::{BTreeMap, BTreeSet};

use kv_router_types::{ExternalSequenceHash, LocalBlockHash, StoredBlock, Tier, WorkerRank};

use super::coverage::Coverage;
use super::driver::Driver;
use super::engine::Gone;
use super::world::World;
use crate::oracle::Place;
use crate::{Applied, ApplyError, Overlap};

impl<I> Driver<I> {
    /// What the store would reach, seen from the state before it.
    pub(super) fn before_store(
        &self,
        from: WorkerRank,
        parent: Option<ExternalSequenceHash>,
        blocks: impl Iterator<Item = (ExternalSequenceHash, LocalBlockHash)>,
    ) -> Coverage {
        let oracle = &self.world.oracle;
        let mut seen = Coverage::default();
        let mut at = parent.and_then(|parent| oracle.place(from, parent));
        let continued: BTreeSet<Place> =
            oracle.places_of(from).filter_map(|place| oracle.step(place).0).collect();
        for (name, local) in blocks {
            let Some(place) = oracle.child(at, local) else { break };
            let names: Vec<_> = oracle.names_at(from, place).collect();
            if names.is_empty() && continued.contains(&place) {
                seen.holes_filled += 1;
                seen.heads_filled += u32::from(at.is_none());
            }
            seen.twins += u32::from(!names.is_empty() && !names.contains(&name));
            at = Some(place);
        }
        seen
    }

    pub(super) fn after_store(
        &mut self,
        from: WorkerRank,
        result: &Result<Applied, ApplyError>,
        seen: Coverage,
        names: impl Iterator<Item = ExternalSequenceHash>,
    ) {
        let applied = match result {
            Ok(applied) => applied,
            Err(ApplyError::UnknownParent { .. }) => {
                self.coverage.unknown_parents += 1;
                return;
            }
            Err(_) => {
                self.coverage.invalid_sequences += 1;
                return;
            }
        };
        self.coverage += seen;
        self.coverage.moves += applied.moved as u32;
        self.coverage.replays += applied.already_held as u32;
        for name in names {
            let place = self.world.oracle.place(from, name);
            if let (Some(place), Some(engine)) = (place, self.world.engine_mut(from)) {
                engine.called.insert(place, name);
                engine.tip = Some(name);
                self.coverage.workers_returned += u32::from(std::mem::take(&mut engine.left));
                self.world.remember_end(place);
            }
        }
    }

    pub(super) fn after_removal(
        &mut self,
        from: WorkerRank,
        result: &Result<Applied, ApplyError>,
        before: Vec<(ExternalSequenceHash, Place)>,
    ) {
        self.coverage.unknown_removals += result.map_or(0, |applied| applied.unknown as u32);
        for (name, place) in before {
            let oracle = &self.world.oracle;
            if oracle.place(from, name).is_some() {
                self.coverage.demotions += u32::from(result.is_ok_and(|applied| applied.removed > 0));
                continue;
            }
            if oracle.names_at(from, place).next().is_some() {
                self.coverage.twins_outlived += 1;
            } else if oracle.places_of(from).any(|other| oracle.step(other).0 == Some(place)) {
                self.coverage.holes_made += 1;
            }
            let (parent, local) = oracle.step(place);
            if let Some(engine) = self.world.engine_mut(from) {
                let parent = parent.and_then(|parent| engine.called.get(&parent).copied());
                let block = StoredBlock::new(name, local);
                engine.remember_gone(Gone { place, parent, block });
            }
        }
    }

    /// Which names clash and which ranks have holes, in the end.
    pub(super) fn note_names(&mut self) {
        let oracle = &self.world.oracle;
        let (mut place_of, mut name_of) = (BTreeMap::new(), BTreeMap::new());
        for id in oracle.ranks() {
            let mut has_hole = false;
            for (name, _) in oracle.names(id) {
                let Some(place) = oracle.place(id, name) else { continue };
                let before = oracle.step(place).0;
                has_hole |= before.is_some_and(|before| oracle.names_at(id, before).next().is_none());
                self.coverage.names_clashing += u32::from(*place_of.entry(name).or_insert(place) != place);
                self.coverage.names_differing += u32::from(*name_of.entry(place).or_insert(name) != name);
            }
            self.coverage.dumps_with_holes += u32::from(has_hole);
        }
    }

    /// What a right answer is an instance of.
    pub(super) fn note_answer(&mut self, query: &[LocalBlockHash], answer: &[Overlap], lower_bound: bool) {
        let depths: BTreeSet<u32> = answer.iter().map(|overlap| overlap.blocks()).collect();
        self.coverage.uneven_answers += u32::from(depths.len() > 1);
        self.coverage.crowded_answers += u32::from(answer.len() > 64);
        self.coverage.deep_answers += u32::from(depths.last().is_some_and(|&depth| depth >= 64));
        let below_device = |overlap: &Overlap| overlap.credited_at(Tier::Device) < overlap.blocks();
        self.coverage.tiered_answers += u32::from(answer.iter().any(below_device));
        self.coverage.early_exits += u32::from(lower_bound);
        if self.world.engines().len() < 20 {
            self.coverage.swaps += u32::from(has_swap(&self.world, query));
        }
    }
}

/// Whether an index that compares numbers of holders would go wrong along the query.
fn has_swap(world: &World, query: &[LocalBlockHash]) -> bool {
    let mut before: Option<(usize, BTreeSet<WorkerRank>)> = None;
    for len in 1..=query.len().min(12) {
        let holders: BTreeSet<_> =
            world.oracle.ranks().filter(|&id| !world.oracle.tiers_at(id, &query[..len]).is_empty()).collect();
        let here = holders.len();
        let live = match &before {
            None => holders,
            Some((count, live)) => {
                let still = &holders & live;
                if here == *count && still.len() < live.len() {
                    return true;
                }
                still
            }
        };
        before = Some((here, live));
    }
    false
}
