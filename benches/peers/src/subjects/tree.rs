//! dynamo-kv-router 1.6.1, `RadixTree`, through the two calls that its own single-threaded indexer makes. It cannot leave
//! its thread, so it has no part in concurrent runs.

use std::fmt;

use dynamo_kv_router::RadixTree;
use dynamo_kv_router::protocols::{LocalBlockHash as TheirLocalHash, OverlapScores, RouterEvent};
use kv_router_types::LocalBlockHash;

use super::{Find, Owner, Subject, dynamo};
use crate::corpus::{Change, Corpus, Held};

/// The tree.
pub struct Tree(RadixTree);

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tree").finish_non_exhaustive()
    }
}

impl Find for RadixTree {
    type Query = Vec<TheirLocalHash>;
    type Answer = OverlapScores;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        dynamo::prepare(locals, query);
    }

    #[inline]
    fn find(&self, query: &mut Self::Query, answer: &mut OverlapScores) {
        // It wants the query as its own.
        *answer = self.find_matches(std::mem::take(query), false);
    }

    fn read(&self, answer: &OverlapScores, out: &mut Vec<Held>) {
        dynamo::read(answer, out);
    }
}

impl Subject for Tree {
    const NAME: &'static str = "dynamo radix";
    const OWNER: Owner = Owner::Peer;
    type Event = Option<RouterEvent>;
    type Builder = ();
    type Finder = RadixTree;

    fn open(_workers: u32) -> Self {
        Self(RadixTree::new())
    }

    fn finder(&self) -> &RadixTree {
        &self.0
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Self::Event {
        Some(dynamo::event(change))
    }

    #[inline]
    fn apply(&mut self, event: &mut Self::Event) {
        if let Some(event) = event.take() {
            let _ = self.0.apply_event(event);
        }
    }
}
