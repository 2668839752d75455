//! The requests in flight that have a name, and the names that must not come any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kv_router_types::{RequestId, WorkerRank};
use rustc_hash::FxHashMap;

use crate::requests::RequestKey;

/// Where a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) worker: WorkerRank,
    pub(crate) key: RequestKey,
    pub(crate) attempt: u32,
}

/// One try of a request.
type Attempt = (RequestId, u32);

/// Requests by name. A tombstone is kept for each attempt that ended before it was booked, for a bounded number of
/// them: the oldest goes first.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    homes: FxHashMap<RequestId, Home>,
    /// When each tombstone was set. Ordered, to find those of later attempts.
    ended: BTreeMap<Attempt, Instant>,
    /// The same, the oldest first.
    by_age: BTreeSet<(Instant, Attempt)>,
}

/// What the names say of a booking.
pub(crate) enum Verdict {
    Free,
    InFlight(Home),
    Ended,
}

impl Ids {
    pub(crate) fn len(&self) -> usize {
        self.homes.len()
    }

    pub(crate) fn tombstones(&self) -> usize {
        self.ended.len()
    }

    pub(crate) fn get(&self, request: RequestId) -> Option<Home> {
        self.homes.get(&request).copied()
    }

    /// Whether an attempt may be booked. A tombstone of this very attempt has done its work then.
    pub(crate) fn judge(&mut self, request: RequestId, attempt: u32) -> Verdict {
        if self.unbury((request, attempt))
            || self.ended.range((request, attempt)..=(request, u32::MAX)).next().is_some()
        {
            return Verdict::Ended;
        }
        self.homes.get(&request).map_or(Verdict::Free, |&home| Verdict::InFlight(home))
    }

    pub(crate) fn insert(&mut self, request: RequestId, home: Home) {
        self.homes.insert(request, home);
    }

    pub(crate) fn remove(&mut self, request: RequestId) {
        self.homes.remove(&request);
    }

    /// Keeps an attempt from being booked, from the first time that its end is told. At most `limit` tombstones stay.
    pub(crate) fn bury(&mut self, request: RequestId, attempt: u32, now: Instant, limit: usize) {
        let at = *self.ended.entry((request, attempt)).or_insert(now);
        self.by_age.insert((at, (request, attempt)));
        while self.ended.len() > limit {
            self.unbury_oldest();
        }
    }

    /// Forgets tombstones older than `ttl`.
    pub(crate) fn expire(&mut self, now: Instant, ttl: Duration) {
        while self.by_age.first().is_some_and(|&(at, _)| now.saturating_duration_since(at) >= ttl) {
            self.unbury_oldest();
        }
    }

    /// `false` when there is no such tombstone.
    fn unbury(&mut self, attempt: Attempt) -> bool {
        self.ended.remove(&attempt).is_some_and(|at| self.by_age.remove(&(at, attempt)))
    }

    fn unbury_oldest(&mut self) {
        if let Some((_, attempt)) = self.by_age.pop_first() {
            self.ended.remove(&attempt);
        }
    }
}
