//! The groups, their leaves and their summaries.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use kv_router_index::{
    Applied, ApplyError, ApplyEvents, Certainty, FindOptions, Overlap, Overlaps, PrefixIndex,
};
use kv_router_types::{KvEvent, LocalBlockHash, WorkerId, WorkerRank};

use super::answer::{GroupBound, GroupId, GroupVisit, GroupedOverlaps, Scratch};
use crate::cuckoo::{CuckooReplica, PrefixSummary};
use kv_router_hash::sequence_hashes_into;

/// How large a hierarchy may become, and how far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HierarchyLimits {
    /// Groups. Default 1,024. One more is refused.
    pub groups: usize,
    /// Groups that one search for the best asks. Default 8. A lower limit makes the slowest search cheaper and
    /// leaves more answers without a proof; 0 means 1.
    pub visits: usize,
}

impl Default for HierarchyLimits {
    fn default() -> Self {
        Self { groups: 1_024, visits: 8 }
    }
}

/// Groups, each with a leaf `I`, the full index of its ranks, and a summary `S` of it.
///
/// # Two ways to keep a summary
///
/// * The group publishes one: `S` is a [`CuckooReplica`], and the leaf is kept up to date by whoever owns it. An
///   answer is exact as of the summary: ranks that have stored since may be missed.
/// * Events of all groups come in here: `S` is a [`CuckooFeeder`](crate::cuckoo::CuckooFeeder), and
///   [`apply`](Self::apply) feeds leaf and summary together. Then no bound is ever below its leaf.
///
/// # Cost
///
/// One hash of the request, O(log blocks) for each group whose summary has the first block and one test for every
/// other; then the lookups of the visited leaves.
#[derive(Clone, Debug)]
pub struct HierarchicalIndex<I, S = CuckooReplica> {
    groups: BTreeMap<GroupId, Group<I, S>>,
    /// The group of every worker that an event came from, while the worker is not removed.
    workers: BTreeMap<WorkerId, GroupId>,
    limits: HierarchyLimits,
}

#[derive(Clone, Debug)]
struct Group<I, S> {
    leaf: I,
    summary: S,
    /// Whether the summary refused what the leaf took: then it bounds nothing, and the group is always asked.
    summary_is_incomplete: bool,
}

impl<I, S> HierarchicalIndex<I, S> {
    /// A hierarchy without groups.
    pub fn new(limits: HierarchyLimits) -> Self {
        Self { groups: BTreeMap::new(), workers: BTreeMap::new(), limits }
    }

    /// Adds a group. The ranks of `leaf` must be in no other group, and `summary` must know all that it holds.
    ///
    /// # Errors
    ///
    /// [`GroupError`], which returns the leaf and the summary.
    pub fn add(&mut self, group: GroupId, leaf: I, summary: S) -> Result<(), GroupError<I, S>> {
        if self.groups.contains_key(&group) {
            return Err(GroupError::AlreadyThere { group, leaf, summary });
        }
        if self.groups.len() >= self.limits.groups {
            return Err(GroupError::TooMany { limit: self.limits.groups, leaf, summary });
        }
        self.groups.insert(group, Group { leaf, summary, summary_is_incomplete: false });
        Ok(())
    }

    /// Takes a group out, with all its workers.
    pub fn remove(&mut self, group: GroupId) -> Option<(I, S)> {
        let Group { leaf, summary, .. } = self.groups.remove(&group)?;
        self.workers.retain(|_, of| *of != group);
        Some((leaf, summary))
    }

    /// Puts a newer summary in the place of a group's summary, which is returned. It must know all that the leaf
    /// holds. `None`, and nothing done, when there is no such group.
    pub fn replace_summary(&mut self, group: GroupId, summary: S) -> Option<S> {
        let group = self.groups.get_mut(&group)?;
        group.summary_is_incomplete = false;
        Some(std::mem::replace(&mut group.summary, summary))
    }

    /// The leaf of a group.
    pub fn leaf(&self, group: GroupId) -> Option<&I> {
        Some(&self.groups.get(&group)?.leaf)
    }

    /// The leaf of a group, to be written to. What it then holds, its summary must know too.
    pub fn leaf_mut(&mut self, group: GroupId) -> Option<&mut I> {
        Some(&mut self.groups.get_mut(&group)?.leaf)
    }

