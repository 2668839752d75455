//! Which life of the engine a connection and its batches belong to.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Asked, FeedAction, Live, Purpose, RankFeed};
use crate::{Connection, Fingerprint};

impl<P> RankFeed<P> {
    pub(super) fn on_connection(
        &mut self,
        now: Instant,
        connection: Connection,
        out: &mut Vec<FeedAction<P>>,
    ) {
        let before = self.connection;
        if before.is_some_and(|before| connection <= before) {
            return;
        }
        self.connection = Some(connection);
        self.heal_attempt = 0;
        // Of an older connection: what of it belongs to this life is replayed.
        self.unproven = None;
        if before.is_none() {
            self.sequencer.catch_up(now, &mut self.actions);
            return self.drain(out);
        }
        if self.config.replay.is_none() {
            self.first_of_connection = true;
            return;
        }
        if self.last.is_none() {
            return self.begin_life(now, out); // nothing to compare, and nothing to lose
        }
        match self.asked {
            // What is open was asked of a process that may be gone.
            Some(Asked { what: Purpose::Recover { request, .. }, .. })
                if self.sequencer.wants_replay(request.id) =>
            {
                self.ask_for(request, out);
            }
            _ => {
                self.sequencer.catch_up(now, &mut self.actions);
                self.drain(out);
            }
        }
        if self.asked.is_some() {
            self.unproven = Some(VecDeque::new());
        } else {
            self.begin_life(now, out);
        }
    }

    pub(super) fn on_live(&mut self, now: Instant, live: Live<P>, out: &mut Vec<FeedAction<P>>) {
        let Some(unproven) = &mut self.unproven else { return self.admit(now, live, out) };
        unproven.push_back(live);
        if unproven.len() > self.config.held {
            self.begin_life(now, out); // no proof in time is no proof
        }
    }

    /// A live batch of the present connection.
    pub(super) fn admit(&mut self, now: Instant, live: Live<P>, out: &mut Vec<FeedAction<P>>) {
        let Live { sequence, fingerprint, decoded } = live;
        if sequence != u64::MAX {
            if self.steps_back(sequence) {
                self.next_life();
            }
            self.newest = self.newest.max(Some(sequence));
            self.remember(sequence, fingerprint);
        }
        let batch = self.numbered(sequence, fingerprint, decoded);
        self.sequencer.live(now, batch, &mut self.actions);
        self.drain(out);
    }

    pub(super) fn remember(&mut self, sequence: u64, fingerprint: Fingerprint) {
        self.seen.insert(sequence, fingerprint);
        if self.seen.len() > self.config.held.saturating_mul(2) {
            self.seen.pop_first(); // the later ones tell as well
        }
    }

    /// Whether a batch is so far behind that the engine must have started again.
    pub(super) fn steps_back(&mut self, sequence: u64) -> bool {
        let Some(newest) = self.newest else { return false };
        // A connection brings only what was sent after it was made.
        if std::mem::take(&mut self.first_of_connection) && sequence <= newest {
            return true;
        }
        let first_again = sequence <= self.config.first_sequence && newest > sequence;
        first_again || newest.saturating_sub(sequence) > self.config.late_window
    }

    /// The source showed the last batch that was applied: the life goes on.
    pub(super) fn proven(&mut self, now: Instant, out: &mut Vec<FeedAction<P>>) {
        if self.unproven.is_some() {
            self.same_life += 1;
            self.release(now, out);
        }
    }

    /// Lets the batches of a connection go on that waited for what it is.
    pub(super) fn release(&mut self, now: Instant, out: &mut Vec<FeedAction<P>>) {
        for live in self.unproven.take().into_iter().flatten() {
            self.admit(now, live, out);
        }
    }

    pub(super) fn next_life(&mut self) {
        self.life += 1;
        self.new_life += 1;
        self.newest = None;
        self.asked = None;
        self.seen.clear();
    }

    /// Forgets the rank, and asks for the new life from its first batch on. What waited for proof is of that life.
    pub(super) fn begin_life(&mut self, now: Instant, out: &mut Vec<FeedAction<P>>) {
        self.next_life();
        self.sequencer.retire(&mut self.actions);
        self.sequencer.revive();
        self.sequencer.catch_up(now, &mut self.actions);
        self.drain(out);
        self.release(now, out);
    }
}
