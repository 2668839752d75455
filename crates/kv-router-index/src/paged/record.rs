//! What one rank holds of one page: private to the rank's writer.

use kv_router_types::{StoredBlock, Tier, TierSet};

use super::words::{Entry, Mask, ROOT};

const DEVICE: TierSet = TierSet::only(Tier::Device);

/// One rank's part of one page.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) held: Mask,
    /// The name of each held block, by offset; what stands at a hole means nothing.
    pub(super) names: Vec<u64>,
    /// The tiers of each name, as long as `names`; empty when every name is on the device alone.
    tiers: Vec<TierSet>,
    /// [`ROOT`] when the record is free.
    pub(super) page: u32,
    /// Where the entry is in the page's list, last time we looked.
    pub(super) hint: u32,
    /// What readers see.
    pub(super) entry: Entry,
    /// Whether the entry may be out of date.
    pub(super) is_dirty: bool,
}

impl Record {
    pub(super) fn free() -> Self {
        Self::new(ROOT, 0, Entry::NONE)
    }

    pub(super) fn new(page: u32, hint: u32, entry: Entry) -> Self {
        Self {
            held: Mask::default(),
            names: Vec::new(),
            tiers: Vec::new(),
            page,
            hint,
            entry,
            is_dirty: false,
        }
    }

    /// Whether every name is on the device alone.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.tiers.is_empty()
    }

    /// Names blocks from `from` on, none of which was held, all on the device.
    #[inline]
    pub(super) fn name_plain(&mut self, from: usize, blocks: &[StoredBlock]) {
        self.make_room(from, from + blocks.len());
        let over = (self.names.len() - from).min(blocks.len());
        for (name, block) in self.names[from..].iter_mut().zip(blocks) {
            *name = block.external.get();
        }
        self.names.extend(blocks[over..].iter().map(|block| block.external.get()));
    }

    /// Names one block.
    pub(super) fn name(&mut self, at: usize, name: u64, tiers: TierSet) {
        self.make_room(at + 1, at + 1);
        self.names[at] = name;
        self.set_tiers(at, tiers);
    }

    /// Makes `names` at least `len` long, with memory for `capacity`.
    #[inline]
    fn make_room(&mut self, len: usize, capacity: usize) {
        if capacity > self.names.capacity() {
            // Doubling would leave a third of all name memory unused.
            let wanted = capacity.max(self.names.capacity() * 5 / 4 + 2);
            self.names.reserve_exact(wanted - self.names.len());
        }
        if self.names.len() < len {
            self.names.resize(len, 0);
            if !self.tiers.is_empty() {
                self.tiers.resize(len, DEVICE);
            }
        }
    }

    pub(super) fn tiers(&self, at: usize) -> TierSet {
        self.tiers.get(at).copied().unwrap_or(DEVICE)
    }

    pub(super) fn set_tiers(&mut self, at: usize, tiers: TierSet) {
        if self.tiers.is_empty() && tiers == DEVICE {
            return;
        }
        self.tiers.resize(self.names.len(), DEVICE);
        self.tiers[at] = tiers;
    }

    /// Gives back memory beyond the last held block, and the tiers when they say nothing.
    pub(super) fn trim(&mut self) {
        let end = self.held.end();
        self.names.truncate(end);
        self.tiers.truncate(end);
        if self.names.capacity() > 2 * end + 16 {
            self.names.shrink_to(end + end / 4);
        }
        if !self.tiers.is_empty() && self.held.iter().all(|at| self.tiers(at) == DEVICE) {
            self.tiers = Vec::new();
        }
    }

    /// Bytes allocated beside the record.
    pub(super) fn bytes(&self) -> usize {
        self.names.capacity() * 8 + self.tiers.capacity()
    }
}
