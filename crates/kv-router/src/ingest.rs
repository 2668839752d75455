//! From batches to the index: what is applied, skipped or forgotten, and what is counted.

use std::error::Error;
use std::fmt;
use std::time::Instant;

use kv_router_index::{Applied, ApplyError};
use kv_router_schedule::StreamFreshness;
use kv_router_transport::{
    Action, EventBatch, ForgetReason, Incarnation, Numbered, SequencerConfig, SequencerCounters, SkipReason,
    Standing, StreamSequencer,
};
use kv_router_types::{KvEvent, WorkerRank};

use crate::index::SharedIndex;

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
    fn record(&mut self, outcome: Result<Applied, ApplyError>) {
        match outcome {
            Ok(applied) => self.applied += applied,
            Err(ApplyError::UnknownParent { .. }) => self.unknown_parent += 1,
            Err(ApplyError::InvalidBlockSequence { .. }) => self.invalid_sequence += 1,
            Err(ApplyError::RankFull { .. }) => self.rank_full += 1,
            Err(ApplyError::IndexFull { .. }) => self.index_full += 1,
            Err(_) => self.refused_otherwise += 1,
        }
    }

    fn add(&mut self, other: &Self) {
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
        }
    }
}

impl Error for ApplyBatchError {}

/// The event stream of one rank.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Without a replay source nothing is ever held, so the batch in hand is the only payload there is.
    sequencer: StreamSequencer<()>,
    /// Reused from batch to batch.
    actions: Vec<Action<()>>,
    counters: EventCounters,
    /// Batches of an older life than this never apply.
    oldest: Incarnation,
    /// Set when the worker leaves. Whoever still has the rank in hand must not bring its blocks back.
    closed: bool,
}

impl Stream {
    pub(crate) fn new(oldest: Incarnation) -> Self {
        let config = SequencerConfig::default();
        let sequencer = StreamSequencer::new(config).expect("the default configuration is valid");
        Self { sequencer, actions: Vec::new(), counters: EventCounters::default(), oldest, closed: false }
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn status(&self, worker: WorkerRank) -> RankStatus {
        RankStatus {
            worker,
            freshness: freshness(self.sequencer.standing()),
            suspect: self.sequencer.is_suspect(),
            stream: self.sequencer.counters(),
            events: self.counters,
        }
    }

    /// Applies one batch of `from` to the index. `None` when the rank has left.
    pub(crate) fn apply(
        &mut self,
        batch: &EventBatch,
        now: Instant,
        index: &dyn SharedIndex,
    ) -> Option<BatchReport> {
        if self.closed {
            return None;
        }
        if batch.incarnation < self.oldest {
            return Some(self.report(EventCounters::default(), Some(SkipReason::Stale), None));
        }
        let numbered = Numbered {
            incarnation: batch.incarnation,
            sequence: batch.sequence,
            clears: batch.events.contains(&KvEvent::Cleared),
            lossy: false,
            payload: (),
        };
        self.actions.clear();
        self.sequencer.live(now, numbered, &mut self.actions);

        let mut events = EventCounters::default();
        let (mut skipped, mut forgot) = (None, None);
        for action in &self.actions {
            match action {
                Action::Apply(()) => {
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
            self.sequencer.mark_suspect();
        }
        self.counters.add(&events);
        Some(self.report(events, skipped, forgot))
    }

    fn report(
        &self,
        events: EventCounters,
        skipped: Option<SkipReason>,
        forgot: Option<ForgetReason>,
    ) -> BatchReport {
        BatchReport { events, skipped, forgot, freshness: freshness(self.sequencer.standing()) }
    }
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
    /// Events applied and refused.
    pub events: EventCounters,
}
