//! From what a subscriber hands out to the feed of a rank.

use std::time::Instant;

use kv_router_transport::{Action, FrameHash, Incarnation, Numbered, RankFeed};

use crate::{Incoming, Payload};

/// A payload as far as a feed needs to know it.
#[derive(Debug)]
pub struct Decoded<P> {
    /// Whether the rank holds nothing older once this is applied: a clear is in it.
    pub clears: bool,
    /// Whether something of it was lost, for instance an event that could not be decoded.
    pub lossy: bool,
    /// What comes back to be applied, now or later.
    pub payload: P,
}

impl Incoming {
    /// Hands it to the feed of its publisher, for those who keep one themselves: a `Router` has one in each
    /// `EngineStream`. `decode` is called with the number and the payload of a batch. What the feed asks for goes to
    /// [`Subscriber::request_replay`](crate::Subscriber::request_replay).
    pub fn hand_to<P>(
        self,
        feed: &mut RankFeed<P>,
        now: Instant,
        decode: impl FnOnce(u64, Payload) -> Decoded<P>,
        out: &mut Vec<Action<P>>,
    ) {
        let numbered = |sequence, payload: Payload| {
            let frame = FrameHash::of(&payload);
            let Decoded { clears, lossy, payload } = decode(sequence, payload);
            (Numbered { incarnation: Incarnation::default(), sequence, clears, lossy, payload }, frame)
        };
        match self {
            Self::Connected { .. } => feed.connected(now, out),
            Self::Live { sequence, payload, .. } => {
                let (batch, frame) = numbered(sequence, payload);
                feed.live(now, batch, frame, out);
            }
            Self::Replayed { replay, sequence, payload, .. } => {
                let (batch, frame) = numbered(sequence, payload);
                feed.replayed(now, replay, batch, frame, out);
            }
            Self::ReplayEnded { replay, .. } => feed.replay_ended(now, replay, out),
            Self::ReplayFailed { replay, reason, .. } => feed.replay_failed(now, replay, reason.fault(), out),
        }
    }
}
