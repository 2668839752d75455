//! The answer of a search over groups: overlaps, and what was not asked.

use std::fmt;

use kv_router_index::{Overlap, Overlaps};
use kv_router_types::SequenceHash;

/// One deployment group: ranks that share an index, for instance a cluster or a rack.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

impl GroupId {
    /// Wraps the deployment's own number for a group.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The deployment's own number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupId({})", self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the summary of a group says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBound {
    /// The group.
    pub group: GroupId,
    /// Leading blocks that any of its ranks holds at most; never 0.
    pub blocks_at_most: u32,
}

/// A group whose leaf was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVisit {
    /// What its summary said.
    pub bound: GroupBound,
    /// Leading blocks that its best rank holds, as the leaf says.
    pub best_blocks: u32,
}

/// Why the best overlap is, or may not be, the best of all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BestProof {
    /// No rank of any group holds more: no skipped group has a higher bound.
    Proven,
    /// The limit of visits ended the search: a skipped group may hold more.
    LimitReached {
        /// Blocks that a rank of a skipped group holds at most; above the best overlap.
        blocks_at_most: u32,
    },
    /// The leaf of a visited group holds more than its summary admits, so the bounds prove nothing: the summary is
    /// behind its leaf.
    StaleSummary {
        /// The first such group.
        group: GroupId,
    },
}

/// The ranks of the visited groups that hold a prefix of one request, and which groups were skipped.
///
/// Opaque and reusable: a search into it allocates nothing once it is large enough.
#[derive(Debug, Default)]
pub struct GroupedOverlaps {
    pub(super) overlaps: Overlaps,
    /// In the order of the visits: highest bound first.
    pub(super) visited: Vec<GroupVisit>,
    /// Highest bound first.
    pub(super) bounds: Vec<GroupBound>,
    pub(super) scratch: Scratch,
}

/// Buffers of a search.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) sequence: Vec<SequenceHash>,
    pub(super) leaf: Overlaps,
    pub(super) merged: Vec<Overlap>,
}

impl GroupedOverlaps {
    /// An empty answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ranks of all visited groups. [`Overlaps::best`] is the best of all groups if the [proof](Self::proof) says
    /// so; and a rank of a skipped group is not in, whatever it holds.
    pub fn overlaps(&self) -> &Overlaps {
        &self.overlaps
    }

    /// The groups whose leaves were asked, in the order of the visits: highest bound first.
    pub fn visited(&self) -> &[GroupVisit] {
        &self.visited
    }

    /// The groups that may hold a prefix and were not asked, highest bound first. A group that is neither here nor
    /// visited holds nothing, as its summary says.
    pub fn skipped(&self) -> &[GroupBound] {
        &self.bounds[self.visited.len()..]
    }

    /// Whether the best overlap is the best of all groups.
    pub fn proof(&self) -> BestProof {
        let stale = self.visited.iter().find(|visit| visit.best_blocks > visit.bound.blocks_at_most);
        if let Some(visit) = stale {
            return BestProof::StaleSummary { group: visit.bound.group };
        }
        let best = self.overlaps.best().map_or(0, Overlap::blocks);
        match self.skipped().first() {
            Some(next) if next.blocks_at_most > best => {
                BestProof::LimitReached { blocks_at_most: next.blocks_at_most }
            }
            _ => BestProof::Proven,
        }
    }
}
