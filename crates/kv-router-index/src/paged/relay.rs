//! Beside the engine: names to numbers, so that the router needs no table of names.

mod numbers;
mod runs;

use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, TierSet};
use rustc_hash::FxHashSet;

use super::config::PagedConfigError;
use super::id::{BlockId, BlockRun, IdEvent};
use super::names::{MAX_NAMES, spread};
use super::table::{Home, Table};
use crate::ApplyError;
use numbers::Numbers;
use runs::Runs;

/// Names of an event that are looked up together.
const AHEAD: usize = 32;
/// Bits of a number in the table.
const ID: u32 = MAX_NAMES.ilog2();

/// The numbers of one rank's blocks: turns its engine's events into [`IdEvent`]s for an [`IdWriter`](super::IdWriter).
///
/// ```
/// use kv_router_index::paged::{BlockId, BlockIds, BlockRun, IdEvent, PagedIndex};
/// use kv_router_index::PrefixIndex;
/// use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank};
///
/// let rank = WorkerRank::from(WorkerId::new(1));
/// let name = |n: u64| ExternalSequenceHash::new(n * 0x9e37_79b9);
/// let blocks = (1..=4).map(|n| StoredBlock::new(name(n), LocalBlockHash::new(n))).collect();
///
/// // Beside the engine: the names stay here.
/// let mut ids = BlockIds::new();
/// let stored = ids.translate(&KvEvent::Stored { tier: Tier::Device, parent: None, blocks })?;
/// let removed = ids.translate(&KvEvent::Removed { tier: Tier::Device, blocks: vec![name(4), name(3)] })?;
/// let run = BlockRun::new(BlockId::new(2), 2);
/// assert_eq!(removed.event, IdEvent::Removed { tier: Tier::Device, runs: vec![run] });
///
/// // In the router, after whatever carries the events.
/// let index = PagedIndex::new();
/// let mut writer = index.id_writer(rank)?;
/// writer.apply(&stored.event)?;
/// writer.apply(&removed.event)?;
/// assert_eq!(index.find(&[1, 2, 3, 4].map(LocalBlockHash::new)).blocks(rank), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What it promises
///
/// A name keeps its number until its last copy is removed, or all are cleared; no number stands for two names at a time.
/// Numbers are below the limit, and there are no more than twice as many as names and a few thousand: blocks that come
/// together get numbers in a row, after their parent's if those are free, and free ones are given out again in lines of
/// sixteen. A clear resets everything, and so does the removal of the last block: the next number is 0.
///
/// Events that it translated must reach the writer in order and without loss, like any rank's. Should the writer refuse
/// a store, the numbers stay with their names until the engine removes them, and mean nothing to the router meanwhile,
/// as names would not. Of a name that moves while it has copies in several tiers the router forgets all but the new
/// one; its number here waits for the engine to remove the others too.
#[derive(Debug)]
pub struct BlockIds {
    table: Table,
    numbers: Numbers,
    /// By number: the name, where its copies are, and the event that it was in last.
    names: Vec<u64>,
    tiers: Vec<TierSet>,
    seen: Vec<u32>,
    event: u32,
}

/// An event in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Translated {
    /// The event, for the router. One that removes nothing, since all its names were unknown, need not be sent.
    pub event: IdEvent,
    /// Names of a removal that had no copy in that tier. They are not in the event.
    pub unknown: u64,
}

impl BlockIds {
    /// No numbers yet; at most 1,048,576, as many as an index takes by default.
    pub fn new() -> Self {
        Self::at_most(1 << 20)
    }

    /// With the limit that the index has as
    /// [`max_ids_per_rank`](super::PagedConfig::max_ids_per_rank): numbers are below it.
    ///
    /// # Errors
    ///
    /// It is not in 1..=4,194,304.
    pub fn with_limit(max_ids_per_rank: usize) -> Result<Self, PagedConfigError> {
        if (1..=MAX_NAMES).contains(&max_ids_per_rank) {
            return Ok(Self::at_most(max_ids_per_rank));
        }
        Err(PagedConfigError { field: "max_ids_per_rank", value: max_ids_per_rank, max: MAX_NAMES })
    }

    fn at_most(limit: usize) -> Self {
        Self {
            table: Table::new(ID),
            numbers: Numbers::new(limit),
            names: Vec::new(),
            tiers: Vec::new(),
            seen: Vec::new(),
            event: 0,
        }
    }

