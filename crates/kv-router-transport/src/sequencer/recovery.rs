//! From a gap back to live: what is asked, what ends the wait, what is given up.

use std::time::Instant;

use super::{
    Action, ForgetReason, Held, Numbered, Phase, RecoveryId, Replay, ReplayRequest, SkipReason,
    SnapshotRequest, SnapshotWait, StreamSequencer,
};
use crate::Watermark;

impl<P> StreamSequencer<P> {
    /// A batch of the present life that no open replay sent.
    pub(super) fn arrived(&mut self, now: Instant, batch: Numbered<P>, out: &mut Vec<Action<P>>) {
        let Numbered { sequence, clears, lossy, payload, .. } = batch;
        self.known = self.known.max(Some(sequence));
        if sequence < self.next || self.held.contains_key(&sequence) {
            return self.skip(sequence, SkipReason::Duplicate, out);
        }
        if sequence == self.next {
            self.apply(sequence, Held { clears, lossy, payload }, out);
            return self.settle(out);
        }
        self.held.insert(sequence, Held { clears, lossy, payload });
        match self.phase {
            Phase::Replaying(_) | Phase::AwaitingSnapshot(_) => {
                if self.held.len() > self.config.held {
                    self.give_up(ForgetReason::HeldOverflow, out);
                }
            }
            _ => {
                self.counters.gaps += 1;
                self.recover(now, out);
            }
        }
    }

    /// A batch of the present life in answer to the open replay.
    pub(super) fn replay_arrived(
        &mut self,
        now: Instant,
        replay: Replay,
        batch: Numbered<P>,
        out: &mut Vec<Action<P>>,
    ) {
        let Numbered { sequence, clears, lossy, payload, .. } = batch;
        // Whatever becomes of it here, it exists: a recovery is not over before it is applied or given up.
        self.known = self.known.max(Some(sequence));
        if sequence > self.next {
            if replay.to.is_some_and(|to| self.next > to) {
                // All that was asked for came. The hole is in what the source sent on top: ask for that.
                self.request_replay(now, self.missing_to(), out);
                return self.skip(sequence, SkipReason::Unasked, out);
            }
            if self.request_snapshot(now, true, out) {
                return self.skip(sequence, SkipReason::Unasked, out);
            }
            // The source no longer has what is before. Start at the earliest batch that there is.
            while sequence > self.next {
                let start = self.held.first_key_value().map_or(sequence, |(&held, _)| held.min(sequence));
                self.restart_at(start, ForgetReason::ReplayIncomplete, out);
            }
        }
        if sequence < self.next {
            self.skip(sequence, SkipReason::Duplicate, out);
        } else {
            self.apply(sequence, Held { clears, lossy, payload }, out);
        }
        self.settle(out);
    }

    /// The replay came to its end, and the source is well.
    pub(super) fn answered(&mut self, now: Instant, replay: Replay, out: &mut Vec<Action<P>>) {
        if !self.misses_any() {
            return self.go_live();
        }
        // More went missing than this request asked for.
        let satisfied = replay.to.is_none_or(|to| self.next > to);
        if !satisfied {
            if self.request_snapshot(now, true, out) {
                return;
            }
            let start = self.held.first_key_value().map(|(&held, _)| held);
            let start = start.unwrap_or_else(|| self.after_known());
            self.restart_at(start, ForgetReason::ReplayIncomplete, out);
        }
        if self.misses_any() {
            self.request_replay(now, self.missing_to(), out);
        } else {
            self.go_live();
        }
    }

    /// The replay will not come to its end.
    pub(super) fn unanswered(
        &mut self,
        now: Instant,
        replay: Replay,
        reason: ForgetReason,
        out: &mut Vec<Action<P>>,
    ) {
        if !self.misses_any() {
            return self.go_live();
        }
        if replay.to.is_some_and(|to| self.next > to) {
            // It did its work; only the end is missing, on which no engine can be relied.
            self.request_replay(now, self.missing_to(), out);
        } else if !self.request_snapshot(now, false, out) {
            self.give_up(reason, out);
        }
    }

    /// No peer can help.
    pub(super) fn without_snapshot(
        &mut self,
        now: Instant,
        wait: SnapshotWait,
        reason: ForgetReason,
        out: &mut Vec<Action<P>>,
    ) {
        // The replay that led here had something, only not all. A part is better than nothing.
        if !(wait.replay_alive && self.request_replay(now, self.missing_to(), out)) {
            self.give_up(reason, out);
        }
    }

    /// The rank's state was replaced by one with a watermark.
    pub(super) fn join(&mut self, now: Instant, watermark: Watermark, out: &mut Vec<Action<P>>) {
        let retired = matches!(self.phase, Phase::Retired);
        let stale = self.life.map_or(retired, |life| {
            watermark.incarnation < life || (retired && watermark.incarnation == life)
        });
        if stale || watermark.sequence >= u64::MAX - 1 {
            return match self.phase {
                Phase::Replaying(_) | Phase::AwaitingSnapshot(_) => {
                    self.give_up(ForgetReason::StaleSnapshot, out);
                }
                _ => self.forget(ForgetReason::StaleSnapshot, out),
            };
        }
        if self.life != Some(watermark.incarnation) {
            self.abandon_below(u64::MAX, out);
            self.leave_life();
            self.counters.new_lives += u64::from(self.life.is_some());
            self.life = Some(watermark.incarnation);
        }
        self.contact = true;
        self.whole = true;
        self.blank = false;
        self.suspect = false;
        self.next = watermark.sequence + 1;
        self.known = self.known.max(Some(watermark.sequence));
        while let Some(entry) = self.held.first_entry()
            && *entry.key() < self.next
        {
            let (sequence, _) = entry.remove_entry();
            self.skip(sequence, SkipReason::Duplicate, out);
        }
        self.drain(out);
        if !self.misses_any() {
            return self.go_live();
        }
        if !self.request_replay(now, self.missing_to(), out) {
            self.give_up(ForgetReason::SnapshotFailed, out);
        }
    }

