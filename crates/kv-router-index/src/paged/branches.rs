//! At which offsets of a page other pages hang, so that the page's end can follow what is needed.
//!
//! Most pages with children have them at one offset: then the header says it all (`top` and the number of children).
//! Otherwise an extent lists the offsets with how many hang at each, in order. Writers only, under the page's lock.

use super::chunks::Chunks;
use super::lines::{Line, Lines, class_words};
use super::page::Locked;
use super::sizes::{BRANCH_CHUNK as CHUNK, LINE, PAGE_BLOCKS};

use super::words::{Extent, MAX_CHILDREN, Shape};
use crate::sync::atomic::{AtomicU64, Ordering};

/// For each page the extent of its list (bits 0..38) and its entries (38..48); 0 when it has none.
pub(super) struct Branches {
    lists: Chunks<AtomicU64>,
    /// The pages that may hang at one page before stores that would add one are refused.
    pub(super) most: u32,
    /// Whether so many ever did: then stores are looked at more closely. Not a model's atomic: no order depends on it.
    is_crowded: std::sync::atomic::AtomicBool,
}

/// The pages that may hang at one page. A store adds one at most, so that as many stores as are missing from what can be
/// counted may be on their way beyond it.
const MOST: u32 = MAX_CHILDREN - (1 << 16);

/// A list that is being changed.
struct List<'a> {
    lines: &'a Lines,
    extent: Extent,
    len: usize,
}

impl Branches {
    pub(super) fn new() -> Self {
        Self { lists: Chunks::new(CHUNK), most: MOST, is_crowded: false.into() }
    }

    /// Whether there was ever a page at which as many others hang as may.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Bytes allocated beside the lines.
    pub(super) fn bytes(&self) -> usize {
        self.lists.bytes()
    }

    fn word(&self, page: u32) -> &AtomicU64 {
        &self.lists.ensure(page as usize / CHUNK)[page as usize % CHUNK]
    }

    fn list<'a>(&self, lines: &'a Lines, page: u32) -> Option<List<'a>> {
        let word = self.word(page).load(Ordering::Relaxed);
        let extent = Extent { line: word as u32, class: (word >> 32 & 0x3f) as u8 };
        (word != 0).then_some(List { lines, extent, len: (word >> 38) as usize })
    }

    fn set(&self, page: u32, list: Option<&List<'_>>) {
        let word = list.map_or(0, |list| {
            u64::from(list.extent.line) | u64::from(list.extent.class) << 32 | (list.len as u64) << 38
        });
        self.word(page).store(word, Ordering::Relaxed);
    }

    /// Notes that a page hangs at the offset.
    pub(super) fn add(&self, lines: &Lines, page: &mut Locked<'_>, offset: usize) {
        let (shape, content) = (page.shape(), page.content());
        let children = content.children();
        // With one child or none there is no list, and no need to look.
        let mut list = if children > 1 { self.list(lines, page.page()) } else { None };
        if list.is_none() && children > 0 && offset != shape.top() {
            let mut new = List { lines, extent: lines.allocate(2), len: 0 };
            new.insert(0, shape.top(), u64::from(children));
            list = Some(new);
        }
        if let Some(list) = &mut list {
            match list.position(offset) {
                Ok(index) => list.put(index, offset, list.at(index).1 + 1),
                Err(index) => list.insert(index, offset, 1),
            }
            self.set(page.page(), Some(list));
        }
        if children + 1 >= self.most {
            self.is_crowded.store(true, Ordering::Relaxed);
        }
        page.set_children(children + 1, shape.top().max(offset), |filter| filter | bit(offset));
    }

    /// Notes that one page less hangs at the offset.
    pub(super) fn remove(&self, lines: &Lines, page: &mut Locked<'_>, offset: usize) {
        let children = page.content().children() - 1;
        let list = if children > 0 { self.list(lines, page.page()) } else { None };
        let Some(mut list) = list else {
            let shape: Shape = page.shape();
            let top = if children == 0 { 0 } else { shape.top() };
            return page.set_children(children, top, |filter| if children == 0 { 0 } else { filter });
        };
        let Ok(index) = list.position(offset) else { return };
        match list.at(index).1 {
            1 => list.delete(index),
            count => list.put(index, offset, count - 1),
        }
        let filter = (0..list.len).map(|index| bit(list.at(index).0)).fold(0, |all, bit| all | bit);
        let top = list.len.checked_sub(1).map_or(0, |last| list.at(last).0);
        if list.len <= 1 {
            lines.free(list.extent);
            self.set(page.page(), None);
        } else {
            self.set(page.page(), Some(&list));
        }
        page.set_children(children, top, |_| filter);
    }

    /// The offsets with how many pages hang at each, for audits.
    pub(super) fn of(&self, lines: &Lines, page: &Locked<'_>) -> Vec<(usize, u64)> {
        match self.list(lines, page.page()) {
            Some(list) => (0..list.len).map(|index| list.at(index)).collect(),
            None if page.content().children() == 0 => Vec::new(),
            None => vec![(page.shape().top(), u64::from(page.content().children()))],
        }
    }
}

