//! Our paged index as our router asks it: a request brings the keys of its prefixes, which it got in the pass that hashed
//! it.

use kv_router_hash::KeyedHashes;
use kv_router_index::paged::PagedIndex;
use kv_router_index::{FindOptions, Overlaps, PrefixIndex};
use kv_router_types::{KvEvent, LocalBlockHash};

use super::paged::read;
use super::{Concurrent, Find, Owner, Paged, Subject};
use crate::corpus::{Change, Corpus, Held};

/// Asks with keys.
#[derive(Clone, Debug)]
pub struct WithKeys(pub(super) PagedIndex);

impl Find for WithKeys {
    /// Nothing before the first request.
    type Query = Option<KeyedHashes>;
    type Answer = Overlaps;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        query.get_or_insert_with(|| KeyedHashes::new(self.0.keyer())).set_locals(locals);
    }

    #[inline]
    fn find(&self, query: &mut Self::Query, answer: &mut Overlaps) {
        if let Some(query) = query {
            self.0.find_keyed_into(query, FindOptions::new(), answer);
        }
    }

    fn read(&self, answer: &Overlaps, out: &mut Vec<Held>) {
        read(answer, out);
    }
}

/// The index, its writers, and who asks.
#[derive(Debug)]
pub struct PagedKeyed {
    paged: Paged,
    finder: WithKeys,
}

impl Subject for PagedKeyed {
    const NAME: &'static str = "paged-keyed";
    const OWNER: Owner = Owner::Us;
    type Event = (u32, KvEvent);
    type Builder = ();
    type Finder = WithKeys;

    fn open(workers: u32) -> Self {
        let paged = Paged::open(workers);
        let finder = WithKeys(paged.finder().clone());
        Self { paged, finder }
    }

    fn finder(&self) -> &WithKeys {
        &self.finder
    }

    fn builder(_corpus: &Corpus) {}

    fn event(builder: &mut (), change: Change<'_>) -> Self::Event {
        Paged::event(builder, change)
    }

    #[inline]
    fn apply(&mut self, event: &mut Self::Event) {
        self.paged.apply(event);
    }
}

impl Concurrent for PagedKeyed {}
