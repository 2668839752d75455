//! Our own bookings, all that have a name in some range, in messages of bounded size.

use std::fmt;
use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::{BookingName, BookingsPart, Journal, SharedBooking};
use crate::LoadTracker;
use crate::requests::RequestKey;
use crate::shared::name;

/// The parts in which [`LoadTracker::bookings_parts`] tells our bookings, in the order of their names.
///
/// Each is made when it is asked for. One that is not sent, or is lost, is lacking to nobody who has the others: it can
/// be asked for alone.
pub struct BookingsParts<'t> {
    tracker: &'t LoadTracker,
    journal: &'t Journal,
    /// The number of the first change that may not be in any of them.
    next: u64,
    /// What no part has told of yet.
    rest: Range<BookingName>,
    names: Peekable<IntoIter<(BookingName, usize, RequestKey)>>,
    /// It did not fit the part before.
    left_over: Option<SharedBooking>,
}

impl BookingsParts<'_> {
    /// The names that no part has told of yet, for who goes on later.
    pub fn rest(&self) -> Range<BookingName> {
        self.rest.clone()
    }
}

impl Iterator for BookingsParts<'_> {
    type Item = BookingsPart;

    fn next(&mut self) -> Option<BookingsPart> {
        if self.rest.is_empty() {
            return None;
        }
        let Self { tracker, journal, names, left_over, .. } = self;
        let mut part = BookingsPart {
            from: journal.life(),
            next: self.next,
            names: self.rest.clone(),
            bookings: Vec::new(),
        };
        // One that is given back by now is passed over: its release has a later number.
        *left_over = journal.fill(&mut part, || {
            left_over
                .take()
                .or_else(|| names.find_map(|(name, shard, key)| read(tracker, journal, name, shard, key)))
        });
        self.rest.start = left_over.as_ref().map_or(self.rest.end, |booking| booking.name);
        part.names.end = self.rest.start;
        Some(part)
    }
}

impl fmt::Debug for BookingsParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BookingsParts").field("rest", &self.rest).finish_non_exhaustive()
    }
}

fn read(
    tracker: &LoadTracker,
    journal: &Journal,
    name: BookingName,
    shard: usize,
    key: RequestKey,
) -> Option<SharedBooking> {
    let shard = tracker.shared().shards[shard].read();
    let (request, worker, prompt) = shard.request_with_prompt(key)?;
    let (told, untold) = journal.told(&prompt);
    Some(SharedBooking {
        name,
        worker,
        prefill_tokens: request.prefill_tokens,
        prompt_blocks: told.to_vec(),
        private_blocks: request.private_blocks.saturating_add(untold),
        output_blocks: request.output_blocks,
    })
}

impl LoadTracker {
    /// Our own bookings with these names, for a replica that lacks them: [`BookingName::ALL`] for one that knows none.
    /// `None` for a tracker without a journal.
    ///
    /// Changes during the call, and between the parts, may be in them or not. They come as deltas too, and change
    /// nothing then. Cost: one look at every booking when it begins, a copy of each prompt when its part is made.
    pub fn bookings_parts(&self, names: Range<BookingName>) -> Option<BookingsParts<'_>> {
        let journal = self.shared().journal.as_ref()?;
        // Before the bookings are looked for: whatever is missing in them has a later number.
        let next = journal.next();
        let mut found = Vec::new();
        for (index, shard) in self.shared().shards.iter().enumerate() {
            let shard = shard.read();
            let named = shard.own_requests().map(|key| (name(index, key), index, key));
            found.extend(named.filter(|(name, ..)| names.contains(name)));
        }
        found.sort_unstable_by_key(|&(name, ..)| name);
        let names_of_all = found.into_iter().peekable();
        Some(BookingsParts {
            tracker: self,
            journal,
            next,
            rest: names,
            names: names_of_all,
            left_over: None,
        })
    }
}