/// The bit of an offset in a page's filter. Offset 512 shares one with the last blocks.
#[inline]
pub(super) fn bit(offset: usize) -> u64 {
    const GRAIN: usize = PAGE_BLOCKS.div_ceil(64);
    1 << (offset / GRAIN).min(63)
}

impl List<'_> {
    fn word(&self, index: usize) -> &AtomicU64 {
        let lines: &[Line] = self.lines.at(self.extent);
        &lines[index / LINE].0[index % LINE]
    }

    /// Offset and count.
    fn at(&self, index: usize) -> (usize, u64) {
        let word = self.word(index).load(Ordering::Relaxed);
        ((word >> 32) as usize, word & 0xffff_ffff)
    }

    fn put(&self, index: usize, offset: usize, count: u64) {
        self.word(index).store((offset as u64) << 32 | count, Ordering::Relaxed);
    }

    fn position(&self, offset: usize) -> Result<usize, usize> {
        let index = (0..self.len).take_while(|&index| self.at(index).0 < offset).count();
        if index < self.len && self.at(index).0 == offset { Ok(index) } else { Err(index) }
    }

    fn insert(&mut self, index: usize, offset: usize, count: u64) {
        if self.len == class_words(self.extent.class) {
            let old = std::mem::replace(&mut self.extent, self.lines.allocate(self.len + 1));
            for (to, from) in self.lines.at(self.extent).iter().zip(self.lines.at(old)) {
                for (to, from) in to.0.iter().zip(&from.0) {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            self.lines.free(old);
        }
        for index in (index..self.len).rev() {
            let (offset, count) = self.at(index);
            self.put(index + 1, offset, count);
        }
        self.put(index, offset, count);
        self.len += 1;
    }

    fn delete(&mut self, index: usize) {
        for index in index + 1..self.len {
            let (offset, count) = self.at(index);
            self.put(index - 1, offset, count);
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::page::Headers;
    use super::*;
    use crate::paged::words::Content;

    proptest! {
        #[test]
        fn a_list_counts(steps in prop::collection::vec((1usize..=512, any::<bool>(), any::<prop::sample::Index>()), 1..600), spread in prop::sample::select(vec![1usize, 3, 100, 512])) {
            let (lines, headers, branches) = (Lines::new(), Headers::new(), Branches::new());
            let mut page = headers.allocate();
            page.revive(Shape::new(0, 0, 512), Content::new(lines.allocate(1), 0));
            let mut model: BTreeMap<usize, u64> = BTreeMap::new();
            let before = lines.bytes().1;
            for (offset, add, pick) in steps {
                if add || model.is_empty() {
                    let offset = offset.min(spread);
                    branches.add(&lines, &mut page, offset);
                    *model.entry(offset).or_default() += 1;
                } else {
                    let (&offset, _) = model.iter().nth(pick.index(model.len())).unwrap();
                    branches.remove(&lines, &mut page, offset);
                    *model.get_mut(&offset).unwrap() -= 1;
                    model.retain(|_, count| *count > 0);
                }
                prop_assert_eq!(branches.of(&lines, &page), model.iter().map(|(&o, &c)| (o, c)).collect::<Vec<_>>());
                prop_assert_eq!(u64::from(page.content().children()), model.values().sum::<u64>());
                prop_assert_eq!(page.shape().top(), model.keys().last().copied().unwrap_or(0));
                for offset in 1..=512 {
                    let near = model.keys().any(|&other| bit(other) == bit(offset));
                    prop_assert_eq!(page.may_continue_at(offset), near);
                }
                if model.len() <= 1 {
                    prop_assert_eq!(lines.bytes().1, before);
                }
            }
        }
    }
}
