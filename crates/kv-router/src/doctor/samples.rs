//! Prompts that a rank was sent, to be found again in what its engine stores: do both sides hash alike?

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_router_types::{KvEvent, LocalBlockHash};
use parking_lot::Mutex;

/// Every so manyth request that the engine must store something for is remembered.
const EVERY: u32 = 4;
/// So many are remembered at a time.
const MOST: usize = 8;
/// A prompt of which nothing was stored for so long never will be.
const PATIENCE: Duration = Duration::from_secs(60);
/// Counts are halved here, so that a fault that is mended is forgotten.
const MEMORY: u32 = 64;

/// The samples of one rank. Takes its own lock, and no other under it.
#[derive(Debug)]
pub(crate) struct Samples {
    requests: AtomicU32,
    /// Blocks of ours that the engine stores at a time.
    unit: AtomicU32,
    /// A bit for each hash that is looked for; 0 where nothing is.
    bits: AtomicU64,
    /// Stores heard of while something was looked for.
    stores: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    samples: Vec<Sample>,
    /// Of prompts of the base model, and of adapters.
    found: [Found; 2],
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The first block that the rank did not have: the first that it has to store.
    local: LocalBlockHash,
    is_adapted: bool,
    sent: Instant,
    /// Stores heard of when it was sent.
    stores: u64,
}

/// What became of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) stored: u32,
    pub(super) missing: u32,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            requests: AtomicU32::new(0),
            unit: AtomicU32::new(1),
            bits: AtomicU64::new(0),
            stores: AtomicU64::new(0),
            open: Mutex::default(),
        }
    }
}

fn bit(local: LocalBlockHash) -> u64 {
    1 << (local.get() & 63)
}

impl Samples {
    pub(crate) fn set_unit(&self, blocks: u32) {
        self.unit.store(blocks, Ordering::Relaxed);
    }

    /// A request went to the rank, which has the first `cached` of its blocks.
    pub(crate) fn sent(&self, blocks: &[LocalBlockHash], cached: u32, is_adapted: bool, now: Instant) {
        let Some(missing) = blocks.get(cached as usize..).filter(|missing| !missing.is_empty()) else {
            return;
        };
        // What does not fill a block of the engine is not stored.
        if missing.len() < self.unit.load(Ordering::Relaxed) as usize
            || !self.requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY)
        {
            return;
        }
        let Some(mut open) = self.open.try_lock() else { return };
        let stores = self.stores.load(Ordering::Relaxed);
        open.expire(now, stores);
        if open.samples.len() < MOST && open.samples.iter().all(|sample| sample.local != missing[0]) {
            open.samples.push(Sample { local: missing[0], is_adapted, sent: now, stores });
        }
        self.bits.store(open.bits(), Ordering::Relaxed);
    }

    /// The rank stored something. Costs a load of a word when nothing is looked for, and else a bit test a block.
    pub(crate) fn heard(&self, events: &[KvEvent]) {
        let bits = self.bits.load(Ordering::Relaxed);
        if bits == 0 {
            return;
        }
        for event in events {
            let KvEvent::Stored { blocks, .. } = event else { continue };
            self.stores.fetch_add(1, Ordering::Relaxed);
            for block in blocks.iter().filter(|block| bits & bit(block.local) != 0) {
                let mut open = self.open.lock();
                if let Some(at) = open.samples.iter().position(|sample| sample.local == block.local) {
                    let sample = open.samples.swap_remove(at);
                    open.count(sample.is_adapted, |found| found.stored += 1);
                    self.bits.store(open.bits(), Ordering::Relaxed);
                }
            }
        }
    }

    /// What was found so far of prompts of the base model, and of adapters.
    pub(super) fn found(&self, now: Instant) -> [Found; 2] {
        let mut open = self.open.lock();
        open.expire(now, self.stores.load(Ordering::Relaxed));
        self.bits.store(open.bits(), Ordering::Relaxed);
        open.found
    }
}

impl Open {
    fn bits(&self) -> u64 {
        self.samples.iter().fold(0, |bits, sample| bits | bit(sample.local))
    }

    fn expire(&mut self, now: Instant, stores: u64) {
        let is_over = |sample: &mut Sample| now.saturating_duration_since(sample.sent) >= PATIENCE;
        let over: Vec<_> = self.samples.extract_if(.., is_over).collect();
        // A rank that stored nothing at all is a silent one, which is another matter.
        for sample in over.into_iter().filter(|sample| sample.stores < stores) {
            self.count(sample.is_adapted, |found| found.missing += 1);
        }
    }

    fn count(&mut self, is_adapted: bool, count: impl FnOnce(&mut Found)) {
        let found = &mut self.found[usize::from(is_adapted)];
        count(found);
        if found.stored + found.missing >= MEMORY {
            *found = Found { stored: found.stored / 2, missing: found.missing / 2 };
        }
    }
}
