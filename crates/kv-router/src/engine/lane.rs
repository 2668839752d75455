//! What stands between the sequence machine of a rank and the index: decoding again what had to wait, and ingest.

use std::time::{Duration, Instant};

use kv_router_engines::{DecodeLimits, EventFaults, Ingest, IngestCounters, Skip, WireBatch};
use kv_router_transport::Action;
use kv_router_types::KvEvent;

use super::lag::Lag;
use super::{FrameFault, FrameReport};
use crate::fleet::Rank;
use crate::index::SharedIndex;
use crate::ingest::{EventCounters, Frame, Heard, Payload, Stream};

/// What became of the frames of one rank, since its stream was opened. All but `lag` and the block sizes only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineCounters {
    /// Frames that came, live or replayed.
    pub frames: u64,
    /// Frames of which nothing could be read.
    pub undecodable: u64,
    /// Frames that named another rank.
    pub other_rank: u64,
    /// Events that could not be read, by reason.
    pub faults: EventFaults,
    /// What was made of the others.
    pub ingest: IngestCounters,
    /// Tokens a block of the engine; `None` before it stored one that fits ours.
    pub block_size: Option<u32>,
    /// Tokens a block of a store that neither divides nor is divided by ours; `None` when there was none.
    pub unfit_block_size: Option<u32>,
    /// How much later the last live frame came than the fastest one of late did.
    pub lag: Duration,
}

/// The part of a stream that reads frames.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) ingest: Ingest,
    /// Told by whoever feeds it. Another one may have been opened since.
    pub(super) owner: u64,
    pub(super) is_open: bool,
    counters: EngineCounters,
    lag: Lag,
    /// Reused from frame to frame.
    events: Vec<KvEvent>,
}

impl Engine {
    pub(super) fn new(ingest: Ingest, owner: u64) -> Self {
        let (counters, lag) = (EngineCounters::default(), Lag::default());
        Self { ingest, owner, is_open: true, counters, lag, events: Vec::new() }
    }

    pub(crate) fn counters(&self) -> EngineCounters {
        EngineCounters {
            ingest: *self.ingest.counters(),
            block_size: self.ingest.engine_block_size(),
            unfit_block_size: self.ingest.unfit_block_size(),
            lag: self.lag.now(),
            ..self.counters
        }
    }

    /// A frame came: counts what is wrong with it.
    pub(super) fn received(&mut self, wire: &WireBatch, fault: Option<FrameFault>) {
        self.counters.frames += 1;
        match fault {
            None => self.counters.faults += *wire.faults(),
            Some(FrameFault::Undecodable(_)) => self.counters.undecodable += 1,
            Some(FrameFault::OtherRank { .. }) => self.counters.other_rank += 1,
        }
    }

    pub(super) fn measure_lag(&mut self, now: Instant, wire: &WireBatch) {
        if let Some(written) = wire.seconds() {
            self.lag.measure(now, written);
        }
    }

    /// Applies a decoded frame.
    fn apply(&mut self, rank: &Rank, wire: &WireBatch, index: &dyn SharedIndex, into: &mut EventCounters) {
        self.events.clear();
        self.ingest.apply(wire, &mut self.events);
        rank.samples.heard(&self.events);
        rank.samples.set_unit(self.ingest.blocks_in_one());
        for event in &self.events {
            into.record(index.apply(rank.id, event));
        }
    }

    /// Blocks that the engine says it has and that had to be passed over.
    fn missed(&self) -> u64 {
        let skips = &self.ingest.counters().skips;
        let is_loss = |skip: Skip| skip.is_refusal() || matches!(skip, Skip::UnknownParent | Skip::NamesFull);
        skips.iter().filter(|&(skip, _)| is_loss(skip)).map(|(_, count)| count).sum()
    }
}

/// The frame in hand: which one it is, and where it, or one that waited, is decoded.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    pub(super) wire: &'a mut WireBatch,
    pub(super) limits: &'a DecodeLimits,
    /// Which frame is in `wire` now.
    pub(super) ticket: u64,
    /// The number of the frame in hand, if there is one.
    pub(super) sequence: Option<u64>,
}

impl Decoder<'_> {
    /// `None` when nothing in the frame can be used.
    fn decode(&mut self, frame: &Frame) -> Option<&WireBatch> {
        let bytes = frame.bytes.as_deref()?;
        if self.ticket != frame.ticket {
            self.ticket = frame.ticket;
            // It could be read when it came.
            self.wire.decode(bytes, self.limits).ok()?;
        }
        Some(self.wire)
    }
}

impl Stream {
    /// Does what the sequence machine says. Tells whether the rank was heard of.
    pub(super) fn run(
        &mut self,
        rank: &Rank,
        decoder: &mut Decoder<'_>,
        index: &dyn SharedIndex,
    ) -> (FrameReport, Heard) {
        let mut events = EventCounters::default();
        let (mut skipped, mut forgot) = (None, None);
        let mut heard = Heard::Nothing;
        let mut actions = std::mem::take(&mut self.actions);
        let Some(engine) = &mut self.engine else {
            debug_assert!(false, "a stream of frames has what reads them");
            return (FrameReport::new(self.report(events, None, None)), heard);
        };
        let (in_hand, mut is_suspect, mut is_applied) = (decoder.ticket, false, false);
        for action in actions.drain(..) {
            match action {
                Action::Apply(Payload::Frame(frame)) => {
                    heard = Heard::News;
                    is_applied |= frame.ticket == in_hand;
                    if let Some(wire) = decoder.decode(&frame) {
                        let before = (engine.missed(), events.refused());
                        engine.apply(rank, wire, index, &mut events);
                        // A clear takes away what was wrong before it.
                        is_suspect &= !wire.clears();
                        is_suspect |= (engine.missed(), events.refused()) != before;
                    }
                }
                Action::Apply(Payload::Given) => debug_assert!(false, "batches are refused here"),
                Action::Forget(reason) => {
                    is_suspect = false;
                    engine.ingest.forget();
                    events.record(index.apply(rank.id, &KvEvent::Cleared));
                    forgot = forgot.or(Some(reason));
                }
                // Others may be given up to make way for it.
                Action::Skip { sequence, .. } if decoder.sequence.is_some_and(|own| own != sequence) => {}
                Action::Skip { reason, .. } => skipped = Some(reason),
                // An earlier one is no longer open.
                Action::RequestReplay(request) => self.ask = Some(request),
                Action::RequestSnapshot(_) => debug_assert!(false, "there is no peer"),
            }
        }
        if is_suspect {
            self.order.mark_suspect();
        }
        self.actions = actions;
        self.counters.add(&events);
        let skipped = skipped.filter(|_| !is_applied);
        let mut report = FrameReport::new(self.report(events, skipped, forgot));
        report.ask = self.ask.take();
        (report, heard)
    }
}
