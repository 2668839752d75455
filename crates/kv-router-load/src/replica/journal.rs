//! The changes of our own bookings, numbered, until they are sent.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{DeltaBatch, LoadDelta, ReplicaLife};

/// Makes a tracker tell its bookings to other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Who we are.
    pub life: ReplicaLife,
    /// Changes kept until they are sent, at least 1. When there are more, they are all dropped: the others see the gap
    /// and ask for a snapshot.
    pub max_pending: usize,
}

impl JournalConfig {
    /// A journal of 65,536 changes.
    pub const fn new(life: ReplicaLife) -> Self {
        Self { life, max_pending: 1 << 16 }
    }
}

#[derive(Debug)]
pub(crate) struct Journal {
    config: JournalConfig,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    pending: VecDeque<LoadDelta>,
    /// The number of the next change.
    next: u64,
}

impl Journal {
    pub(crate) fn new(config: JournalConfig) -> Self {
        Self { config, entries: Mutex::default() }
    }

    pub(crate) const fn life(&self) -> ReplicaLife {
        self.config.life
    }

    /// Called under the lock of the rank, so that the changes of one booking are in their order.
    pub(crate) fn push(&self, delta: LoadDelta) {
        let mut entries = self.entries.lock();
        if entries.pending.len() >= self.config.max_pending.max(1) {
            entries.pending.clear();
        }
        entries.pending.push_back(delta);
        entries.next += 1;
    }

    /// The number that the next change will have.
    pub(crate) fn next(&self) -> u64 {
        self.entries.lock().next
    }

    /// At most `most` of those that wait to be sent.
    pub(crate) fn take(&self, most: usize) -> DeltaBatch {
        let mut entries = self.entries.lock();
        let first = entries.next - entries.pending.len() as u64;
        let count = most.min(entries.pending.len());
        let deltas = entries.pending.drain(..count).collect();
        DeltaBatch { from: self.config.life, first, deltas }
    }
}
