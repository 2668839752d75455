//! What is known of one other replica, and what of it is missing.
//!
//! A change says how things are, so it counts as soon as it comes, also while an earlier one is missing: a booking is
//! made, comes further, and ends for ever. What is told of a booking before the booking itself is kept until that
//! comes. What stays missing is asked for as parts, each with all bookings whose names are in a range; once parts of
//! one mending have told of all names, whatever none of them told of was given back.

use std::ops::Range;
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::ranges::Ranges;
use super::{BookingName, BookingsPart, LoadDelta, SharedBooking, SyncConfig, SyncOutcome, SyncStats};
use crate::{BookError, Booking, BookingState, LoadTracker};

/// Names of which something is told before they are booked. Above it what is missing is mended from the beginning.
const MOST_EARLY: usize = 65_536;

/// Ranges of names that parts have told of.
const MOST_RANGES: usize = 4_096;

/// Ranges of names asked for at a time.
const MOST_ASKED: usize = 16;

/// Every name that a booking may have.
const ALL: Range<u64> = 0..u64::MAX;

/// What a replica needs to take something in.
pub(super) struct Means<'m> {
    pub(super) tracker: &'m LoadTracker,
    pub(super) stats: &'m mut SyncStats,
    /// Runs of changes that count while an earlier one is missing.
    pub(super) max_ahead: usize,
    pub(super) now: Instant,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) life: u64,
    pub(super) heard: Instant,
    /// Every change before this one counts.
    next: u64,
    /// Later ones that count, too.
    ahead: Ranges,
    /// One more than the highest number heard of.
    known: u64,
    /// What is done about what is missing. `None` when nothing is.
    mending: Option<Mending>,
    /// Mendings so far.
    mendings: u64,
    bookings: FxHashMap<BookingName, Held>,
    /// What was told out of turn, or while parts are waited for, which may be older. True for ever, so kept until nothing
    /// is missing.
    early: FxHashMap<BookingName, Early>,
    /// Bookings that could not be counted for lack of room, since everything was asked for last.
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Held {
    booking: Booking,
    /// The number of the change that booked it; 0 while only parts have told of it.
    number: u64,
    /// The last mending that told of it.
    mending: u64,
}

/// The first of them, and the shortest of their prompts, in blocks.
#[derive(Clone, Copy, Debug)]
struct Refused {
    since: Instant,
    shortest: u64,
}

#[derive(Clone, Copy, Debug)]
enum Early {
    Progressed { prefill_tokens: u64, output_blocks: u32 },
    Released,
}

#[derive(Debug)]
struct Mending {
    number: u64,
    since: Instant,
    asked: Option<Instant>,
    /// Whether the missing changes would not be enough, should they come after all.
    needs_all: bool,
    /// Parts that may lack a change before this one are too old.
    from: u64,
    /// Names that parts have told of, and the first change that one of those parts may lack.
    covered: Ranges,
    least: u64,
}

impl Peer {
    pub(super) fn new(life: u64, now: Instant) -> Self {
        Self {
            life,
            heard: now,
            next: 0,
            ahead: Ranges::default(),
            known: 0,
            mending: None,
            mendings: 0,
            bookings: FxHashMap::default(),
            early: FxHashMap::default(),
            refused: None,
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.mending.is_some()
    }

    pub(super) fn bookings(&self) -> usize {
        self.bookings.len()
    }

    /// Changes that count although an earlier one is missing.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead.count()
    }

    pub(super) fn receive(
        &mut self,
        first: u64,
        deltas: Vec<LoadDelta>,
        means: &mut Means<'_>,
    ) -> SyncOutcome {
        let end = first.saturating_add(deltas.len() as u64);
        self.known = self.known.max(end);
        let before = self.next;
        for (number, delta) in (first..end).zip(deltas) {
            if number < self.next || self.ahead.contains(number) {
                continue;
            }
            if number > self.next && !self.ahead.insert(number..number + 1, means.max_ahead) {
                continue; // as if it had been lost
            }
            self.apply(number, delta, means);
            if number == self.next {
                self.next = self.ahead.advance(number + 1);
            }
        }
        self.settle(means.now);
        match self.next {
            next if next > before => SyncOutcome::Applied,
            next if next < end => SyncOutcome::Ahead,
            _ => SyncOutcome::Known,
        }
    }

