//! What changed in a summary between two versions of it.

use std::error::Error;
use std::fmt;

use super::frame::{self, FrameError};
use super::tag::Tag;

const MAGIC: [u8; 4] = *b"KVCD";

/// One life of a publisher. A publisher that starts again without its versions must take another epoch, for
/// instance its start time: else a reader would take its new versions for the old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SummaryEpoch(u64);

impl SummaryEpoch {
    /// Wraps a raw value.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw value.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SummaryEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many changes a summary has seen in its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SummaryVersion(u64);

impl SummaryVersion {
    /// Wraps a raw value.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw value.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(super) fn after(self, changes: usize) -> Self {
        Self(self.0.saturating_add(changes as u64))
    }

    /// Changes from `earlier` to this version; `None` when it is not earlier.
    pub(super) fn since(self, earlier: Self) -> Option<usize> {
        usize::try_from(self.0.checked_sub(earlier.0)?).ok()
    }
}

impl fmt::Display for SummaryVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which state a summary is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SummaryPosition {
    /// The life of the publisher.
    pub epoch: SummaryEpoch,
    /// The version in it.
    pub version: SummaryVersion,
}

/// `version of epoch`.
impl fmt::Display for SummaryPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} of epoch {}", self.version, self.epoch)
    }
}

/// One change of a summary, in 48 bits: a tag and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Inserted(Tag),
    Removed(Tag),
    Cleared,
}

impl Change {
    const BYTES: usize = 6;
    const INSERTED: u64 = 0;
    const REMOVED: u64 = 1;
    const CLEARED: u64 = 2;

    pub(super) fn packed(self) -> u64 {
        let (kind, tag) = match self {
            Self::Inserted(tag) => (Self::INSERTED, tag.packed()),
            Self::Removed(tag) => (Self::REMOVED, tag.packed()),
            Self::Cleared => (Self::CLEARED, 0),
        };
        kind << Tag::PACKED_BITS | tag
    }

    pub(super) fn unpack(raw: u64) -> Option<Self> {
        let tag = raw & ((1 << Tag::PACKED_BITS) - 1);
        match raw >> Tag::PACKED_BITS {
            Self::INSERTED => Tag::unpack(tag).map(Self::Inserted),
            Self::REMOVED => Tag::unpack(tag).map(Self::Removed),
            Self::CLEARED if tag == 0 => Some(Self::Cleared),
            _ => None,
        }
    }
}

/// The changes of a summary from one version to a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryDelta {
    from: SummaryPosition,
    changes: Vec<Change>,
}

impl SummaryDelta {
    /// The most changes in one delta: 6 MiB of bytes.
    pub const MAX_CHANGES: usize = 1 << 20;

    pub(super) fn new(from: SummaryPosition, changes: Vec<Change>) -> Self {
        Self { from, changes }
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The state that the changes follow.
    pub fn from(&self) -> SummaryPosition {
        self.from
    }

    /// The state that they lead to.
    pub fn to(&self) -> SummaryPosition {
        let version = self.from.version.after(self.changes.len());
        SummaryPosition { version, ..self.from }
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The delta as bytes: 34 and 6 for each change.
    ///
    /// After the head of the frame: epoch (8 bytes), version (8), changes (4), and each change in 6 bytes, all
    /// little-endian. A change is a tag of 42 bits, and above it 0 for inserted, 1 for removed, or 2 and no tag for
    /// cleared.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::seal(MAGIC, |out| {
            out.extend_from_slice(&self.from.epoch.get().to_le_bytes());
            out.extend_from_slice(&self.from.version.get().to_le_bytes());
            // At most MAX_CHANGES.
            out.extend_from_slice(&(self.changes.len() as u32).to_le_bytes());
            for change in &self.changes {
                out.extend_from_slice(&change.packed().to_le_bytes()[..Change::BYTES]);
            }
        })
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`DeltaDecodeError`] when the bytes are no delta. Nothing is allocated for a declared length that the bytes do
    /// not bear out.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DeltaDecodeError> {
        let mut body = frame::open(MAGIC, bytes)?;
        let epoch = SummaryEpoch::new(body.u64()?);
        let version = SummaryVersion::new(body.u64()?);
        let declared = body.u32()? as usize;
        let items = body.items::<{ Change::BYTES }>(declared)?;
        body.end()?;

        let mut changes = Vec::with_capacity(items.len());
        for (index, item) in items.enumerate() {
            let mut raw = [0; 8];
            raw[..Change::BYTES].copy_from_slice(&item);
            let raw = u64::from_le_bytes(raw);
            changes.push(Change::unpack(raw).ok_or(DeltaDecodeError::InvalidChange { index, raw })?);
        }
        Ok(Self::new(SummaryPosition { epoch, version }, changes))
    }
}

/// Why bytes are no delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeltaDecodeError {
    /// The frame is not sound.
    Frame(FrameError),
    /// A change has no meaning.
    InvalidChange {
        /// Which one, from 0.
        index: usize,
        /// Its bits, as found.
        raw: u64,
    },
}

impl From<FrameError> for DeltaDecodeError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl fmt::Display for DeltaDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(_) => f.write_str("the delta is not a sound frame"),
            Self::InvalidChange { index, raw } => {
                write!(f, "change {index} of the delta is {raw:012x}, which means nothing: fetch a snapshot")
            }
        }
    }
}

impl Error for DeltaDecodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Frame(error) => Some(error),
            Self::InvalidChange { .. } => None,
        }
    }
}
