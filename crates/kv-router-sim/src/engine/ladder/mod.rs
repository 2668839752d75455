//! The tiers below the device: what is where, what is on its way down, and what a request can pull up.
//!
//! **Down.** A block that enters the device, or is used there again, is offered to the next tier. If it passes the
//! screen (prompt content, used often enough, not there yet, not too many on their way) it waits for the end of the
//! forward pass, then for a batch, then for the transfer, and is then committed: only now it is announced. A block
//! whose source gives way before that is cancelled. From host memory to disk and from there to the object store it
//! goes the same way, without a pass to wait for. Copies stay where they are until their tier needs the room.
//!
//! **Up.** Blocks that follow a request's device hits are located, pinned where they are, staged in host memory and
//! pulled into device blocks of the request, if that is quicker than computing them. Pulls of one engine queue.
//!
//! A tier may hold a block whose parent is nowhere any more; nothing finds it until the parent is back. A block is
//! not committed while its parent is nowhere, because nobody could be told where it belongs.

mod config;
mod pipeline;
mod shelf;

use std::time::Duration;

#[cfg(test)]
use kv_router_types::LocalBlockHash;
use kv_router_types::{ExternalSequenceHash, StoredBlock, Tier, TierSet};
use rustc_hash::FxHashMap;

pub use config::{LadderConfig, TierConfig};

use super::chain::ChainKey;
use super::publish::Publisher;
use crate::time::SimTime;
use config::LOWER;
use pipeline::Pipeline;
use shelf::{Put, Shelf};

/// Index into [`LOWER`].
type Level = usize;

/// A block that the engine holds somewhere.
#[derive(Debug)]
struct Entry {
    /// Stays the same as long as any tier holds it.
    block: StoredBlock,
    parent: Option<ChainKey>,
    /// Never empty.
    tiers: TierSet,
    uses: u32,
    /// Content that only one request ever has is not worth a copy.
    is_prompt: bool,
}

/// A block entering the device cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) key: ChainKey,
    pub(super) parent: Option<ChainKey>,
    pub(super) block: StoredBlock,
    pub(super) is_prompt: bool,
}

/// Blocks that are being pulled up for one request. Pinned until [`Ladder::end_pull`].
#[derive(Debug)]
pub(super) struct Pull {
    pub(super) ends: SimTime,
    blocks: Vec<(ChainKey, Level)>,
}

impl Pull {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }
}

/// All tiers below the device.
#[derive(Debug)]
pub(super) struct Ladder {
    config: LadderConfig,
    shelves: [Shelf; 3],
    /// The way down to each of them.
    pipelines: [Pipeline; 3],
    /// Every block in any tier, the device included.
    catalog: FxHashMap<ChainKey, Entry>,
    /// End of the last pull.
    pulls_end: SimTime,
    /// Reused.
    committed: Vec<ChainKey>,
    pub(super) offloaded: u64,
}

impl Ladder {
    pub(super) fn new(config: LadderConfig) -> Self {
        let mut above_exists = true;
        let shelves = config.tiers().map(|tier| {
            above_exists &= tier.blocks > 0;
            Shelf::new(if above_exists { tier.blocks } else { 0 })
        });
        Self {
            config,
            shelves,
            pipelines: config.tiers().map(|tier| Pipeline::new(&config, tier)),
            catalog: FxHashMap::default(),
            pulls_end: SimTime::ZERO,
            committed: Vec::new(),
            offloaded: 0,
        }
    }

    /// The name of a block that some tier holds.
    pub(super) fn name(&self, key: ChainKey) -> Option<ExternalSequenceHash> {
        self.catalog.get(&key).map(|entry| entry.block.external)
    }

    /// A block entered the device cache.
    pub(super) fn arrived(&mut self, Arrival { key, parent, block, is_prompt }: Arrival) {
        let entry = self.catalog.entry(key).or_insert(Entry {
            block,
            parent,
            tiers: TierSet::EMPTY,
            uses: 0,
            is_prompt,
        });
        entry.tiers = entry.tiers.with(Tier::Device);
        self.used(key);
    }