    fn apply(&mut self, number: u64, delta: LoadDelta, means: &mut Means<'_>) {
        let is_early = number > self.next || self.mending.is_some();
        means.stats.applied += 1;
        match delta {
            LoadDelta::Booked(booking) => match self.bookings.get_mut(&booking.name) {
                Some(held) => held.number = held.number.max(number), // a part was ahead
                None => self.book(booking, number, 0, means),
            },
            LoadDelta::Progressed { name, prefill_tokens, output_blocks } => {
                if let Some(held) = self.bookings.get(&name) {
                    let _ = held.booking.set_progress(prefill_tokens, output_blocks, means.now);
                } else if is_early {
                    let early = Early::Progressed { prefill_tokens, output_blocks };
                    self.early.entry(name).and_modify(|known| known.join(early)).or_insert(early);
                }
            }
            LoadDelta::Released { name } => {
                self.bookings.remove(&name);
                if is_early {
                    self.early.insert(name, Early::Released);
                }
            }
        }
    }

    pub(super) fn receive_part(&mut self, part: BookingsPart, means: &mut Means<'_>) -> SyncOutcome {
        let BookingsPart { next, names, bookings, .. } = part;
        // Who lacks nothing learns nothing: of what comes after its last change the next deltas tell.
        let Some(mending) = self.mending.as_mut().filter(|mending| next >= mending.from) else {
            return SyncOutcome::Known;
        };
        let names = names.start.get()..names.end.get();
        if mending.covered.holes(names.clone(), 1).is_empty() {
            return SyncOutcome::Known;
        }
        if !mending.covered.insert(names, MOST_RANGES) {
            return SyncOutcome::Ahead; // once the names before it have been told it is asked for again
        }
        mending.least = mending.least.min(next);
        if let Some(asked) = &mut mending.asked {
            *asked = means.now; // the rest may be under way
        }
        self.known = self.known.max(next);
        let (number, is_whole) = (mending.number, mending.covered.holes(ALL, 1).is_empty());
        for booking in bookings {
            self.renew(booking, number, means);
        }
        means.stats.parts += 1;
        if is_whole {
            self.mend(means);
        } else {
            self.settle(means.now);
        }
        SyncOutcome::Applied
    }

    /// Every name has been told of.
    fn mend(&mut self, means: &mut Means<'_>) {
        let Some(Mending { number, least, .. }) = self.mending.take() else { return };
        // Who was booked before the oldest of the parts, and is in none, was given back before its part was made.
        self.bookings.retain(|_, held| held.mending == number || held.number >= least);
        self.next = self.ahead.advance(self.next.max(least));
        means.stats.snapshots += 1;
        self.settle(means.now);
    }

    /// Notes whether anything is missing now.
    fn settle(&mut self, now: Instant) {
        let is_behind = self.next < self.known;
        match &self.mending {
            None if is_behind => self.begin_mending(now, Default::default()),
            Some(mending) if !is_behind && !mending.needs_all => self.mending = None,
            _ => {}
        }
        if self.mending.is_none() {
            if !self.early.is_empty() {
                self.early = FxHashMap::default();
            }
        } else if self.early.len() > MOST_EARLY {
            self.early.clear();
            self.lack_all(now);
        }
    }

    /// Wants everything anew. Only parts from now on will do: they have what was refused before.
    pub(super) fn lack_all(&mut self, now: Instant) {
        let before = self.mending.take();
        let asked = before.and_then(|mending| mending.asked);
        self.begin_mending(now, Needs { all: true, asked });
    }

