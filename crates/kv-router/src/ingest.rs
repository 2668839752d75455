//! From batches to the index: what is applied, skipped or forgotten, and what is counted.

use std::error::Error;
use std::fmt;
use std::time::Instant;

use kv_router_index::{Applied, ApplyError};
use kv_router_schedule::StreamFreshness;
use kv_router_transport::{
    Action, EventBatch, FeedCounters, ForgetReason, FrameHash, Incarnation, Numbered, ReplayRequest,
    SequencerConfig, SequencerCounters, SkipReason, Standing, StreamSequencer, Watermark,
};
use kv_router_types::{KvEvent, WorkerRank};
use parking_lot::MutexGuard;

use crate::admit::ring;
use crate::core::Core;
use crate::doctor::Seen;
use crate::engine::{Engine, EngineCounters};
use crate::fleet::Rank;
use crate::index::SharedIndex;
use crate::order::{Actions, Order};

/// What became of the events of one rank, since it joined or in one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounters {
    /// What the events that were applied did.
    pub applied: Applied,
    /// Stores refused because the rank does not hold the parent: it missed an event, or joined late.
    pub unknown_parent: u64,
    /// Stores refused because a name stands in them twice.
    pub invalid_sequence: u64,
    /// Stores refused because the rank is at its limit.
    pub rank_full: u64,
    /// Stores refused because the index is at its limit: raise it, or find out whose removals are lost.
    pub index_full: u64,
    /// Stores refused for a reason that this version does not tell apart.
    pub refused_otherwise: u64,
}

impl EventCounters {
    pub(crate) fn record(&mut self, outcome: Result<Applied, ApplyError>) {
        match outcome {
            Ok(applied) => self.applied += applied,
            Err(ApplyError::UnknownParent { .. }) => self.unknown_parent += 1,
            Err(ApplyError::InvalidBlockSequence { .. }) => self.invalid_sequence += 1,
            Err(ApplyError::RankFull { .. }) => self.rank_full += 1,
            Err(ApplyError::IndexFull { .. }) => self.index_full += 1,
            Err(_) => self.refused_otherwise += 1,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.applied += other.applied;
        self.unknown_parent += other.unknown_parent;
        self.invalid_sequence += other.invalid_sequence;
        self.rank_full += other.rank_full;
        self.index_full += other.index_full;
        self.refused_otherwise += other.refused_otherwise;
    }

    /// Events that were refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.unknown_parent
            + self.invalid_sequence
            + self.rank_full
            + self.index_full
            + self.refused_otherwise
    }
}

/// What became of one batch. For the log: the router keeps the counters, see [`Router::streams`](crate::Router::streams).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchReport {
    /// What its events did.
    pub events: EventCounters,
    /// Why the batch was not applied at all; `None` when it was.
    pub skipped: Option<SkipReason>,
    /// Why everything known of the rank was forgotten first; `None` when it was not.
    pub forgot: Option<ForgetReason>,
    /// How far the rank can be trusted from here on.
    pub freshness: StreamFreshness,
}

/// Why a batch was refused. Nothing of it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyBatchError {
    /// The rank has not joined, or has left.
    UnknownRank {
        /// Where the batch came from.
        from: WorkerRank,
    },
    /// The worker joined as one that has no events: its cache is guessed, and a guess is never mixed with events.
    EventsOff {
        /// Where the batch came from.
        from: WorkerRank,
    },
    /// The rank has an [engine stream](crate::Router::engine_stream), and two sources of events contradict each other.
    HasEngineStream {
        /// Where the batch came from.
        from: WorkerRank,
    },
}

impl fmt::Display for ApplyBatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRank { from } => {
                write!(
                    f,
                    "events from {from}, which has not joined: join the worker first, with enough ranks"
                )
            }
            Self::EventsOff { from } => {
                write!(f, "events from {from}, which joined without events: let it join again with them")
            }
            Self::HasEngineStream { from } => {
                write!(f, "a batch from {from}, which has an engine stream: feed it by one of the two alone")
            }
        }
    }
}

