//! Named examples, with the right answers worked out by hand: they check the oracle too.

mod contract;
mod field;

use std::error::Error;
use std::fmt;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::suite::Subject;
use crate::{Applied, ApplyError, FindOptions, Occupancy, Overlap, Overlaps};

/// A script with the results that it must have. Unless it says otherwise, block `n` has content `n`, every
/// worker calls it `n`, and copies are on the device.
#[derive(Clone, Debug)]
pub(super) struct Example {
    name: &'static str,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Apply { from: WorkerRank, event: KvEvent, expected: Result<Applied, ApplyError> },
    RemoveWorker { worker: WorkerId, expected: Applied },
    Ask { query: Vec<u64>, expected: Vec<Overlap> },
    Holds { names: usize, ranks: usize },
    Empty,
}

/// An example that an index gets wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedExample {
    /// Its name.
    pub name: &'static str,
    /// The number of the step, from 0.
    pub step: usize,
    /// What should be, and what is.
    report: String,
}

impl fmt::Display for FailedExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "example \"{}\", step {}: {}", self.name, self.step, self.report)
    }
}

impl Error for FailedExample {}

pub(super) fn check_all<I: Subject>(new: impl Fn() -> I) -> Result<(), FailedExample> {
    let examples = contract::examples().into_iter().chain(field::examples());
    for Example { name, steps } in examples {
        let mut index = new();
        for (number, step) in steps.iter().enumerate() {
            run(&mut index, step).map_err(|report| FailedExample {
                name,
                step: number,
                report: format!("{step:?}: {report}"),
            })?;
        }
    }
    Ok(())
}

fn run(index: &mut impl Subject, step: &Step) -> Result<(), String> {
    match step {
        Step::Apply { from, event, expected } => equal(expected, &index.apply(*from, event)),
        Step::RemoveWorker { worker, expected } => equal(expected, &index.remove_worker(*worker)),
        Step::Ask { query, expected } => {
            let query: Vec<_> = query.iter().copied().map(LocalBlockHash::new).collect();
            let mut out = Overlaps::new();
            index.find_into(&query, FindOptions::new(), &mut out);
            let mut found: Vec<_> = out.iter().collect();
            found.sort_by_key(|overlap| overlap.worker());
            equal(expected, &found)
        }
        Step::Holds { names, ranks } => {
            let found = index.occupancy();
            equal(&(*names, *ranks), &(found.names, found.ranks))
        }
        Step::Empty => equal(&Occupancy::default(), &index.occupancy()),
    }
}

fn equal<T: PartialEq + fmt::Debug>(expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}")) }
}

/// The counts of an [`Applied`], for struct update.
pub(super) const NOTHING: Applied = Applied { stored: 0, already_held: 0, moved: 0, removed: 0, unknown: 0 };

impl Example {
    fn new(name: &'static str) -> Self {
        Self { name, steps: Vec::new() }
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// A store of blocks `(name, content)`, with its result.
    fn store_as(
        self,
        worker: u64,
        tier: Tier,
        parent: Option<u64>,
        blocks: &[(u64, u64)],
        expected: Result<Applied, ApplyError>,
    ) -> Self {
        let block = |&(name, content): &(u64, u64)| {
            StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(content))
        };
        let parent = parent.map(ExternalSequenceHash::new);
        let event = KvEvent::Stored { tier, parent, blocks: blocks.iter().map(block).collect() };
        self.step(Step::Apply { from: rank(worker), event, expected })
    }

    /// A store of new blocks in a tier.
    fn store_in(
        self,
        tier: Tier,
        worker: u64,
        parent: Option<u64>,
        blocks: impl IntoIterator<Item = u64>,
    ) -> Self {
        let blocks: Vec<_> = blocks.into_iter().map(|block| (block, block)).collect();
        let stored = Applied { stored: blocks.len() as u64, ..NOTHING };
        self.store_as(worker, tier, parent, &blocks, Ok(stored))
    }

    /// A store of new blocks.
    fn store(self, worker: u64, parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> Self {
        self.store_in(Tier::Device, worker, parent, blocks)
    }

    /// A store that is refused.
    fn refuse(
        self,
        worker: u64,
        parent: Option<u64>,
        blocks: impl IntoIterator<Item = u64>,
        error: ApplyError,
    ) -> Self {
        let blocks: Vec<_> = blocks.into_iter().map(|block| (block, block)).collect();
        self.store_as(worker, Tier::Device, parent, &blocks, Err(error))
    }

    /// A removal, with its result.
    fn remove_as(self, worker: u64, tier: Tier, names: &[u64], expected: Applied) -> Self {
        let blocks = names.iter().copied().map(ExternalSequenceHash::new).collect();
        let event = KvEvent::Removed { tier, blocks };
        self.step(Step::Apply { from: rank(worker), event, expected: Ok(expected) })
    }

    /// A removal of held copies from a tier.
    fn remove_in(self, tier: Tier, worker: u64, names: impl IntoIterator<Item = u64>) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        let removed = Applied { removed: names.len() as u64, ..NOTHING };
        self.remove_as(worker, tier, &names, removed)
    }

    /// A removal of held copies.
    fn remove(self, worker: u64, names: impl IntoIterator<Item = u64>) -> Self {
        self.remove_in(Tier::Device, worker, names)
    }

    /// A clear that takes `copies` away.
    fn clear(self, worker: u64, copies: u64) -> Self {
        let expected = Ok(Applied { removed: copies, ..NOTHING });
        self.step(Step::Apply { from: rank(worker), event: KvEvent::Cleared, expected })
    }

    /// The removal of a worker that takes `copies` away.
    fn remove_worker(self, worker: u64, copies: u64) -> Self {
        let expected = Applied { removed: copies, ..NOTHING };
        self.step(Step::RemoveWorker { worker: WorkerId::new(worker), expected })
    }

    /// A query with the blocks that each worker has on the device, by worker; the others have none.
    fn ask(self, query: impl IntoIterator<Item = u64>, expected: &[(u64, u32)]) -> Self {
        let expected: Vec<_> = expected.iter().map(|&(worker, blocks)| (worker, [blocks, 0, 0, 0])).collect();
        self.ask_tiers(query, &expected)
    }

    /// A query with the blocks that each worker is credited for at each tier.
    fn ask_tiers(self, query: impl IntoIterator<Item = u64>, expected: &[(u64, [u32; Tier::COUNT])]) -> Self {
        let overlap = |&(worker, by_tier): &(u64, _)| Overlap::new(rank(worker), by_tier);
        let query = query.into_iter().collect();
        self.step(Step::Ask { query, expected: expected.iter().map(overlap).collect() })
    }

    fn holds(self, names: usize, ranks: usize) -> Self {
        self.step(Step::Holds { names, ranks })
    }

    fn empty(self) -> Self {
        self.step(Step::Empty)
    }
}

fn rank(worker: u64) -> WorkerRank {
    WorkerRank::from(WorkerId::new(worker))
}

fn unknown_parent(parent: u64) -> ApplyError {
    ApplyError::UnknownParent { parent: ExternalSequenceHash::new(parent) }
}

fn repeats(block: u64) -> ApplyError {
    ApplyError::InvalidBlockSequence { block: ExternalSequenceHash::new(block) }
}
