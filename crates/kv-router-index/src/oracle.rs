//! The contract in code: the most literal index that states what the others must answer.
//!
//! Nothing here is meant to be fast. Each rank is a table from name to place, a lookup asks every rank about
//! every block, and there is no structure that could be wrong in an interesting way. Paths from the root are
//! interned as places, so that deep chains cost no more than shallow ones and a few million blocks can be
//! checked against it.
//!
//! It deliberately never forgets a place: its memory grows with every distinct prefix that it has ever seen.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, TierSet, WorkerId, WorkerRank,
};

use crate::{
    Applied, ApplyError, ApplyEvents, Certainty, DumpEvents, FindOptions, Inspect, Occupancy, Overlap,
    Overlaps, PrefixIndex,
};

/// One exact prefix: a number for the path of local hashes that leads from the root to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(usize);

/// The literal index. See the [module documentation](self).
///
/// ```
/// use kv_router_index::{ApplyEvents, Oracle, PrefixIndex};
/// use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier};
/// use kv_router_types::{WorkerId, WorkerRank};
///
/// let rank = WorkerRank::from(WorkerId::new(1));
/// let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
/// let mut oracle = Oracle::new();
/// let blocks = vec![block(1), block(2)];
/// oracle.apply(rank, &KvEvent::Stored { tier: Tier::Device, parent: None, blocks })?;
/// assert_eq!(oracle.find(&[1, 2, 3].map(LocalBlockHash::new)).blocks(rank), 2);
/// # Ok::<(), kv_router_index::ApplyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Which place continues which.
    children: BTreeMap<(Option<Place>, LocalBlockHash), Place>,
    /// The key of each place in `children`; a parent stands before its children.
    places: Vec<(Option<Place>, LocalBlockHash)>,
    /// Only ranks that hold something.
    ranks: BTreeMap<WorkerRank, Cache>,
}

/// What one rank holds.
#[derive(Clone, Debug, Default)]
struct Cache {
    /// A name denotes one place, with at least one tier.
    names: BTreeMap<ExternalSequenceHash, Home>,
    /// The same by place: a place with two names is a twin.
    at: BTreeSet<(Place, ExternalSequenceHash)>,
}

#[derive(Clone, Copy, Debug)]
struct Home {
    place: Place,
    tiers: TierSet,
}

impl Oracle {
    /// An empty oracle.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ranks that hold something, in order.
    pub fn ranks(&self) -> impl Iterator<Item = WorkerRank> {
        self.ranks.keys().copied()
    }

    /// What `rank` holds: each name with the tiers that have a copy, in the order of the names.
    pub fn names(&self, rank: WorkerRank) -> impl Iterator<Item = (ExternalSequenceHash, TierSet)> {
        self.ranks
            .get(&rank)
            .into_iter()
            .flat_map(|cache| &cache.names)
            .map(|(&name, home)| (name, home.tiers))
    }

    /// The local hashes from the root to the block that `rank` calls `name`. Costs its depth.
    pub fn path(&self, rank: WorkerRank, name: ExternalSequenceHash) -> Option<Vec<LocalBlockHash>> {
        Some(self.path_of(self.place(rank, name)?))
    }

    /// In which tiers `rank` has the block at the end of `path`, whatever else of `path` it holds.
    pub fn tiers_at(&self, rank: WorkerRank, path: &[LocalBlockHash]) -> TierSet {
        match (self.ranks.get(&rank), self.resolve(path).last()) {
            (Some(cache), Some(&(depth, place))) if depth == path.len() => cache.tiers_at(place),
            _ => TierSet::EMPTY,
        }
    }

    /// The place that `rank` calls `name`.
    pub(crate) fn place(&self, rank: WorkerRank, name: ExternalSequenceHash) -> Option<Place> {
        Some(self.ranks.get(&rank)?.names.get(&name)?.place)
    }

    /// The place that `local` leads to, if it was ever named.
    pub(crate) fn child(&self, parent: Option<Place>, local: LocalBlockHash) -> Option<Place> {
        self.children.get(&(parent, local)).copied()
    }

    /// The local hashes from the root to `place`.
    pub(crate) fn path_of(&self, place: Place) -> Vec<LocalBlockHash> {
        let mut path: Vec<_> = self.up(place).map(|place| self.places[place.0].1).collect();
        path.reverse();
        path
    }