    /// The summary of a group.
    pub fn summary(&self, group: GroupId) -> Option<&S> {
        Some(&self.groups.get(&group)?.summary)
    }

    /// The summary of a group, to be brought up to date.
    pub fn summary_mut(&mut self, group: GroupId) -> Option<&mut S> {
        Some(&mut self.groups.get_mut(&group)?.summary)
    }

    /// The groups, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = GroupId> {
        self.groups.keys().copied()
    }

    /// Workers whose group is known from their events.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }
}

impl<I: PrefixIndex, S: PrefixSummary> HierarchicalIndex<I, S> {
    /// Finds the deepest prefix: asks the leaves of the most promising groups, best bound first, until no other
    /// group can be better or the limit of visits is reached. What `answer` held before is gone.
    ///
    /// Ranks of groups that were not asked are missing from the answer; it says which groups those are, and whether
    /// one of them could be better.
    pub fn find_best_into(
        &self,
        query: &[LocalBlockHash],
        options: FindOptions,
        answer: &mut GroupedOverlaps,
    ) {
        let limit = self.limits.visits.max(1);
        self.search(query, options, answer, |visits, best, bound| visits < limit && bound > best);
    }

    /// Visits groups, highest bound first, while `go_on(visits so far, best blocks so far, next bound)`.
    fn search(
        &self,
        query: &[LocalBlockHash],
        mut options: FindOptions,
        answer: &mut GroupedOverlaps,
        go_on: impl Fn(usize, u32, u32) -> bool,
    ) {
        let GroupedOverlaps { overlaps, visited, bounds, scratch } = answer;
        let Scratch { sequence, leaf: found, merged } = scratch;
        sequence_hashes_into(query, sequence);
        bounds.clear();
        bounds.extend(self.groups.iter().filter_map(
            |(&group, Group { summary, summary_is_incomplete, .. })| {
                let blocks_at_most = if *summary_is_incomplete {
                    query.len() as u32
                } else {
                    summary.blocks_at_most(sequence)
                };
                (blocks_at_most > 0).then_some(GroupBound { group, blocks_at_most })
            },
        ));
        bounds.sort_unstable_by_key(|bound| (std::cmp::Reverse(bound.blocks_at_most), bound.group));

        // Only one candidate of an answer may be reported too low, and every leaf that exits early has one.
        options.early_exit &= bounds.len() == 1;
        visited.clear();
        merged.clear();
        let mut best = 0;
        let mut certainty = Certainty::Exact;
        let mut lower_bound = false;
        for &bound in bounds.iter() {
            if !go_on(visited.len(), best, bound.blocks_at_most) {
                break;
            }
            let Some(Group { leaf, .. }) = self.groups.get(&bound.group) else { continue };
            leaf.find_into(query, options, found);
            let best_blocks = found.best().map_or(0, Overlap::blocks);
            merged.extend(found.iter());
            certainty = certainty.max(found.certainty());
            lower_bound |= found.is_lower_bound();
            visited.push(GroupVisit { bound, best_blocks });
            best = best.max(best_blocks);
        }

        merged.sort_unstable_by_key(|overlap| (overlap.blocks(), std::cmp::Reverse(overlap.worker())));
        overlaps.begin(query.len(), certainty);
        merged.iter().for_each(|&overlap| overlaps.push(overlap));
        if lower_bound {
            overlaps.mark_lower_bound();
        }
    }
}

/// Every rank with any prefix: all groups are asked whose summary has the first block, and the others hold nothing.
///
/// [`FindOptions`] go to the leaves, but for early exit when several groups are candidates. Use counts of different
/// groups do not add up to anything, so none are reported.
impl<I: PrefixIndex, S: PrefixSummary> PrefixIndex for HierarchicalIndex<I, S> {
    fn find_into(&self, query: &[LocalBlockHash], options: FindOptions, out: &mut Overlaps) {
        thread_local! {
            // The contract passes no scratch, and a lookup is to be free of allocation.
            static ANSWER: RefCell<GroupedOverlaps> = RefCell::default();
        }
        // Taken out rather than borrowed, because a leaf may itself be a hierarchy.
        let mut answer = ANSWER.take();
        self.search(query, options, &mut answer, |_, _, _| true);
        std::mem::swap(out, &mut answer.overlaps);
        ANSWER.set(answer);
    }

