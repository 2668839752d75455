//! dynamo-kv-router 1.6.1, `PositionalIndexer` with jumps of 32 and the binary search, the combination that is best in
//! most of our corpora. Its `apply_event` is public, so nothing stands between us and the index.

use std::fmt;
use std::sync::Arc;

use dynamo_kv_router::PositionalIndexer;
use dynamo_kv_router::indexer::SyncIndexer;
use dynamo_kv_router::indexer::positional::{LevelIndex, SearchMode};
use dynamo_kv_router::protocols::{
    LocalBlockHash as TheirLocalHash, OverlapScores, RouterEvent, WorkerWithDpRank,
};
use kv_router_types::LocalBlockHash;
use rustc_hash::FxHashMap;

use super::{Concurrent, Find, Owner, Subject, dynamo};
use crate::corpus::{Change, Corpus, Held};

const JUMP: usize = 32;

/// The index and the maps that its one writing thread owns.
pub struct Positional {
    index: PositionalFinder,
    maps: FxHashMap<WorkerWithDpRank, LevelIndex>,
}

impl fmt::Debug for Positional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Positional").field("workers", &self.maps.len()).finish_non_exhaustive()
    }
}

/// Its reading side.
#[derive(Clone)]
pub struct PositionalFinder(Arc<PositionalIndexer>);

impl fmt::Debug for PositionalFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PositionalFinder").finish_non_exhaustive()
    }
}

impl Find for PositionalFinder {
    type Query = Vec<TheirLocalHash>;
    type Answer = OverlapScores;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        dynamo::prepare(locals, query);
    }

    #[inline]
    fn find(&self, query: &mut Self::Query, answer: &mut OverlapScores) {
        *answer = self.0.find_matches(query, false);
    }

    fn read(&self, answer: &OverlapScores, out: &mut Vec<Held>) {
        dynamo::read(answer, out);
    }
}

impl Subject for Positional {
    const NAME: &'static str = "dynamo positional";
    const OWNER: Owner = Owner::Peer;
    type Event = Option<RouterEvent>;
    type Builder = ();
    type Finder = PositionalFinder;

    fn open(workers: u32) -> Self {
        let index = PositionalIndexer::new_with_mode(JUMP, SearchMode::Binary);
        let worker = |worker| (WorkerWithDpRank::new(u64::from(worker), 0), LevelIndex::default());
        Self { index: PositionalFinder(Arc::new(index)), maps: (0..workers).map(worker).collect() }
    }

    fn finder(&self) -> &PositionalFinder {
        &self.index
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Self::Event {
        Some(dynamo::event(change))
    }

    #[inline]
    fn apply(&mut self, event: &mut Self::Event) {
        if let Some(event) = event.take() {
            let _ = self.index.0.apply_event(&mut self.maps, event, None);
        }
    }
}

impl Concurrent for Positional {}
