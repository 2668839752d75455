//! Why a payload is refused whole, and why an event in it is skipped.

use std::error::Error;
use std::fmt;

use crate::msgpack::Broken;
use crate::reasons::reasons;

/// Why a payload is refused: nothing in it can be used, or not safely.
///
/// Count it, mark the rank suspect, and go on with the next batch: the sequence number came in a frame of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The payload is longer than the limit.
    TooLong {
        /// Bytes in the payload.
        bytes: usize,
        /// [`DecodeLimits::payload_bytes`](crate::DecodeLimits::payload_bytes).
        limit: usize,
    },
    /// A value, or a length that it declares, goes beyond the end.
    Truncated {
        /// Offset of the value in bytes.
        at: usize,
    },
    /// A byte that no encoder writes.
    Malformed {
        /// Its offset in bytes.
        at: usize,
    },
    /// Bytes follow the batch: two documents in one frame, or a damaged length.
    Trailing {
        /// Offset of the first byte after the batch.
        at: usize,
    },
    /// The payload is neither an array nor a map.
    NotABatch,
    /// An array of one element or none, or a map without what every batch has.
    Incomplete,
    /// The timestamp is no number.
    BadTimestamp,
    /// The events are no array.
    BadEvents,
    /// The rank is not a small number. Applying the batch to any rank would be a guess.
    BadRank,
    /// More events than the limit.
    TooManyEvents {
        /// [`DecodeLimits::events`](crate::DecodeLimits::events).
        limit: usize,
    },
    /// More block hashes than the limit.
    TooManyHashes {
        /// [`DecodeLimits::hashes`](crate::DecodeLimits::hashes).
        limit: usize,
    },
}

impl From<Broken> for BatchError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Truncated { at } => Self::Truncated { at },
            Broken::Reserved { at } => Self::Malformed { at },
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, limit } => {
                write!(
                    f,
                    "a payload of {bytes} bytes is over the limit of {limit}: raise it, or drop the batch"
                )
            }
            Self::Truncated { at } => write!(f, "the value at byte {at} goes beyond the end: drop the batch"),
            Self::Malformed { at } => write!(f, "byte {at} starts no value: drop the batch"),
            Self::Trailing { at } => write!(f, "bytes follow the batch at byte {at}: drop the batch"),
            Self::NotABatch => {
                f.write_str("neither an array nor a map: check that the socket carries KV-cache events")
            }
            Self::Incomplete => f.write_str("a batch without timestamp or events: drop it"),
            Self::BadTimestamp => f.write_str("the timestamp is no number: drop the batch"),
            Self::BadEvents => f.write_str("the events are no array: drop the batch"),
            Self::BadRank => {
                f.write_str("data_parallel_rank is no rank: check the publisher, drop the batch")
            }
            Self::TooManyEvents { limit } => {
                write!(f, "more than {limit} events in a batch: raise the limit, or drop the batch")
            }
            Self::TooManyHashes { limit } => {
                write!(f, "more than {limit} block hashes in a batch: raise the limit, or drop the batch")
            }
        }
    }
}

impl Error for BatchError {}

reasons! {
    /// Why one event could not be read. Its neighbours can.
    ///
    /// What it said is lost, so the rank is suspect until it is cleared or resynchronised.
    EventFault,
    /// Events that could not be read, by reason.
    EventFaults;
    /// Neither an array nor a map.
    NotAnEvent = "not_an_event",
    /// No tag, or one that is no string.
    NoTag = "no_tag",
    /// A tag that we do not know. What it changed is unknown too.
    UnknownTag = "unknown_tag",
    /// No list of block hashes where there must be one.
    NoHashes = "no_hashes",
    /// A block hash, or a parent, that is neither an integer nor 1 to 64 bytes.
    BadHash = "bad_hash",
    /// Tokens that are neither all integers (or strings) nor all pairs of integers, or that are out of range.
    BadTokens = "bad_tokens",
    /// A block size that is no natural number.
    BadBlockSize = "bad_block_size",
    /// A group, or a window, that is no small natural number.
    BadGroup = "bad_group",
    /// An adapter that is neither a number nor a name.
    BadAdapter = "bad_adapter",
    /// A medium, a salt or a kind of cache that is no UTF-8 string.
    BadText = "bad_text",
    /// Extra keys that are no lists, or that nest too deep.
    BadExtraKeys = "bad_extra_keys",
    /// Lookahead tokens that are no lists of tokens.
    BadLookahead = "bad_lookahead",
}
