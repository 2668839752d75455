//! The ranks that hold something of a page: a list of words.
//!
//! A word stands for one rank, or for a [crew](super::words::Crew) of ranks that hold the same. Whatever it stands for,
//! it says so itself, so that every word changes in one store. A word never moves inside its list: a new rank joins a
//! word that says the same of its neighbours, or takes the next free one. When the list is full or mostly empty it is
//! written anew elsewhere, in the same order, and one word is swung.
//!
//! A rank that has to leave its crew for another word stands in both for a moment, never in none, and the version
//! changes before it leaves. A reader takes the first of the two that it meets: what the rank held before, or after.

use super::lines::{LINE, Line, Lines, class_words};
use super::page::{Header, INLINE, Locked};
use super::sizes::{JOINABLE, LEAF};
use super::words::{Entry, Extent, Holders, Holding, Layout};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Calls `visit` with every word, as a reader sees them.
#[inline]
pub(super) fn for_each_word(lines: &Lines, header: &Header, mut visit: impl FnMut(Holding)) {
    let holders = header.holders();
    let count = holders.count();
    match holders.layout() {
        Layout::Inline => {
            for word in &header.inline[..count.min(INLINE)] {
                visit(Holding::from_bits(word.load(Ordering::Relaxed)));
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

/// Calls `visit` with every rank's entry.
pub(super) fn for_each(lines: &Lines, header: &Header, mut visit: impl FnMut(Entry)) {
    for_each_word(lines, header, |holding| match holding {
        Holding::Nobody => {}
        Holding::One(entry) => visit(entry),
        Holding::Crew(crew) => crew.entries().for_each(&mut visit),
    });
}

#[inline]
fn for_each_in(lines: &[Line], count: usize, visit: &mut impl FnMut(Holding)) {
    let mut left = count;
    for line in lines {
        for word in &line.0[..left.min(LINE)] {
            visit(Holding::from_bits(word.load(Ordering::Relaxed)));
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

    fn holding(&self, lines: &Lines, index: usize) -> Holding {
        Holding::from_bits(self.word(lines, self.holders(), index).load(Ordering::Relaxed))
    }

    fn set_holding(&self, lines: &Lines, index: usize, holding: Holding) {
        self.word(lines, self.holders(), index).store(holding.to_bits(), Ordering::Release);
    }

    /// Where the rank is, and what is said of it there.
    pub(super) fn position(&self, lines: &Lines, slot: u32, hint: u32) -> Option<(usize, Entry)> {
        let at = |index: usize| Some((index, self.holding(lines, index).entry_of(slot)?));
        near(hint as usize, self.holders().count()).find_map(at)
    }

    /// The entry of a slot.
    pub(super) fn entry_of(&self, lines: &Lines, slot: u32) -> Option<Entry> {
        self.position(lines, slot, 0).map(|(_, entry)| entry)
    }

    /// Adds a rank that is not in the list yet. Gives back where, as a hint for later.
    pub(super) fn add_holder(&mut self, lines: &Lines, entry: Entry) -> u32 {
        if let Some(index) = self.join(lines, entry) {
            return index as u32;
        }
        self.make_room(lines);
        self.append(lines, entry)
    }

    /// Adds the rank to a word that says the same of its neighbours, if there is one.
    fn join(&self, lines: &Lines, entry: Entry) -> Option<usize> {
        if !entry.is_plain() {
            return None;
        }
        let holdings = self.first_words(lines).map(|word| Holding::from_bits(word.load(Ordering::Relaxed)));
        let joined = |(index, holding): (usize, Holding)| Some((index, holding.joined(entry)?));
        let (index, holding) = holdings.take(JOINABLE).enumerate().find_map(joined)?;
        self.set_holding(lines, index, holding);
        Some(index)
    }

    /// The first words of the list, a leaf at most: who goes over many finds out once where they are.
    fn first_words<'l>(&'l self, lines: &'l Lines) -> impl Iterator<Item = &'l AtomicU64> {
        let holders = self.holders();
        let count = holders.count();
        let (inline, list): (&[AtomicU64], &[Line]) = match holders.layout() {
            Layout::Inline => (&self.inline[..count], &[]),
            Layout::List => (&[], lines.at(holders.extent())),
            Layout::Tree => {
                let leaf = words(lines.at(holders.extent()), 1).next();
                (&[], leaf.map_or(&[], |leaf| lines.at(leaf_extent(leaf.load(Ordering::Relaxed)))))
            }
        };
        inline.iter().chain(words(list, count.min(LEAF)))
    }

    fn append(&mut self, lines: &Lines, entry: Entry) -> u32 {
        let holders = self.holders();
        let index = holders.count();
        self.word(lines, holders, index).store(entry.0, Ordering::Release);
        self.set_holders(holders.with_count(index + 1));
        index as u32
    }

    /// Makes sure that there is a word to append to.
    fn make_room(&mut self, lines: &Lines) {
        let holders = self.holders();
        let count = holders.count();
        match holders.layout() {
            Layout::Inline if count < INLINE => {}
            Layout::List if count < class_words(holders.extent().class) => {}
            Layout::Tree if !count.is_multiple_of(LEAF) || self.has_leaf(lines, count / LEAF) => {}
            Layout::Tree if count < LEAF * LEAF && (count - self.holes()) * 4 > count * 3 => {
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

    /// Words of a list that stand for nobody. The header has room to count them: a list leaves its own words unused.
    fn holes(&self) -> usize {
        match self.holders().layout() {
            Layout::Inline => 0,
            Layout::List | Layout::Tree => self.inline[0].load(Ordering::Relaxed) as usize,
        }
    }

    fn set_holes(&self, holes: usize) {
        if self.holders().layout() != Layout::Inline {
            // Who takes it for a holder has to see that there is a list now.
            self.inline[0].store(holes as u64, Ordering::Release);
        }
    }

    /// Takes the rank out of a word that names it.
    fn take_out(&self, lines: &Lines, index: usize, slot: u32) {
        let rest = self.holding(lines, index).without(slot);
        self.set_holding(lines, index, rest);
        self.set_holes(self.holes() + usize::from(rest == Holding::Nobody));
    }

    /// Replaces the entry of the rank, adding it when it is missing. Gives back where it is.
    #[inline]
    pub(super) fn set_holder(&mut self, lines: &Lines, entry: Entry, hint: u32) -> u32 {
        let Some((index, before)) = self.position(lines, entry.slot(), hint) else {
            return self.add_holder(lines, entry);
        };
        if before == entry {
            return index as u32;
        }
        let is_alone = self.holding(lines, index).without(entry.slot()) == Holding::Nobody;
        if !is_alone || self.holders().count() > 1 {
            let joined = self.join(lines, entry);
            if joined.is_some() || !is_alone {
                return self.move_holder(lines, entry, (index, before), joined);
            }
        }
        self.set_holding(lines, index, Holding::One(entry));
        if entry.reach() < before.reach() || entry.tiers() != before.tiers() {
            self.bump();
        }
        index as u32
    }

    /// Takes the rank out of the word that says `before` of it, after it has joined another or been given its own.
    fn move_holder(
        &mut self,
        lines: &Lines,
        entry: Entry,
        (index, before): (usize, Entry),
        joined: Option<usize>,
    ) -> u32 {
        let new = match joined {
            Some(index) => index as u32,
            None => {
                // May write the list anew.
                self.make_room(lines);
                self.append(lines, entry)
            }
        };
        // Who saw the list without the new word sees that this one may be out of date.
        self.bump();
        let is_old = |&index: &usize| self.holding(lines, index).entry_of(entry.slot()) == Some(before);
        if let Some(old) = near(index, self.holders().count()).find(is_old) {
            self.take_out(lines, old, entry.slot());
        }
        self.bump();
        new
    }

    /// Takes the rank out; what it held, if it was in.
    pub(super) fn remove_holder(&mut self, lines: &Lines, slot: u32, hint: u32) -> Option<Entry> {
        let (index, before) = self.position(lines, slot, hint)?;
        self.take_out(lines, index, slot);
        let holders = self.holders();
        let mut count = holders.count();
        let live = count - self.holes();
        while count > 0 && self.word(lines, holders, count - 1).load(Ordering::Relaxed) == 0 {
            count -= 1;
        }
        self.set_holders(holders.with_count(count));
        self.bump();
        let sparse = match holders.layout() {
            Layout::Inline => false,
            Layout::List => live * 4 <= class_words(holders.extent().class) || live * 2 < count,
            Layout::Tree => live <= LEAF / 2 || live * 2 < count,
        };
        self.set_holes(count.saturating_sub(live));
        if sparse {
            self.rewrite_holders(lines, 0);
        }
        Some(before)
    }

    /// Writes the list anew, with room for `more` further words and a quarter in reserve.
    fn rewrite_holders(&mut self, lines: &Lines, more: usize) {
        let old = self.holders();
        let mut entries = Vec::with_capacity(old.count());
        for_each(lines, self, |entry| entries.push(entry));
        let live = together(entries);
        let room = live.len() + more;
        // Where there was a list, a few words more than fit in the header stay in one: no flutter at the border.
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
        for (index, holding) in live.iter().enumerate() {
            self.word(lines, new, index).store(holding.to_bits(), Ordering::Release);
        }
        self.set_holders(new);
        self.bump();
        self.set_holes(0);
        free_list(lines, old);
    }

    /// Gives the memory of an empty list back. The page is dead.
    pub(super) fn free_holders(&mut self, lines: &Lines) {
        let old = self.holders();
        self.set_holders(Holders::NONE);
        free_list(lines, old);
    }
}

/// Places in a list, from the one where something was last. A list that is written anew keeps its order: what is no
/// longer there has come nearer to the beginning, by the words that are gone.
fn near(hint: usize, count: usize) -> impl Iterator<Item = usize> {
    let end = count.min(hint + 1);
    (0..end).rev().chain(end..count)
}

/// Ranks in as few words as can be, in the order of the first of each.
fn together(entries: Vec<Entry>) -> Vec<Holding> {
    let mut entries: Vec<(Entry, u32)> = entries.into_iter().zip(0..).collect();
    entries.sort_unstable_by_key(|(entry, _)| (entry.is_plain(), entry.reach(), entry.slot()));
    let mut words: Vec<(u32, Holding)> = Vec::new();
    for (entry, at) in entries {
        match words.last_mut().map(|last| (last.1.joined(entry), last)) {
            Some((Some(joined), last)) => *last = (at.min(last.0), joined),
            _ => words.push((at, Holding::One(entry))),
        }
    }
    words.sort_unstable_by_key(|&(at, _)| at);
    words.into_iter().map(|(_, holding)| holding).collect()
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
