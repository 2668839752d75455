//! Why bytes were refused, and which field is to blame.

use std::error::Error;
use std::fmt;

use kv_router_types::WorkerRank;

/// A field of the format, as `docs/wire.md` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireField {
    /// The first 16 bytes of a frame.
    Header,
    /// What the frame is.
    Kind,
    /// Bits with no meaning yet.
    Flags,
    /// The frame as a whole.
    Frame,
    /// What follows the header.
    Body,
    /// The head of a batch.
    BatchHead,
    /// The events of a batch, or their number.
    Events,
    /// The 16 bytes that begin a record.
    RecordHead,
    /// What a record is.
    RecordKind,
    /// The tier of an event.
    Tier,
    /// Whether a store has a parent.
    HasParent,
    /// The parent of a store.
    Parent,
    /// A byte that must be 0.
    Reserved,
    /// The blocks of an event, or their number.
    Blocks,
    /// The start of a dump.
    DumpStart,
    /// The place of a chunk in its dump.
    ChunkIndex,
    /// The rank that a chunk's records belong to.
    Rank,
    /// A watermark.
    Watermark,
    /// Whether a watermark has the hash of a frame.
    HasFrame,
    /// The hash of a watermark's frame.
    FrameHash,
    /// A note, or its length in bytes.
    Note,
    /// The end of a dump.
    DumpEnd,
    /// Chunks that the end of a dump counts.
    ChunkCount,
    /// Events and notes that the end of a dump counts.
    EventCount,
    /// Watermarks that the end of a dump counts.
    WatermarkCount,
}

impl fmt::Display for WireField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Kind => "kind",
            Self::Flags => "flags",
            Self::Frame => "frame",
            Self::Body => "body",
            Self::BatchHead => "batch head",
            Self::Events => "events",
            Self::RecordHead => "record head",
            Self::RecordKind => "record kind",
            Self::Tier => "tier",
            Self::HasParent => "has_parent",
            Self::Parent => "parent",
            Self::Reserved => "reserved",
            Self::Blocks => "blocks",
            Self::DumpStart => "dump start",
            Self::ChunkIndex => "chunk index",
            Self::Rank => "rank",
            Self::Watermark => "watermark",
            Self::HasFrame => "has_frame",
            Self::FrameHash => "frame hash",
            Self::Note => "note",
            Self::DumpEnd => "dump end",
            Self::ChunkCount => "chunk count",
            Self::EventCount => "event count",
            Self::WatermarkCount => "watermark count",
        })
    }
}

/// Why a value was not encoded. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// More than the limits allow.
    TooLarge {
        /// Of what.
        field: WireField,
        /// How many, or how many bytes. For a frame those up to the event that was too much.
        found: u64,
        /// How many are allowed.
        limit: u64,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { field, found, limit } => {
                write!(
                    f,
                    "{field}: {found} is above the limit of {limit}: split the batch, or raise the limit on both sides"
                )
            }
        }
    }
}

impl Error for EncodeError {}

/// Why bytes were not decoded. Nothing of them was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first four bytes are not this format's.
    BadMagic {
        /// What they are.
        found: [u8; 4],
    },
    /// A version that this release does not read.
    UnsupportedVersion {
        /// The frame's.
        found: u16,
        /// The one that is read.
        supported: u16,
    },
    /// More than the limits allow, or than the format has room for.
    TooLarge {
        /// Of what.
        field: WireField,
        /// How many, or how many bytes.
        found: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// The bytes end inside a field.
    Truncated {
        /// Which.
        field: WireField,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// Bytes are left where there should be none.
    TrailingBytes {
        /// Behind what.
        field: WireField,
        /// How many.
        count: u64,
    },
    /// The frame is damaged.
    ChecksumMismatch {
        /// What the header says.
        stated: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A tag that names nothing.
    InvalidTag {
        /// Which.
        field: WireField,
        /// Its value.
        found: u8,
    },
    /// A value that the format does not allow here.
    InvalidValue {
        /// Of what.
        field: WireField,
        /// The value.
        found: u64,
    },
    /// A part that has to be there is not.
    Missing {
        /// Which.
        field: WireField,
    },
    /// A second watermark of a rank.
    RepeatedWatermark {
        /// Whose.
        rank: WorkerRank,
    },
    /// Two statements in a dump contradict each other: a piece of it is missing, repeated or out of place.
    CountMismatch {
        /// Of what.
        field: WireField,
        /// What the dump says.
        stated: u64,
        /// What was read.
        counted: u64,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadMagic { found } => {
                write!(f, "magic {found:02x?} is not this format's: the bytes come from something else")
            }
            Self::UnsupportedVersion { found, supported } => {
                write!(f, "version {found} is not {supported}: upgrade the older side")
            }
            Self::TooLarge { field, found, limit } => {
                write!(
                    f,
                    "{field}: {found} is above the limit of {limit}: raise the limit, or split what is sent"
                )
            }
            Self::Truncated { field, needed, left } => {
                write!(f, "{field}: {needed} bytes needed and {left} left: the bytes were cut off, ask again")
            }
            Self::TrailingBytes { field, count } => {
                write!(f, "{count} bytes behind the {field}: pass one frame at a time")
            }
            Self::ChecksumMismatch { stated, computed } => {
                write!(
                    f,
                    "checksum {stated:08x} stated and {computed:08x} computed: the bytes are damaged, ask again"
                )
            }
            Self::InvalidTag { field, found } => {
                write!(f, "{field} {found} names nothing: the writer is broken or newer")
            }
            Self::InvalidValue { field, found } => {
                write!(f, "{field} {found} is not allowed here: the writer is broken or newer")
            }
            Self::Missing { field } => {
                write!(f, "{field} is missing: the writer is broken")
            }
            Self::RepeatedWatermark { rank } => {
                write!(f, "{rank} has two watermarks: the writer is broken, make a new dump")
            }
            Self::CountMismatch { field, stated, counted } => write!(
                f,
                "{field}: {stated} stated and {counted} read: a piece is missing or out of place, make a new dump"
            ),
        }
    }
}

impl Error for DecodeError {}
