//! Does to an index and to the oracle what a history says, and compares them.

use std::collections::{BTreeMap, BTreeSet};

use kv_router_hash::KeyedHashes;
use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, TierSet, WorkerRank};

use super::coverage::Coverage;
use super::history::{History, Op};
use super::mismatch::{Mismatch, What};
use super::rng::Rng;
use super::suite::Subject;
use super::world::{Step, World};
use crate::{Applied, ApplyError, ApplyEvents, DumpEvents, FindOptions, Inspect, Occupancy, Oracle};
use crate::{Overlap, Overlaps, PrefixIndex};

/// Whether [`Occupancy::nodes`] is compared too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeCount {
    /// An index may count its structure as it likes; it must come to nothing in the end.
    Free,
    /// One node for each place that somebody holds or that leads to one.
    OnePerPlace,
}

/// Runs a whole history.
pub(super) fn check<I: Subject>(
    new: impl Fn() -> I,
    nodes: NodeCount,
    history: &History,
) -> Result<Coverage, Mismatch> {
    let mut driver = Driver {
        index: new(),
        nodes,
        world: World::new(history.ranks, history.seed),
        coverage: Coverage::default(),
        out: Overlaps::new(),
    };
    for (after_ops, op) in history.ops.iter().enumerate() {
        driver.op(after_ops, op).map_err(|what| Mismatch { after_ops, what })?;
    }
    driver.finish(&new, history.seed).map_err(|what| Mismatch { after_ops: history.ops.len(), what })?;
    Ok(driver.coverage)
}

pub(super) struct Driver<I> {
    index: I,
    nodes: NodeCount,
    pub(super) world: World,
    pub(super) coverage: Coverage,
    /// Reused, as callers do, so that what one answer leaves behind would show in the next.
    out: Overlaps,
}

impl<I: Subject> Driver<I> {
    fn op(&mut self, number: usize, op: &Op) -> Result<(), Box<What>> {
        for step in self.world.steps(op) {
            self.step(step)?;
        }
        if let Op::Ask { rank, pick, variation } = op {
            let query = self.world.query(*rank, *pick, variation);
            self.ask(&query)?;
        }
        // The end touched last, and one of the others in turn; in large fleets not each time.
        let ends = &self.world.ends;
        if let Some(&latest) = ends.last()
            && (self.world.engines().len() < 20 || number.is_multiple_of(4))
        {
            let other = ends[number % ends.len()];
            for end in [latest, other] {
                self.ask(&self.world.oracle.path_of(end))?;
            }
            self.compare_occupancy()?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), Box<What>> {
        match step {
            Step::Apply(from, event) => {
                let expected = self.apply_to_oracle(from, &event);
                let found = self.index.apply(from, &event);
                if found != expected {
                    return Err(What::Result { from, event: Some(event), expected, found }.into());
                }
            }
            Step::RemoveWorker(worker) => {
                let expected = self.world.oracle.remove_worker(worker);
                let found = self.index.remove_worker(worker);
                if found != expected {
                    let (expected, found) = (Ok(expected), Ok(found));
                    return Err(What::Result { from: worker.into(), event: None, expected, found }.into());
                }
                self.coverage.workers_removed += u32::from(expected.removed > 0);
                let ranks: Vec<_> = self.world.engines().iter().map(|engine| engine.id).collect();
                for id in ranks.into_iter().filter(|id| id.worker == worker) {
                    if let Some(engine) = self.world.engine_mut(id) {
                        engine.left |= expected.removed > 0;
                    }
                }
            }
        }
        Ok(())
    }

    fn apply_to_oracle(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { parent, blocks, .. } => {
                let seen = self.before_store(from, *parent, blocks.iter().map(|b| (b.external, b.local)));
                let result = self.world.oracle.apply(from, event);
                self.after_store(from, &result, seen, blocks.iter().map(|block| block.external));
                result
            }
            KvEvent::Removed { blocks, .. } => {
                let before: Vec<_> = blocks
                    .iter()
                    .filter_map(|&name| Some((name, self.world.oracle.place(from, name)?)))
                    .collect();
                let result = self.world.oracle.apply(from, event);
                self.after_removal(from, &result, before);
                result
            }
            KvEvent::Cleared => {
                let result = self.world.oracle.apply(from, event);
                self.coverage.clears += u32::from(result.is_ok_and(|applied| applied.removed > 0));
                result
            }
        }
    }

