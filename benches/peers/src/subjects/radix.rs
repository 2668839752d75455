//! Our radix tree, for one thread.

use kv_router_index::{ApplyEvents, FindOptions, Overlaps, PrefixIndex, RadixTree};
use kv_router_types::{KvEvent, LocalBlockHash};

use super::{Find, Owner, Subject, paged};
use crate::corpus::{Change, Corpus, Held};

/// The tree.
#[derive(Debug)]
pub struct Radix(RadixTree);

impl Find for RadixTree {
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
        paged::read(answer, out);
    }
}

impl Subject for Radix {
    const NAME: &'static str = "radix";
    const OWNER: Owner = Owner::Us;
    type Event = (u32, KvEvent);
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
        paged::event(change)
    }

    #[inline]
    fn apply(&mut self, (worker, event): &mut Self::Event) {
        let _ = self.0.apply(paged::rank(*worker), event);
    }
}
