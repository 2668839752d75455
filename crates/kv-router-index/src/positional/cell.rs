//! What a rank shows to lookups, and how a lookup knows that it can rely on what it saw.
//!
//! Only the writer of a rank changes what the rank holds, in sections of a few blocks each. In a section that
//! takes something away, or makes a copy worse, the rank's stamp is odd, and afterwards it is another even
//! number. So between two readings of the same even stamp a rank has at most gained: what a lookup saw there
//! one by one, the rank holds all at once at the second reading. A lookup that cannot have that takes the
//! gate, which is held during each section, and looks at a rank that stands still.

use std::fmt;
use std::ops::{Deref, DerefMut};

use kv_router_types::{DpRank, WorkerId, WorkerRank};

use super::cache::Cache;
use super::exceptions::Buckets;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The place of one rank among the others. Its number, the slot, stands in the sets of holders.
///
/// Aligned so that the writers of neighbours do not slow each other down.
#[repr(align(64))]
pub(super) struct Cell {
    /// Odd while the rank shrinks, and while the cell has no rank.
    stamp: AtomicU64,
    /// The rank's [`Buckets`]. A bucket is flagged before lookups can meet the exception, and cleared after
    /// they cannot any more, or while the stamp is odd.
    exceptions: AtomicU64,
    worker: AtomicU64,
    rank: AtomicU64,
    /// Held during each section.
    gate: Mutex<()>,
    /// What the rank holds; `None` while the cell has no rank. A writer holds the lock during a whole event,
    /// so that events of one rank never mix. Lookups do not take it.
    cache: Mutex<Option<Box<Cache>>>,
}

/// What a lookup saw of a rank before it began to rely on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    stamp: u64,
    pub(super) exceptions: Buckets,
}

impl Cell {
    pub(super) fn new() -> Self {
        Self {
            stamp: AtomicU64::new(1),
            exceptions: AtomicU64::new(0),
            worker: AtomicU64::new(0),
            rank: AtomicU64::new(0),
            gate: Mutex::new(()),
            cache: Mutex::new(None),
        }
    }

    /// The rank. Means something while [`confirm`](Self::confirm) says so, or under one of the locks.
    pub(super) fn id(&self) -> WorkerRank {
        let worker = self.worker.load(Ordering::Acquire);
        let rank = self.rank.load(Ordering::Acquire);
        // It was made from a `u32`.
        WorkerRank::new(WorkerId::new(worker), DpRank::new(rank as u32))
    }

    /// Begins to rely on the rank; `None` while it shrinks or is not there. Comes before the first look at
    /// what it holds.
    #[inline]
    pub(super) fn watch(&self) -> Option<Watch> {
        let stamp = self.stamp.load(Ordering::Acquire);
        let exceptions = Buckets::from_bits(self.exceptions.load(Ordering::Acquire));
        stamp.is_multiple_of(2).then_some(Watch { stamp, exceptions })
    }

    /// Whether all that was seen since then is held now, with exceptions nowhere but where `watch` has them.
    #[inline]
    pub(super) fn confirm(&self, watch: Watch) -> bool {
        let exceptions = Buckets::from_bits(self.exceptions.load(Ordering::Acquire));
        exceptions.is_within(watch.exceptions) && self.stamp.load(Ordering::Acquire) == watch.stamp
    }

    /// Makes the rank stand still. Meanwhile an odd stamp means that the cell has no rank.
    pub(super) fn stand_still(&self) -> impl Deref<Target = ()> {
        self.gate.lock()
    }

    /// For writers: what the rank holds, for the length of an event.
    pub(super) fn cache(&self) -> impl DerefMut<Target = Option<Box<Cache>>> {
        self.cache.lock()
    }

    /// For the writer that has the cache: makes a few changes, during which no lookup looks through the gate.
    pub(super) fn section<R>(&self, change: impl FnOnce(&mut Section<'_>) -> R) -> R {
        let _still = self.stand_still();
        change(&mut Section { cell: self, shrinks: false })
    }

    /// For the writer that has the cache of an empty cell: gives it to a rank that holds nothing yet.
    pub(super) fn occupy(&self, id: WorkerRank) {
        let _still = self.stand_still();
        self.worker.store(id.worker.get(), Ordering::Release);
        self.rank.store(u64::from(id.rank.get()), Ordering::Release);
        self.exceptions.store(0, Ordering::Release);
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }

    /// For the writer that has the cache of a rank that holds nothing any more: empties the cell.
    pub(super) fn vacate(&self) {
        let _still = self.stand_still();
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("stamp", &self.stamp).field("id", &self.id()).finish_non_exhaustive()
    }
}

/// A few changes of one rank.
pub(super) struct Section<'a> {
    cell: &'a Cell,
    shrinks: bool,
}

impl Section<'_> {
    /// Comes before the first change that takes something away.
    pub(super) fn shrink(&mut self) {
        if !self.shrinks {
            self.shrinks = true;
            self.cell.stamp.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn show(&self, exceptions: Buckets) {
        let shown = &self.cell.exceptions;
        if shown.load(Ordering::Relaxed) != exceptions.bits() {
            shown.store(exceptions.bits(), Ordering::Release);
        }
    }
}

/// The gate opens after this.
impl Drop for Section<'_> {
    fn drop(&mut self) {
        if self.shrinks {
            self.cell.stamp.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupied() -> Cell {
        let cell = Cell::new();
        assert!(cell.watch().is_none());
        cell.occupy(WorkerRank::new(WorkerId::new(7), DpRank::new(3)));
        cell
    }

    #[test]
    fn a_rank_that_only_gains_is_confirmed() {
        let cell = occupied();
        let watch = cell.watch().unwrap();
        cell.section(|_| ());
        assert!(cell.confirm(watch));
        assert_eq!(cell.id(), WorkerRank::new(WorkerId::new(7), DpRank::new(3)));
    }

    #[test]
    fn a_rank_that_shrank_is_not() {
        let cell = occupied();
        let watch = cell.watch().unwrap();
        cell.section(|section| {
            section.shrink();
            section.shrink();
            assert!(cell.watch().is_none() && !cell.confirm(watch));
        });
        assert!(cell.watch().is_some() && !cell.confirm(watch));
    }

    #[test]
    fn a_new_exception_is_noticed_and_one_that_is_gone_does_no_harm() {
        let cell = occupied();
        let clean = cell.watch().unwrap();
        cell.section(|section| section.show(Buckets::from_bits(2)));
        assert!(!cell.confirm(clean));
        let flagged = cell.watch().unwrap();
        cell.section(|section| section.show(Buckets::default()));
        assert!(cell.confirm(flagged) && cell.confirm(clean));
    }

    #[test]
    fn who_comes_next_is_not_taken_for_who_was_there() {
        let cell = occupied();
        let watch = cell.watch().unwrap();
        cell.vacate();
        assert!(cell.watch().is_none() && !cell.confirm(watch));
        cell.occupy(WorkerRank::default());
        assert!(!cell.confirm(watch));
    }

    #[test]
    fn a_cell_is_a_cache_line() {
        assert_eq!(size_of::<Cell>(), 64);
    }
}
