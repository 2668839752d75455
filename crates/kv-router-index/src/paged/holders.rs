//! The ranks that hold something of a page: a list of words, one a rank.
//!
//! An entry never moves inside its list: a new rank takes the next free word, a rank that leaves zeroes its own. When
//! the list is full or mostly empty it is written anew elsewhere and one word is swung.

use super::lines::{LINE, Line, Lines, class_words};
use super::page::{Header, Locked};
use super::sizes::LEAF;
use super::words::{Entry, Extent, Holders, Layout};
use crate::sync::atomic::{AtomicU64, Ordering};

const INLINE: usize = 2;

/// Calls `visit` with every entry, empty ones included, as a reader sees them.
#[inline]
pub(super) fn for_each(lines: &Lines, header: &Header, mut visit: impl FnMut(Entry)) {
    let holders = header.holders();
    let count = holders.count();
    match holders.layout() {
        Layout::Inline => {
            for word in &header.inline[..count.min(INLINE)] {
                visit(Entry(word.load(Ordering::Relaxed)));
            }
        }
        Layout::List => for_each_in(lines.at(holders.extent()), count, &mut visit),
        Layout::Tree => {
            let leaves = words(lines.at(holders.extent()), count.div_ceil(LEAF));
            for (index, leaf) in leaves.enumerate() {
                let extent = leaf_extent(leaf.load(Ordering::Relaxed));
                for_each_in(lines.at(extent), (count - index * LEAF).min(LEAF), &mut visit);
            }
        }
    }
}

#[inline]
fn for_each_in(lines: &[Line], count: usize, visit: &mut impl FnMut(Entry)) {
    let mut left = count;
    for line in lines {
        for word in &line.0[..left.min(LINE)] {
            visit(Entry(word.load(Ordering::Relaxed)));
        }
        if left <= LINE {
            break;
        }
        left -= LINE;
    }
}

#[inline]
fn words(lines: &[Line], count: usize) -> impl Iterator<Item = &AtomicU64> {
    lines.iter().flat_map(|line| &line.0).take(count)
}

fn leaf_extent(word: u64) -> Extent {
    Extent { line: word as u32, class: (word >> 32 & 0x3f) as u8 }
}