    /// That of the least certain leaf.
    fn certainty(&self) -> Certainty {
        self.groups.values().map(|group| group.leaf.certainty()).max().unwrap_or(Certainty::Exact)
    }
}

impl<I: ApplyEvents, S: ApplyEvents> HierarchicalIndex<I, S> {
    /// Applies one event of one rank of a group, to the leaf and to the summary.
    ///
    /// A worker belongs to the group of its first event until it is [removed](Self::remove_worker).
    ///
    /// # Errors
    ///
    /// [`GroupApplyError`]; the answers are as before. If the summary alone refuses, because its limit is lower than
    /// that of the leaf, the event counts as applied: from then on the group is asked about every request, which is
    /// slower and still exact, until it gets [another summary](Self::replace_summary).
    pub fn apply(
        &mut self,
        group: GroupId,
        from: WorkerRank,
        event: &KvEvent,
    ) -> Result<Applied, GroupApplyError> {
        let at = self.groups.get_mut(&group).ok_or(GroupApplyError::UnknownGroup { group })?;
        let known = self.workers.get(&from.worker).copied();
        if let Some(other) = known.filter(|&other| other != group) {
            return Err(GroupApplyError::OtherGroup { worker: from.worker, group: other });
        }
        let applied = at.leaf.apply(from, event).map_err(GroupApplyError::Leaf)?;
        at.summary_is_incomplete |= at.summary.apply(from, event).is_err();
        if known.is_none() && applied.stored > 0 {
            self.workers.insert(from.worker, group);
        }
        Ok(applied)
    }

    /// Forgets all ranks of a worker. One whose events came in here is forgotten in its group; for one that a leaf
    /// brought along, every group is told.
    pub fn remove_worker(&mut self, worker: WorkerId) -> Applied {
        let group = self.workers.remove(&worker);
        let mut applied = Applied::default();
        for (_, at) in self.groups.iter_mut().filter(|(id, _)| group.is_none_or(|group| group == **id)) {
            at.summary.remove_worker(worker);
            applied += at.leaf.remove_worker(worker);
        }
        applied
    }
}

/// Why a group was not added. What was refused comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError<I, S> {
    /// There is a group of that id: remove it first.
    AlreadyThere {
        /// The id.
        group: GroupId,
        /// The leaf that was refused.
        leaf: I,
        /// The summary that was refused.
        summary: S,
    },
    /// The hierarchy has as many groups as it may.
    TooMany {
        /// The limit, in groups.
        limit: usize,
        /// The leaf that was refused.
        leaf: I,
        /// The summary that was refused.
        summary: S,
    },
}

/// Without what was refused, so that any leaf will do.
impl<I, S> fmt::Debug for GroupError<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyThere { group, .. } => {
                f.debug_struct("AlreadyThere").field("group", group).finish_non_exhaustive()
            }
            Self::TooMany { limit, .. } => {
                f.debug_struct("TooMany").field("limit", limit).finish_non_exhaustive()
            }
        }
    }
}

impl<I, S> fmt::Display for GroupError<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyThere { group, .. } => write!(f, "group {group} is there already: remove it first"),
            Self::TooMany { limit, .. } => {
                write!(
                    f,
                    "the hierarchy already has {limit} groups: remove those that are gone, or raise the limit"
                )
            }
        }
    }
}

impl<I, S> Error for GroupError<I, S> {}

/// Why an event of a group was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupApplyError {
    /// There is no such group: add it first.
    UnknownGroup {
        /// The id.
        group: GroupId,
    },
    /// The worker belongs to another group: remove it there first.
    OtherGroup {
        /// The worker.
        worker: WorkerId,
        /// Its group.
        group: GroupId,
    },
    /// The leaf refused the event.
    Leaf(ApplyError),
}

impl fmt::Display for GroupApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownGroup { group } => write!(f, "there is no group {group}: add it first"),
            Self::OtherGroup { worker, group } => {
                write!(f, "worker {worker} belongs to group {group}: remove it there before it moves")
            }
            Self::Leaf(_) => f.write_str("the leaf refused the event"),
        }
    }
}

impl Error for GroupApplyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Leaf(error) => Some(error),
            _ => None,
        }
    }
}
