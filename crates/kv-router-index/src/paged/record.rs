//! What one rank holds of one page: private to the rank's writer.

use std::ops::Range;

use kv_router_types::{StoredBlock, Tier, TierSet};

use super::held::Held;
use super::words::{Entry, ROOT};

const DEVICE: TierSet = TierSet::only(Tier::Device);

/// What stands for a name where no block is held. An engine may use it for a name all the same.
const HOLE: u64 = 0;

/// One rank's part of one page: one cache line, what is rare behind a pointer.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Record {
    /// The name of each held block, by offset, and [`HOLE`] where none is. Beyond the last held block anything. Empty in
    /// a rank whose blocks have numbers.
    pub(super) names: Vec<u64>,
    pub(super) held: Held,
    /// The tiers of each name, the device where it is too short; none when every name is on the device alone.
    tiers: Option<Box<Tiers>>,
    /// What readers see.
    pub(super) entry: Entry,
    /// [`ROOT`] when the record is free.
    pub(super) page: u32,
    /// Where the entry is in the page's list, last time we looked; 65,535 for any greater number.
    hint: u16,
    /// Whether the entry may be out of date.
    pub(super) is_dirty: bool,
}

/// One word in the record, not three.
#[derive(Debug, Default)]
struct Tiers(Vec<TierSet>);

impl Record {
    pub(super) fn free() -> Self {
        Self::new(ROOT, Entry::NONE)
    }

    pub(super) fn new(page: u32, entry: Entry) -> Self {
        Self { names: Vec::new(), held: Held::default(), tiers: None, entry, page, hint: 0, is_dirty: false }
    }

    pub(super) fn hint(&self) -> u32 {
        u32::from(self.hint)
    }

    /// A hint is verified: one that does not fit costs a search.
    #[inline]
    pub(super) fn set_hint(&mut self, hint: u32) {
        self.hint = hint.try_into().unwrap_or(u16::MAX);
    }

    /// Whether every name is on the device alone.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.tiers.is_none()
    }

    /// Whether the block at an offset is held by that name. Mostly without a look at which blocks are held.
    #[inline]
    pub(super) fn is_at(&self, at: usize, name: u64) -> bool {
        at < self.held.end() && self.names.get(at) == Some(&name) && (name != HOLE || self.held.contains(at))
    }

    /// The offset of the held block with that name, if it is in the range.
    #[inline]
    pub(super) fn find(&self, near: Range<usize>, name: u64) -> Option<usize> {
        // The last first: that is what engines extend and free.
        let mut offsets = near.start..near.end.min(self.held.end());
        offsets.rfind(|&at| self.is_at(at, name))
    }

    /// Gives up `count` blocks from `from` on. [`Held::tidy`] is still to be called.
    #[inline]
    pub(super) fn give_up(&mut self, from: usize, count: usize) {
        self.held.remove_range(from, count);
        if from < self.held.end()
            && let Some(names) = self.names.get_mut(from..from + count)
        {
            names.fill(HOLE);
        }
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
            if let Some(tiers) = &mut self.tiers {
                tiers.0.resize(len, DEVICE);
            }
        }
    }

    pub(super) fn tiers(&self, at: usize) -> TierSet {
        self.tiers.as_ref().and_then(|tiers| tiers.0.get(at)).copied().unwrap_or(DEVICE)
    }

    pub(super) fn set_tiers(&mut self, at: usize, tiers: TierSet) {
        if self.tiers.is_none() && tiers == DEVICE {
            return;
        }
        let all = &mut self.tiers.get_or_insert_default().0;
        if all.len() <= at {
            all.resize(self.held.end().max(at + 1), DEVICE);
        }
        all[at] = tiers;
    }

    /// Gives back memory beyond the last held block, and the tiers when they say nothing.
    #[inline]
    pub(super) fn trim(&mut self) {
        let end = self.held.end();
        self.names.truncate(end);
        if self.names.capacity() > 2 * end + 16 {
            self.names.shrink_to(end + end / 4);
        }
        if let Some(tiers) = &mut self.tiers {
            tiers.0.truncate(end);
            if self.held.iter().all(|at| self.tiers(at) == DEVICE) {
                self.tiers = None;
            }
        }
    }

    /// Bytes allocated beside the record.
    pub(super) fn bytes(&self) -> usize {
        let tiers = self.tiers.as_ref().map_or(0, |tiers| size_of::<Tiers>() + tiers.0.capacity());
        self.names.capacity() * 8 + tiers + self.held.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line() {
        assert_eq!(size_of::<Record>(), 64);
    }
}
