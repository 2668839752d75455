//! Why a lookup answers what it does, and what the index costs.

use kv_router_types::LocalBlockHash;

use super::holders;
use super::locals::{Locals, Query};
use super::shared::Shared;
use super::words::ROOT;

/// One page on the way of a lookup. See [`PagedIndex::explain`](super::PagedIndex::explain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStep {
    /// Blocks of the request before this page.
    pub before: usize,
    /// Blocks in the page.
    pub page_blocks: usize,
    /// How many of them are the same as in the request.
    pub common: usize,
    /// Ranks that hold something of the page.
    pub holders: usize,
    /// Ranks that hold the common blocks without a gap, whatever they hold before the page.
    pub full_holders: usize,
    /// Whether another page may go on from where the request leaves this one.
    pub may_continue: bool,
}

/// Memory of an index, in bytes. See [`PagedIndex::memory`](super::PagedIndex::memory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Pages in use; not bytes.
    pub pages: usize,
    /// Page headers.
    pub headers: usize,
    /// Local hashes and lists of holders, allocated.
    pub lines: usize,
    /// Of `lines`, what is in use.
    pub lines_used: usize,
    /// The table that finds pages.
    pub edges: usize,
    /// What is private to ranks: names and their places.
    pub lanes: usize,
    /// Tier records.
    pub tiers: usize,
}

impl MemoryUse {
    /// All of it.
    pub fn total(&self) -> usize {
        self.headers + self.lines + self.edges + self.lanes + self.tiers
    }
}

impl Shared {
    pub(super) fn explain(&self, query: &[LocalBlockHash]) -> Vec<PathStep> {
        let mut steps = Vec::new();
        let (mut parent, mut offset, mut before) = (ROOT, 0, 0);
        while let Some(first) = query.get(before) {
            let Some((page, header, _)) = self.pages.child(parent, offset, first.get()) else { break };
            let page_blocks = header.shape().len();
            let common = Locals::of(&self.pages.lines, header).common(
                page_blocks,
                Query { locals: &query[before..], keys: &[] },
                &self.pages.keys,
            );
            let (mut all, mut full) = (0, 0);
            holders::for_each(&self.pages.lines, header, |entry| {
                all += 1;
                full += usize::from(entry.reach() >= common.max(1));
            });
            let may_continue = header.may_continue_at(common);
            steps.push(PathStep {
                before,
                page_blocks,
                common,
                holders: all,
                full_holders: full,
                may_continue,
            });
            if common == 0 || !may_continue {
                break;
            }
            (parent, offset, before) = (page, common, before + common);
        }
        steps
    }

    pub(super) fn memory(&self) -> MemoryUse {
        let (lines, lines_used) = self.pages.lines.bytes();
        MemoryUse {
            pages: self.pages.headers.in_use(),
            headers: self.pages.headers.bytes() + self.pages.branches.bytes(),
            lines,
            lines_used,
            edges: self.pages.edge_bytes(),
            lanes: self.cells().iter().map(|cell| cell.lane.lock().bytes()).sum(),
            tiers: self.pages.tiers.bytes(),
        }
    }
}
