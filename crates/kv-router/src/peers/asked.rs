//! What other routers lack of our bookings, until it is told.

use std::collections::BTreeSet;
use std::ops::Range;

use kv_router_load::{BookingName, BookingsPart, LoadTracker, ReplicaId};

use super::Recipient;

/// Ranges of names kept apart. When there are more they become one, with what lies between them.
const MOST_RANGES: usize = 256;

/// Who asked, and for what. All get the same answer: each part may be large, and does no harm to who has it already.
#[derive(Debug)]
pub(super) struct Asked {
    askers: BTreeSet<ReplicaId>,
    most_askers: usize,
    /// In their order, and none touches another.
    names: Vec<Range<BookingName>>,
}

impl Asked {
    pub(super) const fn new(most_askers: usize) -> Self {
        Self { askers: BTreeSet::new(), most_askers, names: Vec::new() }
    }

    /// `false` when there are too many askers.
    pub(super) fn note(&mut self, from: ReplicaId, names: Range<BookingName>) -> bool {
        if self.askers.len() >= self.most_askers && !self.askers.contains(&from) {
            return false;
        }
        self.askers.insert(from);
        self.add(names);
        true
    }

    fn add(&mut self, names: Range<BookingName>) {
        self.names.push(names);
        self.names.sort_unstable_by_key(|names| names.start);
        self.names.dedup_by(|next, before| {
            let touches = next.start <= before.end;
            if touches {
                before.end = before.end.max(next.end);
            }
            touches
        });
        if self.names.len() > MOST_RANGES
            && let [first, .., last] = &self.names[..]
        {
            self.names = vec![first.start..last.end];
        }
    }

    /// Takes all that was asked, to answer it without the lock.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.most_askers))
    }

    /// Puts back what was not answered.
    pub(super) fn put_back(&mut self, rest: Self) {
        if !rest.names.is_empty() {
            // Who asked first keeps the place; who has none asks again.
            let late = std::mem::replace(&mut self.askers, rest.askers);
            let room = self.most_askers.saturating_sub(self.askers.len());
            self.askers.extend(late.into_iter().take(room));
            rest.names.into_iter().for_each(|names| self.add(names));
        }
    }

    /// Who gets the answer. `None` when nobody asked.
    pub(super) fn recipient(&self) -> Option<Recipient> {
        match self.askers.first() {
            Some(&only) if self.askers.len() == 1 => Some(Recipient::Only(only)),
            Some(_) => Some(Recipient::Everyone),
            None => None,
        }
    }

    /// The next `most` parts of the answer.
    pub(super) fn answer(&mut self, tracker: &LoadTracker, most: usize) -> Vec<BookingsPart> {
        let mut out = Vec::new();
        let mut names = std::mem::take(&mut self.names).into_iter();
        while out.len() < most
            && let Some(mut parts) = names.next().and_then(|names| tracker.bookings_parts(names))
        {
            out.extend(parts.by_ref().take(most - out.len()));
            if !parts.rest().is_empty() {
                self.names.push(parts.rest());
            }
        }
        self.names.extend(names);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(start: u64, end: u64) -> Range<BookingName> {
        BookingName::new(start)..BookingName::new(end)
    }

    #[test]
    fn ranges_are_joined_and_bounded() {
        let mut asked = Asked::new(2);
        let [one, two, three] = [1, 2, 3].map(ReplicaId::new);
        assert_eq!(asked.recipient(), None);
        assert!(asked.note(one, names(5, 9)) && asked.note(one, names(20, 30)));
        assert_eq!(asked.recipient(), Some(Recipient::Only(one)));
        assert!(
            asked.note(two, names(9, 12)) && asked.note(two, names(0, 1)) && asked.note(two, names(6, 7))
        );
        assert!(!asked.note(three, BookingName::ALL));
        assert_eq!(asked.names, [names(0, 1), names(5, 12), names(20, 30)]);
        assert_eq!(asked.recipient(), Some(Recipient::Everyone));
        let rest = asked.take();
        assert_eq!(asked.recipient(), None);
        assert!(asked.note(three, names(12, 20)));
        asked.put_back(rest);
        assert!(asked.askers.len() <= 2, "who has no place asks again: {:?}", asked.askers);
        assert_eq!(asked.names, [names(0, 1), names(5, 30)]);
        (0..600).for_each(|at| assert!(asked.note(two, names(100 + 2 * at, 101 + 2 * at))));
        assert!(asked.names.len() <= MOST_RANGES, "{}", asked.names.len());
        assert_eq!(asked.names.first().map(|names| names.start), Some(BookingName::new(0)));
        assert_eq!(asked.names.last().map(|names| names.end), Some(BookingName::new(1_299)));
    }
}
