//! The publishing side, fed by events: exact about names, so that the summary it publishes stays exact about
//! places.

use std::collections::BTreeMap;

use kv_router_index::{Applied, ApplyError, ApplyEvents, Inspect, Occupancy};
use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, SequenceHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::delta::SummaryEpoch;
use super::filter::CuckooFilter;
use super::names::{PlaceChange, RankNames, check_sequence};
use super::publisher::CuckooPublisher;
use super::summary::PrefixSummary;
use crate::tables::shrink_if_sparse;

/// How large a feeder may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeederLimits {
    /// Names, summed over all ranks. Default 16,777,216. A store that would exceed it is refused whole. Values above
    /// [`CuckooFilter::MAX_ENTRIES`] mean that.
    pub names: usize,
    /// Changes kept for readers that are behind. Default 65,536, which takes 768 KiB. 0 when nobody follows.
    pub logged_changes: usize,
}

impl Default for FeederLimits {
    fn default() -> Self {
        Self { names: 1 << 24, logged_changes: 1 << 16 }
    }
}

/// Turns the events of one owner, of one rank or of a whole deployment group, into its published summary.
///
/// Events name blocks as the engine does, and a removal carries nothing else; so somebody has to remember which
/// name stands where. That is the feeder, beside the engines or at the entrance of a group: some 40 bytes a
/// name and 25 a place. What travels is the [publisher](Self::publisher)'s filter of 3 bytes an entry. A block that
/// many ranks hold is one entry of it.
///
/// # Guarantees
///
/// Refuses and counts what an exact index refuses and counts, with the same errors. The filter holds
/// exactly the places that some rank names: emptied of names, it is empty.
///
/// # Cost
///
/// A store or a removal is O(1) for each block. Clearing one rank of several costs a sort of its names.
#[derive(Clone, Debug)]
pub struct CuckooFeeder {
    /// Only ranks that hold something.
    ranks: BTreeMap<WorkerRank, RankNames>,
    /// Names held, over all ranks.
    names: usize,
    places: Places,
    limits: FeederLimits,
    /// Names of the store that is being checked.
    seen: FxHashSet<ExternalSequenceHash>,
}

/// How many names each place has, and the filter of those that have any.
#[derive(Clone, Debug)]
struct Places {
    /// No value is 0.
    holders: FxHashMap<SequenceHash, u32>,
    publisher: CuckooPublisher,
}

impl CuckooFeeder {
    /// A feeder whose owner holds nothing yet.
    pub fn new(epoch: SummaryEpoch, limits: FeederLimits) -> Self {
        let limits = FeederLimits { names: limits.names.min(CuckooFilter::MAX_ENTRIES), ..limits };
        let publisher = CuckooPublisher::new(epoch, limits.names, limits.logged_changes);
        Self {
            ranks: BTreeMap::new(),
            names: 0,
            places: Places { holders: FxHashMap::default(), publisher },
            limits,
            seen: FxHashSet::default(),
        }
    }

    /// The summary: its position, deltas and snapshots.
    pub fn publisher(&self) -> &CuckooPublisher {
        &self.places.publisher
    }

    /// Names held, summed over all ranks.
    pub fn names(&self) -> usize {
        self.names
    }

    /// [`apply`](ApplyEvents::apply) for one of several feeders that share a limit: `others` names are held elsewhere.
    pub(super) fn apply_beside(
        &mut self,
        from: WorkerRank,
        event: &KvEvent,
        others: usize,
    ) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(from, *tier, *parent, blocks, others),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(from, *tier, blocks)),
            KvEvent::Cleared => Ok(self.clear(from)),
        }
    }

    fn store(
        &mut self,
        from: WorkerRank,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
        others: usize,
    ) -> Result<Applied, ApplyError> {
        check_sequence(parent, blocks, &mut self.seen)?;
        let held = self.ranks.get(&from);
        let parent = match held {
            Some(names) => names.place_of(parent)?,
            None => RankNames::default().place_of(parent)?,
        };
        let new = held.map_or(blocks.len(), |names| names.count_new(blocks));
        if new > 0 && self.names + others + new > self.limits.names {
            return Err(ApplyError::IndexFull { limit: self.limits.names });
        }
        if blocks.is_empty() {
            return Ok(Applied::default());
        }
        self.names += new;
        let places = &mut self.places;
        let names = self.ranks.entry(from).or_default();
        Ok(names.store(tier, parent, blocks, |change| places.apply(change)))
    }

    fn remove(&mut self, from: WorkerRank, tier: Tier, blocks: &[ExternalSequenceHash]) -> Applied {
        let Some(names) = self.ranks.get_mut(&from) else {
            let mut applied = Applied::default();
            applied.unknown = blocks.len() as u64;
            return applied;
        };
        let before = names.len();
        let places = &mut self.places;
        let applied = names.remove(tier, blocks, |change| places.apply(change));
        self.names -= before - names.len();
        if names.is_empty() {
            self.ranks.remove(&from);
        }
        applied
    }

    fn clear(&mut self, from: WorkerRank) -> Applied {
        let mut applied = Applied::default();
        let Some(names) = self.ranks.remove(&from) else { return applied };
        applied.removed = names.copies();
        self.names -= names.len();
        if self.ranks.is_empty() {
            self.places.clear();
        } else {
            names.into_places().for_each(|place| self.places.apply(PlaceChange::Lost(place)));
        }
        applied
    }
}

impl Places {
    fn apply(&mut self, change: PlaceChange) {
        match change {
            PlaceChange::Gained(place) => {
                let holders = self.holders.entry(place).or_insert(0);
                *holders += 1;
                if *holders == 1 {
                    let inserted = self.publisher.insert(place);
                    debug_assert!(inserted.is_ok(), "the filter may hold as many places as there are names");
                }
            }
            PlaceChange::Lost(place) => {
                let Some(holders) = self.holders.get_mut(&place) else { return };
                *holders -= 1;
                if *holders == 0 {
                    self.holders.remove(&place);
                    shrink_if_sparse(&mut self.holders);
                    self.publisher.remove(place);
                }
            }
        }
    }

    fn clear(&mut self) {
        self.holders = FxHashMap::default();
        self.publisher.clear();
    }
}

impl ApplyEvents for CuckooFeeder {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        self.apply_beside(from, event, 0)
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let first = WorkerRank::new(worker, DpRank::new(0));
        let last = WorkerRank::new(worker, DpRank::new(u32::MAX));
        let ranks: Vec<WorkerRank> = self.ranks.range(first..=last).map(|(&rank, _)| rank).collect();
        let mut applied = Applied::default();
        for rank in ranks {
            applied += self.clear(rank);
        }
        applied
    }
}

/// A node is a place that some rank names.
impl Inspect for CuckooFeeder {
    fn occupancy(&self) -> Occupancy {
        let mut occupancy = Occupancy::default();
        occupancy.ranks = self.ranks.len();
        occupancy.names = self.names;
        occupancy.nodes = self.places.holders.len();
        occupancy.side_entries = self.publisher().filter().side_entries();
        occupancy
    }
}

impl PrefixSummary for CuckooFeeder {
    fn blocks_at_most(&self, sequence: &[SequenceHash]) -> u32 {
        self.publisher().blocks_at_most(sequence)
    }
}
