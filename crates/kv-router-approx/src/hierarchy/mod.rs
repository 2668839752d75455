//! Routing over deployment groups: summaries choose the groups, and their full indexes answer.
//!
//! A fleet of many groups need not ask every group about every request. Each group has a leaf, the full index
//! of its ranks, and a summary that says how deep a prefix can reach in it, and never too little. So a group
//! whose bound is 0 holds nothing of the request, and one whose bound is no more than what some other group
//! is known to hold cannot do better.
//!
//! # Which call do I want?
//!
//! | I want | call |
//! |---|---|
//! | the rank with the deepest prefix, from as few groups as possible | [`HierarchicalIndex::find_best_into`] |
//! | every rank with any prefix, as other indexes answer | [`PrefixIndex`](kv_router_index::PrefixIndex), implemented by [`HierarchicalIndex`] |
//!
//! # Guarantees
//!
//! * **The best is exact** although most groups are not asked: groups are visited in the order of their bounds until
//!   the best answer so far is at least the bound of the next. If the limit of visits ends it earlier, the answer says
//!   so, and by how much a skipped group could be better: [`BestProof`].
//! * **A bound is worth what its summary knows.** One that is behind its leaf can hide a group. Where that shows,
//!   because a visited leaf holds more than its summary admits, the answer says [`BestProof::StaleSummary`].
//! * Each rank belongs to one group; the answers of the leaves are merged, never mixed.

mod answer;
mod index;

pub use answer::{BestProof, GroupBound, GroupId, GroupVisit, GroupedOverlaps};
pub use index::{GroupApplyError, GroupError, HierarchicalIndex, HierarchyLimits};
