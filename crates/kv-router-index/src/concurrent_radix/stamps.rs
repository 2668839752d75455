//! Change stamps: how a lookup knows that a rank's state stood still while it walked.
//!
//! Each slot has a number that is odd while an event of its rank is under way, and that never comes back. The
//! writer makes it odd before it touches the first node and even after the last; a lookup reads it before and
//! after. The stamps of 64 neighbouring slots lie together, as their bits do in the holders of a node, so
//! that a lookup in a large fleet reads few cache lines.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Slots of one bank.
pub(super) const SLOTS: usize = 64;

/// The stamps of 64 slots.
pub(super) struct Bank([AtomicU64; SLOTS]);

impl Bank {
    /// A bank whose stamps stand at `floor`, an even number.
    pub(super) fn new(floor: u64) -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(floor)))
    }

    /// The stamp of the slot at `at` in this bank.
    ///
    /// What every event did whose end this stamp counts is seen by node locks taken from now on.
    #[inline]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }

    /// No stamp of this bank is above.
    pub(super) fn highest(&self) -> u64 {
        (0..SLOTS).map(|at| self.load(at)).max().unwrap_or(0)
    }
}

/// Whether an event is under way.
pub(super) const fn is_changing(stamp: u64) -> bool {
    stamp % 2 == 1
}

/// The stamp of one slot, for its writer.
pub(super) struct Stamp {
    bank: Arc<Bank>,
    at: usize,
}

impl Stamp {
    pub(super) fn new(bank: &Arc<Bank>, slot: u32) -> Self {
        Self { bank: Arc::clone(bank), at: slot as usize % SLOTS }
    }

    /// Marks the beginning of a change; dropping the guard marks its end. The caller is the only writer of
    /// the rank.
    pub(super) fn change(&self) -> Change<'_> {
        let stamp = &self.bank.0[self.at];
        let before = stamp.load(Ordering::Relaxed);
        debug_assert!(!is_changing(before), "events of a rank do not nest");
        // A lookup that sees a node as changed has taken its lock after us, so it sees this store too.
        stamp.store(before + 1, Ordering::Relaxed);
        Change { stamp, after: before + 2 }
    }
}

/// A change that is under way.
#[must_use]
pub(super) struct Change<'a> {
    stamp: &'a AtomicU64,
    after: u64,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // Pairs with the load in `Bank::load`.
        self.stamp.store(self.after, Ordering::Release);
    }
}