impl Locked<'_> {
    fn word<'l>(&'l self, lines: &'l Lines, holders: Holders, index: usize) -> &'l AtomicU64 {
        let in_list = |extent, index: usize| &lines.at(extent)[index / LINE].0[index % LINE];
        match holders.layout() {
            Layout::Inline => &self.inline[index],
            Layout::List => in_list(holders.extent(), index),
            Layout::Tree => {
                let leaf = in_list(holders.extent(), index / LEAF).load(Ordering::Relaxed);
                in_list(leaf_extent(leaf), index % LEAF)
            }
        }
    }

    fn position(&self, lines: &Lines, slot: u32, hint: u32) -> Option<usize> {
        let holders = self.holders();
        let is_ours = |index: usize| {
            let entry = Entry(self.word(lines, holders, index).load(Ordering::Relaxed));
            !entry.is_none() && entry.slot() == slot
        };
        let hint = hint as usize;
        if hint < holders.count() && is_ours(hint) {
            return Some(hint);
        }
        (0..holders.count()).find(|&index| is_ours(index))
    }

    /// The entry of a slot.
    pub(super) fn entry_of(&self, lines: &Lines, slot: u32) -> Option<Entry> {
        let index = self.position(lines, slot, 0)?;
        Some(Entry(self.word(lines, self.holders(), index).load(Ordering::Relaxed)))
    }

    /// Adds a rank that is not in the list yet. Gives back where, as a hint for later.
    pub(super) fn add_holder(&mut self, lines: &Lines, entry: Entry) -> u32 {
        self.make_room(lines);
        let holders = self.holders();
        let index = holders.count();
        self.word(lines, holders, index).store(entry.0, Ordering::Release);
        self.set_holders(holders.with_count(index + 1));
        index as u32
    }

    fn make_room(&mut self, lines: &Lines) {
        let holders = self.holders();
        let count = holders.count();
        match holders.layout() {
            Layout::Inline if count < INLINE => {}
            Layout::List if count < class_words(holders.extent().class) => {}
            Layout::Tree if !count.is_multiple_of(LEAF) || self.has_leaf(lines, count / LEAF) => {}
            Layout::Tree if count < LEAF * LEAF && self.live_holders(lines) * 4 > count * 3 => {
                let extent = lines.allocate(LEAF);
                let leaf = u64::from(extent.line) | u64::from(extent.class) << 32;
                let index = count / LEAF;
                lines.at(holders.extent())[index / LINE].0[index % LINE].store(leaf, Ordering::Release);
            }
            _ => self.rewrite_holders(lines, 1),
        }
    }

    fn has_leaf(&self, lines: &Lines, index: usize) -> bool {
        index < LEAF
            && words(lines.at(self.holders().extent()), LEAF)
                .nth(index)
                .is_some_and(|leaf| leaf.load(Ordering::Relaxed) != 0)
    }

    fn live_holders(&self, lines: &Lines) -> usize {
        let mut live = 0;
        for_each(lines, self, |entry| live += usize::from(!entry.is_none()));
        live
    }

    /// Replaces the entry of the rank, adding it when it is missing. Gives back where it is.
    #[inline]
    pub(super) fn set_holder(&mut self, lines: &Lines, entry: Entry, hint: u32) -> u32 {
        let Some(index) = self.position(lines, entry.slot(), hint) else {
            return self.add_holder(lines, entry);
        };
        let word = self.word(lines, self.holders(), index);
        let before = Entry(word.load(Ordering::Relaxed));
        word.store(entry.0, Ordering::Release);
        if entry.reach() < before.reach() || entry.tiers() != before.tiers() {
            self.bump();
        }
        index as u32
    }

    /// Takes the rank out; what it held, if it was in.
    pub(super) fn remove_holder(&mut self, lines: &Lines, slot: u32, hint: u32) -> Option<Entry> {
        let index = self.position(lines, slot, hint)?;
        let holders = self.holders();
        let word = self.word(lines, holders, index);
        let before = Entry(word.load(Ordering::Relaxed));
        word.store(0, Ordering::Release);
        let mut count = holders.count();
        while count > 0 && self.word(lines, holders, count - 1).load(Ordering::Relaxed) == 0 {
            count -= 1;
        }
        self.set_holders(holders.with_count(count));
        self.bump();
        let sparse = match holders.layout() {
            Layout::Inline => false,
            Layout::List => count * 4 <= class_words(holders.extent().class),
            Layout::Tree => count <= LEAF / 2,
        };
        if sparse {
            self.rewrite_holders(lines, 0);
        }
        Some(before)
    }

    /// Writes the list anew, with room for `more` further ranks and a quarter in reserve.
    fn rewrite_holders(&mut self, lines: &Lines, more: usize) {
        let old = self.holders();
        let mut live = Vec::with_capacity(old.count());
        for_each(lines, self, |entry| {
            if !entry.is_none() {
                live.push(entry);
            }
        });
        let room = live.len() + more;
        // Where there was a list, a few ranks more than fit in the header stay in one: no flutter at the border.
        let inline = room <= if old.layout() == Layout::Inline { INLINE } else { 1 };
        let new = if inline {
            Holders::new(Layout::Inline, Extent { line: 0, class: 0 }, live.len())
        } else if room <= LEAF {
            Holders::new(Layout::List, lines.allocate((room + room / 4).min(LEAF)), live.len())
        } else {
            let leaves = (room + room / 4).div_ceil(LEAF);
            let root = lines.allocate(LEAF);
            for leaf in words(lines.at(root), leaves) {
                let extent = lines.allocate(LEAF);
                leaf.store(u64::from(extent.line) | u64::from(extent.class) << 32, Ordering::Release);
            }
            words(lines.at(root), LEAF).skip(leaves).for_each(|leaf| leaf.store(0, Ordering::Relaxed));
            Holders::new(Layout::Tree, root, live.len())
        };
        for (index, entry) in live.iter().enumerate() {
            self.word(lines, new, index).store(entry.0, Ordering::Release);
        }
        self.set_holders(new);
        self.bump();
        free_list(lines, old);
    }

    /// Gives the memory of an empty list back. The page is dead.
    pub(super) fn free_holders(&mut self, lines: &Lines) {
        let old = self.holders();
        self.set_holders(Holders::NONE);
        free_list(lines, old);
    }
}

fn free_list(lines: &Lines, holders: Holders) {
    match holders.layout() {
        Layout::Inline => {}
        Layout::List => lines.free(holders.extent()),
        Layout::Tree => {
            for leaf in words(lines.at(holders.extent()), LEAF) {
                let leaf = leaf.load(Ordering::Relaxed);
                if leaf != 0 {
                    lines.free(leaf_extent(leaf));
                }
            }
            lines.free(holders.extent());
        }
    }
}
