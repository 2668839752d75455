//! Doubly linked lists through a shared array of links: O(1) everything, no allocation of their own.

/// No entry.
const NONE: u32 = u32::MAX;

/// The neighbours of an entry in the one list that it is in.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// The links of all lists of one kind: an entry is in one of them at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
}

/// One list, by its ends. It is empty, or both ends are entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

impl Links {
    /// Makes room for the entry `id`.
    pub(super) fn cover(&mut self, id: u32) {
        let len = self.links.len().max(id as usize + 1);
        self.links.resize(len, Link { previous: NONE, next: NONE });
    }

    /// Gives all memory back. No list may have entries.
    pub(super) fn release(&mut self) {
        self.links = Vec::new();
    }

    /// Puts an entry that is in no list at the end of one.
    pub(super) fn push_last(&mut self, list: &mut List, id: u32) {
        self.links[id as usize] = Link { previous: list.last, next: NONE };
        match list.last {
            NONE => list.first = id,
            last => self.links[last as usize].next = id,
        }
        list.last = id;
    }

    /// Takes an entry out of the list that it is in.
    pub(super) fn take_out(&mut self, list: &mut List, id: u32) {
        let Link { previous, next } = self.links[id as usize];
        match previous {
            NONE => list.first = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.links[next as usize].previous = previous,
        }
    }

    /// The entries of a list, first to last.
    #[cfg(test)]
    pub(super) fn iter(&self, list: &List) -> impl Iterator<Item = u32> {
        let present = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(list.first(), move |&id| present(self.links[id as usize].next))
    }

    /// Takes the first entry out.
    pub(super) fn take_first(&mut self, list: &mut List) -> Option<u32> {
        let first = list.first()?;
        self.take_out(list, first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contents(links: &Links, list: &List) -> Vec<u32> {
        let forwards: Vec<u32> = links.iter(list).collect();
        let backwards = std::iter::successors(Some(list.last).filter(|&last| last != NONE), |&id| {
            Some(links.links[id as usize].previous).filter(|&previous| previous != NONE)
        });
        assert!(backwards.eq(forwards.iter().rev().copied()), "both directions agree");
        forwards
    }

    proptest! {
        #[test]
        fn two_lists_are_two_vectors(moves in prop::collection::vec((0u32..12, 0usize..2, any::<bool>()), 0..100)) {
            let mut links = Links::default();
            links.cover(11);
            let mut lists = [List::EMPTY; 2];
            let mut models = [vec![], vec![]];
            for (id, to, first) in moves {
                if first {
                    let expected = (!models[to].is_empty()).then(|| models[to].remove(0));
                    prop_assert_eq!(links.take_first(&mut lists[to]), expected);
                } else {
                    for (list, model) in lists.iter_mut().zip(&mut models) {
                        if let Some(at) = model.iter().position(|&other| other == id) {
                            model.remove(at);
                            links.take_out(list, id);
                        }
                    }
                    models[to].push(id);
                    links.push_last(&mut lists[to], id);
                }
                for (list, model) in lists.iter().zip(&models) {
                    prop_assert_eq!(&contents(&links, list), model);
                }
            }
        }
    }
}
