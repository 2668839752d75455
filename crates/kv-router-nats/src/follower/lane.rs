//! One rank that is followed.

use std::time::{Duration, Instant};

use kv_router_transport::{EventBatch, Standing, StreamSequencer};

/// Doublings of the wait before a cold rank is built anew.
const MOST_DOUBLINGS: u32 = 12;

/// The sequence machine of a rank, and what makes it this one.
pub(super) struct Lane {
    pub(super) sequencer: StreamSequencer<EventBatch>,
    /// Which of all lanes it is. A rank that is dismissed and admitted again has another one, whose requests are
    /// numbered from the start: an answer that is late by one lane must not be taken for its own.
    pub(super) birth: u64,
    /// What the sink was last told.
    pub(super) told: Standing,
    healing: Healing,
}

impl Lane {
    pub(super) fn new(sequencer: StreamSequencer<EventBatch>, birth: u64) -> Self {
        Self { sequencer, birth, told: Standing::Cold, healing: Healing::default() }
    }

    /// The standing, if the sink does not know it yet.
    pub(super) fn news(&mut self) -> Option<Standing> {
        let standing = self.sequencer.standing();
        (std::mem::replace(&mut self.told, standing) != standing).then_some(standing)
    }

    /// Whether to try again to build it from the start; `first` is the wait before the first try.
    pub(super) fn is_to_be_healed(&mut self, now: Instant, first: Duration) -> bool {
        self.healing.is_due(now, first, self.sequencer.standing())
    }
}

/// When a cold rank is built anew. What it lacks was not to be had when it was asked for, perhaps because its relay was
/// cut off just then; time alone heals nothing.
#[derive(Debug, Default)]
struct Healing {
    at: Option<Instant>,
    tries: u32,
}

impl Healing {
    fn is_due(&mut self, now: Instant, first: Duration, standing: Standing) -> bool {
        if standing != Standing::Cold {
            self.at = None;
            if standing == Standing::Fresh {
                self.tries = 0;
            }
            return false;
        }
        let at = *self.at.get_or_insert(now + first * (1 << self.tries));
        if now < at {
            return false;
        }
        self.at = None;
        self.tries = (self.tries + 1).min(MOST_DOUBLINGS);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_rank_is_tried_again_ever_more_rarely_until_it_is_fresh() {
        #[expect(clippy::disallowed_methods, reason = "an origin for the virtual clock")]
        let start = Instant::now();
        let mut healing = Healing::default();
        let mut tries = |seconds: std::ops::Range<u64>, standing| -> Vec<u64> {
            let due = |second: &u64| {
                healing.is_due(start + Duration::from_secs(*second), Duration::from_secs(5), standing)
            };
            seconds.filter(due).collect()
        };
        assert!(tries(0..5, Standing::Cold).is_empty());
        assert_eq!(tries(5..7, Standing::Cold), [5]);
        assert!(tries(7..8, Standing::Recovering).is_empty(), "it is being tried");
        assert_eq!(tries(8..30, Standing::Cold), [18], "twice as long");
        assert!(tries(30..31, Standing::Fresh).is_empty());
        assert_eq!(tries(31..37, Standing::Cold), [36], "that is over");
    }
}
