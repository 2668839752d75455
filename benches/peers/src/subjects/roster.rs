//! All subjects as a table of what can be done with each.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::{
    Chain, CompressedTree, Concurrent, Owner, Paged, PagedIds, PagedKeyed, Positional, Radix, Subject, Tree,
};
use crate::clock::Clock;
use crate::corpus::Corpus;
use crate::duel::{Duelled, duel};
use crate::memory;
use crate::replay::{Replayed, replay};

type Grown = fn(&Arc<Corpus>, fn() -> usize) -> usize;
type Duel = fn(&Arc<Corpus>, Clock) -> io::Result<Duelled>;

/// One index under test.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What reports call it.
    pub name: &'static str,
    /// Whose it is.
    pub owner: Owner,
    /// See [`replay`].
    pub replay: fn(&Arc<Corpus>, Clock) -> Replayed,
    /// See [`memory::grown`].
    pub grown: Grown,
    /// See [`duel`]; `None` for an index that cannot be read beside its writer.
    pub duel: Option<Duel>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Entry {
    const fn alone<S: Subject>() -> Self {
        Self { name: S::NAME, owner: S::OWNER, replay: replay::<S>, grown: memory::grown::<S>, duel: None }
    }

    const fn concurrent<S: Concurrent + Send>() -> Self {
        Self { duel: Some(duel::<S>), ..Self::alone::<S>() }
    }
}

/// Ours, the one that ratios are about, comes first.
pub const ROSTER: [Entry; 8] = [
    Entry::concurrent::<Paged>(),
    Entry::concurrent::<PagedKeyed>(),
    Entry::concurrent::<PagedIds>(),
    Entry::alone::<Radix>(),
    Entry::concurrent::<Chain>(),
    Entry::concurrent::<CompressedTree>(),
    Entry::alone::<Tree>(),
    Entry::concurrent::<Positional>(),
];
