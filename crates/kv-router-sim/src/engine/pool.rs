//! The block pool: who holds which block, what the prefix cache still knows, and what is given up first.
//!
//! A block is free, private (held by one request, content unfinished) or cached (complete, findable by its
//! content). A cached block that nobody holds stays findable until its memory is needed.
//!
//! **Leaf first.** Blocks nobody holds form one list, least recently released first, and eviction takes its head.
//! Whoever holds a block holds all its ancestors, and releases its blocks tail first. So of a parent and a
//! child in the list the child was always released earlier, and is always evicted earlier. No search is
//! needed.

use kv_router_types::ExternalSequenceHash;
use rustc_hash::FxHashMap;

use super::chain::ChainKey;

/// One block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId(u32);

const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    /// What the cache calls it inside and outside; `None` while private or free.
    cached: Option<(ChainKey, ExternalSequenceHash)>,
    /// The block that this one continues, while cached; [`NIL`] at the root. It is cached for as long.
    parent: u32,
    /// Cached blocks that continue this one.
    children: u32,
    /// Requests that hold it.
    refs: u32,
    /// Neighbours in the list of blocks nobody holds.
    older: u32,
    newer: u32,
}

impl Slot {
    const FREE: Self = Self { cached: None, parent: NIL, children: 0, refs: 0, older: NIL, newer: NIL };
}

/// A block handed out, and the cached block that gave way to it.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) block: BlockId,
    pub(super) evicted: Option<(ChainKey, ExternalSequenceHash)>,
}

/// What became of a block whose content is complete.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sealed {
    /// It is in the cache now, under this name.
    Cached(ExternalSequenceHash),
    /// The cache had the same content already: the caller holds that block instead, and its own is free.
    Duplicate(BlockId),
}

/// A fixed number of blocks. Every operation costs O(1).
#[derive(Debug)]
pub(super) struct BlockPool {
    capacity: u32,
    /// Grows to `capacity` as blocks are first used.
    slots: Vec<Slot>,
    free: Vec<BlockId>,
    by_key: FxHashMap<ChainKey, BlockId>,
    /// Ends of the list of cached blocks nobody holds, and its length.
    oldest: u32,
    newest: u32,
    idle: u32,
}

