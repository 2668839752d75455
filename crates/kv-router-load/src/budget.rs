//! A counter that refuses to pass its limit: what keeps every table of the tracker bounded.

use std::sync::atomic::{AtomicU64, Ordering};

/// Units in use, never above the limit but for those that another budget bounds.
///
/// Relaxed everywhere: the counter guards memory use alone, and whoever takes or gives back a unit holds the lock
/// of the table that the unit stands for.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    limit: u64,
}

impl Budget {
    pub(crate) const fn new(limit: u64) -> Self {
        Self { used: AtomicU64::new(0), limit }
    }

    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `units`, or nothing and returns `false` when they do not fit.
    #[must_use]
    pub(crate) fn try_take(&self, units: u64) -> bool {
        self.try_take_beyond(units, 0)
    }

    /// The same under a limit that is `more` higher.
    #[must_use]
    pub(crate) fn try_take_beyond(&self, units: u64, more: u64) -> bool {
        let limit = self.limit.saturating_add(more);
        let fits = |used: u64| used.checked_add(units).filter(|&sum| sum <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    pub(crate) fn has_room(&self, units: u64) -> bool {
        self.used().checked_add(units).is_some_and(|sum| sum <= self.limit)
    }

    /// Takes units for which another budget was asked.
    pub(crate) fn add(&self, units: u64) {
        self.used.fetch_add(units, Ordering::Relaxed);
    }

    /// Gives back units that were taken before.
    pub(crate) fn give_back(&self, units: u64) {
        let before = self.used.fetch_sub(units, Ordering::Relaxed);
        debug_assert!(before >= units, "gave back {units} of {before}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_reached_and_never_passed() {
        let budget = Budget::new(3);
        assert!(budget.try_take(2) && !budget.try_take(2) && budget.try_take(1));
        assert!(!budget.try_take(u64::MAX), "an overflow must not look like room");
        assert_eq!(budget.used(), 3);
        assert!(budget.has_room(0) && !budget.has_room(1) && !budget.has_room(u64::MAX));
        assert!(!budget.try_take_beyond(3, 2) && budget.try_take_beyond(2, 2));
        assert!(!budget.try_take_beyond(u64::MAX, u64::MAX) && !budget.try_take(0));
        budget.add(1);
        budget.give_back(3);
        budget.give_back(3);
        assert_eq!(budget.used(), 0);
    }
}
