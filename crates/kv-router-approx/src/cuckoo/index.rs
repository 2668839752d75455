//! Many summaries, asked at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use kv_router_index::{Certainty, FindOptions, Overlap, Overlaps, PrefixIndex};
use kv_router_types::{LocalBlockHash, SequenceHash, WorkerId, WorkerRank};

use super::delta::{SummaryDelta, SummaryPosition};
use super::replica::{CuckooReplica, DeltaError};
use super::snapshot::SnapshotError;
use super::summary::PrefixSummary;
use kv_router_hash::sequence_hashes_into;

/// How large an index of summaries may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooLimits {
    /// Owners. Default 4,096. One more is refused.
    pub owners: usize,
    /// Entries of one owner. Default 16,777,216, which takes some 50 MiB. A snapshot or a delta that goes beyond
    /// is refused.
    pub entries_per_owner: usize,
}

impl Default for CuckooLimits {
    fn default() -> Self {
        Self { owners: 4_096, entries_per_owner: 1 << 24 }
    }
}

/// An upper bound of what one owner holds of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerBound<O> {
    /// Leading blocks that the owner holds at most; never 0.
    pub blocks_at_most: u32,
    /// The owner.
    pub owner: O,
}

/// The reading side: the newest summary of every owner. An owner is a worker rank, a deployment group,
/// or whatever else publishes.
///
/// # Consistency
///
/// Reads take `&self`, and changes `&mut self`: whoever shares it between threads puts a lock around it, or swaps
/// whole indexes. The answers are upper bounds as of each summary's [position](Self::position).
///
/// # Cost
///
/// A lookup hashes the request once and asks every owner: one test for an owner that does not hold the first
/// block, and O(log of the blocks) for one that does.
#[derive(Clone, Debug)]
pub struct CuckooIndex<O> {
    /// Ordered, so that equal bounds come in a fixed order.
    replicas: BTreeMap<O, CuckooReplica>,
    limits: CuckooLimits,
}

impl<O: Copy + Ord> CuckooIndex<O> {
    /// An index without owners.
    pub fn new(limits: CuckooLimits) -> Self {
        Self { replicas: BTreeMap::new(), limits }
    }

    /// Takes a snapshot over as the summary of `owner`, whatever it had before, and returns its position.
    ///
    /// # Errors
    ///
    /// [`InstallError`]; the owner keeps the summary that it had.
    pub fn install(&mut self, owner: O, snapshot: &[u8]) -> Result<SummaryPosition, InstallError> {
        if !self.replicas.contains_key(&owner) && self.replicas.len() >= self.limits.owners {
            return Err(InstallError::TooManyOwners { limit: self.limits.owners });
        }
        let replica = CuckooReplica::from_bytes(snapshot, self.limits.entries_per_owner)
            .map_err(InstallError::Snapshot)?;
        let position = replica.position();
        self.replicas.insert(owner, replica);
        Ok(position)
    }

    /// Applies the changes of a delta that are news to the summary of `owner`, and returns how many those were.
    ///
    /// # Errors
    ///
    /// [`FollowError`]; the summary is as it was. The cure is a snapshot, or on a gap a delta from
    /// the [position](Self::position).
    pub fn follow(&mut self, owner: O, delta: &SummaryDelta) -> Result<usize, FollowError> {
        let replica = self.replicas.get_mut(&owner).ok_or(FollowError::UnknownOwner)?;
        replica.apply(delta).map_err(FollowError::Delta)
    }

    /// Forgets an owner; false when it is not known.
    pub fn remove(&mut self, owner: O) -> bool {
        self.replicas.remove(&owner).is_some()
    }

    /// Which state of `owner`'s summary the answers are of.
    pub fn position(&self, owner: O) -> Option<SummaryPosition> {
        self.replicas.get(&owner).map(CuckooReplica::position)
    }

