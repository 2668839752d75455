//! Cuckoo filters over sequence hashes: what an owner holds, in some three bytes a block.
//!
//! # Which type do I want?
//!
//! | I have | type |
//! |---|---|
//! | the events of a rank or a group, and readers elsewhere | [`CuckooFeeder`], which has a [`CuckooPublisher`] |
//! | sequence hashes of my own, and readers elsewhere | [`CuckooPublisher`] |
//! | snapshots and deltas of many owners | [`CuckooIndex`] |
//! | those of one owner | [`CuckooReplica`] |
//! | events, and the wish to see what summaries would answer | [`CuckooRankIndex`] |
//! | just a set of hashes | [`CuckooFilter`] |
//!
//! # From engine to router
//!
//! ```text
//! events -> CuckooFeeder -> CuckooPublisher --- snapshot, deltas ---> CuckooIndex -> upper bounds
//!           names, exact    filter, log        (any transport)        filters
//! ```
//!
//! A reader installs a snapshot and then follows deltas. A delta that leaves a gap is refused, with the version to ask
//! from; a publisher that cannot reach back that far says so, and the reader takes a snapshot again.
//!
//! # Why an answer is an upper bound
//!
//! A filter never denies what it holds, and a depth is lowered only by a block that was denied: so it is never below
//! the truth, holes or not. It is above the truth when false positives line up at the end of the prefix, or
//! when a run of blocks is still held behind a hole.

mod bucket;
mod delta;
mod depth;
mod evict;
mod feeder;
mod filter;
mod frame;
mod geometry;
mod index;
mod names;
mod publisher;
mod ranks;
mod replica;
mod snapshot;
mod spare;
mod summary;
mod table;
mod tag;
#[cfg(test)]
mod tests;

pub use delta::{DeltaDecodeError, SummaryDelta, SummaryEpoch, SummaryPosition, SummaryVersion};
pub use feeder::{CuckooFeeder, FeederLimits};
pub use filter::{CuckooFilter, FilterFull};
pub use frame::FrameError;
pub use index::{CuckooIndex, CuckooLimits, FollowError, InstallError, OwnerBound};
pub use publisher::{CuckooPublisher, SnapshotNeeded};
pub use ranks::CuckooRankIndex;
pub use replica::{CuckooReplica, DeltaError};
pub use snapshot::SnapshotError;
pub use summary::PrefixSummary;