    fn finish(&mut self, new: impl Fn() -> I, seed: u64) -> Result<(), Box<What>> {
        self.compare_occupancy()?;
        self.ask(&[])?;
        let queries: Vec<_> = self.world.ends.iter().map(|&end| self.world.oracle.path_of(end)).collect();
        for query in &queries {
            self.ask(query)?;
        }
        self.note_names();
        self.replay_dumps(new, &queries)?;
        self.remove_everything(seed)?;
        for query in &queries {
            self.ask(query)?;
        }
        match self.index.occupancy() {
            found if found == Occupancy::default() => Ok(()),
            found => Err(What::Leftover { found }.into()),
        }
    }

    /// The index's dump into a fresh oracle, which must hold the same then; the oracle's into a fresh index,
    /// and the index's into another, which must answer the same.
    fn replay_dumps(
        &mut self,
        new: impl Fn() -> I,
        queries: &[Vec<LocalBlockHash>],
    ) -> Result<(), Box<What>> {
        let mut oracle = Oracle::new();
        replay(&self.index, &mut oracle)?;
        if state(&oracle) != state(&self.world.oracle) {
            return Err(What::Dump.into());
        }
        self.compare_dumps_of_ranks()?;
        let mut copies = [new(), new()];
        replay(&self.index, &mut copies[0])?;
        replay(&self.world.oracle, &mut copies[1])?;
        for copy in copies {
            let original = std::mem::replace(&mut self.index, copy);
            self.compare_occupancy()?;
            for query in queries {
                self.ask(query)?;
            }
            self.index = original;
        }
        Ok(())
    }

    /// What each rank is dumped as, alone and among all. A rank that holds nothing is dumped as nothing.
    fn compare_dumps_of_ranks(&self) -> Result<(), Box<What>> {
        let mut all: BTreeMap<WorkerRank, Vec<KvEvent>> = BTreeMap::new();
        self.index.dump(&mut |from, event| all.entry(from).or_default().push(event));
        for from in self.world.engines().iter().map(|engine| engine.id).chain(all.keys().copied()) {
            let mut alone = Vec::new();
            self.index.dump_rank(from, &mut |event| alone.push(event));
            if alone != all.get(&from).map_or(&[][..], |events| events) {
                return Err(What::DumpOfRank { from }.into());
            }
        }
        Ok(())
    }

    /// Every copy alone, ranks at once and workers at once, all mixed.
    fn remove_everything(&mut self, seed: u64) -> Result<(), Box<What>> {
        let mut rng = Rng::new(seed);
        let mut steps = Vec::new();
        for id in self.world.oracle.ranks() {
            match rng.below(6) {
                0 => steps.push(Step::Apply(id, KvEvent::Cleared)),
                1 => steps.push(Step::RemoveWorker(id.worker)),
                _ => {
                    let copies = self.world.oracle.names(id);
                    steps.extend(copies.flat_map(|(name, tiers)| {
                        tiers
                            .iter()
                            .map(move |tier| Step::Apply(id, KvEvent::Removed { tier, blocks: vec![name] }))
                    }));
                }
            }
        }
        rng.shuffle(&mut steps);
        steps.into_iter().try_for_each(|step| self.step(step))
    }

    fn compare_occupancy(&self) -> Result<(), Box<What>> {
        let (mut expected, mut found) = (self.world.oracle.occupancy(), self.index.occupancy());
        (expected.side_entries, found.side_entries) = (0, 0);
        if self.nodes == NodeCount::Free {
            (expected.nodes, found.nodes) = (0, 0);
        }
        if expected == found { Ok(()) } else { Err(What::Occupancy { expected, found }.into()) }
    }

