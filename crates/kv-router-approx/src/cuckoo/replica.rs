//! The reading side of a summary: a filter that follows a publisher.

use std::error::Error;
use std::fmt;

use kv_router_types::SequenceHash;
use rustc_hash::FxHashMap;

use super::delta::{Change, SummaryDelta, SummaryEpoch, SummaryPosition, SummaryVersion};
use super::filter::{CuckooFilter, FilterFull};
use super::frame;
use super::snapshot::{self, SnapshotError};
use super::summary::PrefixSummary;
use super::tag::Tag;

const MAGIC: [u8; 4] = *b"KVCS";

/// A copy of a publisher's summary at one of its versions. Equal to the byte to the publisher's filter at
/// that version.
///
/// Its answers are upper bounds of what the owner held at that version; what the owner stored since is not in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooReplica {
    filter: CuckooFilter,
    position: SummaryPosition,
}

impl CuckooReplica {
    /// A replica from what [`CuckooPublisher::snapshot`](super::CuckooPublisher::snapshot) wrote, which may hold
    /// `limit` entries.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`], as [`CuckooFilter::from_bytes`] has it.
    pub fn from_bytes(bytes: &[u8], limit: usize) -> Result<Self, SnapshotError> {
        let mut body = frame::open(MAGIC, bytes)?;
        let epoch = SummaryEpoch::new(body.u64()?);
        let version = SummaryVersion::new(body.u64()?);
        let filter = snapshot::read(&mut body, limit)?;
        body.end()?;
        Ok(Self { filter, position: SummaryPosition { epoch, version } })
    }

    /// The replica as bytes: what its publisher's snapshot was at this version. So a replica can seed another.
    pub fn to_bytes(&self) -> Vec<u8> {
        Self::write(&self.filter, self.position)
    }

    /// Epoch (8 bytes), version (8), filter.
    pub(super) fn write(filter: &CuckooFilter, position: SummaryPosition) -> Vec<u8> {
        frame::seal(MAGIC, |out| {
            out.extend_from_slice(&position.epoch.get().to_le_bytes());
            out.extend_from_slice(&position.version.get().to_le_bytes());
            snapshot::write(filter, out);
        })
    }

    /// The filter.
    pub fn filter(&self) -> &CuckooFilter {
        &self.filter
    }

    /// The state that it is in.
    pub fn position(&self) -> SummaryPosition {
        self.position
    }

    /// Applies the changes that are news and returns how many those were. Changes that it has seen are skipped,
    /// so deltas may overlap and repeat.
    ///
    /// # Errors
    ///
    /// [`DeltaError`]; the replica still has the version and the entries that it had.
    pub fn apply(&mut self, delta: &SummaryDelta) -> Result<usize, DeltaError> {
        let from = delta.from();
        if from.epoch != self.position.epoch {
            return Err(DeltaError::OtherEpoch { replica: self.position.epoch, delta: from.epoch });
        }
        let Some(seen) = self.position.version.since(from.version) else {
            return Err(DeltaError::Gap { replica: self.position.version, delta: from.version });
        };
        let news = delta.changes().get(seen..).unwrap_or_default();
        self.apply_all(news)?;
        self.position.version = self.position.version.after(news.len());
        Ok(news.len())
    }

    /// Applies all changes or none.
    fn apply_all(&mut self, changes: &[Change]) -> Result<(), DeltaError> {
        let cleared = changes.iter().rposition(|change| *change == Change::Cleared);
        if let Some(cleared) = cleared {
            // What comes before the last clear does not matter, and what it cleared is kept until all is well.
            let mut fresh = CuckooFilter::with_limit(self.filter.limit());
            changes[cleared + 1..].iter().try_for_each(|&change| apply_one(&mut fresh, change))?;
            self.filter = fresh;
            return Ok(());
        }
        self.check(changes)?;
        changes.iter().try_for_each(|&change| apply_one(&mut self.filter, change))
    }

    /// Whether all of these changes can be applied, one after the other; there is no clear among them. Taking back what
    /// was applied would not do: an entry may come back into another slot, and the replica must stay equal to the byte.
    fn check(&self, changes: &[Change]) -> Result<(), DeltaError> {
        let mut held: FxHashMap<Tag, u64> = FxHashMap::default();
        let mut entries = self.filter.len();
        for &change in changes {
            let (Change::Inserted(tag) | Change::Removed(tag)) = change else { continue };
            let copies = held.entry(tag).or_insert_with(|| self.filter.copies(tag));
            let is_insert = matches!(change, Change::Inserted(_));
            if is_insert && entries >= self.filter.limit() {
                return Err(DeltaError::Full(FilterFull { limit: self.filter.limit() }));
            } else if is_insert {
                (*copies, entries) = (*copies + 1, entries + 1);
            } else if *copies == 0 {
                return Err(DeltaError::Diverged);
            } else {
                (*copies, entries) = (*copies - 1, entries - 1);
            }
        }
        Ok(())
    }
}

fn apply_one(filter: &mut CuckooFilter, change: Change) -> Result<(), DeltaError> {
    match change {
        Change::Inserted(tag) => filter.insert_tag(tag).map_err(DeltaError::Full),
        Change::Removed(tag) if filter.remove_tag(tag) => Ok(()),
        Change::Removed(_) => Err(DeltaError::Diverged),
        Change::Cleared => {
            filter.clear();
            Ok(())
        }
    }
}

impl PrefixSummary for CuckooReplica {
    fn blocks_at_most(&self, sequence: &[SequenceHash]) -> u32 {
        self.filter.blocks_at_most(sequence)
    }
}

/// Why a delta was refused. The replica holds what it held, at the version that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeltaError {
    /// Changes between the replica and the delta are missing.
    Gap {
        /// The version of the replica: ask for a delta since it, or for a snapshot.
        replica: SummaryVersion,
        /// The version that the delta starts from.
        delta: SummaryVersion,
    },
    /// The delta is of another life of the publisher.
    OtherEpoch {
        /// The epoch of the replica.
        replica: SummaryEpoch,
        /// The epoch of the delta.
        delta: SummaryEpoch,
    },
    /// The delta removes what the replica does not hold: they are not of one history.
    Diverged,
    /// The replica would exceed its limit.
    Full(FilterFull),
}

impl fmt::Display for DeltaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { replica, delta } => {
                write!(
                    f,
                    "the delta starts at version {delta}, the replica has {replica}: ask for a delta since then, or for a snapshot"
                )
            }
            Self::OtherEpoch { replica, delta } => {
                write!(f, "the delta is of epoch {delta}, the replica of {replica}: take a snapshot")
            }
            Self::Diverged => {
                f.write_str("the delta removes what the replica does not hold: take a snapshot")
            }
            Self::Full(_) => f.write_str("the delta does not fit: raise the limit, or drop the replica"),
        }
    }
}

impl Error for DeltaError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Full(error) => Some(error),
            _ => None,
        }
    }
}
