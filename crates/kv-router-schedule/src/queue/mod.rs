//! Requests that wait until a worker can take them.
//!
//! A state machine without a clock, a thread or an opinion on who can take what: the caller goes through the waiting
//! requests in passes, tries each with a decision of its own, and says what came of it. No decision is made in here, so
//! the lock around a queue is never held while somebody is scored.

mod config;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

pub use config::{QueueConfig, QueueConfigError, QueueFull, QueueOrder, Refused};
use place::Place;

/// Names one waiting request. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey(u64);

/// What a request brings along into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<C> {
    /// Where it can go, `None` for anywhere. Requests of one class can go to the same places: while one of them is
    /// blocked so are the others, and while one that can go anywhere is blocked everybody is, but in a
    /// [thorough](Pass::thorough) pass.
    pub class: Option<C>,
    /// Prompt tokens that a worker would have to compute, as far as is known now.
    pub uncached_tokens: u64,
    /// More is more urgent. 0 for most.
    pub priority: u32,
    /// When it is no longer of use.
    pub deadline: Option<Instant>,
}

/// What a queue holds and has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Requests that wait.
    pub waiting: u64,
    /// Their uncached tokens.
    pub tokens: u64,
    /// Requests that were taken out to be served, since the beginning.
    pub dispatched: u64,
    /// Requests that were cancelled while they waited.
    pub cancelled: u64,
    /// Requests whose deadline passed while they waited.
    pub expired: u64,
    /// Requests that were not let in.
    pub refused: u64,
}

/// One walk through the waiting requests, each class at most until its first that is blocked. Start a new one whenever
/// something may have become free.
#[derive(Clone, Debug)]
pub struct Pass<C> {
    blocked: BTreeSet<C>,
    /// One that can go anywhere is blocked.
    anywhere: bool,
    /// That blocks nobody else.
    is_thorough: bool,
    /// The overdue come first: who was looked at last among them.
    overdue: Option<QueueKey>,
    /// Who was offered last was offered as one of them.
    offers_overdue: bool,
    /// One of them was blocked.
    has_passed_over_overdue: bool,
    /// Who was looked at last among the others.
    rest: Option<Place>,
}

impl<C> Pass<C> {
    /// A walk from the beginning.
    pub const fn new() -> Self {
        Self {
            blocked: BTreeSet::new(),
            anywhere: false,
            is_thorough: false,
            overdue: None,
            offers_overdue: false,
            has_passed_over_overdue: false,
            rest: None,
        }
    }

    /// A walk that offers the first of every class, also while one that can go anywhere is blocked: for when requests may
    /// have become impossible, which is to be told at once.
    pub fn thorough() -> Self {
        Self { is_thorough: true, ..Self::new() }
    }

    /// Whether somebody overdue was [blocked](Queue::block) in this walk. Should something become free before it is over,
    /// whoever is offered next may be about to overtake: begin a new walk first, or the bound of
    /// [`QueueConfig::aging`] is that much longer.
    pub const fn has_passed_over_overdue(&self) -> bool {
        self.has_passed_over_overdue
    }
}

