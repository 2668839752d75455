//! From a page to the rank's record of it: a table of words, small and without tombstones.

/// Linear probing; each word is the page (bits 32..64, never 0) and the record. At most half full.
#[derive(Debug, Default)]
pub(super) struct PageMap {
    words: Vec<u64>,
    len: usize,
}

impl PageMap {
    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    #[inline]
    fn home(&self, page: u32) -> usize {
        let hash = u64::from(page.wrapping_mul(0x9e37_79b9));
        ((hash * self.words.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.words.len() { 0 } else { at + 1 }
    }

    /// The record of a page.
    #[inline]
    pub(super) fn get(&self, page: u32) -> Option<u32> {
        if self.words.is_empty() {
            return None;
        }
        let mut at = self.home(page);
        loop {
            let word = self.words[at];
            if (word >> 32) as u32 == page {
                return Some(word as u32);
            }
            if word == 0 {
                return None;
            }
            at = self.next(at);
        }
    }

    /// Adds a page that is not in.
    pub(super) fn insert(&mut self, page: u32, record: u32) {
        if self.len * 2 >= self.words.len() {
            self.rewrite((self.len * 3).max(8));
        }
        self.len += 1;
        self.put(page, record);
    }

    fn put(&mut self, page: u32, record: u32) {
        let mut at = self.home(page);
        while self.words[at] != 0 {
            at = self.next(at);
        }
        self.words[at] = u64::from(page) << 32 | u64::from(record);
    }

    /// Takes a page out, and moves those behind it that would not be found any more.
    pub(super) fn remove(&mut self, page: u32) {
        if self.get(page).is_none() {
            return;
        }
        let mut hole = self.home(page);
        while (self.words[hole] >> 32) as u32 != page {
            hole = self.next(hole);
        }
        let mut at = hole;
        loop {
            at = self.next(at);
            let word = self.words[at];
            if word == 0 {
                break;
            }
            let (len, home) = (self.words.len(), self.home((word >> 32) as u32));
            // How far it is from home, and from the hole: it may move there if its home is not behind the hole.
            let (from_home, from_hole) = ((at + len - home) % len, (at + len - hole) % len);
            if from_home >= from_hole {
                self.words[hole] = word;
                hole = at;
            }
        }
        self.words[hole] = 0;
        self.len -= 1;
        if self.words.len() > 64 && self.len * 8 < self.words.len() {
            self.rewrite(self.len * 3);
        }
    }

    fn rewrite(&mut self, size: usize) {
        let old = std::mem::replace(&mut self.words, vec![0; size]);
        old.into_iter().filter(|&word| word != 0).for_each(|word| self.put((word >> 32) as u32, word as u32));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((1u32..300, any::<bool>()), 1..1500), spread in prop::sample::select(vec![1u32, 1 << 20, 0x9e37])) {
            let (mut map, mut model) = (PageMap::default(), BTreeMap::new());
            for (page, add) in steps {
                let page = page.wrapping_mul(spread).max(1);
                if add && !model.contains_key(&page) {
                    map.insert(page, page ^ 5);
                    model.insert(page, page ^ 5);
                } else if !add {
                    map.remove(page);
                    model.remove(&page);
                }
                prop_assert_eq!(map.get(page), model.get(&page).copied());
            }
            for (&page, &record) in &model {
                prop_assert_eq!(map.get(page), Some(record));
            }
        }
    }
}
