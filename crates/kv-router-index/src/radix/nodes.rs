//! The nodes, in one slab.

use kv_router_types::{LocalBlockHash, Tier};

use crate::children::Children;
use crate::holders::Holders;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(u32);

impl NodeId {
    /// Before the first block of every query. Nobody holds it and it is never freed.
    pub(super) const ROOT: Self = Self(0);

    pub(super) const fn new(raw: u32) -> Self {
        Self(raw)
    }

    pub(super) const fn get(self) -> u32 {
        self.0
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One block: 64 bytes, so that a step of a lookup costs one cache line where no set is large.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Node {
    pub(super) parent: NodeId,
    /// The key of this node among its parent's children.
    pub(super) local: LocalBlockHash,
    children: Children<NodeId>,
    pub(super) holders: Holders,
}

impl Node {
    fn new(parent: NodeId, local: LocalBlockHash) -> Self {
        Self { parent, local, children: Children::None, holders: Holders::NONE }
    }

    #[inline]
    pub(super) fn child(&self, local: LocalBlockHash) -> Option<NodeId> {
        self.children.get(local).copied()
    }
}

/// All nodes. Freed ones are used again first; the memory goes back when the last one is freed.
#[derive(Debug)]
pub(super) struct Nodes {
    slab: Vec<Node>,
    free: Vec<NodeId>,
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self { slab: vec![Node::new(NodeId::ROOT, LocalBlockHash::new(0))], free: Vec::new() }
    }

    /// Nodes in use, the root not counted.
    pub(super) fn len(&self) -> usize {
        self.slab.len() - 1 - self.free.len()
    }

    #[inline]
    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.slab[id.index()]
    }

    /// The child of `id` at `local`, new if need be. A new one must get a holder before any other is
    /// released.
    pub(super) fn child_or_insert(&mut self, id: NodeId, local: LocalBlockHash) -> NodeId {
        if let Some(child) = self.get(id).child(local) {
            return child;
        }
        let node = Node::new(id, local);
        let child = match self.free.pop() {
            Some(child) => {
                self.slab[child.index()] = node;
                child
            }
            None => {
                // Within `u32`: the tree refuses stores above `RadixConfig::MAX_NODES`.
                let child = NodeId(self.slab.len() as u32);
                self.slab.push(node);
                child
            }
        };
        self.slab[id.index()].children.insert(local, child);
        child
    }

    /// Adds a holder; false when it was one already.
    pub(super) fn hold(&mut self, id: NodeId, slot: u32, tier: Tier) -> bool {
        self.slab[id.index()].holders.insert(slot, tier)
    }

    /// Takes a holder out, then frees the node, and each ancestor, that nothing needs any more.
    pub(super) fn let_go(&mut self, id: NodeId, slot: u32, tier: Tier, mut freed: impl FnMut(NodeId)) {
        self.slab[id.index()].holders.remove(slot, tier);
        let mut at = id;
        while at != NodeId::ROOT && self.is_unneeded(at) {
            let Node { parent, local, .. } = self.slab[at.index()];
            self.slab[parent.index()].children.remove(local);
            self.free.push(at);
            freed(at);
            at = parent;
        }
        if self.len() == 0 && !self.free.is_empty() {
            *self = Self::new();
        }
    }

    fn is_unneeded(&self, id: NodeId) -> bool {
        let node = self.get(id);
        node.holders.is_empty() && node.children.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_cache_line() {
        assert_eq!(size_of::<Node>(), 64);
    }

    #[test]
    fn a_freed_chain_is_used_again_and_an_empty_slab_gives_its_memory_back() {
        let mut nodes = Nodes::new();
        let keep = nodes.child_or_insert(NodeId::ROOT, LocalBlockHash::new(1));
        nodes.hold(keep, 0, Tier::Device);
        for _ in 0..3 {
            let mut tip = NodeId::ROOT;
            for local in 2..100 {
                tip = nodes.child_or_insert(tip, LocalBlockHash::new(local));
            }
            nodes.hold(tip, 0, Tier::Host);
            assert_eq!(nodes.len(), 99);
            let mut freed = 0;
            nodes.let_go(tip, 0, Tier::Host, |_| freed += 1);
            assert_eq!((nodes.len(), nodes.slab.len(), freed), (1, 100, 98));
        }
        nodes.let_go(keep, 0, Tier::Device, |_| ());
        assert_eq!((nodes.len(), nodes.slab.len(), nodes.free.capacity()), (0, 1, 0));
    }
}
