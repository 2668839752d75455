//! Which life of the engine a connection, a state and batches belong to.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Anchor, Live, Purpose, RankFeed, Stamped};
use crate::{Action, ForgetReason, FrameHash, Incarnation, Numbered, SkipReason, Watermark};

impl<P> RankFeed<P> {
    pub(super) fn on_connection(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        let is_first = !std::mem::replace(&mut self.is_met, true);
        self.heal_attempt = 0;
        // Of an older connection: what of it belongs to this life is replayed.
        self.abandon_unproven(now, out);
        if self.config.replay.is_none() {
            self.first_of_connection = !is_first;
        } else if is_first {
            self.sequencer.catch_up(now, &mut self.actions);
            self.drain(now, out);
        } else {
            self.prove(now, out);
        }
    }

    pub(super) fn on_restored(&mut self, now: Instant, last: Anchor, out: &mut Vec<Action<P>>) {
        self.leave_life();
        self.abandon_unproven(now, out);
        self.is_met = true;
        self.last = Some(last);
        // Who can be asked proves the life; what comes live may be behind the state. Else numbers are all there is.
        self.newest = self.config.replay.is_none().then_some(last.sequence);
        let mark = Watermark::new(Incarnation::new(self.life), last.sequence);
        self.sequencer.restored(now, mark, &mut self.actions);
        self.drain(now, out);
        if self.config.replay.is_none() {
            self.first_of_connection = true;
        } else if self.last.is_some() {
            self.unproven = Some(VecDeque::new());
            self.prove_at = Some(now + self.config.heal.first);
        }
    }

    /// Asks for the last batch that was applied. What comes live waits until it is there.
    pub(super) fn prove(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        if self.last.is_none() {
            return self.begin_life(now, out); // nothing to compare, and nothing to lose
        }
        self.sequencer.catch_up_anew(now, &mut self.actions);
        self.drain(now, out);
        if self.recovery().is_some_and(|open| open.anchor.is_some()) {
            self.unproven = Some(VecDeque::new());
        } else {
            self.begin_life(now, out);
        }
    }

    pub(super) fn on_live(&mut self, now: Instant, live: Live<P>, out: &mut Vec<Action<P>>) {
        let Some(unproven) = &mut self.unproven else { return self.admit(now, live, out) };
        unproven.push_back(live);
        if unproven.len() > self.config.held {
            self.begin_life(now, out); // no proof in time is no proof
        }
    }

    /// A live batch of this life, unless it says otherwise.
    fn admit(&mut self, now: Instant, live: Live<P>, out: &mut Vec<Action<P>>) {
        let Anchor { sequence, frame } = live.at;
        if sequence != u64::MAX {
            if self.is_of_another_life(live.at) {
                self.next_life();
            }
            self.newest = self.newest.max(Some(sequence));
            self.remember(sequence, frame);
        }
        let batch = self.stamped(live);
        self.sequencer.live(now, batch, &mut self.actions);
        self.drain(now, out);
    }

    pub(super) fn stamped(&self, live: Live<P>) -> Numbered<Stamped<P>> {
        let Live { at, batch: Numbered { sequence, clears, lossy, payload, .. } } = live;
        let incarnation = Incarnation::new(self.life);
        Numbered { incarnation, sequence, clears, lossy, payload: Stamped { at, payload } }
    }

    pub(super) fn remember(&mut self, sequence: u64, frame: FrameHash) {
        self.seen.insert(sequence, frame);
        if self.seen.len() > self.config.held.saturating_mul(2) {
            self.seen.pop_first(); // the later ones tell as well
        }
    }

    /// Whether a batch is so far behind, or so unlike the last one under its number, that the engine must have started
    /// again.
    fn is_of_another_life(&mut self, at: Anchor) -> bool {
        let is_first = std::mem::take(&mut self.first_of_connection);
        if self.last.is_some_and(|last| last.sequence == at.sequence && last.frame != at.frame) {
            return true;
        }
        let Some(newest) = self.newest else { return false };
        // A connection brings only what was sent after it was made.
        if is_first && at.sequence <= newest {
            return true;
        }
        let first_again = at.sequence <= self.config.first_sequence && newest > at.sequence;
        first_again || newest.saturating_sub(at.sequence) > self.config.late_window
    }

    /// The source showed the last batch that was applied: the life goes on.
    pub(super) fn proven(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        if self.unproven.is_some() {
            self.counters.same_life += 1;
            self.release(now, out);
        }
    }

    /// Drops the batches that waited for what they are.
    fn abandon_unproven(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        for live in self.unproven.take().into_iter().flatten() {
            self.sequencer.skip(live.at.sequence, SkipReason::Abandoned, &mut self.actions);
        }
        self.drain(now, out);
    }

    /// Lets the batches go on that waited for what they are.
    fn release(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        for live in self.unproven.take().into_iter().flatten() {
            self.admit(now, live, out);
        }
    }

    fn leave_life(&mut self) {
        self.life += 1;
        self.newest = None;
        self.asked = None;
        self.prove_at = None;
        self.seen.clear();
    }

    fn next_life(&mut self) {
        self.leave_life();
        self.counters.new_life += 1;
    }

    /// Forgets the rank, and asks for the new life from its first batch on. What waited for proof is of that life.
    pub(super) fn begin_life(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        self.next_life();
        self.sequencer.retire(&mut self.actions);
        self.sequencer.revive();
        for action in &mut self.actions {
            if let Action::Forget(reason) = action {
                *reason = ForgetReason::NewIncarnation; // nobody retired it
            }
        }
        self.sequencer.catch_up(now, &mut self.actions);
        self.drain(now, out);
        self.release(now, out);
    }

    /// Whether what is open is a question about the reach of the source.
    pub(super) fn is_healing(&self) -> bool {
        self.asked.is_some_and(|asked| matches!(asked.what, Purpose::Heal))
    }
}
