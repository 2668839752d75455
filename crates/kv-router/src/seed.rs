//! One seed, many threads: a draw for each decision without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_router_schedule::SplitMix64;

/// Hands out independent random streams, one a decision.
///
/// The stream of the n-th decision depends on the seed and on n alone, so a single-threaded run repeats exactly.
#[derive(Debug)]
pub(crate) struct Seeds {
    seed: u64,
    decisions: AtomicU64,
}

impl Seeds {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, decisions: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> SplitMix64 {
        // Relaxed: only the uniqueness of the number matters.
        let decision = self.decisions.fetch_add(1, Ordering::Relaxed);
        // An odd multiplier is a bijection: no two decisions of one seed share a stream. It is not the increment of
        // the generator itself, or the second draw of one decision would be the first of the next.
        SplitMix64::new(self.seed ^ decision.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }
}
