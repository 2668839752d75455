//! The indexes under test, and how each is driven.
//!
//! Whatever is not the index's own work happens in the untimed calls: events and queries are turned into its own owned
//! form before the clock starts, answers are read after it stopped. Between [`Script::next`] returning and its next call
//! lies the timed part. That turns the loop inside out, because one peer has no other way in: it is handed a queue and
//! keeps the thread (see `compressed.rs`).

mod chain;
mod compressed;
mod dynamo;
mod paged;
mod paged_ids;
mod paged_keyed;
mod positional;
mod radix;
mod roster;
mod tree;

use kv_router_types::LocalBlockHash;

pub use chain::Chain;
pub use compressed::CompressedTree;
pub use paged::{Paged, event as paged_event};
pub use paged_ids::{PagedIds, Relays};
pub use paged_keyed::PagedKeyed;
pub use positional::Positional;
pub use radix::Radix;
pub use roster::{Entry, ROSTER};
pub use tree::Tree;

use crate::corpus::{Change, Corpus, Held};

/// The reading side of an index.
pub trait Find {
    /// A request in its own form. Reused from lookup to lookup.
    type Query: Default + Send + 'static;
    /// What it answers, in its own form. Reused from lookup to lookup.
    type Answer: Default + Send + 'static;

    /// Untimed: brings a request into its own form.
    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query);

    /// Timed: who holds how much of it? An answer that the index hands out anew replaces the last one, which is
    /// dropped here, as a router would have to.
    fn find(&self, query: &mut Self::Query, answer: &mut Self::Answer);

    /// Untimed: appends the answer, in any order.
    fn read(&self, answer: &Self::Answer, out: &mut Vec<Held>);
}

/// An index under test.
pub trait Subject: Sized + 'static {
    /// What reports call it.
    const NAME: &'static str;
    /// Whose it is.
    const OWNER: Owner;
    /// An event in its own owned form.
    type Event: Send + 'static;
    /// What building events takes. Not part of the index.
    type Builder: Send + 'static;
    /// Its reading side.
    type Finder: Find;

    /// An empty index that knows the workers 0 to `workers` - 1.
    fn open(workers: u32) -> Self;

    /// Its reading side.
    fn finder(&self) -> &Self::Finder;

    /// Untimed: gets ready to build the events of a stream.
    fn builder(corpus: &Corpus) -> Self::Builder;

    /// Untimed: brings the next change of the stream into its own form.
    fn event(builder: &mut Self::Builder, change: Change<'_>) -> Self::Event;

    /// Timed: applies an event, which lookups see from then on. Refusals are part of the traffic, wrong answers show
    /// them. What is left of the event is dropped off the clock.
    fn apply(&mut self, event: &mut Self::Event);

    /// Plays a script to its end and returns both.
    fn drive<S: Script<Self>>(mut self, mut script: S) -> (Self, S) {
        let mut batch = Vec::new();
        while script.next(self.finder(), &mut batch) {
            for event in &mut batch {
                self.apply(event);
            }
        }
        (self, script)
    }

    /// Nanoseconds that a batch of `events` spends on the way to the index rather than inside it. Measured, not known.
    fn detour_ns(_events: usize) -> u64 {
        0
    }
}

/// Who made an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is one of this repository.
    Us,
    /// It is a published one.
    Peer,
}

/// What a subject is put through.
pub trait Script<S: Subject>: Send + 'static {
    /// Called when everything in `batch` is applied. Stops the clock, drops what is left of the batch, does what lookups
    /// come before the next events, fills the batch and, as its last act, starts the clock. `false` at the end.
    fn next(&mut self, finder: &S::Finder, batch: &mut Vec<S::Event>) -> bool;
}

/// A subject whose reading side can be used on another thread while events apply.
pub trait Concurrent: Subject<Finder: Clone + Send> {}
