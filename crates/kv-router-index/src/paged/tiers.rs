//! Where the copies are, for holds that are not on the device alone: the rare case, kept apart.

use kv_router_types::Tier;

use super::chunks::Chunks;
use super::sizes::{PAGE_BLOCKS, TIER_CHUNK as CHUNK};
use super::words::{MAX_TIER_RECORDS, Mask};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Tiers below the device.
pub(super) const LOWER: usize = Tier::COUNT - 1;
const WORDS: usize = PAGE_BLOCKS.div_ceil(64);

/// For each lower tier the blocks whose best copy is there. Never changed while a holder points to it.
#[derive(Default)]
struct Record([[AtomicU64; WORDS]; LOWER]);

/// All tier records. Number 0 is none.
pub(super) struct TierRecords {
    chunks: Chunks<Record>,
    free: Mutex<(Vec<u32>, u32)>,
    /// Records in use, so that lookups in an index without lower tiers need not ask.
    used: AtomicUsize,
}

impl TierRecords {
    pub(super) fn new() -> Self {
        Self { chunks: Chunks::new(CHUNK), free: Mutex::new((Vec::new(), 1)), used: AtomicUsize::new(0) }
    }

    /// Writes a record. `None` when eight million are in use, which takes more memory than the rest of the index.
    pub(super) fn allocate(&self, best: &[Mask; LOWER]) -> Option<u32> {
        let id = {
            let (ids, next) = &mut *self.free.lock();
            match ids.pop() {
                Some(id) => id,
                None if *next < MAX_TIER_RECORDS => {
                    *next += 1;
                    *next - 1
                }
                None => return None,
            }
        };
        let record = &self.chunks.ensure(id as usize / CHUNK)[id as usize % CHUNK];
        self.used.fetch_add(1, Ordering::Release);
        fence(Ordering::Release);
        for (words, mask) in record.0.iter().zip(best) {
            for (word, bits) in words.iter().zip(mask.words()) {
                word.store(*bits, Ordering::Relaxed);
            }
        }
        Some(id)
    }

    /// Takes a record back. The version of its page has been bumped.
    pub(super) fn free(&self, id: u32) {
        if id != 0 {
            self.free.lock().0.push(id);
            self.used.fetch_sub(1, Ordering::Release);
        }
    }

    /// Of the first `blocks` blocks, how many have their best copy in each lower tier.
    pub(super) fn count(&self, id: u32, blocks: usize) -> [u32; LOWER] {
        let record = self.chunks.get(id as usize / CHUNK).map(|chunk| &chunk[id as usize % CHUNK]);
        let Some(record) = record.filter(|_| id != 0) else { return [0; LOWER] };
        std::array::from_fn(|tier| {
            let words = record.0[tier].iter().enumerate();
            words
                .map(|(index, word)| match blocks.saturating_sub(index * 64) {
                    0 => 0,
                    left => (word.load(Ordering::Relaxed) & (u64::MAX >> (64 - left.min(64)))).count_ones(),
                })
                .sum()
        })
    }

    /// Records in use.
    pub(super) fn in_use(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether nobody holds anything below the device.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.used.load(Ordering::Acquire) == 0
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.bytes()
    }
}