impl<C> Default for Pass<C> {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Entry<C, T> {
    class: Option<C>,
    place: Place,
    arrived: Instant,
    deadline: Option<Instant>,
    tokens: u64,
    item: T,
}

/// The waiting requests of one class. Never empty.
#[derive(Debug, Default)]
struct Line {
    places: BTreeSet<Place>,
    arrivals: BTreeSet<QueueKey>,
}

/// Requests that wait, with their classes `C` and the caller's data `T`.
///
/// ```
/// use std::time::{Duration, Instant};
/// use kv_router_schedule::{Pass, Queue, QueueConfig, QueueOrder, Waiting};
/// # #[expect(clippy::disallowed_methods, reason = "a program reads the clock, the library does not")]
/// # fn now() -> Instant { Instant::now() }
///
/// let mut queue = Queue::new(QueueConfig { order: QueueOrder::Wspt, ..QueueConfig::default() })?;
/// let ask = |class, uncached_tokens| Waiting { class, uncached_tokens, priority: 0, deadline: None };
/// queue.push("long", ask(None, 9_000), now())?;
/// queue.push("pinned", ask(Some("worker 7"), 10), now())?;
/// queue.push("short", ask(None, 500), now())?;
///
/// // Worker 7 is busy, another one has room for one request.
/// let mut pass = Pass::new();
/// let (pinned, _) = queue.next(&mut pass, now()).expect("three wait");
/// queue.block(&mut pass, pinned);
/// let (short, request) = queue.next(&mut pass, now()).expect("a pinned head blocks nobody else");
/// assert_eq!(*request, "short");
/// assert_eq!(queue.take(short), Some("short"));
/// assert_eq!(queue.stats().waiting, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Starvation
///
/// A request that has waited for [`QueueConfig::aging`] is offered before everybody who came after it, whatever the
/// order. So at any place that it can go, it is overtaken by later ones for at most that time, and the rest of a pass in
/// which the place becomes free: see [`Pass::has_passed_over_overdue`]. The time is that of the caller; what a clock that
/// goes back has taken away does not count as waiting.
///
/// # Cost
///
/// Every call costs a few steps down trees of those that wait. A pass offers each class until its first that is
/// blocked, so it costs a decision for each request that is served and one for each class that is not.
#[derive(Debug)]
pub struct Queue<C, T> {
    config: QueueConfig,
    entries: BTreeMap<QueueKey, Entry<C, T>>,
    lines: BTreeMap<Option<C>, Line>,
    /// The first of every line, by place and by arrival.
    first_places: BTreeSet<Place>,
    first_arrivals: BTreeSet<QueueKey>,
    deadlines: BTreeSet<(Instant, QueueKey)>,
    next_key: u64,
    stats: QueueStats,
}

impl<C: Ord + Clone, T> Queue<C, T> {
    /// An empty queue.
    ///
    /// # Errors
    ///
    /// The first field of `config` out of its range.
    pub fn new(config: QueueConfig) -> Result<Self, QueueConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            entries: BTreeMap::new(),
            lines: BTreeMap::new(),
            first_places: BTreeSet::new(),
            first_arrivals: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            next_key: 0,
            stats: QueueStats::default(),
        })
    }

    /// Lets a request wait.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the request, when a bound is reached or its deadline has passed.
    pub fn push(&mut self, item: T, ask: Waiting<C>, now: Instant) -> Result<QueueKey, Refused<T>> {
        if let Some(reason) = self.refusal(&ask, now) {
            self.stats.refused += 1;
            return Err(Refused { item, reason });
        }
        let Waiting { class, uncached_tokens: tokens, priority, deadline } = ask;
        let key = QueueKey(self.next_key);
        self.next_key += 1;
        self.settle_clock(now);
        let place = Place::new(self.config.order, priority, tokens, key);
        self.change_line(&class, |line| {
            line.places.insert(place);
            line.arrivals.insert(key);
        });
        self.deadlines.extend(deadline.map(|deadline| (deadline, key)));
        self.stats.waiting += 1;
        self.stats.tokens += tokens;
        self.entries.insert(key, Entry { class, place, arrived: now, deadline, tokens, item });
        Ok(key)
    }

    fn refusal(&self, ask: &Waiting<C>, now: Instant) -> Option<QueueFull> {
        let QueueConfig { max_requests, max_tokens, .. } = self.config;
        let QueueStats { waiting, tokens, .. } = self.stats;
        if ask.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(QueueFull::DeadlinePassed);
        }
        if waiting >= u64::from(max_requests) {
            return Some(QueueFull::Requests { limit: max_requests });
        }
        let fits = tokens.checked_add(ask.uncached_tokens).is_some_and(|sum| sum <= max_tokens);
        let asked = ask.uncached_tokens;
        (!fits).then_some(QueueFull::Tokens { waiting: tokens, asked, limit: max_tokens })
    }

    /// The next request to try in a pass; `None` when the pass is over. The request goes on waiting until it is
    /// [taken](Self::take); one that stays is not offered again in the same pass.
    pub fn next(&mut self, pass: &mut Pass<C>, now: Instant) -> Option<(QueueKey, &T)> {
        self.settle_clock(now);
        let overdue = self.next_overdue(pass, now);
        pass.offers_overdue = overdue.is_some();
        let key = overdue.or_else(|| self.next_by_place(pass))?;
        self.entries.get(&key).map(|entry| (key, &entry.item))
    }

    /// Arrivals are in order, and none is later than now. Where the clock went back, be it that a reading was wrong or that
    /// two threads came in the wrong order, the latest arrivals count as of now: nobody waits for a time that may never
    /// come again. Costs one look while the clock goes forward.
    fn settle_clock(&mut self, now: Instant) {
        let ahead = self.entries.values_mut().rev().take_while(|entry| entry.arrived > now);
        ahead.for_each(|entry| entry.arrived = now);
    }

    fn next_overdue(&self, pass: &mut Pass<C>, now: Instant) -> Option<QueueKey> {
        while !pass.is_over() {
            let from = pass.overdue.map_or(Bound::Unbounded, Bound::Excluded);
            let key = *self.first_arrivals.range((from, Bound::Unbounded)).next()?;
            let entry = self.entries.get(&key)?;
            // Those behind it came later.
            if now.saturating_duration_since(entry.arrived) < self.config.aging {
                return None;
            }
            pass.overdue = Some(key);
            if !pass.is_blocked(&entry.class) {
                return Some(key);
            }
        }
        None
    }

    fn next_by_place(&self, pass: &mut Pass<C>) -> Option<QueueKey> {
        while !pass.is_over() {
            let from = pass.rest.map_or(Bound::Unbounded, Bound::Excluded);
            let place = *self.first_places.range((from, Bound::Unbounded)).next()?;
            pass.rest = Some(place);
            if !pass.is_blocked(&self.entries.get(&place.key())?.class) {
                return Some(place.key());
            }
        }
        None
    }

    /// Says that a request, the one offered last, has nowhere to go for now, and so none of its class has.
    pub fn block(&self, pass: &mut Pass<C>, key: QueueKey) {
        pass.has_passed_over_overdue |= pass.offers_overdue;
        match self.entries.get(&key).map(|entry| &entry.class) {
            Some(Some(class)) => {
                pass.blocked.insert(class.clone());
            }
            Some(None) => pass.anywhere = true,
            None => {}
        }
    }

    /// Puts a request into another class, with the place and the time of arrival that it has: for when it turns out
    /// that what keeps it from going is its own affair. `false` when it does not wait any more.
    pub fn set_class(&mut self, key: QueueKey, class: Option<C>) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        let place = entry.place;
        let before = std::mem::replace(&mut entry.class, class.clone());
        self.change_line(&before, |line| {
            line.places.remove(&place);
            line.arrivals.remove(&key);
        });
        self.change_line(&class, |line| {
            line.places.insert(place);
            line.arrivals.insert(key);
        });
        true
    }

    /// Whether a request still waits.
    pub fn contains(&self, key: QueueKey) -> bool {
        self.entries.contains_key(&key)
    }

    /// Takes a request out to be served. `None` when it does not wait any more.
    pub fn take(&mut self, key: QueueKey) -> Option<T> {
        let item = self.remove(key)?;
        self.stats.dispatched += 1;
        Some(item)
    }

    /// Takes a request out that nobody wants any more. `None` when it does not wait any more: then it is served, or
    /// has been.
    pub fn cancel(&mut self, key: QueueKey) -> Option<T> {
        let item = self.remove(key)?;
        self.stats.cancelled += 1;
        Some(item)
    }

    /// Takes out one request whose deadline has passed. Call it until there is none.
    pub fn expire(&mut self, now: Instant) -> Option<(QueueKey, T)> {
        let &(deadline, key) = self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        let item = self.remove(key)?;
        self.stats.expired += 1;
        Some((key, item))
    }

    /// When [`expire`](Self::expire) has something to do next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The longest that anybody waits.
    pub fn longest_wait(&self, now: Instant) -> Option<Duration> {
        let (_, oldest) = self.entries.first_key_value()?;
        Some(now.saturating_duration_since(oldest.arrived))
    }

    /// What the queue holds and has counted.
    pub fn stats(&self) -> QueueStats {
        self.stats
    }

    fn remove(&mut self, key: QueueKey) -> Option<T> {
        let Entry { class, place, deadline, tokens, item, .. } = self.entries.remove(&key)?;
        self.change_line(&class, |line| {
            line.places.remove(&place);
            line.arrivals.remove(&key);
        });
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, key));
        }
        self.stats.waiting -= 1;
        self.stats.tokens -= tokens;
        Some(item)
    }

    /// Changes a line, and who is first in it.
    fn change_line(&mut self, class: &Option<C>, change: impl FnOnce(&mut Line)) {
        if !self.lines.contains_key(class) {
            self.lines.insert(class.clone(), Line::default());
        }
        let Some(line) = self.lines.get_mut(class) else { return };
        line.places.first().map(|place| self.first_places.remove(place));
        line.arrivals.first().map(|key| self.first_arrivals.remove(key));
        change(line);
        self.first_places.extend(line.places.first());
        self.first_arrivals.extend(line.arrivals.first());
        if line.places.is_empty() {
            self.lines.remove(class);
        }
    }
}

impl<C: Ord> Pass<C> {
    fn is_blocked(&self, class: &Option<C>) -> bool {
        self.is_over() || class.as_ref().map_or(self.anywhere, |class| self.blocked.contains(class))
    }

    /// Whether nobody is offered any more.
    fn is_over(&self) -> bool {
        self.anywhere && !self.is_thorough
    }
}
