//! The changes of our own bookings, numbered, until they are sent.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{DeltaBatch, LoadDelta, ReplicaLife};

/// Makes a tracker tell its bookings to other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Who we are.
    pub life: ReplicaLife,
    /// Changes kept until they are sent, at least 1. When there are more, or their prompts come to 16,777,216 blocks,
    /// they are all dropped: the others see the gap and ask for a snapshot.
    pub max_pending: usize,
}

impl JournalConfig {
    /// A journal of 65,536 changes.
    pub const fn new(life: ReplicaLife) -> Self {
        Self { life, max_pending: 1 << 16 }
    }
}

/// Prompt blocks kept until they are sent: 128 MiB.
const MOST_PENDING_BLOCKS: usize = 1 << 24;

/// Prompt blocks after which a batch takes no further change: 8 MiB, so that it passes the limits of any transport.
const MOST_BLOCKS: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Journal {
    config: JournalConfig,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    pending: VecDeque<LoadDelta>,
    /// Prompt blocks in all of them.
    blocks: usize,
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
        let blocks = blocks_of(&delta);
        if entries.pending.len() >= self.config.max_pending.max(1)
            || entries.blocks + blocks > MOST_PENDING_BLOCKS
        {
            entries.pending.clear();
            entries.blocks = 0;
        }
        entries.blocks += blocks;
        entries.pending.push_back(delta);
        entries.next += 1;
    }

    /// The number that the next change will have.
    pub(crate) fn next(&self) -> u64 {
        self.entries.lock().next
    }

    /// At most `most` of those that wait to be sent; fewer when their prompts are long, but never none of some.
    pub(crate) fn take(&self, most: usize) -> DeltaBatch {
        let mut entries = self.entries.lock();
        let first = entries.next - entries.pending.len() as u64;
        let (mut count, mut blocks) = (0, 0);
        while count < most.min(entries.pending.len()) && blocks < MOST_BLOCKS {
            blocks += blocks_of(&entries.pending[count]);
            count += 1;
        }
        entries.blocks -= blocks;
        let deltas = entries.pending.drain(..count).collect();
        DeltaBatch { from: self.config.life, first, deltas }
    }
}

fn blocks_of(delta: &LoadDelta) -> usize {
    match delta {
        LoadDelta::Booked(booking) => booking.prompt_blocks.len(),
        LoadDelta::Progressed { .. } | LoadDelta::Released { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use kv_router_types::SequenceHash;

    use super::*;
    use crate::{BookingName, ReplicaId, SharedBooking};

    fn booked(name: u64, blocks: usize) -> LoadDelta {
        LoadDelta::Booked(SharedBooking {
            name: BookingName::new(name),
            worker: Default::default(),
            prefill_tokens: 0,
            prompt_blocks: vec![SequenceHash::new(0); blocks],
            private_blocks: 0,
            output_blocks: 0,
        })
    }

    #[test]
    fn long_prompts_come_in_several_batches_and_are_bounded() {
        let life = ReplicaLife { replica: ReplicaId::new(1), life: 1 };
        let journal = Journal::new(JournalConfig::new(life));
        (0..5).for_each(|name| journal.push(booked(name, MOST_BLOCKS / 2)));
        let taken: Vec<_> = (0..4).map(|_| journal.take(1_024)).collect();
        let taken: Vec<_> = taken.iter().map(|batch| (batch.first, batch.deltas.len())).collect();
        assert_eq!(taken, [(0, 2), (2, 2), (4, 1), (5, 0)]);
        // What nobody takes is dropped: the next batch shows a gap.
        (0..17).for_each(|name| journal.push(booked(name, MOST_PENDING_BLOCKS / 16)));
        let batch = journal.take(1_024);
        assert_eq!((batch.first, batch.deltas.len()), (21, 1));
        assert_eq!(journal.entries.lock().blocks, 0);
    }
}