    /// A request reuses a block, or computed it.
    pub(super) fn used(&mut self, key: ChainKey) {
        let Some(entry) = self.catalog.get_mut(&key) else { return };
        entry.uses = entry.uses.saturating_add(1);
        let tiers = entry.tiers;
        for (shelf, tier) in self.shelves.iter_mut().zip(LOWER) {
            if tiers.contains(tier) {
                shelf.touch(key);
            }
        }
        if tiers.contains(Tier::Device) && self.passes_screen(key, 0) {
            self.pipelines[0].after_the_pass(key);
        }
    }

    /// A block gave way on the device.
    pub(super) fn left_device(&mut self, key: ChainKey) {
        self.pipelines[0].cancel(key);
        self.left(key, Tier::Device);
    }

    /// The forward pass that was under way is over, or there is none.
    pub(super) fn pass_ended(&mut self, now: SimTime) {
        self.pipelines[0].pass_ended(now);
    }

    /// Moves on what is on its way down, and announces what has come.
    pub(super) fn advance(&mut self, now: SimTime, publisher: &mut Publisher) {
        for level in 0..LOWER.len() {
            let mut committed = std::mem::take(&mut self.committed);
            self.pipelines[level].advance(now, &mut committed);
            for key in committed.drain(..) {
                self.commit(level, key, now, publisher);
            }
            self.committed = committed;
        }
    }

    /// When to call [`Self::advance`] next.
    pub(super) fn next(&self) -> Option<SimTime> {
        self.pipelines.iter().filter_map(Pipeline::next).min()
    }

    /// Locates the blocks that `keys` names in order, as long as a lower tier has them, and begins to pull as many of
    /// them as come sooner than they are computed. `None` when that is none.
    pub(super) fn begin_pull(
        &mut self,
        keys: impl Iterator<Item = ChainKey>,
        compute_block: Duration,
        now: SimTime,
    ) -> Option<Pull> {
        let located = keys.map_while(|key| {
            let level = self.shelves.iter().position(|shelf| shelf.contains(key))?;
            Some((key, level))
        });
        let mut blocks: Vec<(ChainKey, Level)> = located.collect();
        let start = self.pulls_end.max(now);
        let ends = loop {
            // What comes from the slowest tier, and after it, is given up first.
            let slowest = blocks.iter().map(|&(_, level)| level).max()?;
            let ends = start + self.pull_time(&blocks);
            if ends.since(now) < compute_block * blocks.len() as u32 {
                break ends;
            }
            let first = blocks.iter().position(|&(_, level)| level == slowest)?;
            blocks.truncate(first);
        };
        self.pulls_end = ends;
        for &(key, level) in &blocks {
            self.shelves[level].pin(key);
        }
        Some(Pull { ends, blocks })
    }

    /// The pull is over, one way or the other.
    pub(super) fn end_pull(&mut self, pull: &Pull) {
        for &(key, level) in &pull.blocks {
            self.shelves[level].unpin(key);
        }
    }

    /// Staging in host memory, disk and object store side by side, and from there into the device.
    fn pull_time(&self, blocks: &[(ChainKey, Level)]) -> Duration {
        let tiers = self.config.tiers();
        let staging = (1..LOWER.len()).map(|level| {
            let staged = blocks.iter().filter(|(_, from)| *from == level).count();
            tiers[level].transfer_time(staged as u64)
        });
        staging.max().unwrap_or_default() + tiers[0].transfer_time(blocks.len() as u64)
    }

    fn passes_screen(&self, key: ChainKey, level: Level) -> bool {
        let (Some(shelf), Some(tier)) = (self.shelves.get(level), self.config.tiers().get(level).copied())
        else {
            return false;
        };
        let is_worth_it = |entry: &Entry| {
            entry.is_prompt && entry.uses >= tier.min_uses && !entry.tiers.contains(LOWER[level])
        };
        shelf.exists() && self.catalog.get(&key).is_some_and(is_worth_it)
    }

