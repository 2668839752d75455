//! What is asked of the replay source, and what its answers prove.

use std::time::Instant;

use super::{Anchor, Asked, Live, Purpose, RankFeed, Recovery};
use crate::{Action, RecoveryId, ReplayRequest, SkipReason};

/// Why a replay did not come to its end, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplayFault {
    /// Nobody answered, or not to the end.
    Unanswered,
    /// The source is in another life of the engine than the one that began to answer.
    OtherLife,
}

impl<P> RankFeed<P> {
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        id: RecoveryId,
        live: Live<P>,
        out: &mut Vec<Action<P>>,
    ) {
        let waits = self.config.replay.unwrap_or_default();
        let unasked = match &mut self.asked {
            Some(asked) if asked.id == id => {
                asked.idle_until = now + waits.idle;
                if let Purpose::Recover(open) = asked.what {
                    // Also by what goes no further, because it is here already.
                    let _ = self.sequencer.answers(now, open.request.id);
                }
                (live.at.sequence == u64::MAX).then_some(SkipReason::Reserved)
            }
            _ => Some(SkipReason::Unasked),
        };
        if let Some(reason) = unasked {
            self.sequencer.skip(live.at.sequence, reason, &mut self.actions);
            self.drain(now, out);
        } else if self.is_healing() {
            self.counters.proofs += 1;
            self.on_reach(now, live.at.sequence, out);
        } else {
            self.on_replayed(now, live, out);
        }
    }

    fn on_replayed(&mut self, now: Instant, live: Live<P>, out: &mut Vec<Action<P>>) {
        let Anchor { sequence, frame } = live.at;
        let Some(Asked { what: Purpose::Recover(open), .. }) = &mut self.asked else { return };
        let request = open.request.id;
        if let Some(anchor) = open.anchor.filter(|_| !open.is_anchored) {
            self.counters.proofs += 1;
            if sequence < anchor.sequence {
                return; // more than was asked for
            }
            if live.at != anchor {
                // Another batch in its place, or none that far back: nobody can say that it is the same life.
                return self.begin_life(now, out);
            }
            open.is_anchored = true;
            return self.proven(now, out); // we have it
        }
        if self.seen.get(&sequence).is_some_and(|&seen| seen != frame) {
            self.counters.proofs += 1;
            return self.begin_life(now, out);
        }
        open.is_partial |= open.behind.is_some() && sequence > open.next;
        open.next = sequence.saturating_add(1);
        if let Some(shown) = open.behind.take_if(|behind| behind.sequence == sequence) {
            self.counters.proofs += 1;
            if shown.frame != frame {
                self.begin_life(now, out);
            }
            return; // we have it
        }
        if self.last.is_none_or(|last| sequence > last.sequence.saturating_add(1)) {
            self.remember(sequence, frame); // it may be held, and a live one fill the hole
        }
        let batch = self.stamped(live);
        self.sequencer.replayed(now, request, batch, &mut self.actions);
        self.drain(now, out);
    }

    pub(super) fn on_ended(&mut self, now: Instant, id: RecoveryId, out: &mut Vec<Action<P>>) {
        let Some(asked) = self.asked.take_if(|asked| asked.id == id) else { return };
        let Purpose::Recover(open) = asked.what else { return };
        let Recovery { request, from, anchor, is_anchored, behind, next, is_partial } = open;
        let wanted = self.sequencer.wants_replay(request.id);
        // Whoever had it would have sent it.
        let no_anchor = anchor.is_some() && !is_anchored;
        // What else filled the hole is not proven to be of the source's life.
        let unproven_fill = !wanted && (behind.is_some() || is_partial);
        // It has batches of that life or of these numbers, but not those that we know to exist: what came live and waits
        // behind the hole is of another one. A source that has nothing at all says nothing.
        let lacks_some = behind.is_some() || request.to.is_some_and(|to| next <= to);
        let shorter = wanted && (is_anchored || next > from) && lacks_some;
        if no_anchor || unproven_fill || shorter {
            return self.begin_life(now, out);
        }
        self.sequencer.replay_ended(now, request.id, &mut self.actions);
        self.drain(now, out);
    }

    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        id: RecoveryId,
        fault: ReplayFault,
        out: &mut Vec<Action<P>>,
    ) {
        let Some(asked) = self.asked.take_if(|asked| asked.id == id) else { return };
        let Purpose::Recover(open) = asked.what else { return };
        if fault == ReplayFault::OtherLife || self.is_unproven_without(&open) {
            self.begin_life(now, out);
        } else {
            self.sequencer.replay_failed(now, open.request.id, &mut self.actions);
            self.drain(now, out);
        }
    }

    /// Ends what nobody answered in time.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        let overdue = self.asked.take_if(|asked| now >= asked.idle_until.min(asked.until));
        match overdue.map(|asked| asked.what) {
            Some(Purpose::Recover(open)) if self.is_unproven_without(&open) => {
                return self.begin_life(now, out);
            }
            Some(Purpose::Recover(open)) => {
                self.sequencer.tick(now, &mut self.actions); // knows the reason, if it is due there too
                self.sequencer.replay_failed(now, open.request.id, &mut self.actions);
            }
            Some(Purpose::Heal) | None => self.sequencer.tick(now, &mut self.actions),
        }
        self.drain(now, out);
    }

    /// Whether something is in doubt that this recovery, which is over, was to prove.
    fn is_unproven_without(&self, open: &Recovery) -> bool {
        // The hole is filled, but nobody knows whether with the right batches.
        let unproven_fill = open.behind.is_some() && !self.sequencer.wants_replay(open.request.id);
        unproven_fill || self.unproven.is_some()
    }

    pub(super) fn heal(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        self.counters.heal_tries += 1;
        let first = self.config.first_sequence;
        out.push(self.ask(now, first, Some(first), Purpose::Heal));
    }

    /// How far back the source reaches.
    fn on_reach(&mut self, now: Instant, sequence: u64, out: &mut Vec<Action<P>>) {
        self.asked = None;
        if sequence > self.config.first_sequence {
            return;
        }
        self.counters.healed += 1;
        if !self.sequencer.resync(now, &mut self.actions) {
            self.sequencer.catch_up(now, &mut self.actions); // nothing was heard yet
        }
        self.drain(now, out);
    }

    /// Asks for what the sequence machine wants, and for the batches before and behind it as proof of life.
    pub(super) fn ask_for(&mut self, now: Instant, request: ReplayRequest) -> Action<P> {
        let mut from = request.from;
        let mut anchor = self.last.filter(|last| last.sequence.checked_add(1) == Some(from));
        let mut behind = request
            .to
            .and_then(|to| to.checked_add(1))
            .and_then(|sequence| self.seen.get(&sequence).map(|&frame| Anchor { sequence, frame }));
        // What the request before has still to prove this one proves too.
        if let Some(Recovery { from: before, anchor: proof, behind: Some(owed), .. }) = self.recovery()
            && before <= from
        {
            (from, anchor) = (before, proof);
            behind = behind.filter(|behind| behind.sequence > owed.sequence).or(Some(owed));
        }
        let (next, is_anchored, is_partial) = (from, false, false);
        let recovery = Recovery { request, from, anchor, is_anchored, behind, next, is_partial };
        let start = anchor.map_or(from, |anchor| anchor.sequence);
        let to = request.to.map(|to| behind.map_or(to, |behind| to.max(behind.sequence)));
        self.ask(now, start, to, Purpose::Recover(recovery))
    }

    fn ask(&mut self, now: Instant, from: u64, to: Option<u64>, what: Purpose) -> Action<P> {
        let waits = self.config.replay.unwrap_or_default();
        self.requests += 1;
        self.prove_at = None;
        let id = RecoveryId::new(self.requests);
        self.asked = Some(Asked { id, idle_until: now + waits.idle, until: now + waits.total, what });
        Action::RequestReplay(ReplayRequest { id, incarnation: None, from, to })
    }
}
