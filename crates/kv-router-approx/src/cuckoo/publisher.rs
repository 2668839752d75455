//! The writing side of a summary: a filter and a bounded log of its last changes.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;

use kv_router_types::SequenceHash;

use super::delta::{Change, SummaryDelta, SummaryEpoch, SummaryPosition, SummaryVersion};
use super::filter::{CuckooFilter, FilterFull};
use super::replica::CuckooReplica;
use super::summary::PrefixSummary;
use super::tag::Tag;

/// A filter that others follow: every change has a version, and the last ones are kept for readers that are
/// a little behind. One that is further behind gets a snapshot.
///
/// Cost: that of the filter, and 12 bytes for each change in the log.
#[derive(Clone, Debug)]
pub struct CuckooPublisher {
    filter: CuckooFilter,
    position: SummaryPosition,
    /// The last changes, oldest first; the newest led to `position`.
    log: VecDeque<Change>,
    log_limit: usize,
}

impl CuckooPublisher {
    /// A publisher of an empty summary at version 0 of `epoch`, whose filter may hold `entries` and whose log
    /// keeps the last `log_limit` changes. Without a log every reader that is behind takes a snapshot.
    pub fn new(epoch: SummaryEpoch, entries: usize, log_limit: usize) -> Self {
        Self {
            filter: CuckooFilter::with_limit(entries),
            position: SummaryPosition { epoch, version: SummaryVersion::default() },
            log: VecDeque::new(),
            log_limit,
        }
    }

    /// Adds one copy of `hash`.
    ///
    /// # Errors
    ///
    /// [`FilterFull`] at the limit of the filter; nothing changed.
    pub fn insert(&mut self, hash: SequenceHash) -> Result<(), FilterFull> {
        let tag = Tag::of(hash);
        self.filter.insert_tag(tag)?;
        self.record(Change::Inserted(tag));
        Ok(())
    }

    /// Takes out one copy of a hash that was inserted; false, and no change, when it is not held.
    pub fn remove(&mut self, hash: SequenceHash) -> bool {
        let tag = Tag::of(hash);
        let held = self.filter.remove_tag(tag);
        if held {
            self.record(Change::Removed(tag));
        }
        held
    }

    /// Forgets everything: one change, however much was held.
    pub fn clear(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
            self.record(Change::Cleared);
        }
    }

    /// The filter as it is now.
    pub fn filter(&self) -> &CuckooFilter {
        &self.filter
    }

    /// The current state.
    pub fn position(&self) -> SummaryPosition {
        self.position
    }

    /// Changes in the log.
    pub fn logged(&self) -> usize {
        self.log.len()
    }

    /// The next changes after the state that a reader is in: ask again until the delta is empty.
    ///
    /// At most `max_changes`, of 6 bytes each, and never more than [`SummaryDelta::MAX_CHANGES`].
    ///
    /// # Errors
    ///
    /// [`SnapshotNeeded`] when the log does not reach back that far, or the reader followed another epoch.
    pub fn delta_since(
        &self,
        reader: SummaryPosition,
        max_changes: usize,
    ) -> Result<SummaryDelta, SnapshotNeeded> {
        if reader.epoch != self.position.epoch {
            return Err(SnapshotNeeded::OtherEpoch { reader: reader.epoch, current: self.position.epoch });
        }
        let Some(behind) = self.position.version.since(reader.version) else {
            return Err(SnapshotNeeded::ReaderAhead {
                reader: reader.version,
                newest: self.position.version,
            });
        };
        let Some(start) = self.log.len().checked_sub(behind) else {
            let oldest = SummaryVersion::new(self.position.version.get() - self.log.len() as u64);
            return Err(SnapshotNeeded::Forgotten { reader: reader.version, oldest });
        };
        let changes =
            self.log.range(start..).take(max_changes.min(SummaryDelta::MAX_CHANGES)).copied().collect();
        Ok(SummaryDelta::new(reader, changes))
    }

    /// The whole summary with its position, for [`CuckooReplica::from_bytes`].
    pub fn snapshot(&self) -> Vec<u8> {
        CuckooReplica::write(&self.filter, self.position)
    }

    fn record(&mut self, change: Change) {
        self.position.version = self.position.version.after(1);
        if self.log_limit == 0 {
            return;
        }
        if self.log.len() == self.log_limit {
            self.log.pop_front();
        }
        self.log.push_back(change);
    }
}

impl PrefixSummary for CuckooPublisher {
    fn blocks_at_most(&self, sequence: &[SequenceHash]) -> u32 {
        self.filter.blocks_at_most(sequence)
    }
}

/// Why there is no delta for a reader: it has to take a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotNeeded {
    /// The reader followed another life of the publisher.
    OtherEpoch {
        /// The epoch that the reader followed.
        reader: SummaryEpoch,
        /// The epoch of the publisher.
        current: SummaryEpoch,
    },
    /// The log does not reach back that far.
    Forgotten {
        /// The version that the reader has.
        reader: SummaryVersion,
        /// The oldest version that a delta can start from.
        oldest: SummaryVersion,
    },
    /// The reader has a version that the publisher never reached: two publishers share an epoch.
    ReaderAhead {
        /// The version that the reader has.
        reader: SummaryVersion,
        /// The newest version there is.
        newest: SummaryVersion,
    },
}

impl fmt::Display for SnapshotNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherEpoch { reader, current } => {
                write!(f, "the reader follows epoch {reader}, this is epoch {current}: take a snapshot")
            }
            Self::Forgotten { reader, oldest } => {
                write!(f, "the log starts at version {oldest}, the reader has {reader}: take a snapshot")
            }
            Self::ReaderAhead { reader, newest } => {
                write!(
                    f,
                    "the reader has version {reader}, the newest is {newest}: take a snapshot, and give every start of the publisher its own epoch"
                )
            }
        }
    }
}

impl Error for SnapshotNeeded {}
