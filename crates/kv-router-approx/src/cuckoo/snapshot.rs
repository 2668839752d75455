//! A filter as bytes, and back.
//!
//! Body of a filter, after the head of the frame, all numbers little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | buckets, `n` |
//! | 4 | entries without a slot, `s` |
//! | 4 | entries with more than one copy, `d` |
//! | 8 n | buckets: four fingerprints of 16 bits each |
//! | 8 w | spare bits of the slots, packed; `w` follows from `n` |
//! | 8 s | tags without a slot, ascending |
//! | 16 d | tags with more than one copy, ascending, each with the number of copies beyond the first |

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use rustc_hash::FxHashMap;

use super::CuckooFilter;
use super::bucket::{Bucket, LANES};
use super::frame::{self, Body, FrameError};
use super::geometry::Geometry;
use super::spare::PackedBits;
use super::table::Table;
use super::tag::Tag;

const MAGIC: [u8; 4] = *b"KVCF";

/// Why a snapshot was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The frame is not sound.
    Frame(FrameError),
    /// No table has that many buckets.
    InvalidBuckets {
        /// The number found.
        buckets: u32,
    },
    /// An entry of a bucket contradicts the table.
    InvalidBucket {
        /// Which bucket.
        bucket: usize,
    },
    /// The packed bits of the slots have a bit set that belongs to no slot.
    InvalidSpareBits,
    /// The entry at the side contradicts the table, or stands out of order.
    InvalidSideEntry {
        /// The entry, as found.
        raw: u64,
    },
    /// There are more entries than the reader allows.
    OverLimit {
        /// Entries in the snapshot.
        entries: usize,
        /// The reader's limit.
        limit: usize,
    },
}

impl From<FrameError> for SnapshotError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(_) => f.write_str("the snapshot is not a sound frame"),
            Self::InvalidBuckets { buckets } => {
                write!(f, "no filter has {buckets} buckets: the writer is broken or hostile")
            }
            Self::InvalidBucket { bucket } => {
                write!(
                    f,
                    "bucket {bucket} holds an entry that cannot be there: the writer is broken or hostile"
                )
            }
            Self::InvalidSpareBits => {
                f.write_str("a bit behind the last slot is set: the writer is broken or hostile")
            }
            Self::InvalidSideEntry { raw } => {
                write!(f, "side entry {raw:016x} contradicts the table: the writer is broken or hostile")
            }
            Self::OverLimit { entries, limit } => {
                write!(f, "{entries} entries are above the limit of {limit}: raise it, or split the owner")
            }
        }
    }
}

impl Error for SnapshotError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Frame(error) => Some(error),
            _ => None,
        }
    }
}

impl CuckooFilter {
    /// The filter as bytes: some 3 for each entry. Restoring them and writing them again gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::seal(MAGIC, |out| write(self, out))
    }

    /// Restores what [`to_bytes`](Self::to_bytes) wrote, as a filter that may hold `limit` entries.
    ///
    /// Allocates no more than a small multiple of `bytes`, whatever they declare. A hostile writer can make a
    /// filter that answers nonsense, but none that panics or grows.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] when the bytes are no filter, or hold more than `limit` entries.
    pub fn from_bytes(bytes: &[u8], limit: usize) -> Result<Self, SnapshotError> {
        let mut body = frame::open(MAGIC, bytes)?;
        let filter = read(&mut body, limit)?;
        body.end()?;
        Ok(filter)
    }
}

/// Appends the body of a filter.
pub(super) fn write(filter: &CuckooFilter, out: &mut Vec<u8>) {
    let (table, stash, extra) = filter.parts();
    let buckets = table.buckets();
    out.reserve_exact(
        20 + buckets.len() * 8 + table.spare_words().len() * 8 + stash.len() * 8 + extra.len() * 16,
    );
    // At most 2^26 buckets, and at most as many side entries as a filter has entries, which is below 2^28.
    out.extend_from_slice(&(buckets.len() as u32).to_le_bytes());
    out.extend_from_slice(&(stash.len() as u32).to_le_bytes());
    out.extend_from_slice(&(extra.len() as u32).to_le_bytes());
    let words = buckets.iter().map(|bucket| bucket.raw()).chain(table.spare_words().iter().copied());
    let stash = stash.iter().map(|tag| tag.packed());
    let extra = extra.into_iter().flat_map(|(tag, copies)| [tag.packed(), copies]);
    for word in words.chain(stash).chain(extra) {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Reads the body of a filter.
pub(super) fn read(body: &mut Body<'_>, limit: usize) -> Result<CuckooFilter, SnapshotError> {
    let declared = body.u32()?;
    let stash_len = body.u32()? as usize;
    let extra_len = body.u32()? as usize;
    let geometry = Geometry::of(declared as usize);
    if geometry.buckets() != declared as usize {
        return Err(SnapshotError::InvalidBuckets { buckets: declared });
    }

    let buckets = body.items(geometry.buckets())?;
    let width = geometry.spare_width();
    let spare = body.items(PackedBits::words_for(width, geometry.slots()))?;
    let stash_items = body.items(stash_len)?;
    let extra_items = body.items::<16>(extra_len)?;

    let buckets = buckets.map(|raw| Bucket::from_raw(u64::from_le_bytes(raw))).collect();
    let spare = spare.map(u64::from_le_bytes).collect();
    let spare = PackedBits::from_words(width, geometry.buckets() * LANES, spare)
        .ok_or(SnapshotError::InvalidSpareBits)?;
    let table = Table::from_parts(geometry, buckets, spare)
        .map_err(|bucket| SnapshotError::InvalidBucket { bucket })?;

    let mut stash = BTreeSet::new();
    for raw in stash_items {
        let tag = next_tag(stash.last(), raw)?;
        stash.insert(tag);
    }
    let mut extra = FxHashMap::default();
    let mut last = None;
    for item in extra_items {
        let (raw, copies) = item.split_at(8);
        let tag = next_tag(last.as_ref(), le_bytes(raw))?;
        extra.insert(tag, u64::from_le_bytes(le_bytes(copies)));
        last = Some(tag);
    }

    let filter = CuckooFilter::from_parts(table, stash, extra, limit)
        .map_err(|tag| SnapshotError::InvalidSideEntry { raw: tag.packed() })?;
    if filter.len() > filter.limit() {
        return Err(SnapshotError::OverLimit { entries: filter.len(), limit: filter.limit() });
    }
    Ok(filter)
}

/// A tag that stands after `last` in an ascending list.
fn next_tag(last: Option<&Tag>, raw: [u8; 8]) -> Result<Tag, SnapshotError> {
    let raw = u64::from_le_bytes(raw);
    Tag::unpack(raw)
        .filter(|tag| last.is_none_or(|last| last < tag))
        .ok_or(SnapshotError::InvalidSideEntry { raw })
}

fn le_bytes(half: &[u8]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(half);
    bytes
}