    fn commit(&mut self, level: Level, key: ChainKey, now: SimTime, publisher: &mut Publisher) {
        let Some(Entry { block, parent, .. }) = self.catalog.get(&key) else { return };
        let (block, parent) = (*block, *parent);
        let parent_name = parent.and_then(|parent| self.name(parent));
        if parent.is_some() && parent_name.is_none() {
            return; // nobody could say where it belongs
        }
        let Put::Stored(gone) = self.shelves[level].put(key) else { return };
        if let Some(entry) = self.catalog.get_mut(&key) {
            entry.tiers = entry.tiers.with(LOWER[level]);
        }
        self.offloaded += 1;
        // Before the one that gives way: that may be its parent.
        publisher.stored(LOWER[level], parent_name, block);
        if let Some(gone) = gone {
            if let Some(name) = self.name(gone) {
                publisher.removed(LOWER[level], name);
            }
            if let Some(below) = self.pipelines.get_mut(level + 1) {
                below.cancel(gone);
            }
            self.left(gone, LOWER[level]);
        }
        if self.passes_screen(key, level + 1) {
            self.pipelines[level + 1].at_once(key, now);
        }
    }

    /// A tier holds a block no longer.
    fn left(&mut self, key: ChainKey, tier: Tier) {
        let Some(entry) = self.catalog.get_mut(&key) else { return };
        entry.tiers = entry.tiers.without(tier);
        if entry.tiers.is_empty() {
            self.catalog.remove(&key);
        }
    }

    /// Blocks in each tier below the device.
    pub(super) fn held(&self) -> [usize; 3] {
        [0, 1, 2].map(|level| self.shelves[level].len())
    }
}

#[cfg(test)]
impl Ladder {
    /// Recounts everything.
    pub(super) fn check(&self, max_queued: u32) {
        for (shelf, tier) in self.shelves.iter().zip(LOWER) {
            shelf.check();
            assert!(shelf.keys().all(|key| self.catalog[&key].tiers.contains(tier)));
            let counted = self.catalog.values().filter(|entry| entry.tiers.contains(tier)).count();
            assert_eq!(counted, shelf.len(), "every block of {tier:?} is accounted for");
        }
        assert!(self.catalog.values().all(|entry| !entry.tiers.is_empty()));
        assert!(self.pipelines.iter().all(|pipeline| pipeline.queued() <= max_queued as usize));
    }

    /// Leading blocks of a prompt that are held without a gap, by the best tier of each.
    pub(super) fn reach(&self, prompt: &[LocalBlockHash]) -> [u32; Tier::COUNT] {
        let mut by_tier = [0; Tier::COUNT];
        let mut key = ChainKey::ROOT;
        for &local in prompt {
            key = key.then(local);
            let Some(best) = self.catalog.get(&key).and_then(|entry| entry.tiers.best()) else { break };
            by_tier[best.index()] += 1;
        }
        by_tier
    }

    /// Every block with its name and its tiers, sorted.
    pub(super) fn tiers(&self) -> Vec<(ExternalSequenceHash, Vec<Tier>)> {
        let entry = |entry: &Entry| (entry.block.external, entry.tiers.iter().collect());
        let mut tiers: Vec<_> = self.catalog.values().map(entry).collect();
        tiers.sort_unstable();
        tiers
    }

    /// Whether nothing is on its way up or down.
    pub(super) fn is_quiet(&self) -> bool {
        self.pipelines.iter().all(|pipeline| pipeline.queued() == 0)
            && self.shelves.iter().all(Shelf::is_idle)
    }
}

#[cfg(test)]
mod tests {
    use kv_router_transport::Incarnation;
    use kv_router_types::WorkerRank;

    use super::*;

    #[test]
    fn a_block_whose_parent_is_nowhere_is_not_committed() {
        let mut ladder = Ladder::new(LadderConfig::default());
        let mut publisher = Publisher::new(WorkerRank::default(), Incarnation::new(1));
        let [first, second] = [1, 2].map(LocalBlockHash::new);
        let parent = ChainKey::ROOT.then(first);
        let child = parent.then(second);
        let arrival = |key, parent, name, local| Arrival {
            key,
            parent,
            block: StoredBlock::new(ExternalSequenceHash::new(name), local),
            is_prompt: true,
        };
        ladder.arrived(arrival(parent, None, 1, first));
        ladder.arrived(arrival(child, Some(parent), 2, second));
        ladder.pass_ended(SimTime::ZERO);
        ladder.left_device(parent);
        while let Some(now) = ladder.next() {
            ladder.advance(now, &mut publisher);
        }
        assert_eq!((ladder.held(), publisher.take_batch()), ([0; 3], None));
        assert!(ladder.is_quiet());
    }
}