impl BlockPool {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: FxHashMap::default(),
            oldest: NIL,
            newest: NIL,
            idle: 0,
        }
    }

    /// Blocks that could be handed out now.
    pub(super) fn available(&self) -> u32 {
        self.capacity - self.slots.len() as u32 + self.free.len() as u32 + self.idle
    }

    /// Blocks held by requests.
    pub(super) fn held(&self) -> u32 {
        self.capacity - self.available()
    }

    /// Blocks findable by content.
    pub(super) fn cached(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn find(&self, key: ChainKey) -> Option<BlockId> {
        self.by_key.get(&key).copied()
    }

    /// Whether nobody holds it, so that acquiring it lowers [`Self::available`].
    pub(super) fn is_idle(&self, block: BlockId) -> bool {
        self.slot(block).refs == 0
    }

    /// The outside name of a cached block.
    pub(super) fn name(&self, block: BlockId) -> Option<ExternalSequenceHash> {
        self.slot(block).cached.map(|(_, name)| name)
    }

    /// Another request holds a cached block. The caller must come to hold all its ancestors too.
    pub(super) fn acquire(&mut self, block: BlockId) {
        debug_assert!(self.slot(block).cached.is_some(), "only cached blocks are shared");
        if self.is_idle(block) {
            self.unlink(block);
        }
        self.slot_mut(block).refs += 1;
    }

    /// A private block for one request, taken from the cache if need be. `None` when every block is held.
    pub(super) fn allocate(&mut self) -> Option<Allocation> {
        let (block, evicted) = if let Some(block) = self.free.pop() {
            (block, None)
        } else if (self.slots.len() as u32) < self.capacity {
            self.slots.push(Slot::FREE);
            (BlockId(self.slots.len() as u32 - 1), None)
        } else if self.oldest != NIL {
            let block = BlockId(self.oldest);
            (block, Some(self.evict(block)))
        } else {
            return None;
        };
        self.slot_mut(block).refs = 1;
        Some(Allocation { block, evicted })
    }

    /// Files a private block whose content is complete. `parent` is the caller's block before it, cached.
    pub(super) fn seal(
        &mut self,
        block: BlockId,
        parent: Option<BlockId>,
        key: ChainKey,
        name: impl FnOnce() -> ExternalSequenceHash,
    ) -> Sealed {
        if let Some(same) = self.find(key) {
            self.acquire(same);
            self.release(block);
            return Sealed::Duplicate(same);
        }
        if let Some(parent) = parent {
            debug_assert!(self.slot(parent).cached.is_some(), "a chain is sealed from its head");
            self.slot_mut(parent).children += 1;
        }
        let slot = self.slot_mut(block);
        debug_assert!(slot.cached.is_none() && slot.refs == 1, "only a private block can be sealed");
        let name = name();
        slot.cached = Some((key, name));
        slot.parent = parent.map_or(NIL, |parent| parent.0);
        self.by_key.insert(key, block);
        Sealed::Cached(name)
    }

    /// One request lets go. A request releases its blocks tail first.
    pub(super) fn release(&mut self, block: BlockId) {
        let slot = self.slot_mut(block);
        debug_assert!(slot.refs > 0, "released more often than held");
        slot.refs -= 1;
        if slot.refs > 0 {
            return;
        }
        if slot.cached.is_some() {
            self.push_newest(block);
        } else {
            self.free.push(block);
        }
    }

    /// Takes the oldest idle block out of the cache; its memory stays the caller's to use.
    fn evict(&mut self, block: BlockId) -> (ChainKey, ExternalSequenceHash) {
        self.unlink(block);
        let slot = std::mem::replace(self.slot_mut(block), Slot::FREE);
        debug_assert!(slot.children == 0, "a parent outlives its children");
        if slot.parent != NIL {
            self.slot_mut(BlockId(slot.parent)).children -= 1;
        }
        match slot.cached {
            Some((key, name)) => {
                self.by_key.remove(&key);
                (key, name)
            }
            None => unreachable!("the list holds cached blocks alone"),
        }
    }

    fn push_newest(&mut self, block: BlockId) {
        let newest = self.newest;
        let slot = self.slot_mut(block);
        slot.older = newest;
        slot.newer = NIL;
        match newest {
            NIL => self.oldest = block.0,
            _ => self.slot_mut(BlockId(newest)).newer = block.0,
        }
        self.newest = block.0;
        self.idle += 1;
    }

    fn unlink(&mut self, block: BlockId) {
        let slot = self.slot_mut(block);
        let (older, newer) = (slot.older, slot.newer);
        slot.older = NIL;
        slot.newer = NIL;
        match older {
            NIL => self.oldest = newer,
            _ => self.slot_mut(BlockId(older)).newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            _ => self.slot_mut(BlockId(newer)).older = older,
        }
        self.idle -= 1;
    }

    fn slot(&self, block: BlockId) -> &Slot {
        &self.slots[block.0 as usize]
    }

    fn slot_mut(&mut self, block: BlockId) -> &mut Slot {
        &mut self.slots[block.0 as usize]
    }
}

#[cfg(test)]
impl BlockPool {
    /// Names of all cached blocks, sorted.
    pub(super) fn names(&self) -> Vec<ExternalSequenceHash> {
        let mut names: Vec<_> =
            self.slots.iter().filter_map(|slot| slot.cached).map(|(_, name)| name).collect();
        names.sort_unstable();
        names
    }

    /// Recounts everything that is kept as a number or a link.
    pub(super) fn check(&self) {
        assert!(self.slots.len() <= self.capacity as usize);
        let mut children = vec![0u32; self.slots.len()];
        let mut idle = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            match slot.cached {
                Some((key, _)) => {
                    assert_eq!(self.by_key.get(&key), Some(&BlockId(index as u32)));
                    if slot.parent != NIL {
                        assert!(
                            self.slots[slot.parent as usize].cached.is_some(),
                            "child without its parent"
                        );
                        children[slot.parent as usize] += 1;
                    }
                    if slot.refs == 0 {
                        idle.push(index as u32);
                    }
                }
                None => assert!(slot.refs <= 1, "private blocks are not shared"),
            }
        }
        for (slot, counted) in self.slots.iter().zip(&children) {
            assert_eq!(slot.children, *counted);
        }
        let mut listed = Vec::new();
        let (mut at, mut before) = (self.oldest, NIL);
        while at != NIL {
            assert_eq!(self.slots[at as usize].older, before);
            listed.push(at);
            (before, at) = (at, self.slots[at as usize].newer);
        }
        assert_eq!(self.newest, before);
        assert_eq!(listed.len(), self.idle as usize);
        listed.sort_unstable();
        assert_eq!(listed, idle);
        let held = self.slots.iter().filter(|slot| slot.refs > 0).count();
        assert_eq!(self.slots.len(), held + self.free.len() + idle.len());
        assert_eq!(self.held() as usize, held);
        assert_eq!(self.by_key.len(), self.slots.iter().filter(|slot| slot.cached.is_some()).count());
    }
}
