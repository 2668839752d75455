//! Our paged index told in numbers, and asked with keys: what its router does when a relay beside each engine keeps the
//! names.
//!
//! The relays' work happens before the stream begins, since theirs are other machines and other caches;
//! [`relay`](mod@crate::relay) measures it alone.

use kv_router_index::paged::{BlockIds, IdEvent, IdWriter, PagedIndex};

use super::paged::{event, rank};
use super::paged_keyed::WithKeys;
use super::{Concurrent, Owner, Subject};
use crate::corpus::{Change, Corpus, Step};

/// The index and its writers.
#[derive(Debug)]
pub struct PagedIds {
    finder: WithKeys,
    writers: Vec<IdWriter>,
}

/// The relays of the fleet, by worker.
#[derive(Debug, Default)]
pub struct Relays(Vec<BlockIds>);

impl Relays {
    /// The relay of a worker.
    pub fn of(&mut self, worker: u32) -> &mut BlockIds {
        let worker = worker as usize;
        if self.0.len() <= worker {
            self.0.resize_with(worker + 1, BlockIds::new);
        }
        &mut self.0[worker]
    }

    /// Bytes that they have allocated.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(BlockIds::bytes).sum()
    }
}

/// What the relays made of a stream.
#[derive(Debug)]
pub struct Numbered(std::vec::IntoIter<Option<(u32, IdEvent)>>);

impl Subject for PagedIds {
    const NAME: &'static str = "paged-ids";
    const OWNER: Owner = Owner::Us;
    /// Nothing when the relay has nothing to send.
    type Event = Option<(u32, IdEvent)>;
    type Builder = Numbered;
    type Finder = WithKeys;

    fn open(workers: u32) -> Self {
        let index = PagedIndex::new();
        // A fresh index has no writer yet, so none is refused.
        let writers = (0..workers).filter_map(|worker| index.id_writer(rank(worker)).ok()).collect();
        Self { finder: WithKeys(index), writers }
    }

    fn finder(&self) -> &WithKeys {
        &self.finder
    }

    fn builder(corpus: &Corpus) -> Numbered {
        let mut relays = Relays::default();
        let changes = (0..corpus.len()).filter_map(|at| match corpus.step(at) {
            Some(Step::Change(change)) => Some(event(change)),
            _ => None,
        });
        let mut translate = |(worker, event)| {
            let translated = relays.of(worker).translate(&event).ok()?;
            Some((worker, translated.event))
        };
        Numbered(changes.map(|change| translate(change)).collect::<Vec<_>>().into_iter())
    }

    fn event(events: &mut Numbered, _change: Change<'_>) -> Self::Event {
        // A copy lies where the event of any other index would: just written.
        events.0.next()?.clone()
    }

    #[inline]
    fn apply(&mut self, event: &mut Self::Event) {
        if let Some((worker, event)) = event {
            let _ = self.writers[*worker as usize].apply(event);
        }
    }
}

impl Concurrent for PagedIds {}
