//! Names that a store puts elsewhere: their old places are released before anything of the store is to be seen.

use super::calls::Calls;
use super::{Lane, Named};
use crate::paged::block::Block;
use crate::paged::names::Place;
use crate::paged::pages::Pages;
use crate::paged::shared::Shared;
use crate::paged::words::{Mask, ROOT};

/// The way of a store through the pages that exist.
pub(super) struct Trace {
    pub(super) spans: Vec<Span>,
    /// The page where it ends: what is left of the store hangs there or is appended. [`ROOT`] if it has not begun.
    pub(super) end: u32,
}

/// Blocks of one page along a store.
pub(super) struct Span {
    page: u32,
    from: usize,
    pub(super) count: usize,
}

impl Lane {
    /// Takes away the old places of names that the store puts elsewhere, before anything of it is to be seen: a
    /// lookup must not count both. How many names that were.
    ///
    /// A block that changes its name by this store is not away for a moment: readers keep seeing it.
    pub(super) fn release_moved(
        &mut self,
        shared: &Shared,
        parent: Option<Place>,
        calls: &impl Calls,
        blocks: &[impl Block],
    ) -> u64 {
        let Trace { spans, .. } = self.trace(&shared.pages, parent, blocks);
        let stays: Vec<(u32, Mask)> = spans
            .iter()
            .filter_map(|span| Some((self.by_page.get(span.page, &self.records)?, span)))
            .map(|(record, span)| {
                (record, self.records[record as usize].held.to_mask().part(span.from, span.count))
            })
            .collect();
        let mut targets = spans.iter().flat_map(|span| (0..span.count).map(|at| (span.page, span.from + at)));
        let mut moved = 0;
        for name in calls.names() {
            let target = targets.next();
            let Some(home) = self.named(name) else { continue };
            let place = home.place();
            if target == Some((self.records[place.record()].page, place.offset())) {
                continue;
            }
            moved += 1;
            match home {
                Named::First(_) => {
                    let tiers = self.records[place.record()].tiers(place.offset());
                    self.copies -= tiers.iter().count() as u64;
                    self.take_first(name, place);
                }
                Named::Twin(_, tiers) => {
                    self.copies -= tiers.iter().count() as u64;
                    self.twins.remove(name);
                }
            }
            self.mark(place.record());
        }
        let renamed: Vec<(u32, Mask)> = stays
            .into_iter()
            .map(|(record, mut lost)| {
                let held = &mut self.records[record as usize].held;
                let mut mask = held.to_mask();
                lost.remove_all(&mask);
                mask.insert_all(&lost);
                held.set(&mask);
                (record, lost)
            })
            .collect();
        self.flush_all(&shared.pages);
        for (record, lost) in renamed {
            let held = &mut self.records[record as usize].held;
            let mut mask = held.to_mask();
            mask.remove_all(&lost);
            held.set(&mask);
        }
        moved
    }

    /// The pages that exist along the way of a store.
    pub(super) fn trace(&self, pages: &Pages, parent: Option<Place>, blocks: &[impl Block]) -> Trace {
        let mut spans = Vec::new();
        let mut rest = blocks;
        let (mut page, mut at) = match parent {
            Some(place) => (self.records[place.record()].page, place.offset() + 1),
            None => (ROOT, 0),
        };
        // What the rank itself holds cannot change while we look, and nothing else matters here.
        while !rest.is_empty() {
            if page != ROOT {
                let locked = pages.headers.lock(page);
                let count = if locked.is_alive() { pages.common(&locked, at, rest) } else { 0 };
                if count > 0 {
                    spans.push(Span { page, from: at, count });
                    rest = &rest[count..];
                    at += count;
                } else if at == 0 {
                    break;
                }
            }
            let Some(next) = rest.first() else { break };
            match pages.child(page, at, next.local()) {
                Some((child, ..)) => (page, at) = (child, 0),
                None => break,
            }
        }
        Trace { spans, end: page }
    }
}
