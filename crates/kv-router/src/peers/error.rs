//! What a message between routers cannot be.

use std::error::Error;
use std::fmt;

/// Why a message was not turned into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerEncodeError {
    /// It is above [`PeerLimits::max_bytes`](crate::PeerLimits::max_bytes).
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It is above [`PeerLimits::max_records`](crate::PeerLimits::max_records).
    TooManyRecords {
        /// Its records.
        records: usize,
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for PeerEncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(f, "a message of {bytes} bytes is above {limit}: raise max_bytes on all routers")
            }
            Self::TooManyRecords { records, limit } => {
                write!(f, "a message of {records} records is above {limit}: raise max_records on all routers")
            }
        }
    }
}

impl Error for PeerEncodeError {}

/// Why bytes are no message of another router. Nothing was allocated for what they only claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerDecodeError {
    /// They end before what they declare.
    Truncated {
        /// Bytes that are missing at least.
        missing: usize,
    },
    /// They go on after what they declare.
    TrailingBytes {
        /// Bytes too many.
        extra: usize,
    },
    /// They begin as something else.
    WrongMagic {
        /// The bytes found.
        found: [u8; 4],
    },
    /// A version that this router does not know.
    UnsupportedVersion {
        /// The version found.
        found: u16,
    },
    /// A kind of message that this version does not have.
    UnknownKind {
        /// The kind found.
        found: u8,
    },
    /// A kind of record that this version does not have.
    UnknownRecord {
        /// The kind found.
        found: u8,
    },
    /// Bytes that must be 0 are not: the message may mean something else.
    ReservedNotZero,
    /// They were changed on the way.
    WrongChecksum,
    /// They are above [`PeerLimits::max_bytes`](crate::PeerLimits::max_bytes).
    TooLarge {
        /// Bytes declared.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// They are above [`PeerLimits::max_records`](crate::PeerLimits::max_records).
    TooManyRecords {
        /// Records declared.
        records: usize,
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for PeerDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing } => write!(f, "the bytes end {missing} or more too early: drop them"),
            Self::TrailingBytes { extra } => {
                write!(f, "{extra} bytes follow the end: pass one message at a time")
            }
            Self::WrongMagic { found } => {
                write!(f, "the bytes begin with {found:02x?}, which is no message of a router: drop them")
            }
            Self::UnsupportedVersion { found } => {
                write!(f, "version {found} is not known: run the same version on all routers")
            }
            Self::UnknownKind { found } => {
                write!(f, "message kind {found} is not known: run the same version on all routers")
            }
            Self::UnknownRecord { found } => {
                write!(f, "record kind {found} is not known: run the same version on all routers")
            }
            Self::ReservedNotZero => {
                f.write_str("bytes that must be 0 are not: run the same version on all routers")
            }
            Self::WrongChecksum => {
                f.write_str("the checksum does not match, the bytes are damaged: drop them")
            }
            Self::TooLarge { bytes, limit } => {
                write!(f, "a message of {bytes} bytes is above {limit}: raise max_bytes if it is honest")
            }
            Self::TooManyRecords { records, limit } => {
                write!(
                    f,
                    "a message of {records} records is above {limit}: raise max_records if it is honest"
                )
            }
        }
    }
}

impl Error for PeerDecodeError {}
