//! How often each block was matched lately.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::nodes::NodeId;
use crate::children::shrink_sparse;

/// Steps that a window is counted in. More are finer and cost four bytes a block each.
const STEPS: usize = 8;

/// Uses of each block within a sliding window.
#[derive(Debug)]
pub(super) struct Uses {
    /// One [`STEPS`]th of the window, in nanoseconds; at least 1.
    step: u128,
    /// The first time that was ever given: steps are counted from here.
    origin: Option<Instant>,
    /// The latest step seen. Time does not go backwards: an earlier time counts as this one.
    now: u64,
    by_node: FxHashMap<NodeId, Ring>,
}

/// Uses of one block in the steps `latest - STEPS + 1 ..= latest`, each at its number modulo [`STEPS`].
#[derive(Clone, Copy, Debug, Default)]
struct Ring {
    latest: u64,
    counts: [u32; STEPS],
}

impl Uses {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            step: (window.as_nanos() / STEPS as u128).max(1),
            origin: None,
            now: 0,
            by_node: FxHashMap::default(),
        }
    }

    /// Moves on to `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        let origin = *self.origin.get_or_insert(now);
        let step = now.saturating_duration_since(origin).as_nanos() / self.step;
        self.now = self.now.max(u64::try_from(step).unwrap_or(u64::MAX));
    }

    /// Counts a use and tells how many there were in the window, this one included.
    pub(super) fn count(&mut self, node: NodeId) -> u32 {
        let ring = self.by_node.entry(node).or_default();
        let passed = (self.now - ring.latest).min(STEPS as u64);
        ring.latest = self.now;
        for back in 0..passed {
            ring.counts[slot(self.now - back)] = 0;
        }
        let current = &mut ring.counts[slot(self.now)];
        *current = current.saturating_add(1);
        ring.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Forgets a block that is gone.
    pub(super) fn forget(&mut self, node: NodeId) {
        if self.by_node.remove(&node).is_some() {
            if self.by_node.is_empty() {
                self.by_node = FxHashMap::default();
            } else {
                shrink_sparse(&mut self.by_node);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }
}

fn slot(step: u64) -> usize {
    (step % STEPS as u64) as usize
}
