//! A long life with little in it: what is removed must be gone.

use std::error::Error;
use std::fmt;

use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::rng::{Rng, mix};
use super::suite::Subject;
use crate::{Applied, ApplyError, Occupancy};

/// Blocks alive at most.
const ALIVE: usize = 10_000;
/// Ranks that share a tenth of the content.
const RANKS: usize = 16;

/// What went wrong during a churn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FailedChurn {
    /// An event had another result than one copy stored or removed.
    Event {
        /// How many operations had been done.
        after: u32,
        /// The result.
        found: Result<Applied, ApplyError>,
    },
    /// The index holds another number of names than were stored and not removed.
    Names {
        /// How many operations had been done.
        after: u32,
        /// Names that are alive.
        alive: usize,
        /// What the index says.
        found: Occupancy,
    },
    /// The index has structure for more blocks than are alive or lead to one.
    Nodes {
        /// How many operations had been done.
        after: u32,
        /// The most that could be needed.
        at_most: usize,
        /// What the index says.
        found: Occupancy,
    },
    /// Something is left after everything was removed.
    Leftover {
        /// What the index says.
        found: Occupancy,
    },
}

impl fmt::Display for FailedChurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}

impl Error for FailedChurn {}

/// A block that is alive.
#[derive(Clone, Copy)]
struct Alive {
    rank: WorkerRank,
    name: ExternalSequenceHash,
    tier: Tier,
    /// Blocks from the root.
    depth: usize,
}

pub(super) fn check(mut index: impl Subject, operations: u32) -> Result<(), FailedChurn> {
    let mut rng = Rng::new(1);
    let mut alive: Vec<Alive> = Vec::with_capacity(ALIVE);
    let mut depth_sum = 0;
    for after in 0..operations {
        // Mostly full, and now and then almost empty.
        let rising = (after / 40_000).is_multiple_of(2);
        let store = alive.len() < ALIVE && (alive.is_empty() || rng.below(10) < if rising { 7 } else { 3 });
        if store {
            let block = grow(&mut rng, &alive, after, &mut index)?;
            depth_sum += block.depth;
            alive.push(block);
        } else {
            let block = alive.swap_remove(rng.below(alive.len()));
            depth_sum -= block.depth;
            remove(&block, after, &mut index)?;
        }
        if after.is_multiple_of(4096) {
            let found = index.occupancy();
            if found.names != alive.len() {
                return Err(FailedChurn::Names { after, alive: alive.len(), found });
            }
            if found.nodes > depth_sum {
                return Err(FailedChurn::Nodes { after, at_most: depth_sum, found });
            }
        }
    }
    rng.shuffle(&mut alive);
    alive.iter().try_for_each(|block| remove(block, operations, &mut index))?;
    match index.occupancy() {
        found if found == Occupancy::default() => Ok(()),
        found => Err(FailedChurn::Leftover { found }),
    }
}

/// Stores one block, at the root or under one that is alive.
fn grow(rng: &mut Rng, alive: &[Alive], after: u32, index: &mut impl Subject) -> Result<Alive, FailedChurn> {
    let parent = match alive.len() {
        0 => None,
        len => Some(alive[rng.below(len)]).filter(|parent| parent.depth < 200 && rng.below(8) > 0),
    };
    let rank = parent.map_or_else(
        || {
            let rank = rng.below(RANKS) as u64;
            WorkerRank::new(WorkerId::new(rank / 2), DpRank::new((rank % 2) as u32))
        },
        |parent| parent.rank,
    );
    // Names never repeat; content often does, so that ranks share nodes and a rank has twins.
    let name = ExternalSequenceHash::new(mix(1 + u64::from(after)));
    let content = if rng.below(10) == 0 { rng.below(4) as u64 } else { rng.next() };
    let tier = if rng.below(8) == 0 { Tier::Host } else { Tier::Device };
    let blocks = vec![StoredBlock::new(name, LocalBlockHash::new(content))];
    let event = KvEvent::Stored { tier, parent: parent.map(|parent| parent.name), blocks };
    match index.apply(rank, &event) {
        Ok(Applied { stored: 1, already_held: 0, moved: 0, removed: 0, unknown: 0 }) => {}
        found => return Err(FailedChurn::Event { after, found }),
    }
    Ok(Alive { rank, name, tier, depth: 1 + parent.map_or(0, |parent| parent.depth) })
}

fn remove(block: &Alive, after: u32, index: &mut impl Subject) -> Result<(), FailedChurn> {
    let event = KvEvent::Removed { tier: block.tier, blocks: vec![block.name] };
    match index.apply(block.rank, &event) {
        Ok(Applied { stored: 0, already_held: 0, moved: 0, removed: 1, unknown: 0 }) => Ok(()),
        found => Err(FailedChurn::Event { after, found }),
    }
}
