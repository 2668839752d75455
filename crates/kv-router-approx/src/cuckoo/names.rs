//! What one rank calls its blocks: exact, and therefore large. It stays beside the engine.

use kv_router_index::{Applied, ApplyError};
use kv_router_types::{ExternalSequenceHash, SequenceHash, StoredBlock, Tier, TierSet};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::tables::shrink_if_sparse;
use kv_router_hash::next_sequence_hash;

/// A change of the places that one rank names. A place with two names is gained twice and lost twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceChange {
    Gained(SequenceHash),
    Lost(SequenceHash),
}

/// The names of one rank, each with its place and the tiers that have a copy.
#[derive(Clone, Debug, Default)]
pub(super) struct RankNames {
    /// Every entry has at least one tier.
    names: FxHashMap<ExternalSequenceHash, Named>,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    place: SequenceHash,
    tiers: TierSet,
}

impl RankNames {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The place that `parent` names; `None` at the root.
    pub(super) fn place_of(
        &self,
        parent: Option<ExternalSequenceHash>,
    ) -> Result<Option<SequenceHash>, ApplyError> {
        let Some(parent) = parent else { return Ok(None) };
        match self.names.get(&parent) {
            Some(named) => Ok(Some(named.place)),
            None => Err(ApplyError::UnknownParent { parent }),
        }
    }

    /// Blocks whose names are new to this rank.
    pub(super) fn count_new(&self, blocks: &[StoredBlock]) -> usize {
        blocks.iter().filter(|block| !self.names.contains_key(&block.external)).count()
    }

    /// Stores a chain under a place. The names in `blocks` must differ.
    pub(super) fn store(
        &mut self,
        tier: Tier,
        mut parent: Option<SequenceHash>,
        blocks: &[StoredBlock],
        mut change: impl FnMut(PlaceChange),
    ) -> Applied {
        let mut applied = Applied::default();
        for block in blocks {
            let place = next_sequence_hash(parent, block.local);
            parent = Some(place);
            match self.names.get_mut(&block.external) {
                Some(named) if named.place == place && named.tiers.contains(tier) => {
                    applied.already_held += 1;
                }
                Some(named) if named.place == place => {
                    named.tiers = named.tiers.with(tier);
                    applied.stored += 1;
                }
                Some(named) => {
                    change(PlaceChange::Lost(named.place));
                    *named = Named { place, tiers: TierSet::only(tier) };
                    change(PlaceChange::Gained(place));
                    applied.moved += 1;
                }
                None => {
                    self.names.insert(block.external, Named { place, tiers: TierSet::only(tier) });
                    change(PlaceChange::Gained(place));
                    applied.stored += 1;
                }
            }
        }
        applied
    }

    /// Takes copies away; each name stands alone.
    pub(super) fn remove(
        &mut self,
        tier: Tier,
        names: &[ExternalSequenceHash],
        mut change: impl FnMut(PlaceChange),
    ) -> Applied {
        let mut applied = Applied::default();
        for name in names {
            let Some(named) = self.names.get_mut(name).filter(|named| named.tiers.contains(tier)) else {
                applied.unknown += 1;
                continue;
            };
            applied.removed += 1;
            named.tiers = named.tiers.without(tier);
            if named.tiers.is_empty() {
                change(PlaceChange::Lost(named.place));
                self.names.remove(name);
            }
        }
        shrink_if_sparse(&mut self.names);
        applied
    }

    /// Copies held, over all tiers.
    pub(super) fn copies(&self) -> u64 {
        self.names.values().map(|named| named.tiers.iter().count() as u64).sum()
    }

    /// The place of every name, in the order of the names: what a clear publishes depends on the history alone.
    pub(super) fn into_places(self) -> impl Iterator<Item = SequenceHash> {
        let mut names: Vec<_> = self.names.into_iter().collect();
        names.sort_unstable_by_key(|&(name, _)| name);
        names.into_iter().map(|(_, named)| named.place)
    }
}

/// Names that the scratch set of [`check_sequence`] keeps room for.
const KEPT_ROOM: usize = 4_096;

/// Refuses a store that names a block twice, or names its own parent.
pub(super) fn check_sequence(
    parent: Option<ExternalSequenceHash>,
    blocks: &[StoredBlock],
    seen: &mut FxHashSet<ExternalSequenceHash>,
) -> Result<(), ApplyError> {
    seen.clear();
    seen.shrink_to(KEPT_ROOM);
    seen.extend(parent);
    match blocks.iter().find(|block| !seen.insert(block.external)) {
        Some(twice) => Err(ApplyError::InvalidBlockSequence { block: twice.external }),
        None => Ok(()),
    }
}