    fn begin_mending(&mut self, now: Instant, needs: Needs) {
        self.mendings += 1;
        self.mending = Some(Mending {
            number: self.mendings,
            since: now,
            asked: needs.asked,
            needs_all: needs.all,
            from: self.known,
            covered: Ranges::default(),
            least: u64::MAX,
        });
    }

    /// The names to ask for now.
    pub(super) fn wanted(
        &mut self,
        config: &SyncConfig,
        tracker: &LoadTracker,
        now: Instant,
    ) -> Vec<Range<BookingName>> {
        let SyncConfig { patience, ask_again, .. } = *config;
        let since = |then: Instant| now.saturating_duration_since(then);
        // Not while there is no room: it would be told all over again for nothing.
        if self.refused.is_some_and(|refused| {
            since(refused.since) >= ask_again && tracker.shared().has_room_for_peers(refused.shortest)
        }) {
            self.refused = None;
            self.lack_all(now);
        }
        let Some(mending) = &mut self.mending else { return Vec::new() };
        let is_due = mending.needs_all || since(mending.since) >= patience;
        if !is_due || mending.asked.is_some_and(|then| since(then) < ask_again) {
            return Vec::new();
        }
        mending.asked = Some(now);
        let names = |hole: Range<u64>| BookingName::new(hole.start)..BookingName::new(hole.end);
        mending.covered.holes(ALL, MOST_ASKED).into_iter().map(names).collect()
    }

    /// Counts a booking of a part.
    fn renew(&mut self, booking: SharedBooking, mending: u64, means: &mut Means<'_>) {
        let mut number = 0;
        if let Some(held) = self.bookings.get_mut(&booking.name) {
            let state = held.booking.set_progress(booking.prefill_tokens, booking.output_blocks, means.now);
            if state == BookingState::Held {
                held.mending = mending;
                return;
            }
            // One whose rank left and came back counts for nothing: it is booked again.
            number = held.number;
            self.bookings.remove(&booking.name);
        }
        self.book(booking, number, mending, means);
    }

    fn book(&mut self, mut booking: SharedBooking, number: u64, mending: u64, means: &mut Means<'_>) {
        match self.early.get(&booking.name) {
            Some(Early::Released) => return,
            Some(&Early::Progressed { prefill_tokens, output_blocks }) => {
                booking.prefill_tokens = booking.prefill_tokens.min(prefill_tokens);
                booking.output_blocks = booking.output_blocks.max(output_blocks);
            }
            None => {}
        }
        match means.tracker.book_shared(&booking, means.now) {
            Ok(held) => {
                self.bookings.insert(booking.name, Held { booking: held, number, mending });
            }
            Err(error) => {
                means.stats.refused += 1;
                // For a rank that is unknown here there is `rank_added`; room may come up at any time.
                if matches!(error, BookError::TooManyRequests { .. } | BookError::TooManyPromptBlocks { .. })
                {
                    let blocks = booking.prompt_blocks.len() as u64;
                    let first = Refused { since: means.now, shortest: blocks };
                    let refused = self.refused.get_or_insert(first);
                    refused.shortest = refused.shortest.min(blocks);
                }
            }
        }
    }
}

impl Early {
    /// Whichever comes first, prefill only falls, output only grows, and the end is the end.
    fn join(&mut self, other: Self) {
        *self = match (*self, other) {
            (
                Self::Progressed { prefill_tokens: left, output_blocks: out },
                Self::Progressed { prefill_tokens, output_blocks },
            ) => Self::Progressed {
                prefill_tokens: left.min(prefill_tokens),
                output_blocks: out.max(output_blocks),
            },
            _ => Self::Released,
        };
    }
}

/// Why a mending begins.
#[derive(Default)]
struct Needs {
    all: bool,
    asked: Option<Instant>,
}
