//! The contracts that every index meets: read, write, dump, inspect.

use std::error::Error;
use std::fmt;
use std::ops::AddAssign;
use std::time::Instant;

use kv_router_hash::{KeyedHashes, PrefixKeyer};
use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, WorkerId, WorkerRank};

use crate::Overlaps;

/// Readers: asks which worker ranks hold how many leading blocks of a request.
///
/// `&self`, and inline on the caller's thread: a concurrent index answers while it is written to.
pub trait PrefixIndex {
    /// Fills `out` with every worker rank that holds at least `query[0]`; what `out` held before is gone.
    ///
    /// An empty query has no overlaps. Reusing `out` from call to call makes the lookup free of allocation.
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps);

    /// The same for a request that brings the keys of its prefixes: an index that has a [`keyer`](Self::keyer) compares
    /// many blocks in one step. Without one, or with keys of another, this is [`find_into`](Self::find_into).
    fn find_keyed_into(&self, query: &KeyedHashes, options: FindOptions, out: &mut Overlaps) {
        self.find_into(query.locals(), options, out);
    }

    /// What to make keys with, if the index has a use for them. Always the same.
    fn keyer(&self) -> Option<PrefixKeyer> {
        None
    }

    /// What the answers of this index promise.
    fn certainty(&self) -> Certainty;

    /// [`find_into`](Self::find_into) with default options and a fresh result.
    fn find(&self, query: &[LocalBlockHash]) -> Overlaps {
        let mut out = Overlaps::new();
        self.find_into(query, FindOptions::new(), &mut out);
        out
    }
}

/// Writers: tells an index what the engines did.
///
/// `&mut self`, as `std::io::Write` has it: a concurrent index implements the trait for `&TheIndex`.
pub trait ApplyEvents {
    /// Applies one event of one rank; events of a rank must come in the order sent.
    ///
    /// A store is checked in this order: [`InvalidBlockSequence`](ApplyError::InvalidBlockSequence), which
    /// the event alone decides, then [`UnknownParent`](ApplyError::UnknownParent), then the limits of the
    /// index. A store without blocks changes nothing, but its parent is checked.
    ///
    /// # Errors
    ///
    /// On an error the index is unchanged: nothing of a refused store is kept. Only a store can fail.
    fn apply(&mut self, from: WorkerRank, event: &KvEvent) -> Result<Applied, ApplyError>;

    /// Forgets all ranks of a worker. An unknown worker leaves no state behind.
    fn remove_worker(&mut self, worker: WorkerId) -> Applied;
}

/// Writes an index out as events.
pub trait DumpEvents {
    /// Emits events that, replayed in order into an empty index of any kind, give equal answers and equal
    /// names, so that the live stream can go on from there.
    ///
    /// A rank's hole is emitted as a store and, at the end of the rank, a removal under a name that the rank
    /// does not use: during the replay a rank has one name more for each hole. Use counts are not part of a
    /// dump.
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent));

    /// The events of one rank alone: those that [`dump`](Self::dump) emits for it, in the same order. None for a rank
    /// that holds nothing.
    ///
    /// The radix trees, the positional and the paged index copy no more than what the rank holds and what leads there,
    /// and hold up its events no longer. The default goes through a whole dump.
    fn dump_rank(&self, rank: WorkerRank, emit: &mut dyn FnMut(KvEvent)) {
        self.dump(&mut |from, event| {
            if from == rank {
                emit(event);
            }
        });
    }
}

/// Counts what an index holds, so that an emptied one can be told from a leaking one.
pub trait Inspect {
    /// What is held now.
    fn occupancy(&self) -> Occupancy;
}

/// What the answers of an index promise. Nothing reports a guess as exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// Equal to what the rank's events say, under any history.
    Exact,
    /// Never below the truth, sometimes above it.
    UpperBound,
    /// A prediction from routing decisions: may be off either way.
    Guess,
}

/// How a lookup is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindOptions {
    /// Stop once a single candidate is left: its score is then a lower bound and
    /// [`Overlaps::is_lower_bound`] says so. Default: off.
    pub early_exit: bool,
    /// Count this lookup as a use, at this time, of every block that it matches, and report the recent uses
    /// in [`Overlaps::use_counts`]. Ignored by an index that does not track uses. Default: `None`.
    pub use_at: Option<Instant>,
}

impl FindOptions {
    /// A full lookup that counts nothing.
    pub const fn new() -> Self {
        Self { early_exit: false, use_at: None }
    }

    /// Stops once a single candidate is left.
    #[must_use]
    pub const fn early_exit(mut self) -> Self {
        self.early_exit = true;
        self
    }

    /// Counts this lookup as a use at `now`.
    #[must_use]
    pub const fn counting_use(mut self, now: Instant) -> Self {
        self.use_at = Some(now);
        self
    }
}

/// What an event did. The unit is a copy: one name of one rank in one tier.
///
/// Each block of a store is exactly one of `stored`, `already_held` and `moved`; each name of a removal is
/// exactly one of `removed` and `unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Copies that are new.
    pub stored: u64,
    /// Copies that the rank held at the same place already: a replay.
    pub already_held: u64,
    /// Names that moved here from another place, which was released in all tiers.
    pub moved: u64,
    /// Copies that are gone.
    pub removed: u64,
    /// Names in a removal that the rank did not hold in that tier.
    pub unknown: u64,
}

impl AddAssign for Applied {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.already_held += other.already_held;
        self.moved += other.moved;
        self.removed += other.removed;
        self.unknown += other.unknown;
    }
}

/// Why a store was refused. The index is unchanged.
///
/// Out-of-order input is data, not a bug: count it, park the event for a bounded time, or ask for a resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// The rank does not hold the parent, in any tier.
    UnknownParent {
        /// The parent that the store named.
        parent: ExternalSequenceHash,
    },
    /// The store names one block twice, or names its own parent.
    InvalidBlockSequence {
        /// The first name, in the order of the event, that equals the parent or a block before it.
        block: ExternalSequenceHash,
    },
    /// The store would take the rank above the index's limit. Only names that are new count.
    RankFull {
        /// The limit, in names.
        limit: usize,
    },
    /// The store would take the index above a limit. Only nodes that are new count.
    IndexFull {
        /// The limit, in nodes unless the documentation of the index says otherwise.
        limit: usize,
    },
    /// The rank's blocks have numbers instead of names: see [`IdWriter`](crate::paged::IdWriter).
    NumberedRank,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownParent { parent } => {
                write!(
                    f,
                    "parent {parent} is not held by this rank: an earlier store was lost, resync the rank"
                )
            }
            Self::InvalidBlockSequence { block } => {
                write!(f, "block {block} stands twice in one store: the engine hashes content, not sequence")
            }
            Self::RankFull { limit } => {
                write!(
                    f,
                    "the rank would hold over {limit} names: its removals are lost, or the limit is too low"
                )
            }
            Self::NumberedRank => {
                write!(
                    f,
                    "the rank stores by number: send its events through its relay, or clear it and drop its writer"
                )
            }
            Self::IndexFull { limit } => {
                write!(
                    f,
                    "the index would hold over {limit} nodes: removals are lost, or the limit is too low"
                )
            }
        }
    }
}

impl Error for ApplyError {}

/// What an index holds, for gauges and leak tests. All zero when nothing is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Worker ranks that hold something.
    pub ranks: usize,
    /// Names held, summed over ranks.
    pub names: usize,
    /// Blocks of structure (nodes, entries) shared by all ranks; holes that lead somewhere included.
    pub nodes: usize,
    /// Entries in every other table: exceptions, use counters, forwarding.
    pub side_entries: usize,
}
