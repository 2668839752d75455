//! The requests in flight that have a name, and the names that must not come any more.

use std::collections::VecDeque;
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

/// An attempt that ended before it was booked.
#[derive(Clone, Copy, Debug)]
struct Ended {
    attempt: u32,
    at: Instant,
}

/// Requests by name. A tombstone is kept for each attempt that ended before it was booked, for a bounded number of
/// them: the oldest goes first.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    homes: FxHashMap<RequestId, Home>,
    ended: FxHashMap<RequestId, Ended>,
    /// In the order in which they came. One entry for each time that a tombstone was set; those that no longer agree
    /// with `ended` are skipped.
    order: VecDeque<(RequestId, Instant)>,
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
        match self.ended.get(&request) {
            Some(ended) if ended.attempt == attempt => {
                self.ended.remove(&request);
                return Verdict::Ended;
            }
            Some(ended) if ended.attempt > attempt => return Verdict::Ended,
            _ => {}
        }
        self.homes.get(&request).map_or(Verdict::Free, |&home| Verdict::InFlight(home))
    }

    pub(crate) fn insert(&mut self, request: RequestId, home: Home) {
        self.homes.insert(request, home);
    }

    pub(crate) fn remove(&mut self, request: RequestId) {
        self.homes.remove(&request);
    }

    /// Keeps an attempt from being booked. At most `limit` tombstones stay.
    pub(crate) fn bury(&mut self, request: RequestId, attempt: u32, now: Instant, limit: usize) {
        let before = self.ended.get(&request).map_or(0, |ended| ended.attempt);
        self.ended.insert(request, Ended { attempt: attempt.max(before), at: now });
        self.order.push_back((request, now));
        // Bounds the list too: entries that no longer agree count as well.
        while self.order.len() > limit {
            self.unbury_oldest();
        }
    }

    /// Forgets tombstones older than `ttl`.
    pub(crate) fn expire(&mut self, now: Instant, ttl: Duration) {
        while self.order.front().is_some_and(|&(_, at)| now.saturating_duration_since(at) >= ttl) {
            self.unbury_oldest();
        }
    }

    fn unbury_oldest(&mut self) {
        if let Some((request, at)) = self.order.pop_front()
            && self.ended.get(&request).is_some_and(|ended| ended.at == at)
        {
            self.ended.remove(&request);
        }
    }
}