impl Error for ApplyBatchError {}

/// The event stream of one rank.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) order: Order,
    /// Reused from batch to batch.
    pub(crate) actions: Actions,
    pub(crate) counters: EventCounters,
    /// What turns frames into events, once the rank has an engine stream.
    pub(crate) engine: Option<Engine>,
    /// What was asked of the replay source and not handed out yet.
    pub(crate) ask: Option<ReplayRequest>,
    /// What the last diagnosis saw.
    pub(crate) diagnosed: Seen,
    /// Whether somebody who orders the batches before they come here waits for some.
    pub(crate) is_awaiting: bool,
    /// Whether the rank's state came from a snapshot: it takes one only.
    is_restored: bool,
    /// Batches of an older life than this never apply.
    oldest: Incarnation,
    /// Set when the worker leaves. Whoever still has the rank in hand must not bring its blocks back.
    closed: bool,
}

/// What a sequencer puts in order.
#[derive(Debug)]
pub(crate) enum Payload {
    /// The batch in hand: without a replay source nothing is ever held.
    Given,
    /// A frame of an engine.
    Frame(Frame),
}

/// A frame that may have to wait.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Told apart from the frame in hand, which is decoded already.
    pub(crate) ticket: u64,
    /// `None` when nothing in it can be used.
    pub(crate) bytes: Option<Box<[u8]>>,
}

impl Stream {
    pub(crate) fn new(oldest: Incarnation) -> Self {
        let sequencer = StreamSequencer::new(SequencerConfig::default());
        let sequencer = Box::new(sequencer.expect("the default configuration is valid"));
        Self::with(Order::Numbered(sequencer), oldest)
    }

    /// Starts anew, for an engine's stream: what was known of the rank has to be forgotten.
    pub(crate) fn open(&mut self, order: Order, engine: Engine) {
        let (counters, diagnosed) = (self.counters, self.diagnosed);
        let fresh = Self::with(order, self.oldest);
        *self = Self { engine: Some(engine), counters, diagnosed, closed: self.closed, ..fresh };
    }