    /// The owners and their summaries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (O, &CuckooReplica)> {
        self.replicas.iter().map(|(&owner, replica)| (owner, replica))
    }

    /// How many owners there are.
    pub fn len(&self) -> usize {
        self.replicas.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.replicas.is_empty()
    }

    /// Bytes on the heap that the filters take.
    pub fn heap_bytes(&self) -> usize {
        self.replicas.values().map(|replica| replica.filter().heap_bytes()).sum()
    }

    /// Replaces `out` by every owner that may hold at least the first block of `sequence`, deepest first and owners
    /// of one depth in order. Allocates nothing once `out` is large enough.
    pub fn find_sequence_into(&self, sequence: &[SequenceHash], out: &mut Vec<OwnerBound<O>>) {
        bounds_into(self.replicas.iter(), sequence, out);
        out.reverse();
    }
}

impl CuckooIndex<WorkerRank> {
    /// Forgets all ranks of a worker and returns how many those were.
    pub fn remove_worker(&mut self, worker: WorkerId) -> usize {
        let before = self.len();
        self.replicas.retain(|rank, _| rank.worker != worker);
        before - self.len()
    }
}

/// Always answers in full: [`FindOptions`] changes nothing. Every block counts as in device memory, since a
/// summary does not know tiers.
impl PrefixIndex for CuckooIndex<WorkerRank> {
    fn find_into(&self, query: &[LocalBlockHash], _: FindOptions, out: &mut Overlaps) {
        find_ranks_into(self.replicas.iter(), query, out);
    }

    fn certainty(&self) -> Certainty {
        Certainty::UpperBound
    }
}

/// Replaces `out` by the bounds of the owners that may hold the first block: shallowest first, and owners of
/// one depth in falling order.
fn bounds_into<'a, O: Copy + Ord + 'a, S: PrefixSummary + 'a>(
    summaries: impl Iterator<Item = (&'a O, &'a S)>,
    sequence: &[SequenceHash],
    out: &mut Vec<OwnerBound<O>>,
) {
    out.clear();
    out.extend(summaries.filter_map(|(&owner, summary)| {
        let blocks_at_most = summary.blocks_at_most(sequence);
        (blocks_at_most > 0).then_some(OwnerBound { blocks_at_most, owner })
    }));
    out.sort_unstable_by(|a, b| a.blocks_at_most.cmp(&b.blocks_at_most).then(b.owner.cmp(&a.owner)));
}

/// Answers a query of local hashes from one summary a rank.
pub(super) fn find_ranks_into<'a, S: PrefixSummary + 'a>(
    summaries: impl Iterator<Item = (&'a WorkerRank, &'a S)>,
    query: &[LocalBlockHash],
    out: &mut Overlaps,
) {
    thread_local! {
        // The contract passes no scratch, and a lookup is to be free of allocation.
        static SCRATCH: RefCell<(Vec<SequenceHash>, Vec<OwnerBound<WorkerRank>>)> = RefCell::default();
    }
    out.begin(query.len(), Certainty::UpperBound);
    SCRATCH.with_borrow_mut(|(sequence, bounds)| {
        sequence_hashes_into(query, sequence);
        bounds_into(summaries, sequence, bounds);
        for bound in bounds {
            out.push(Overlap::on_device(bound.owner, bound.blocks_at_most));
        }
    });
}

/// Why a snapshot did not become the summary of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstallError {
    /// The index has as many owners as it may.
    TooManyOwners {
        /// The limit, in owners.
        limit: usize,
    },
    /// The bytes are no summary, or one that is too large.
    Snapshot(SnapshotError),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyOwners { limit } => {
                write!(
                    f,
                    "the index already has {limit} owners: remove those that are gone, or raise the limit"
                )
            }
            Self::Snapshot(_) => f.write_str("the snapshot was refused"),
        }
    }
}

impl Error for InstallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooManyOwners { .. } => None,
            Self::Snapshot(error) => Some(error),
        }
    }
}

/// Why a delta was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowError {
    /// The owner has no summary: install a snapshot first.
    UnknownOwner,
    /// The delta does not continue the summary.
    Delta(DeltaError),
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOwner => f.write_str("the owner has no summary: install a snapshot first"),
            Self::Delta(_) => f.write_str("the delta was refused"),
        }
    }
}

impl Error for FollowError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::UnknownOwner => None,
            Self::Delta(error) => Some(error),
        }
    }
}
