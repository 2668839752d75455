//! The nodes: who holds a block, and what continues it.
//!
//! Locks are taken parent before child and at most two at a time. A node that is linked has a holder, a
//! child, or a writer that is about to look whether it still has; one that is unlinked is dead, refers to no
//! other node, and never comes back. So whoever keeps a dead node alive keeps that one node alive, and
//! dropping it recurses into nothing.

use kv_router_types::{LocalBlockHash, Tier, TierSet};

use crate::children::Children;
use crate::holders::Holders;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Ordered, OrderedGuard, RwLockReadGuard, rank};

/// One block: one exact prefix.
pub(super) struct Node {
    /// The key of this node among its parent's children.
    pub(super) local: LocalBlockHash,
    state: Ordered<{ rank::NODE }, State>,
}

/// What changes in the life of a node.
pub(super) struct State {
    up: Up,
    children: Children<Arc<Node>>,
    pub(super) holders: Holders,
}

/// What stands before a node.
enum Up {
    /// Nothing: this is before the first block of every query. Nobody holds it and it is never freed.
    Root,
    /// A parent, which has this node among its children. It stays the same as long as the node lives.
    Under(Arc<Node>),
    /// No longer anything: the node has been freed.
    Dead,
}

/// What [`Node::hold_child`] did.
pub(super) struct HeldChild {
    pub(super) node: Arc<Node>,
    /// Whether the slot did not hold the node in that tier before.
    pub(super) newly: bool,
}

impl State {
    #[inline]
    pub(super) fn child(&self, local: LocalBlockHash) -> Option<&Arc<Node>> {
        self.children.get(local)
    }

    /// The node before this one; `None` at the root and in a dead node.
    pub(super) fn parent(&self) -> Option<&Arc<Node>> {
        match &self.up {
            Up::Under(parent) => Some(parent),
            Up::Root | Up::Dead => None,
        }
    }

    fn is_dead(&self) -> bool {
        matches!(self.up, Up::Dead)
    }

    /// Whether a rank holds the node or it leads to one that a rank holds.
    fn is_needed(&self) -> bool {
        !self.holders.is_empty() || !self.children.is_empty() || matches!(self.up, Up::Root)
    }
}

impl Node {
    pub(super) fn root() -> Self {
        Self::new(Up::Root, LocalBlockHash::new(0), Holders::NONE)
    }

    fn new(up: Up, local: LocalBlockHash, holders: Holders) -> Self {
        Self { local, state: Ordered::new(State { up, children: Children::None, holders }) }
    }

    #[inline]
    pub(super) fn read(&self) -> OrderedGuard<{ rank::NODE }, RwLockReadGuard<'_, State>> {
        self.state.read()
    }

    /// The child at `local`, kept alive; it may be dead by the time it is looked at.
    pub(super) fn child(&self, local: LocalBlockHash) -> Option<Arc<Self>> {
        self.read().child(local).cloned()
    }

    /// Makes `slot` a holder of the child of `parent` at `local` in `tier`. The child is made if need be, and
    /// counted.
    ///
    /// The caller has made sure that `parent` stays alive: it is the root, or `slot` holds it.
    pub(super) fn hold_child(
        parent: &Arc<Self>,
        local: LocalBlockHash,
        slot: u32,
        tier: Tier,
        count: &AtomicUsize,
    ) -> HeldChild {
        // Most often the child is there, and then other writers and all readers may pass through the parent.
        {
            let above = parent.state.read();
            debug_assert!(!above.is_dead(), "a node that is held, or the root, is alive");
            if let Some(child) = above.child(local) {
                let node = Arc::clone(child);
                // Under the lock of its parent, without which it could be freed before it is held.
                let newly = node.hold(slot, tier);
                return HeldChild { node, newly };
            }
        }
        let mut above = parent.state.write();
        // Looked up again: another rank may have made it before the lock was ours.
        if let Some(child) = above.child(local) {
            return HeldChild { node: Arc::clone(child), newly: child.hold(slot, tier) };
        }
        let mut holders = Holders::NONE;
        holders.insert(slot, tier);
        let node = Arc::new(Self::new(Up::Under(Arc::clone(parent)), local, holders));
        above.children.insert(local, Arc::clone(&node));
        count.fetch_add(1, Ordering::Relaxed);
        HeldChild { node, newly: true }
    }

    /// Adds a holder to a node that cannot be freed meanwhile; false when it was one already.
    fn hold(&self, slot: u32, tier: Tier) -> bool {
        let mut state = self.state.write();
        debug_assert!(!state.is_dead(), "the parent was unlocked too early");
        state.holders.insert(slot, tier)
    }

    /// Takes `slot` out of the holders in `tiers`, then frees the node, and each ancestor, that nothing needs
    /// any more.
    pub(super) fn let_go(node: &Arc<Self>, slot: u32, tiers: TierSet, count: &AtomicUsize) {
        let parent = {
            let mut state = node.state.write();
            tiers.iter().for_each(|tier| state.holders.remove(slot, tier));
            if state.is_needed() {
                return;
            }
            match state.parent() {
                Some(parent) => Arc::clone(parent),
                None => return,
            }
        };
        Self::free(Arc::clone(node), parent, count);
    }

    /// Frees `node`, then each ancestor that this leaves without use.
    ///
    /// Between the look that found the node unneeded and the lock of its parent, another rank may have begun
    /// to hold it, or freed it: so both are looked at again, under both locks.
    fn free(mut node: Arc<Self>, mut parent: Arc<Self>, count: &AtomicUsize) {
        loop {
            let next = {
                let mut above = parent.state.write();
                {
                    let mut state = node.state.write();
                    if state.is_dead() || state.is_needed() {
                        return;
                    }
                    state.up = Up::Dead;
                }
                above.children.remove(node.local);
                count.fetch_sub(1, Ordering::Relaxed);
                if above.is_needed() {
                    return;
                }
                match above.parent() {
                    Some(next) => Arc::clone(next),
                    None => return,
                }
            };
            node = parent;
            parent = next;
        }
    }

    /// Takes the whole tree apart, so that dropping its nodes does not follow their links.
    pub(super) fn take_apart(root: &Arc<Self>) {
        let mut open = vec![Arc::clone(root)];
        while let Some(node) = open.pop() {
            let mut state = node.state.write();
            state.up = Up::Dead;
            state.children.drain_into(&mut open);
        }
    }
}
