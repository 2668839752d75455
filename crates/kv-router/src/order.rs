//! What puts the batches of a rank in order: by lives that somebody numbers, or by what proves a life.

use std::time::Instant;

use kv_router_transport::{
    Action, FeedCounters, FrameHash, Numbered, RankFeed, RecoveryId, ReplayFault, SequencerCounters,
    Standing, StreamSequencer, Watermark,
};

use crate::ingest::Payload;

/// One of the two machines that know the gap rule.
#[derive(Debug)]
pub(crate) enum Order {
    /// Batches carry the life of their engine.
    Numbered(Box<StreamSequencer<Payload>>),
    /// Nobody numbers lives, so the engine has to prove them.
    Proven(Box<RankFeed<Payload>>),
}

pub(crate) type Actions = Vec<Action<Payload>>;

impl Order {
    pub(crate) fn live(
        &mut self,
        now: Instant,
        batch: Numbered<Payload>,
        frame: FrameHash,
        out: &mut Actions,
    ) {
        match self {
            Self::Numbered(sequencer) => sequencer.live(now, batch, out),
            Self::Proven(feed) => feed.live(now, batch, frame, out),
        }
    }

    pub(crate) fn replayed(
        &mut self,
        now: Instant,
        id: RecoveryId,
        batch: Numbered<Payload>,
        frame: FrameHash,
        out: &mut Actions,
    ) {
        match self {
            Self::Numbered(sequencer) => sequencer.replayed(now, id, batch, out),
            Self::Proven(feed) => feed.replayed(now, id, batch, frame, out),
        }
    }

    pub(crate) fn replay_ended(&mut self, now: Instant, id: RecoveryId, out: &mut Actions) {
        match self {
            Self::Numbered(sequencer) => sequencer.replay_ended(now, id, out),
            Self::Proven(feed) => feed.replay_ended(now, id, out),
        }
    }

    pub(crate) fn replay_failed(
        &mut self,
        now: Instant,
        id: RecoveryId,
        fault: ReplayFault,
        out: &mut Actions,
    ) {
        match self {
            Self::Numbered(sequencer) => sequencer.replay_failed(now, id, out),
            Self::Proven(feed) => feed.replay_failed(now, id, fault, out),
        }
    }

    pub(crate) fn tick(&mut self, now: Instant, out: &mut Actions) {
        match self {
            Self::Numbered(sequencer) => sequencer.tick(now, out),
            Self::Proven(feed) => feed.tick(now, out),
        }
    }

    /// A connection was made, or made anew.
    pub(crate) fn connected(&mut self, now: Instant, out: &mut Actions) {
        match self {
            // Whose life it is stands in what comes.
            Self::Numbered(sequencer) => sequencer.catch_up(now, out),
            Self::Proven(feed) => feed.connected(now, out),
        }
    }

    pub(crate) fn catch_up(&mut self, now: Instant, out: &mut Actions) {
        match self {
            Self::Numbered(sequencer) => sequencer.catch_up(now, out),
            Self::Proven(feed) => feed.catch_up(now, out),
        }
    }

    pub(crate) fn resync(&mut self, now: Instant, out: &mut Actions) {
        let _ = match self {
            Self::Numbered(sequencer) => sequencer.resync(now, out),
            Self::Proven(feed) => feed.resync(now, out),
        };
    }

    /// The engine started again.
    pub(crate) fn forget(&mut self, now: Instant, out: &mut Actions) {
        match self {
            Self::Numbered(sequencer) => {
                sequencer.retire(out);
                sequencer.revive();
                sequencer.catch_up(now, out);
            }
            Self::Proven(feed) => feed.forget(now, out),
        }
    }

    /// Whether a state with this watermark can be told from one of another life.
    pub(crate) fn takes(&self, watermark: Watermark) -> bool {
        matches!(self, Self::Proven(_)) == watermark.frame.is_some()
    }

    /// The rank holds what was restored, up to this batch, which it [takes](Self::takes).
    pub(crate) fn restored(&mut self, now: Instant, watermark: Watermark, out: &mut Actions) {
        match (self, watermark.frame) {
            (Self::Numbered(sequencer), _) => sequencer.restored(now, watermark, out),
            (Self::Proven(feed), Some(frame)) => feed.restored(now, watermark.sequence, frame, out),
            (Self::Proven(_), None) => debug_assert!(false, "what is not taken is not restored"),
        }
    }

    pub(crate) fn mark_suspect(&mut self) {
        match self {
            Self::Numbered(sequencer) => sequencer.mark_suspect(),
            Self::Proven(feed) => feed.mark_suspect(),
        }
    }

    pub(crate) fn is_suspect(&self) -> bool {
        match self {
            Self::Numbered(sequencer) => sequencer.is_suspect(),
            Self::Proven(feed) => feed.is_suspect(),
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self {
            Self::Numbered(sequencer) => sequencer.standing(),
            Self::Proven(feed) => feed.standing(),
        }
    }

    pub(crate) fn watermark(&self) -> Option<Watermark> {
        match self {
            Self::Numbered(sequencer) => sequencer.watermark(),
            Self::Proven(feed) => feed.watermark(),
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Numbered(sequencer) => sequencer.next_deadline(),
            Self::Proven(feed) => feed.next_deadline(),
        }
    }

    pub(crate) fn wants_replay(&self, id: RecoveryId) -> bool {
        match self {
            Self::Numbered(sequencer) => sequencer.wants_replay(id),
            Self::Proven(feed) => feed.wants_replay(id),
        }
    }

    pub(crate) fn counters(&self) -> SequencerCounters {
        match self {
            Self::Numbered(sequencer) => sequencer.counters(),
            Self::Proven(feed) => feed.health().sequencer,
        }
    }

    pub(crate) fn feed_counters(&self) -> Option<FeedCounters> {
        match self {
            Self::Numbered(_) => None,
            Self::Proven(feed) => Some(feed.health().feed),
        }
    }
}
