//! What has changed for those who wait, so that a walk need not try everybody.

use std::collections::BTreeSet;

use kv_router_schedule::{QueueKey, SessionId};
use kv_router_types::WorkerRank;

/// Ranks told apart. When more have changed, all count as changed.
const MOST_RANKS: usize = 256;

/// Sessions told apart.
const MOST_SESSIONS: usize = 1_024;

/// Arrivals told apart.
const MOST_ARRIVALS: usize = 8_192;

/// What happened since the last walk began. Whoever it does not concern was tried before, in vain, and would be again.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Anything may have happened.
    pub(super) is_general: bool,
    /// Some may wait for what will never come: everybody has to be tried, also behind one that is blocked.
    pub(super) is_thorough: bool,
    /// Where load fell.
    pub(super) ranks: BTreeSet<WorkerRank>,
    /// Sessions that are not bound any more where they were.
    pub(super) sessions: BTreeSet<SessionId>,
    /// Who has not been tried since they came.
    pub(super) arrivals: BTreeSet<QueueKey>,
}

impl News {
    pub(super) fn load_fell(&mut self, rank: WorkerRank) {
        self.ranks.insert(rank);
        self.keep_bounds();
    }

    pub(super) fn loosened(&mut self, sessions: impl Iterator<Item = SessionId>) {
        self.sessions.extend(sessions);
        self.keep_bounds();
    }

    pub(super) fn arrived(&mut self, key: QueueKey) {
        self.arrivals.insert(key);
        self.keep_bounds();
    }

    /// Takes in what happened later.
    pub(super) fn merge(&mut self, mut later: Self) {
        self.is_general |= later.is_general;
        self.is_thorough |= later.is_thorough;
        self.ranks.append(&mut later.ranks);
        self.sessions.append(&mut later.sessions);
        self.arrivals.append(&mut later.arrivals);
        self.keep_bounds();
    }

    fn keep_bounds(&mut self) {
        if self.ranks.len() > MOST_RANKS {
            self.ranks.clear();
            self.is_general = true;
        }
        if self.sessions.len() > MOST_SESSIONS {
            self.sessions.clear();
            self.is_general = true;
        }
        if self.arrivals.len() > MOST_ARRIVALS {
            self.arrivals.clear();
            self.is_general = true;
        }
    }
}
