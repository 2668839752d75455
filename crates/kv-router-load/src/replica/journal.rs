//! The changes of our own bookings, numbered, until they are sent.

use std::collections::VecDeque;

use kv_router_types::SequenceHash;
use parking_lot::Mutex;

use super::{BookingsPart, DeltaBatch, LoadDelta, ReplicaLife, SharedBooking};

/// Makes a tracker tell its bookings to other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Who we are.
    pub life: ReplicaLife,
    /// Changes kept until they are sent, at least 1. When there are more, or their prompts come to 16,777,216 blocks,
    /// they are all dropped: the others see the gap and ask for our bookings.
    pub max_pending: usize,
    /// The largest message that a [`DeltaBatch`] or a [`BookingsPart`] may become, in bytes, from 1,024 to 2^30.
    /// Default 960 KiB, which leaves some of the 1 MiB that a broker usually carries to its own headers.
    ///
    /// Of a prompt so long that its booking alone does not fit, the blocks that are too many are told as
    /// [private](SharedBooking::private_blocks) ones: the others count as many blocks as we do, but do not see that
    /// they are shared. The default tells 122,866 blocks of each prompt, which is 1.9 million tokens in blocks of 16.
    pub max_message_bytes: usize,
}

impl JournalConfig {
    /// The range of [`max_message_bytes`](Self::max_message_bytes).
    pub(crate) const MESSAGE_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 30;

    /// A journal of 65,536 changes, told in messages of up to 960 KiB.
    pub const fn new(life: ReplicaLife) -> Self {
        Self { life, max_pending: 1 << 16, max_message_bytes: 960 << 10 }
    }
}

/// Prompt blocks kept until they are sent: 128 MiB.
const MOST_PENDING_BLOCKS: usize = 1 << 24;

/// Bytes of a message beside its records, and of a booking beside its prompt: docs/wire.md has the forms.
const HEAD_BYTES: usize = 64;
const BOOKING_BYTES: usize = 41;

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
    /// Bookings of which a part of the prompt was told as private.
    shortened: u64,
}

impl Journal {
    pub(crate) fn new(config: JournalConfig) -> Self {
        Self { config, entries: Mutex::default() }
    }

    pub(crate) const fn life(&self) -> ReplicaLife {
        self.config.life
    }

    /// What is told of a prompt, and how many of its blocks are told as private ones.
    pub(crate) fn told<'p>(&self, prompt: &'p [SequenceHash]) -> (&'p [SequenceHash], u32) {
        let most = self.config.max_message_bytes.saturating_sub(HEAD_BYTES + BOOKING_BYTES) / 8;
        let (told, rest) = prompt.split_at(most.min(prompt.len()));
        (told, u32::try_from(rest.len()).unwrap_or(u32::MAX))
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

    pub(crate) fn note_shortened(&self) {
        self.entries.lock().shortened += 1;
    }

    pub(crate) fn shortened(&self) -> u64 {
        self.entries.lock().shortened
    }

    /// The number that the next change will have.
    pub(crate) fn next(&self) -> u64 {
        self.entries.lock().next
    }

    /// At most `most` of those that wait to be sent; fewer when they would not fit a message, but never none of some.
    pub(crate) fn take(&self, most: usize) -> DeltaBatch {
        let mut entries = self.entries.lock();
        let first = entries.next - entries.pending.len() as u64;
        let (mut blocks, mut room) = (0, Room::new(&self.config));
        let fits = |delta: &&LoadDelta| room.take(bytes_of(delta));
        let taken = entries.pending.iter().take(most).take_while(fits);
        let count = taken.inspect(|delta| blocks += blocks_of(delta)).count();
        entries.blocks -= blocks;
        let deltas = entries.pending.drain(..count).collect();
        DeltaBatch { from: self.config.life, first, deltas }
    }

    /// Moves bookings into a part as long as they fit a message; one always does.
    pub(super) fn fill(
        &self,
        part: &mut BookingsPart,
        mut next: impl FnMut() -> Option<SharedBooking>,
    ) -> Option<SharedBooking> {
        let mut room = Room::new(&self.config);
        loop {
            let booking = next()?;
            if !room.take(BOOKING_BYTES + 8 * booking.prompt_blocks.len()) {
                return Some(booking);
            }
            part.bookings.push(booking);
        }
    }
}

/// What is left of a message.
struct Room {
    bytes: usize,
    is_untouched: bool,
}

impl Room {
    fn new(config: &JournalConfig) -> Self {
        Self { bytes: config.max_message_bytes.saturating_sub(HEAD_BYTES), is_untouched: true }
    }

    /// `false` when a record does not fit beside those that are there.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes || self.is_untouched;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_untouched = false;
        fits
    }
}

fn blocks_of(delta: &LoadDelta) -> usize {
    match delta {
        LoadDelta::Booked(booking) => booking.prompt_blocks.len(),
        LoadDelta::Progressed { .. } | LoadDelta::Released { .. } => 0,
    }
}

fn bytes_of(delta: &LoadDelta) -> usize {
    match delta {
        LoadDelta::Booked(booking) => BOOKING_BYTES + 8 * booking.prompt_blocks.len(),
        LoadDelta::Progressed { .. } => 21,
        LoadDelta::Released { .. } => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BookingName, ReplicaId};

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

    fn journal(max_message_bytes: usize) -> Journal {
        let life = ReplicaLife { replica: ReplicaId::new(1), life: 1 };
        Journal::new(JournalConfig { max_message_bytes, ..JournalConfig::new(life) })
    }

    #[test]
    fn what_is_told_fits_a_message_and_what_nobody_takes_is_bounded() {
        let journal = journal(1 << 10);
        // 64 for the message and 41 for the booking leave 919 bytes.
        let prompt = [SequenceHash::new(0); 200];
        assert_eq!(journal.told(&prompt), (&prompt[..114], 86));
        assert_eq!(journal.told(&prompt[..114]), (&prompt[..114], 0));
        (0..5).for_each(|name| journal.push(booked(name, 53)));
        journal.push(booked(5, 114));
        let taken: Vec<_> = (0..5).map(|_| journal.take(1_024)).collect();
        let taken: Vec<_> = taken.iter().map(|batch| (batch.first, batch.deltas.len())).collect();
        assert_eq!(taken, [(0, 2), (2, 2), (4, 1), (5, 1), (6, 0)]);
        // What nobody takes is dropped: the next batch shows a gap.
        (0..17).for_each(|name| journal.push(booked(name, MOST_PENDING_BLOCKS / 16)));
        let batch = journal.take(1_024);
        assert_eq!((batch.first, batch.deltas.len()), (22, 1));
        assert_eq!(journal.entries.lock().blocks, 0);
    }
}