    /// Compares a full answer and one with early exit.
    fn ask(&mut self, query: &[LocalBlockHash]) -> Result<(), Box<What>> {
        let oracle = &self.world.oracle;
        let expected = by_rank(&oracle.find(query));
        let out = &mut self.out;
        self.index.find_into(query, FindOptions::new(), out);
        check_form(&self.index, query, out)?;
        let found = by_rank(out);
        if expected != found || out.is_lower_bound() {
            return Err(What::Answer { query: query.to_vec(), expected, found }.into());
        }

        let keyer = self.index.keyer();
        if keyer.is_some() {
            let mut keyed = KeyedHashes::new(keyer);
            keyed.set_locals(query);
            self.index.find_keyed_into(&keyed, FindOptions::new(), out);
            check_form(&self.index, query, out)?;
            let found = by_rank(out);
            if expected != found || out.is_lower_bound() {
                return Err(What::Answer { query: query.to_vec(), expected, found }.into());
            }
        }

        self.index.find_into(query, FindOptions::new().early_exit(), out);
        check_form(&self.index, query, out)?;
        if !may_exit_early(oracle, query, &expected, out) {
            let (found, lower_bound) = (by_rank(out), out.is_lower_bound());
            return Err(What::EarlyExit { query: query.to_vec(), expected, found, lower_bound }.into());
        }
        let lower_bound = out.is_lower_bound();
        self.note_answer(query, &expected, lower_bound);
        Ok(())
    }
}

/// Each rank once, deepest first, and what the answer says about itself.
fn check_form<I: PrefixIndex>(index: &I, query: &[LocalBlockHash], out: &Overlaps) -> Result<(), Box<What>> {
    let ranks: BTreeSet<_> = out.iter().map(Overlap::worker).collect();
    let good = ranks.len() == out.len()
        && out.iter().is_sorted_by(|deeper, other| deeper.blocks() >= other.blocks())
        && out.iter().all(|overlap| overlap.by_tier().iter().sum::<u32>() == overlap.blocks())
        && out.query_blocks() == query.len()
        && out.certainty() == index.certainty();
    if good {
        return Ok(());
    }
    let found = out.iter().collect();
    Err(What::Form { query: query.to_vec(), certainty: index.certainty(), found }.into())
}

/// Every entry is exact, but the deepest may be too low; then it is above all others, and what it credits is
/// exact for the blocks that it counts.
fn may_exit_early(oracle: &Oracle, query: &[LocalBlockHash], expected: &[Overlap], out: &Overlaps) -> bool {
    let found = by_rank(out);
    if !out.is_lower_bound() {
        return found == expected;
    }
    let mut entries = out.iter();
    let Some(deepest) = entries.next() else { return false };
    let rest: Vec<_> = entries.collect();
    let exact: BTreeMap<_, _> = expected.iter().map(|overlap| (overlap.worker(), *overlap)).collect();
    let truth = oracle.find(&query[..query.len().min(deepest.blocks() as usize)]);
    found.len() == expected.len()
        && rest.iter().all(|overlap| {
            exact.get(&overlap.worker()) == Some(overlap) && overlap.blocks() < deepest.blocks()
        })
        && truth.get(deepest.worker()) == Some(deepest)
}

fn by_rank(overlaps: &Overlaps) -> Vec<Overlap> {
    let mut list: Vec<_> = overlaps.iter().collect();
    list.sort_by_key(|overlap| overlap.worker());
    list
}

fn replay(from: &impl DumpEvents, to: &mut impl ApplyEvents) -> Result<(), Box<What>> {
    let mut first_error = None;
    from.dump(&mut |from, event| {
        if let Err(error) = to.apply(from, &event) {
            first_error.get_or_insert(Box::new(What::Replay { from, event, error }));
        }
    });
    first_error.map_or(Ok(()), Err)
}

type State = BTreeMap<(WorkerRank, ExternalSequenceHash), (Option<Vec<LocalBlockHash>>, TierSet)>;

/// All that an oracle holds, whatever numbers it gave to places.
fn state(oracle: &Oracle) -> State {
    let held = oracle.ranks().flat_map(|id| oracle.names(id).map(move |held| (id, held)));
    held.map(|(id, (name, tiers))| ((id, name), (oracle.path(id, name), tiers))).collect()
}
