//! One replay as a pure state machine: what is wanted next, what an answer proves, when to ask again.

use std::time::{Duration, Instant};

use kv_router_transport::{FrameHash, Jitter, ReplayRequest};

use crate::frames::ReplayMessage;
use crate::{Payload, ReplayFailure, ReplayPolicy};

/// A replay from the request to its end.
pub(crate) struct Answer {
    ask: ReplayRequest,
    policy: ReplayPolicy,
    /// The batch wanted next.
    next: u64,
    /// The batch before `next`, which a further try has still to show.
    anchor: Option<Shown>,
    /// The last batch handed out: the anchor of the next try.
    last: Option<Shown>,
    tries: u32,
    /// Whether any message came, in any try.
    heard: bool,
    /// Whether a try ended at a hole, and not in silence.
    hole: bool,
    until: Instant,
    idle_until: Instant,
}

/// A batch that the source had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    sequence: u64,
    frame: FrameHash,
}

/// What to do with a message.
pub(crate) enum Verdict {
    /// Hand it out.
    Deliver { sequence: u64, payload: Payload },
    /// Hand it out; then the replay is complete.
    DeliverLast { sequence: u64, payload: Payload },
    /// Nothing.
    Ignore,
    /// The replay is complete.
    Ended,
    /// This try is over.
    TryAgain,
    /// The replay is over.
    Failed(ReplayFailure),
}

/// What comes after a try that failed.
pub(crate) enum Next {
    /// Ask again after this wait.
    Wait(Duration),
    /// Give up.
    Fail(ReplayFailure),
}

impl Answer {
    pub(crate) fn new(ask: ReplayRequest, policy: ReplayPolicy, now: Instant) -> Self {
        Self {
            ask,
            policy,
            next: ask.from,
            anchor: None,
            last: None,
            tries: 0,
            heard: false,
            hole: false,
            until: now + policy.total,
            idle_until: now + policy.idle,
        }
    }

    pub(crate) fn ask(&self) -> &ReplayRequest {
        &self.ask
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.until
    }

    /// Starts a try; the number to ask from.
    pub(crate) fn start(&mut self, now: Instant) -> u64 {
        self.anchor = self.last;
        self.tries += 1;
        self.idle_until = now + self.policy.idle;
        self.anchor.map_or(self.next, |anchor| anchor.sequence)
    }

    /// Whether the source is silent for too long, or the replay takes too long.
    pub(crate) fn overdue(&self, now: Instant) -> bool {
        now >= self.idle_until.min(self.until)
    }

    /// We did not look: its silence is not its fault.
    pub(crate) fn excuse(&mut self, now: Instant) {
        self.idle_until = now + self.policy.idle;
    }

    pub(crate) fn message(&mut self, now: Instant, message: ReplayMessage) -> Verdict {
        self.heard = true;
        self.idle_until = now + self.policy.idle;
        let (sequence, payload) = match message {
            ReplayMessage::Batch { sequence, payload } => (sequence, payload),
            // Whoever had the anchor would have sent it.
            ReplayMessage::End if self.anchor.is_some() => return Verdict::Failed(ReplayFailure::OtherLife),
            ReplayMessage::End => return Verdict::Ended,
        };
        let shown = Shown { sequence, frame: FrameHash::of(&payload) };
        if let Some(anchor) = self.anchor {
            if sequence < anchor.sequence {
                return Verdict::Ignore;
            }
            if sequence > anchor.sequence {
                return Verdict::Failed(ReplayFailure::AnchorGone);
            }
            if shown != anchor {
                return Verdict::Failed(ReplayFailure::OtherLife);
            }
            self.anchor = None;
            return Verdict::Ignore;
        }
        if sequence < self.next || sequence == u64::MAX {
            return Verdict::Ignore;
        }
        if sequence > self.next && self.last.is_some() {
            self.hole = true;
            return Verdict::TryAgain; // lost at a high-water mark: the source still has it
        }
        // A first batch later than asked is the oldest that the source has. What that means is not ours to say.
        self.hole = false;
        self.next = sequence + 1;
        self.last = Some(shown);
        if self.ask.to.is_some_and(|to| sequence >= to) {
            Verdict::DeliverLast { sequence, payload }
        } else {
            Verdict::Deliver { sequence, payload }
        }
    }

    /// The try is over without the replay being complete.
    pub(crate) fn after_try(&self, now: Instant, jitter: &mut Jitter) -> Next {
        let wait = self.policy.backoff.wait(self.tries.saturating_sub(1), jitter);
        if now + wait >= self.until {
            return Next::Fail(ReplayFailure::Deadline);
        }
        if self.tries < self.policy.tries {
            return Next::Wait(wait);
        }
        Next::Fail(match (self.hole, self.heard) {
            (true, _) => ReplayFailure::Incomplete,
            (false, true) => ReplayFailure::Stalled,
            (false, false) => ReplayFailure::Silent,
        })
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