    /// Starts a recovery at the best source there is.
    pub(super) fn recover(&mut self, now: Instant, out: &mut Vec<Action<P>>) {
        self.snapshot_tried = false;
        if !self.request_replay(now, self.missing_to(), out) && !self.request_snapshot(now, false, out) {
            self.give_up(ForgetReason::Gap, out);
        }
    }

    /// Asks the replay source for `next` to `to`, if there is a source.
    pub(super) fn request_replay(&mut self, now: Instant, to: Option<u64>, out: &mut Vec<Action<P>>) -> bool {
        let Some(waits) = self.config.replay else { return false };
        let id = self.new_request();
        self.counters.replays += 1;
        self.phase = Phase::Replaying(Replay {
            id,
            to,
            newest_live: self.newest_live,
            idle_until: now + waits.idle,
            until: now + waits.total,
        });
        out.push(Action::RequestReplay(ReplayRequest { id, incarnation: self.life, from: self.next, to }));
        true
    }

    /// Asks a peer, if there is one and this recovery has not asked yet.
    pub(super) fn request_snapshot(
        &mut self,
        now: Instant,
        replay_alive: bool,
        out: &mut Vec<Action<P>>,
    ) -> bool {
        let Some(wait) = self.config.snapshot.filter(|_| !self.snapshot_tried) else { return false };
        let id = self.new_request();
        self.snapshot_tried = true;
        self.counters.snapshots += 1;
        self.phase = Phase::AwaitingSnapshot(SnapshotWait { id, until: now + wait, replay_alive });
        out.push(Action::RequestSnapshot(SnapshotRequest { id, incarnation: self.life, next: self.next }));
        true
    }

    /// No source can help: forgets the rank and goes on live with what is held after the last hole.
    fn give_up(&mut self, reason: ForgetReason, out: &mut Vec<Action<P>>) {
        let mut start = self.after_known();
        for &sequence in self.held.keys().rev() {
            if sequence + 1 != start {
                break;
            }
            start = sequence;
        }
        self.abandon_below(start, out);
        self.restart_at(start, reason, out);
        self.go_live();
    }

    /// Forgets the rank and begins a new run, whose past is unknown, at `start`.
    fn restart_at(&mut self, start: u64, reason: ForgetReason, out: &mut Vec<Action<P>>) {
        self.forget(reason, out);
        self.next = start;
        self.drain(out);
    }

    pub(super) fn forget(&mut self, reason: ForgetReason, out: &mut Vec<Action<P>>) {
        self.counters.forgets += 1;
        self.whole = false;
        self.blank = true;
        self.suspect = false;
        out.push(Action::Forget(reason));
    }

    /// Drops the held batches below `start`.
    pub(super) fn abandon_below(&mut self, start: u64, out: &mut Vec<Action<P>>) {
        while let Some(entry) = self.held.first_entry()
            && *entry.key() < start
        {
            let (sequence, _) = entry.remove_entry();
            self.skip(sequence, SkipReason::Abandoned, out);
        }
    }

    fn apply(&mut self, sequence: u64, batch: Held<P>, out: &mut Vec<Action<P>>) {
        debug_assert_eq!(sequence, self.next, "a run has no holes");
        self.counters.applied += 1;
        self.next = sequence + 1;
        self.known = self.known.max(Some(sequence));
        self.blank = false;
        if batch.clears {
            self.whole = true;
            self.suspect = false;
        }
        self.suspect |= batch.lossy;
        out.push(Action::Apply(batch.payload));
    }

    /// Applies what is held and in order now.
    fn drain(&mut self, out: &mut Vec<Action<P>>) {
        while let Some(batch) = self.held.remove(&self.next) {
            self.apply(self.next, batch, out);
        }
    }

    /// After a batch was applied: applies what it sets free, and ends a recovery that has nothing left to wait for.
    fn settle(&mut self, out: &mut Vec<Action<P>>) {
        self.drain(out);
        if self.misses_any() {
            return;
        }
        match self.phase {
            // Catching up ends where the live stream takes over, and nothing came live since.
            Phase::Replaying(replay) if replay.to.is_none() && self.newest_live <= replay.newest_live => {}
            Phase::Replaying(_) | Phase::AwaitingSnapshot(_) => self.go_live(),
            Phase::Initial | Phase::Live | Phase::Retired => {}
        }
    }

    fn go_live(&mut self) {
        debug_assert!(self.held.is_empty(), "nothing is held once live");
        self.phase = if self.contact { Phase::Live } else { Phase::Initial };
    }

    /// Whether a batch is known to exist that is neither applied nor given up.
    fn misses_any(&self) -> bool {
        self.known.is_some_and(|known| known >= self.next)
    }

    /// The last batch of the first hole.
    fn missing_to(&self) -> Option<u64> {
        let below_held = self.held.first_key_value().map(|(&sequence, _)| sequence.saturating_sub(1));
        below_held.or(self.known)
    }

    fn after_known(&self) -> u64 {
        self.known.map_or(self.next, |known| known + 1)
    }

    fn new_request(&mut self) -> RecoveryId {
        self.requests += 1;
        RecoveryId::new(self.requests)
    }
}