    fn with(order: Order, oldest: Incarnation) -> Self {
        Self {
            order,
            actions: Vec::new(),
            counters: EventCounters::default(),
            engine: None,
            ask: None,
            diagnosed: Seen::default(),
            is_awaiting: false,
            is_restored: false,
            oldest,
            closed: false,
        }
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it is of a life before the one that the worker joined with.
    pub(crate) fn is_stale(&self, incarnation: Incarnation) -> bool {
        incarnation < self.oldest
    }

    pub(crate) fn status(&self, worker: WorkerRank) -> RankStatus {
        RankStatus {
            worker,
            freshness: self.freshness(),
            suspect: self.order.is_suspect(),
            stream: self.order.counters(),
            lives: self.order.feed_counters(),
            events: self.counters,
            engine: self.engine.as_ref().map(Engine::counters),
        }
    }

    pub(crate) fn freshness(&self) -> StreamFreshness {
        if self.is_awaiting {
            return StreamFreshness::Recovering;
        }
        freshness(self.order.standing())
    }

    /// Applies one batch of `rank` to the index. `None` when the rank has left.
    pub(crate) fn apply(
        &mut self,
        rank: &Rank,
        batch: &EventBatch,
        now: Instant,
        index: &dyn SharedIndex,
    ) -> Option<BatchReport> {
        if self.closed {
            return None;
        }
        if self.is_stale(batch.incarnation) {
            return Some(self.report(EventCounters::default(), Some(SkipReason::Stale), None));
        }
        let numbered = Numbered {
            incarnation: batch.incarnation,
            sequence: batch.sequence,
            clears: batch.events.contains(&KvEvent::Cleared),
            lossy: false,
            payload: Payload::Given,
        };
        self.actions.clear();
        // Batches carry their life.
        self.order.live(now, numbered, FrameHash::new(0), &mut self.actions);

        let mut events = EventCounters::default();
        let (mut skipped, mut forgot) = (None, None);
        for action in &self.actions {
            match action {
                Action::Apply(_) => {
                    rank.samples.heard(&batch.events);
                    for event in &batch.events {
                        events.record(index.apply(batch.from, event));
                    }
                }
                Action::Forget(reason) => {
                    events.record(index.apply(batch.from, &KvEvent::Cleared));
                    // The first reason is the cause; others follow from it.
                    forgot = forgot.or(Some(*reason));
                }
                Action::Skip { reason, .. } => skipped = Some(*reason),
                Action::RequestReplay(_) | Action::RequestSnapshot(_) => {
                    debug_assert!(false, "no source is configured");
                }
            }
        }
        if events.refused() > 0 {
            // What the engine holds from here on is more than what is known of it.
            self.order.mark_suspect();
        }
        self.counters.add(&events);
        Some(self.report(events, skipped, forgot))
    }

    pub(crate) fn report(
        &self,
        events: EventCounters,
        skipped: Option<SkipReason>,
        forgot: Option<ForgetReason>,
    ) -> BatchReport {
        BatchReport { events, skipped, forgot, freshness: self.freshness() }
    }

    /// Whether a snapshot may still say what the rank holds: nobody else has.
    pub(crate) fn is_untouched(&self) -> bool {
        let counters = self.order.counters();
        !self.closed && !self.is_restored && counters.applied == 0 && counters.forgets == 0
    }

    /// The rank holds what was restored, up to this batch, which the order takes. Whether it may keep it.
    #[must_use]
    pub(crate) fn restored(&mut self, now: Instant, watermark: Watermark) -> bool {
        self.is_restored = true;
        self.actions.clear();
        self.order.restored(now, watermark, &mut self.actions);
        let mut keeps = true;
        for action in self.actions.drain(..) {
            match action {
                Action::RequestReplay(request) => self.ask = Some(request),
                Action::Forget(_) => keeps = false,
                Action::Apply(_) | Action::Skip { .. } | Action::RequestSnapshot(_) => {}
            }
        }
        keeps
    }
}

/// Whether a rank was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It said something new.
    News,
    /// What was known before shows no life.
    Nothing,
}

/// What follows from events of `rank`, whose stream is `stream`: whether it is guessed any longer, and who waited for
/// its cache to be known. Says how far it can be trusted.
pub(crate) fn settle(
    core: &Core,
    rank: &Rank,
    stream: MutexGuard<'_, Stream>,
    heard: Heard,
) -> StreamFreshness {
    let was_predicted = rank.is_predicted();
    let mut freshness = stream.freshness();
    match heard {
        Heard::News => rank.silence.end(),
        Heard::Nothing if was_predicted => freshness = StreamFreshness::Predicted,
        Heard::Nothing => {}
    }
    let is_judged_anew = rank.set_freshness(freshness);
    drop(stream);
    if was_predicted && is_judged_anew {
        core.predictor.heard_again(rank.id);
    }
    if is_judged_anew {
        ring(core); // somebody may have waited for its cache to be known
    }
    freshness
}

fn freshness(standing: Standing) -> StreamFreshness {
    match standing {
        Standing::Fresh => StreamFreshness::Fresh,
        Standing::Recovering => StreamFreshness::Recovering,
        Standing::Cold => StreamFreshness::Cold,
    }
}

/// How one rank's event stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankStatus {
    /// The rank.
    pub worker: WorkerRank,
    /// Whether its stream has what it needs to be complete.
    pub freshness: StreamFreshness,
    /// Whether the index refused some of its events since it was last forgotten: it holds more than is known of it.
    pub suspect: bool,
    /// Batches applied, skipped and lost.
    pub stream: SequencerCounters,
    /// Lives proven, begun and healed; `None` where whoever sends batches numbers lives.
    pub lives: Option<FeedCounters>,
    /// Events applied and refused.
    pub events: EventCounters,
    /// What its frames were; `None` without an [engine stream](crate::Router::engine_stream).
    pub engine: Option<EngineCounters>,
}