    /// `place` and every place before it, up to the root.
    pub(crate) fn up(&self, place: Place) -> impl Iterator<Item = Place> {
        iter::successors(Some(place), |place| self.places[place.0].0)
    }

    /// Every place that one of the caches holds, or that leads to one.
    fn needed_by<'a>(&self, caches: impl IntoIterator<Item = &'a Cache>) -> BTreeSet<Place> {
        let mut needed = BTreeSet::new();
        for &(place, _) in caches.into_iter().flat_map(|cache| &cache.at) {
            // What is before a place that is already in, is in too.
            self.up(place).take_while(|&place| needed.insert(place)).for_each(drop);
        }
        needed
    }

    /// The known places along `path`, each with its depth in blocks.
    fn resolve(&self, path: &[LocalBlockHash]) -> Vec<(usize, Place)> {
        let mut at = None;
        let mut places = Vec::new();
        for (index, &local) in path.iter().enumerate() {
            let Some(place) = self.child(at, local) else { break };
            places.push((index + 1, place));
            at = Some(place);
        }
        places
    }

    fn intern(&mut self, parent: Option<Place>, local: LocalBlockHash) -> Place {
        let next = Place(self.places.len());
        let place = *self.children.entry((parent, local)).or_insert(next);
        if place == next {
            self.places.push((parent, local));
        }
        place
    }

    fn store(
        &mut self,
        from: WorkerRank,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Applied, ApplyError> {
        let mut seen = BTreeSet::from_iter(parent);
        for block in blocks {
            if !seen.insert(block.external) {
                return Err(ApplyError::InvalidBlockSequence { block: block.external });
            }
        }
        let mut at = match parent {
            None => None,
            Some(parent) => Some(self.place(from, parent).ok_or(ApplyError::UnknownParent { parent })?),
        };

        let mut applied = Applied::default();
        for block in blocks {
            let place = self.intern(at, block.local);
            self.ranks.entry(from).or_default().put(block.external, place, tier, &mut applied);
            at = Some(place);
        }
        Ok(applied)
    }

    fn remove(&mut self, from: WorkerRank, tier: Tier, names: &[ExternalSequenceHash]) -> Applied {
        let mut applied = Applied::default();
        for &name in names {
            let known = self.ranks.get_mut(&from).is_some_and(|cache| cache.take(name, tier));
            if known {
                applied.removed += 1;
            } else {
                applied.unknown += 1;
            }
        }
        if self.ranks.get(&from).is_some_and(|cache| cache.names.is_empty()) {
            self.ranks.remove(&from);
        }
        applied
    }

    fn clear(&mut self, from: WorkerRank) -> Applied {
        let cache = self.ranks.remove(&from).unwrap_or_default();
        let copies = cache.names.values().map(|home| home.tiers.iter().count() as u64).sum();
        Applied { removed: copies, ..Applied::default() }
    }
}

/// What a conformance run needs to make operations concrete.
#[cfg(feature = "conformance")]
impl Oracle {
    /// The names that `rank` has for `place`.
    pub(crate) fn names_at(
        &self,
        rank: WorkerRank,
        place: Place,
    ) -> impl Iterator<Item = ExternalSequenceHash> {
        self.ranks.get(&rank).into_iter().flat_map(move |cache| cache.names_at(place))
    }

    /// The place before `place` and the local hash that leads from there.
    pub(crate) fn step(&self, place: Place) -> (Option<Place>, LocalBlockHash) {
        self.places[place.0]
    }

    /// The places that `rank` holds, each once, parents before children.
    pub(crate) fn places_of(&self, rank: WorkerRank) -> impl Iterator<Item = Place> {
        let mut last = None;
        self.ranks
            .get(&rank)
            .into_iter()
            .flat_map(|cache| &cache.at)
            .map(|&(place, _)| place)
            .filter(move |&place| last.replace(place) != Some(place))
    }
}

impl Cache {
    fn put(&mut self, name: ExternalSequenceHash, place: Place, tier: Tier, applied: &mut Applied) {
        match self.names.get_mut(&name) {
            Some(home) if home.place == place && home.tiers.contains(tier) => applied.already_held += 1,
            Some(home) if home.place == place => {
                home.tiers = home.tiers.with(tier);
                applied.stored += 1;
            }
            Some(home) => {
                self.at.remove(&(home.place, name));
                self.at.insert((place, name));
                *home = Home { place, tiers: TierSet::only(tier) };
                applied.moved += 1;
            }
            None => {
                self.at.insert((place, name));
                self.names.insert(name, Home { place, tiers: TierSet::only(tier) });
                applied.stored += 1;
            }
        }
    }