    /// Names that have a number.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no name has a number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
            + self.numbers.bytes()
            + self.names.capacity() * 8
            + self.tiers.capacity()
            + self.seen.capacity() * 4
    }

    /// The number of a name.
    pub fn id(&self, name: ExternalSequenceHash) -> Option<BlockId> {
        self.find(self.home(name), name).map(BlockId::new)
    }

    /// The name of a number.
    pub fn name(&self, id: BlockId) -> Option<ExternalSequenceHash> {
        let name = ExternalSequenceHash::new(*self.names.get(id.get() as usize)?);
        (self.id(name) == Some(id)).then_some(name)
    }

    /// The event in numbers.
    ///
    /// # Errors
    ///
    /// Those of a store, as [`ApplyEvents::apply`](crate::ApplyEvents::apply) has them, in that order;
    /// [`RankFull`](ApplyError::RankFull) when there are not enough numbers. Nothing has changed then.
    pub fn translate(&mut self, event: &KvEvent) -> Result<Translated, ApplyError> {
        match event {
            KvEvent::Stored { tier, parent, blocks } => self.store(*tier, *parent, blocks),
            KvEvent::Removed { tier, blocks } => Ok(self.remove(*tier, blocks)),
            KvEvent::Cleared => {
                *self = Self::at_most(self.numbers.limit());
                Ok(Translated { event: IdEvent::Cleared, unknown: 0 })
            }
        }
    }

    fn store(
        &mut self,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<Translated, ApplyError> {
        self.begin(blocks.len());
        let parent_id = parent.and_then(|parent| self.id(parent));
        if self.len() + blocks.len() > self.numbers.limit() {
            self.check_room(parent, blocks)?;
        }
        let mut store = Store { runs: Runs::default(), fresh: Runs::default(), before: parent_id };
        let entered = self.enter(&mut store, parent, blocks);
        let checked = match (entered, parent) {
            (Ok(()), Some(parent)) if parent_id.is_none() => Err(ApplyError::UnknownParent { parent }),
            (entered, _) => entered,
        };
        if let Err(error) = checked {
            self.retract(store.fresh);
            return Err(error);
        }
        let runs = store.runs.in_order();
        for run in &runs {
            let ids = run.first().get() as usize..run.end() as usize;
            self.tiers[ids].iter_mut().for_each(|tiers| *tiers = tiers.with(tier));
        }
        let locals: Vec<LocalBlockHash> = blocks.iter().map(|block| block.local).collect();
        Ok(Translated { event: IdEvent::Stored { tier, parent: parent_id, runs, locals }, unknown: 0 })
    }

    /// Finds or gives a number for each block, up to the first name that comes again.
    fn enter(
        &mut self,
        store: &mut Store,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<(), ApplyError> {
        let mut left = blocks.len();
        for chunk in blocks.chunks(AHEAD) {
            let homes = self.homes(chunk.iter().map(|block| block.external));
            for (&home, block) in homes.iter().zip(chunk) {
                let name = block.external;
                let known = self.find(home, name);
                if Some(name) == parent || known.is_some_and(|id| self.seen[id as usize] == self.event) {
                    return Err(ApplyError::InvalidBlockSequence { block: name });
                }
                let id = match known {
                    Some(id) => id,
                    None => self.give(store, home, name, left)?,
                };
                self.seen[id as usize] = self.event;
                store.runs.push(BlockId::new(id));
                store.before = Some(BlockId::new(id));
                left -= 1;
            }
        }
        Ok(())
    }

    /// Gives a name its number, the first of `left` that will be needed.
    #[inline]
    fn give(
        &mut self,
        store: &mut Store,
        home: Home,
        name: ExternalSequenceHash,
        left: usize,
    ) -> Result<u32, ApplyError> {
        let full = ApplyError::RankFull { limit: self.numbers.limit() };
        let id = self.numbers.take(store.before.map(BlockId::get), left).ok_or(full)?;
        let at = id as usize;
        if self.names.len() <= at {
            self.names.resize(at + 1, 0);
            self.tiers.resize(at + 1, TierSet::EMPTY);
            self.seen.resize(at + 1, 0);
        }
        (self.names[at], self.tiers[at]) = (name.get(), TierSet::EMPTY);
        self.table.insert(home, id);
        store.fresh.push(BlockId::new(id));
        Ok(id)
    }

    /// Takes back the numbers that a refused store was given.
    #[cold]
    fn retract(&mut self, fresh: Runs) {
        for id in fresh.in_order().into_iter().flat_map(BlockRun::ids) {
            self.forget(self.home(ExternalSequenceHash::new(self.names[id.get() as usize])), id.get());
        }
    }

    fn forget(&mut self, home: Home, id: u32) {
        let known = self.table.remove(home, id);
        debug_assert!(known, "a name that has a number is in the table");
        self.numbers.free(id);
    }

    /// What is to be said of a store for which there may not be enough numbers.
    #[cold]
    fn check_room(
        &self,
        parent: Option<ExternalSequenceHash>,
        blocks: &[StoredBlock],
    ) -> Result<(), ApplyError> {
        let mut seen = FxHashSet::from_iter(parent);
        if let Some(block) = blocks.iter().map(|block| block.external).find(|&name| !seen.insert(name)) {
            return Err(ApplyError::InvalidBlockSequence { block });
        }
        if let Some(parent) = parent.filter(|&parent| self.id(parent).is_none()) {
            return Err(ApplyError::UnknownParent { parent });
        }
        let fresh = blocks.iter().filter(|block| self.id(block.external).is_none()).count();
        let limit = self.numbers.limit();
        if self.len() + fresh > limit { Err(ApplyError::RankFull { limit }) } else { Ok(()) }
    }

    fn remove(&mut self, tier: Tier, names: &[ExternalSequenceHash]) -> Translated {
        let (mut runs, mut unknown) = (Runs::default(), 0);
        for chunk in names.chunks(AHEAD) {
            let homes = self.homes(chunk.iter().copied());
            for (&home, &name) in homes.iter().zip(chunk) {
                let found = self.find(home, name);
                let Some(id) = found.filter(|&id| self.tiers[id as usize].contains(tier)) else {
                    unknown += 1;
                    continue;
                };
                let tiers = &mut self.tiers[id as usize];
                *tiers = tiers.without(tier);
                if tiers.is_empty() {
                    self.forget(home, id);
                }
                runs.push(BlockId::new(id));
            }
        }
        if self.is_empty() {
            // Nothing refers to a number any more.
            *self = Self::at_most(self.numbers.limit());
        } else if let Some(buckets) = self.table.wants_shrinking() {
            self.rewrite(buckets);
        }
        Translated { event: IdEvent::Removed { tier, runs: runs.merged() }, unknown }
    }

    #[inline]
    fn home(&self, name: ExternalSequenceHash) -> Home {
        self.table.home(spread(name.get()))
    }

    /// Where up to [`AHEAD`] names belong, read in advance.
    #[inline]
    fn homes(&self, names: impl ExactSizeIterator<Item = ExternalSequenceHash>) -> [Home; AHEAD] {
        let mut homes = [Home::default(); AHEAD];
        let count = names.len();
        homes.iter_mut().zip(names).for_each(|(home, name)| *home = self.home(name));
        self.table.touch(&homes[..count]);
        homes
    }

    #[inline]
    fn find(&self, home: Home, name: ExternalSequenceHash) -> Option<u32> {
        let is_it = |id: u32| (self.names[id as usize] == name.get()).then_some(id);
        self.table.find(home, is_it).map(|(_, id)| id)
    }

    /// Begins a store of so many blocks.
    fn begin(&mut self, blocks: usize) {
        self.event = self.event.wrapping_add(1);
        if self.event == 0 {
            // Numbers of events come again: nothing may remember those of long ago.
            self.seen.fill(0);
            self.event = 1;
        }
        if let Some(buckets) = self.table.wants_growth(blocks) {
            self.rewrite(buckets);
        }
    }

    #[cold]
    fn rewrite(&mut self, buckets: usize) {
        self.table.reset(buckets, ID);
        for id in self.numbers.used() {
            self.table.insert(self.table.home(spread(self.names[id as usize])), id);
        }
    }
}

impl Default for BlockIds {
    fn default() -> Self {
        Self::new()
    }
}

/// A store on its way.
struct Store {
    runs: Runs,
    /// Numbers given out for it.
    fresh: Runs,
    before: Option<BlockId>,
}

#[cfg(test)]
mod tests;
