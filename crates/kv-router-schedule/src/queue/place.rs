//! Where in the order a request stands.

use std::cmp::Ordering;

use super::{QueueKey, QueueOrder};

/// The place of a request: the lesser is offered first. No two requests of a queue have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Worth over work. A fraction and no float, so that no rounding makes two different ones equal.
    worth: u64,
    work: u64,
    /// Orders those of equal worth.
    turn: u64,
    key: QueueKey,
}

impl Place {
    pub(super) fn new(order: QueueOrder, priority: u32, uncached_tokens: u64, key: QueueKey) -> Self {
        let worth = 1 + u64::from(priority);
        let (work, turn) = match order {
            QueueOrder::Fcfs => (1, key.0),
            QueueOrder::Lcfs => (1, u64::MAX - key.0),
            // A prompt that is cached whole is as good as one of a single token.
            QueueOrder::Wspt => (uncached_tokens.max(1), key.0),
        };
        Self { worth, work, turn, key }
    }

    pub(super) const fn key(&self) -> QueueKey {
        self.key
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let ours = u128::from(self.worth) * u128::from(other.work);
        let theirs = u128::from(other.worth) * u128::from(self.work);
        theirs.cmp(&ours).then(self.turn.cmp(&other.turn))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}