    /// Takes one copy away; false when there is none.
    fn take(&mut self, name: ExternalSequenceHash, tier: Tier) -> bool {
        let Some(home) = self.names.get_mut(&name).filter(|home| home.tiers.contains(tier)) else {
            return false;
        };
        home.tiers = home.tiers.without(tier);
        if home.tiers.is_empty() {
            self.at.remove(&(home.place, name));
            self.names.remove(&name);
        }
        true
    }

    fn names_at(&self, place: Place) -> impl Iterator<Item = ExternalSequenceHash> {
        let first = (place, ExternalSequenceHash::new(0));
        let last = (place, ExternalSequenceHash::new(u64::MAX));
        self.at.range(first..=last).map(|&(_, name)| name)
    }

    fn tiers_at(&self, place: Place) -> TierSet {
        self.names_at(place).flat_map(|name| self.names[&name].tiers.iter()).collect()
    }

    /// Leading blocks of `places` that are held without a gap, by best tier.
    fn reach(&self, places: &[(usize, Place)]) -> [u32; Tier::COUNT] {
        let mut by_tier = [0; Tier::COUNT];
        for &(_, place) in places {
            let Some(best) = self.tiers_at(place).best() else { break };
            by_tier[best.index()] += 1;
        }
        by_tier
    }
}

/// Always answers in full: [`FindOptions::early_exit`] and [`FindOptions::use_at`] change nothing.
impl PrefixIndex for Oracle {
    fn find_into(&self, query: &[LocalBlockHash], _: FindOptions, out: &mut Overlaps) {
        out.begin(query.len(), Certainty::Exact);
        let places = self.resolve(query);
        let mut overlaps: Vec<Overlap> = self
            .ranks
            .iter()
            .map(|(&rank, cache)| Overlap::new(rank, cache.reach(&places)))
            .filter(|overlap| overlap.blocks() > 0)
            .collect();
        overlaps.sort_by_key(|overlap| overlap.blocks());
        overlaps.into_iter().for_each(|overlap| out.push(overlap));
    }

    fn certainty(&self) -> Certainty {
        Certainty::Exact
    }
}

impl ApplyEvents for Oracle {
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(from, *tier, *parent, blocks),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(from, *tier, blocks)),
            KvEvent::Cleared => Ok(self.clear(from)),
        }
    }

    fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let mut applied = Applied::default();
        let ranks: Vec<_> = self.ranks().filter(|rank| rank.worker == worker).collect();
        for rank in ranks {
            applied += self.clear(rank);
        }
        applied
    }
}

/// One event a copy: simple rather than short.
impl DumpEvents for Oracle {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        for (&rank, cache) in &self.ranks {
            let mut unused =
                (0..).map(ExternalSequenceHash::new).filter(|name| !cache.names.contains_key(name));
            let mut holes = Vec::new();
            let mut known: BTreeMap<Place, ExternalSequenceHash> = BTreeMap::new();

            // A place has a higher number than its parent, so parents come first.
            for place in self.needed_by([cache]) {
                let (parent, local) = self.places[place.0];
                let parent = parent.map(|parent| known[&parent]);
                let mut store = |name, tier| {
                    let blocks = vec![StoredBlock::new(name, local)];
                    emit(rank, KvEvent::Stored { tier, parent, blocks });
                    known.insert(place, name);
                };
                for name in cache.names_at(place) {
                    cache.names[&name].tiers.iter().for_each(|tier| store(name, tier));
                }
                if cache.tiers_at(place).is_empty() {
                    let name = unused.next().unwrap_or_default();
                    store(name, Tier::Device);
                    holes.push(name);
                }
            }
            if !holes.is_empty() {
                emit(rank, KvEvent::Removed { tier: Tier::Device, blocks: holes });
            }
        }
    }
}

/// A node is a place that some rank holds, or that leads to one.
impl Inspect for Oracle {
    fn occupancy(&self) -> Occupancy {
        Occupancy {
            ranks: self.ranks.len(),
            names: self.ranks.values().map(|cache| cache.names.len()).sum(),
            nodes: self.needed_by(self.ranks.values()).len(),
            side_entries: 0,
        }
    }
}
