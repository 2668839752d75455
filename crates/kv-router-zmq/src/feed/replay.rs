//! What is asked of the replay source, and what its answers prove.

use std::time::Instant;

use kv_router_transport::{RecoveryId, ReplayRequest};

use super::{Asked, FeedAction, Live, Purpose, RankFeed};
use crate::{Anchor, ReplayAsk, ReplayFailure, ReplayId};

impl<P> RankFeed<P> {
    pub(super) fn on_replayed(
        &mut self,
        now: Instant,
        id: RecoveryId,
        live: Live<P>,
        out: &mut Vec<FeedAction<P>>,
    ) {
        if self.seen.get(&live.sequence).is_some_and(|&seen| seen != live.fingerprint) {
            return self.begin_life(now, out);
        }
        let mut anchored = false;
        if let Some(Asked { what: Purpose::Recover { ask, next, behind, partial, .. }, .. }) = &mut self.asked
        {
            anchored = ask.anchor.is_some();
            *partial |= behind.is_some() && live.sequence > *next;
            *next = live.sequence.saturating_add(1);
        }
        if let Some(Asked { what: Purpose::Recover { behind, .. }, .. }) = &mut self.asked
            && let Some(shown) = behind.take_if(|behind| behind.sequence == live.sequence)
        {
            if shown.fingerprint != live.fingerprint {
                self.begin_life(now, out);
            }
            return; // we have it
        }
        if self.last.is_none_or(|last| live.sequence > last.sequence.saturating_add(1)) {
            self.remember(live.sequence, live.fingerprint); // it may be held, and a live one fill the hole
        }
        let batch = self.numbered(live.sequence, live.fingerprint, live.decoded);
        self.sequencer.replayed(now, id, batch, &mut self.actions);
        self.drain(out);
        if anchored {
            self.proven(now, out);
        }
    }

    pub(super) fn on_ended(&mut self, now: Instant, replay: ReplayId, out: &mut Vec<FeedAction<P>>) {
        let Some(asked) = self.asked.take_if(|asked| asked.id == replay) else { return };
        let Purpose::Recover { request, ask, behind, next, partial } = asked.what else { return };
        let wanted = self.sequencer.wants_replay(request.id);
        // What else filled the hole is not proven to be of the source's life.
        let unproven_fill = !wanted && (behind.is_some() || partial);
        // It has batches of these numbers, but not those that we know to exist.
        let shorter = wanted && next > ask.from && request.to.is_some_and(|to| next <= to);
        // Nothing was compared.
        let no_proof = self.unproven.is_some() && ask.anchor.is_none();
        if unproven_fill || shorter || no_proof {
            return self.begin_life(now, out);
        }
        self.sequencer.replay_ended(now, request.id, &mut self.actions);
        self.drain(out);
        self.proven(now, out);
    }

    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        replay: ReplayId,
        reason: ReplayFailure,
        out: &mut Vec<FeedAction<P>>,
    ) {
        let Some(asked) = self.asked.take_if(|asked| asked.id == replay) else { return };
        let Purpose::Recover { request, behind, .. } = asked.what else { return };
        let other_life = matches!(reason, ReplayFailure::OtherLife | ReplayFailure::AnchorGone);
        // The hole is filled, but nobody knows whether with the right batches.
        let unproven_fill = behind.is_some() && !self.sequencer.wants_replay(request.id);
        if other_life || unproven_fill || self.unproven.is_some() {
            self.begin_life(now, out);
        } else {
            self.sequencer.replay_failed(now, request.id, &mut self.actions);
            self.drain(out);
        }
    }

    pub(super) fn heal(&mut self, out: &mut Vec<FeedAction<P>>) {
        self.heal_tries += 1;
        let id = self.new_id();
        self.asked = Some(Asked { id, what: Purpose::Heal });
        let first = self.config.first_sequence;
        out.push(FeedAction::Ask(ReplayAsk { id, from: first, to: Some(first), anchor: None }));
    }

    /// How far back the source reaches.
    pub(super) fn on_reach(&mut self, now: Instant, sequence: u64, out: &mut Vec<FeedAction<P>>) {
        self.asked = None;
        if sequence > self.config.first_sequence {
            return;
        }
        self.healed += 1;
        if !self.sequencer.resync(now, &mut self.actions) {
            self.sequencer.catch_up(now, &mut self.actions); // nothing was heard yet
        }
        self.drain(out);
    }

    /// Asks for what the sequence machine wants, and for the batches before and behind it as proof of life.
    pub(super) fn ask_for(&mut self, request: ReplayRequest, out: &mut Vec<FeedAction<P>>) {
        let id = self.new_id();
        // Applied since, perhaps: then less is missing.
        let mut from =
            self.last.map_or(request.from, |last| request.from.max(last.sequence.saturating_add(1)));
        let mut anchor = self.last.filter(|last| last.sequence.checked_add(1) == Some(from));
        let mut behind = request.to.and_then(|to| to.checked_add(1)).and_then(|sequence| {
            self.seen.get(&sequence).map(|&fingerprint| Anchor { sequence, fingerprint })
        });
        // What the request before has still to prove this one proves too.
        if let Some(Asked { what: Purpose::Recover { ask, behind: Some(owed), .. }, .. }) = self.asked
            && ask.from <= from
        {
            (from, anchor) = (ask.from, ask.anchor);
            behind = behind.filter(|behind| behind.sequence > owed.sequence).or(Some(owed));
        }
        let to = request.to.map(|to| behind.map_or(to, |behind| to.max(behind.sequence)));
        let ask = ReplayAsk { id, from, to, anchor };
        self.asked =
            Some(Asked { id, what: Purpose::Recover { request, ask, behind, next: from, partial: false } });
        out.push(FeedAction::Ask(ask));
    }

    pub(super) fn new_id(&mut self) -> ReplayId {
        self.requests += 1;
        ReplayId::new(self.requests)
    }
}
