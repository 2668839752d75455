//! Reader-writer locks that know their place in the lock order of docs/locking.md.
//!
//! In debug builds each checks that the thread holds no lock of a higher rank, so every test checks the
//! order. In other builds this is the lock alone.

use std::ops::{Deref, DerefMut};

use super::{Held, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The ranks of docs/locking.md: a thread that holds a lock takes only locks of a higher one.
pub(crate) mod rank {
    pub(crate) const GATE: usize = 0;
    pub(crate) const ROUTES: usize = 1;
    pub(crate) const NAMES: usize = 2;
    pub(crate) const NODE: usize = 3;
    pub(crate) const ROSTER: usize = 4;

    /// How many locks of a rank a thread may hold: of nodes a parent and its child.
    pub(super) const fn most(rank: usize) -> usize {
        if rank == NODE { 2 } else { 1 }
    }
}

/// A lock of a rank.
pub(crate) struct Ordered<const RANK: usize, T>(RwLock<T>);

impl<const RANK: usize, T> Ordered<RANK, T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    pub(crate) fn read(&self) -> OrderedGuard<RANK, RwLockReadGuard<'_, T>> {
        let held = Held::enter(RANK, rank::most(RANK));
        OrderedGuard { guard: self.0.read(), held }
    }

    pub(crate) fn write(&self) -> OrderedGuard<RANK, RwLockWriteGuard<'_, T>> {
        let held = Held::enter(RANK, rank::most(RANK));
        OrderedGuard { guard: self.0.write(), held }
    }
}

/// A lock of a rank, locked.
pub(crate) struct OrderedGuard<const RANK: usize, G> {
    guard: G,
    held: Held,
}

impl<const RANK: usize, G: Deref> Deref for OrderedGuard<RANK, G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<const RANK: usize, G: DerefMut> DerefMut for OrderedGuard<RANK, G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<const RANK: usize, G> Drop for OrderedGuard<RANK, G> {
    fn drop(&mut self) {
        self.held.leave(RANK);
    }
}

#[cfg(all(test, debug_assertions, not(kv_router_loom)))]
mod tests {
    use super::*;

    fn locks() -> (Ordered<{ rank::NAMES }, ()>, [Ordered<{ rank::NODE }, ()>; 3]) {
        (Ordered::new(()), std::array::from_fn(|_| Ordered::new(())))
    }

    #[test]
    fn parent_and_child_under_names_are_in_order_and_leave_nothing() {
        let (names, nodes) = locks();
        for _ in 0..2 {
            let _names = names.write();
            let _nodes = (nodes[0].read(), nodes[1].write());
        }
    }

    #[test]
    #[should_panic(expected = "out of lock order")]
    fn names_under_a_node_are_not() {
        let (names, nodes) = locks();
        let _node = nodes[0].read();
        names.read();
    }

    #[test]
    #[should_panic(expected = "out of lock order")]
    fn a_third_node_is_not() {
        let (_, nodes) = locks();
        let _nodes = (nodes[0].read(), nodes[1].read());
        nodes[2].read();
    }
}
