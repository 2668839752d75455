//! The index of predictions.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use kv_router_hash::{next_sequence_hash, sequence_hashes_into};
use kv_router_index::{Certainty, FindOptions, Inspect, Occupancy, Overlap, Overlaps, PrefixIndex};
use kv_router_types::{DpRank, LocalBlockHash, SequenceHash, WorkerId, WorkerRank};

use super::config::{PredictedConfig, PredictedConfigError};
use super::store::Store;
use super::wheel::Tick;

/// What recording one decision did. The unit is a block.
///
/// Each block of the prompt is exactly one of `added`, `renewed` and `unplaced`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Blocks that are new.
    pub added: usize,
    /// Blocks that were predicted already and live on.
    pub renewed: usize,
    /// Blocks at the end of the prompt that were not recorded: the prompt alone exceeds the cap, or the hash of
    /// one of them is that of another block.
    pub unplaced: usize,
    /// Oldest leaves that made room.
    pub pruned: usize,
    /// Blocks whose time was over.
    pub expired: usize,
}

/// Predicts which rank holds which prefix. See the [module documentation](super).
///
/// # Cost
///
/// Recording is O(blocks of the prompt); expiry and pruning are O(1) amortised for each block that goes. A lookup asks
/// the ranks that have the first block, each in O(log blocks). Some 100 bytes a block.
#[derive(Clone, Debug)]
pub struct PredictedIndex {
    config: PredictedConfig,
    origin: Instant,
    /// The latest time that was told; time never runs backwards.
    latest: Instant,
    store: Store,
    /// A buffer.
    sequence: Vec<SequenceHash>,
}

impl PredictedIndex {
    /// An empty index whose clock starts at `origin`: earlier times mean that.
    ///
    /// # Errors
    ///
    /// [`PredictedConfigError`] when a field is out of its range.
    pub fn new(config: PredictedConfig, origin: Instant) -> Result<Self, PredictedConfigError> {
        config.validate()?;
        Ok(Self { config, origin, latest: origin, store: Store::new(), sequence: Vec::new() })
    }

    /// Notes that a request with these blocks was routed to `rank` at `now`, and expires what is due.
    ///
    /// A `now` before one that was told earlier means the latter.
    pub fn record(&mut self, rank: WorkerRank, blocks: &[LocalBlockHash], now: Instant) -> Recorded {
        self.record_for(rank, blocks, self.config.ttl, now)
    }

    /// [`record`](Self::record) with a time to live of its own, for instance for a prompt whose cache the client pays
    /// to keep. Never shortens the life of a block. Limited to [`PredictedConfig::MAX_TTL`].
    pub fn record_for(
        &mut self,
        rank: WorkerRank,
        blocks: &[LocalBlockHash],
        ttl: Duration,
        now: Instant,
    ) -> Recorded {
        let expired = self.expire(now);
        // Blocks beyond the cap are not even hashed.
        let kept = &blocks[..blocks.len().min(self.config.max_blocks)];
        sequence_hashes_into(kept, &mut self.sequence);
        let deadline = self.deadline(ttl);
        let stored = self.store.record(rank, &self.sequence, deadline, self.config.max_blocks);
        Recorded {
            added: stored.added,
            renewed: stored.renewed,
            unplaced: blocks.len() - stored.added - stored.renewed,
            pruned: stored.pruned,
            expired,
        }
    }

    /// Forgets every block whose time is over at `now`, and returns how many those were. Recording does it too; call
    /// it when nothing was recorded for a while.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.latest = self.latest.max(now);
        self.store.expire(self.tick(self.latest))
    }

    /// Replaces `out` by the predictions as of `now`: what is due by then does not count, although it is still there.
    pub fn find_at(&self, query: &[LocalBlockHash], now: Instant, out: &mut Overlaps) {
        self.find_at_tick(query, self.tick(now).max(self.store.now()), out);
    }

    /// Forgets all blocks of a rank, for instance when its engine restarts, and returns how many those were.
    pub fn remove_rank(&mut self, rank: WorkerRank) -> usize {
        self.store.remove(rank)
    }

    /// Forgets all ranks of a worker and returns how many blocks those had.
    pub fn remove_worker(&mut self, worker: WorkerId) -> usize {
        let first = WorkerRank::new(worker, DpRank::new(0));
        let last = WorkerRank::new(worker, DpRank::new(u32::MAX));
        self.store.ranks_in(first, last).into_iter().map(|rank| self.store.remove(rank)).sum()
    }

    /// Blocks held, over all ranks.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether nothing is predicted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The configuration.
    pub fn config(&self) -> &PredictedConfig {
        &self.config
    }

    fn find_at_tick(&self, query: &[LocalBlockHash], now: Tick, out: &mut Overlaps) {
        thread_local! {
            // The contract passes no scratch, and a lookup is to be free of allocation.
            static SCRATCH: RefCell<(Vec<SequenceHash>, Vec<Overlap>)> = RefCell::default();
        }
        out.begin(query.len(), Certainty::Guess);
        let Some(root) = query.first() else { return };
        let holders = self.store.holders(next_sequence_hash(None, *root));
        if holders.is_empty() {
            return;
        }
        SCRATCH.with_borrow_mut(|(sequence, found)| {
            sequence_hashes_into(query, sequence);
            found.clear();
            found.extend(holders.iter().filter_map(|&rank| {
                let depth = self.store.depth(rank, sequence, now);
                (depth > 0).then(|| Overlap::on_device(rank, depth as u32))
            }));
            found.sort_unstable_by_key(|overlap| (overlap.blocks(), std::cmp::Reverse(overlap.worker())));
            found.iter().for_each(|&overlap| out.push(overlap));
        });
    }

    /// The last tick at or before `now`.
    fn tick(&self, now: Instant) -> Tick {
        let ticks = now.saturating_duration_since(self.origin).as_nanos() / self.config.tick.as_nanos();
        Tick::try_from(ticks).unwrap_or(Tick::MAX)
    }

    /// The first tick at which a block that is used now and lives for `ttl` is due.
    fn deadline(&self, ttl: Duration) -> Tick {
        let life = self.latest.saturating_duration_since(self.origin).as_nanos()
            + ttl.min(PredictedConfig::MAX_TTL).as_nanos();
        let ticks = life.div_ceil(self.config.tick.as_nanos());
        // One tick ahead at least: even without any time to live, a decision is known until the clock moves on.
        Tick::try_from(ticks).unwrap_or(Tick::MAX).max(self.store.now().saturating_add(1))
    }
}

/// As of the latest time that the index was told; [`find_at`](PredictedIndex::find_at) takes another. Always answers
/// in full: [`FindOptions`] changes nothing. Every block counts as in device memory.
impl PrefixIndex for PredictedIndex {
    fn find_into(&self, query: &[LocalBlockHash], _: FindOptions, out: &mut Overlaps) {
        self.find_at_tick(query, self.store.now(), out);
    }

    fn certainty(&self) -> Certainty {
        Certainty::Guess
    }
}

/// A node is a predicted block of one rank, and also what counts as a name; the side entries are first blocks.
impl Inspect for PredictedIndex {
    fn occupancy(&self) -> Occupancy {
        let mut occupancy = Occupancy::default();
        occupancy.ranks = self.store.ranks();
        occupancy.names = self.len();
        occupancy.nodes = self.len();
        occupancy.side_entries = self.store.roots();
        occupancy
    }
}

#[cfg(test)]
impl PredictedIndex {
    /// Checks the invariants.
    #[track_caller]
    pub(super) fn check(&self) {
        self.store.check();
    }

    /// Entries that there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.store.capacity()
    }
}
