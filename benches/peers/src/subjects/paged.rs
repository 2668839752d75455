//! Our paged index with one writer a rank.

use kv_router_index::paged::{PagedIndex, RankWriter};
use kv_router_index::{FindOptions, Overlaps, PrefixIndex};
use kv_router_types::{ExternalSequenceHash, KvEvent, LocalBlockHash, Tier, WorkerId, WorkerRank};

use super::{Concurrent, Find, Owner, Subject};
use crate::corpus::{Change, Corpus, Held};

/// The index and its writers.
#[derive(Debug)]
pub struct Paged {
    index: PagedIndex,
    writers: Vec<RankWriter>,
}

impl Find for PagedIndex {
    type Query = Vec<LocalBlockHash>;
    type Answer = Overlaps;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        query.clear();
        query.extend_from_slice(locals);
    }

    #[inline]
    fn find(&self, query: &mut Self::Query, answer: &mut Overlaps) {
        self.find_into(query, FindOptions::new(), answer);
    }

    fn read(&self, answer: &Overlaps, out: &mut Vec<Held>) {
        read(answer, out);
    }
}

impl Subject for Paged {
    const NAME: &'static str = "paged";
    const OWNER: Owner = Owner::Us;
    type Event = (u32, KvEvent);
    type Builder = ();
    type Finder = PagedIndex;

    fn open(workers: u32) -> Self {
        let index = PagedIndex::new();
        // A fresh index has no writer yet, so none is refused.
        let writers = (0..workers).filter_map(|worker| index.writer(rank(worker)).ok()).collect();
        Self { index, writers }
    }

    fn finder(&self) -> &PagedIndex {
        &self.index
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Self::Event {
        event(change)
    }

    #[inline]
    fn apply(&mut self, (worker, event): &mut Self::Event) {
        let _ = self.writers[*worker as usize].apply(event);
    }
}

impl Concurrent for Paged {}

pub(super) fn rank(worker: u32) -> WorkerRank {
    WorkerRank::from(WorkerId::new(u64::from(worker)))
}

/// Our event. A worker that is replaced is a cleared one to us: its number lives on.
pub fn event(change: Change<'_>) -> (u32, KvEvent) {
    match change {
        Change::Store { worker, parent, blocks } => {
            (worker, KvEvent::Stored { tier: Tier::Device, parent, blocks: blocks.to_vec() })
        }
        Change::Remove { worker, names } => {
            let blocks: Vec<ExternalSequenceHash> = names.to_vec();
            (worker, KvEvent::Removed { tier: Tier::Device, blocks })
        }
        Change::Clear { worker } | Change::Replace { worker } => (worker, KvEvent::Cleared),
    }
}

pub(super) fn read(answer: &Overlaps, out: &mut Vec<Held>) {
    let held = answer.iter().map(|overlap| {
        let worker = u32::try_from(overlap.worker().worker.get()).unwrap_or(u32::MAX);
        Held { worker, blocks: overlap.blocks() }
    });
    out.extend(held);
}
