//! How a stream does, and what keeps it well.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Purpose, RankFeed, Recovery};
use crate::{SequencerCounters, Standing};

/// What a feed did beside its sequence machine. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedCounters {
    /// New connections over which the life went on, and states restored whose life it was.
    pub same_life: u64,
    /// Times a new life began: proven, or not to be disproved.
    pub new_life: u64,
    /// Times a cold rank asked whether the source reaches back to the first batch.
    pub heal_tries: u64,
    /// Times it did.
    pub healed: u64,
    /// Batches of answers that only told whose life it is, or how far back the source reaches. Every batch is counted
    /// here or in [`SequencerCounters`], or still [held](FeedHealth::held).
    pub proofs: u64,
}

/// How one stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedHealth {
    /// How far the rank's state can be trusted.
    pub standing: Standing,
    /// Whether a batch lost something before it came to the sequence machine.
    pub suspect: bool,
    /// The last batch applied.
    pub applied: Option<u64>,
    /// Live batches held: by the sequence machine, and until it is known whose life they belong to.
    pub held: usize,
    /// What the sequence machine did.
    pub sequencer: SequencerCounters,
    /// What the feed itself did.
    pub feed: FeedCounters,
}

impl<P> RankFeed<P> {
    /// How the stream does.
    pub fn health(&self) -> FeedHealth {
        FeedHealth {
            standing: self.standing(),
            suspect: self.sequencer.is_suspect(),
            applied: self.last.map(|last| last.sequence),
            held: self.sequencer.held() + self.unproven.as_ref().map_or(0, VecDeque::len),
            sequencer: self.sequencer.counters(),
            feed: self.counters,
        }
    }

    /// Decides whether the rank needs looking after.
    pub(super) fn settle(&mut self, now: Instant) {
        debug_assert!(self.actions.is_empty(), "nothing to do is left behind");
        let standing = self.standing();
        if standing != Standing::Recovering && self.asked.is_none() {
            self.seen.clear();
        }
        match standing {
            Standing::Fresh => (self.heal_at, self.heal_attempt) = (None, 0),
            Standing::Recovering => {}
            Standing::Cold => {
                if self.may_heal() && self.heal_at.is_none() {
                    let wait = self.config.heal.wait(self.heal_attempt, &mut self.jitter);
                    self.heal_attempt = self.heal_attempt.saturating_add(1);
                    self.heal_at = Some(now + wait);
                }
            }
        }
    }

    /// Whether the rank is cold, there is a source, and nothing is asked of it.
    pub(super) fn may_heal(&self) -> bool {
        self.config.replay.is_some()
            && self.is_met
            && self.asked.is_none()
            && self.standing() == Standing::Cold
    }

    /// The open request of the sequence machine, if that is what is open.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        match self.asked?.what {
            Purpose::Recover(recovery) => Some(recovery),
            Purpose::Heal => None,
        }
    }
}
