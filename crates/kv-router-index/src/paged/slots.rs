//! Small numbers for worker ranks.

use kv_router_types::{DpRank, WorkerId, WorkerRank};

use super::chunks::Chunks;
use super::sizes::SLOT_CHUNK as CHUNK;
use crate::overlaps::Edition;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const ALIVE: u64 = 1 << 32;

/// What a slot number stands for.
#[derive(Default)]
pub(super) struct Slot {
    worker: AtomicU64,
    /// Bits 0..32 the rank, bit 32 alive: a retired slot is not reported, whatever pages still say.
    rank: AtomicU64,
}

impl Slot {
    /// The rank, unless the slot was retired.
    #[inline]
    fn rank(&self) -> Option<WorkerRank> {
        let rank = self.rank.load(Ordering::Acquire);
        let worker = WorkerId::new(self.worker.load(Ordering::Relaxed));
        (rank & ALIVE != 0).then(|| WorkerRank::new(worker, DpRank::new(rank as u32)))
    }
}

/// Which rank a slot number stands for.
///
/// A slot is given to another rank only when no page names it any more, and taking it out of a page changes that page's
/// version: a reader that looks up a slot before it checks the versions never mistakes one rank for another. Readers
/// keep a copy, and look whether it is still right.
pub(super) struct Slots {
    chunks: Chunks<Slot>,
    free: Mutex<Vec<u32>>,
    /// Slots ever given out.
    high: AtomicUsize,
    /// Tells this index from others that a reader asks.
    index: u64,
    /// How often a slot came to stand for another rank, or for none.
    changes: AtomicU64,
}

/// The next index. Not a model's atomic: no order depends on it.
static INDEXES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            chunks: Chunks::new(CHUNK),
            free: Mutex::new(Vec::new()),
            high: AtomicUsize::new(0),
            index: INDEXES.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            changes: AtomicU64::new(0),
        }
    }

    /// A slot for the rank; `None` when `limit` are in use.
    pub(super) fn allocate(&self, rank: WorkerRank, limit: usize) -> Option<u32> {
        let mut free = self.free.lock();
        let slot = match free.pop() {
            Some(slot) => slot,
            None => {
                let next = self.high.load(Ordering::Relaxed);
                if next >= limit {
                    return None;
                }
                self.chunks.ensure(next / CHUNK);
                self.high.store(next + 1, Ordering::Release);
                next as u32
            }
        };
        let info = &self.chunks.ensure(slot as usize / CHUNK)[slot as usize % CHUNK];
        info.worker.store(rank.worker.get(), Ordering::Release);
        info.rank.store(u64::from(rank.rank.get()) | ALIVE, Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
        Some(slot)
    }

    /// Forgets at once, for readers, all that the slot holds.
    pub(super) fn retire(&self, slot: u32) {
        if let Some(info) = self.info(slot) {
            info.rank.store(0, Ordering::Release);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes back a slot that no page names.
    pub(super) fn recycle(&self, slot: u32) {
        self.retire(slot);
        self.free.lock().push(slot);
    }

    #[inline]
    fn info(&self, slot: u32) -> Option<&Slot> {
        self.chunks.get(slot as usize / CHUNK).map(|chunk| &chunk[slot as usize % CHUNK])
    }

    /// Changes with what the slots stand for.
    #[inline]
    pub(super) fn edition(&self) -> Edition {
        (self.index, self.changes.load(Ordering::Acquire))
    }

    /// What each slot stands for, from 0 on, one after the other.
    pub(super) fn all(&self) -> impl Iterator<Item = Option<WorkerRank>> {
        (0..self.high()).map(|slot| self.info(slot as u32).and_then(Slot::rank))
    }

    /// Slots ever given out: slot numbers are below.
    #[inline]
    pub(super) fn high(&self) -> usize {
        self.high.load(Ordering::Acquire)
    }
}
