//! The set of blocks that a rank holds of a page. Mostly a prefix: then its length is all there is.

use super::words::Mask;

/// A set of block offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// One more than the last.
    end: u16,
    /// Which of those before the end, if not all.
    mask: Option<Box<Mask>>,
}

impl Held {
    /// One more than the last block, 0 when empty.
    #[inline]
    pub(super) fn end(&self) -> usize {
        usize::from(self.end)
    }

    /// Leading blocks without a gap.
    #[inline]
    pub(super) fn reach(&self) -> usize {
        self.mask.as_ref().map_or(self.end(), |mask| mask.reach())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    #[inline]
    pub(super) fn contains(&self, at: usize) -> bool {
        at < self.end() && self.mask.as_ref().is_none_or(|mask| mask.contains(at))
    }

    pub(super) fn count(&self) -> usize {
        self.mask.as_ref().map_or(self.end(), |mask| mask.count())
    }

    /// The set as a mask.
    pub(super) fn to_mask(&self) -> Mask {
        match &self.mask {
            Some(mask) => **mask,
            None => Mask::first(self.end()),
        }
    }

    pub(super) fn set(&mut self, mask: &Mask) {
        let (end, reach) = (mask.end(), mask.reach());
        self.end = end as u16;
        self.mask = (reach < end).then(|| Box::new(*mask));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.end()).filter(|&at| self.contains(at))
    }

    /// Adds `count` blocks from `from`; false when one of them was in already.
    #[inline]
    pub(super) fn insert_range(&mut self, from: usize, count: usize) -> bool {
        if self.mask.is_none() && from <= self.end() {
            let is_fresh = from == self.end() || count == 0;
            self.end = self.end.max((from + count) as u16);
            return is_fresh;
        }
        self.insert_apart(from, count)
    }

    #[inline(never)]
    fn insert_apart(&mut self, from: usize, count: usize) -> bool {
        let end = self.end();
        let mask = self.mask.get_or_insert_with(|| Box::new(Mask::first(end)));
        let is_fresh = mask.insert_range(from, count);
        self.tidy();
        is_fresh
    }

    /// Takes `count` blocks from `from` out. What is said of the set as a whole holds again after [`tidy`](Self::tidy);
    /// [`contains`](Self::contains) does at once.
    #[inline]
    pub(super) fn remove_range(&mut self, from: usize, count: usize) {
        if self.mask.is_none() && from + count >= self.end() {
            self.end = self.end.min(from as u16);
            return;
        }
        self.remove_inside(from, count);
    }

    #[inline(never)]
    fn remove_inside(&mut self, from: usize, count: usize) {
        let end = self.end();
        let mask = self.mask.get_or_insert_with(|| Box::new(Mask::first(end)));
        mask.remove_range(from, count);
    }

    /// Sets the end, and drops the mask when it says nothing more.
    pub(super) fn tidy(&mut self) {
        if let Some(mask) = &self.mask {
            self.end = mask.end() as u16;
            if mask.reach() == self.end() {
                self.mask = None;
            }
        }
    }

    /// Bytes allocated beside the set.
    pub(super) fn bytes(&self) -> usize {
        self.mask.as_ref().map_or(0, |_| size_of::<Mask>())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::words::PAGE_BLOCKS;
    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0usize..PAGE_BLOCKS, 0usize..80), 1..60), spread in prop::sample::select(vec![9usize, 70, PAGE_BLOCKS])) {
            let (mut held, mut model) = (Held::default(), BTreeSet::new());
            for (add, from, count) in steps {
                let from = from % spread;
                let count = count.min(PAGE_BLOCKS - from);
                if add {
                    let is_fresh = model.range(from..from + count).next().is_none();
                    prop_assert_eq!(held.insert_range(from, count), is_fresh);
                    model.extend(from..from + count);
                } else {
                    held.remove_range(from, count);
                    prop_assert!((0..PAGE_BLOCKS).all(|at| held.contains(at) == (model.contains(&at) && (at < from || at >= from + count))));
                    held.tidy();
                    model.retain(|&at| at < from || at >= from + count);
                }
                prop_assert_eq!(held.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(held.count(), model.len());
                prop_assert_eq!(held.is_empty(), model.is_empty());
                prop_assert_eq!(held.end(), model.last().map_or(0, |&at| at + 1));
                prop_assert_eq!(held.reach(), (0..).take_while(|at| model.contains(at)).count());
                prop_assert_eq!(held.mask.is_some(), held.reach() < held.end());
                let mut other = Held::default();
                other.set(&held.to_mask());
                prop_assert_eq!(other.to_mask(), held.to_mask());
                prop_assert!((0..PAGE_BLOCKS).all(|at| held.contains(at) == model.contains(&at)));
            }
        }
    }
}
