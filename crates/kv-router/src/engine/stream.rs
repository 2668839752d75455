//! The handle by which whoever receives an engine's frames passes them on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use kv_router_engines::{BatchError, DecodeLimits, Ingest, WireBatch};
use kv_router_transport::{
    FrameHash, Incarnation, Numbered, RecoveryId, ReplayFault, ReplayRequest, SkipReason,
};
use kv_router_types::{DpRank, KvEvent, WorkerRank};

use super::lane::Decoder;
use super::{Engine, EngineLives, EngineStreamConfig, EngineStreamError, OpenStreamError, RankNaming};
use crate::core::Core;
use crate::fleet::Rank;
use crate::ingest::{BatchReport, Frame, Heard, Payload, settle};
use crate::order::{Actions, Order};
use crate::{EventSource, Router};

/// One message of an engine's publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineFrame<'a> {
    /// Which life of the engine it is of. Looked at only in a stream
    /// [with incarnations](EngineStreamConfig::with_incarnations).
    pub incarnation: Incarnation,
    /// Its number.
    pub sequence: u64,
    /// What the engine wrote.
    pub payload: &'a [u8],
}

impl<'a> EngineFrame<'a> {
    /// A frame of an engine whose lives nobody numbers.
    pub fn new(sequence: u64, payload: &'a [u8]) -> Self {
        Self { incarnation: Incarnation::default(), sequence, payload }
    }
}

/// Why nothing of a frame was used. Of a live one the replay source may have a better copy: it is taken for lost. Where
/// there is no source, and in a replay, its number counts all the same, and the rank is suspect once it is its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameFault {
    /// It could not be read.
    Undecodable(BatchError),
    /// It names another rank: two publishers on one port, or ranks that are workers of their own
    /// ([`RankNaming::Ignored`]).
    OtherRank {
        /// The rank that it names.
        named: DpRank,
    },
}

/// What became of a frame, or of a step of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameReport {
    /// What the events did that were applied: those of this frame, and of frames that had waited for it.
    pub batch: BatchReport,
    /// Why nothing of this frame is used.
    pub fault: Option<FrameFault>,
    /// To be asked of the engine's replay source now; hand the answer to [`EngineStream::replayed`].
    pub ask: Option<ReplayRequest>,
}

impl FrameReport {
    pub(super) fn new(batch: BatchReport) -> Self {
        Self { batch, fault: None, ask: None }
    }
}

/// The event stream of one rank, from its publisher's frames to the index.
///
/// Owned by whoever receives the frames: `Send`, and one for each rank. No I/O and no clock: it says what to ask for,
/// and takes the answer and the time. What it does with gaps, repeats and restarts is told with
/// [`RankFeed`](kv_router_transport::RankFeed); what it makes of a payload in [`kv_router_engines`].
///
/// ```
/// use std::time::Instant;
///
/// use kv_router::{BlockSize, EngineFrame, EngineKind, EngineStreamConfig, RouteRequest, Router, RouterConfig};
/// use kv_router::{WorkerId, WorkerSpec};
/// use kv_router_engines::{BatchEncoder, EventForm, StoreFields, WireHash, WireTokens};
///
/// let block_size = BlockSize::new(16)?;
/// let router = Router::builder(RouterConfig::new(block_size)).build()?;
/// router.join(WorkerId::new(1), WorkerSpec::new(block_size))?;
/// let mut stream = router.engine_stream(EngineStreamConfig::new(WorkerId::new(1).into(), EngineKind::Vllm))?;
///
/// // What vLLM publishes after it computed a prompt of 32 tokens.
/// let prompt: Vec<u32> = (0..32).collect();
/// let mut encoder = BatchEncoder::new(EventForm::Map);
/// encoder.stored(&StoreFields {
///     hashes: &[WireHash::Unsigned(0xa1), WireHash::Unsigned(0xa2)],
///     tokens: WireTokens::Flat(&prompt),
///     block_size: Some(16),
///     ..StoreFields::default()
/// });
/// let mut payload = Vec::new();
/// encoder.finish(1_717_171_717.25, None, &mut payload);
///
/// let now = Instant::now();
/// let report = stream.frame(EngineFrame::new(0, &payload), now)?;
/// assert_eq!(report.batch.events.applied.stored, 2);
/// assert_eq!(router.route(&RouteRequest::from_tokens(&prompt))?.overlap_blocks(), 2);
///
/// // Frames 1 to 3 were lost: frame 4 waits, and they are asked for, with their neighbours as proof of the engine's life.
/// let ask = stream.frame(EngineFrame::new(4, &payload), now)?.ask.ok_or("a gap")?;
/// assert_eq!((ask.from, ask.to), (0, Some(4)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EngineStream {
    core: Arc<Core>,
    rank: Arc<Rank>,
    owner: u64,
    naming: RankNaming,
    lives: EngineLives,
    /// Whether somebody can be asked for what is missing.
    has_source: bool,
    limits: DecodeLimits,
    wire: WireBatch,
    tickets: u64,
}

impl Router {
    /// Opens the stream of one rank's engine. What was known of the rank is forgotten, so open it before
    /// [`restore`](Self::restore). A rank with a stream takes no [`apply`](Self::apply).
    ///
    /// Dropping it leaves the rank as it is; another one starts anew.
    ///
    /// # Errors
    ///
    /// [`OpenStreamError`]; the rank is as it was.
    pub fn engine_stream(&self, config: EngineStreamConfig) -> Result<EngineStream, OpenStreamError> {
        let worker = config.worker;
        let fleet = self.core.fleet();
        let rank = fleet.get(worker).ok_or(OpenStreamError::UnknownRank { worker })?;
        if rank.events == EventSource::Off {
            return Err(OpenStreamError::EventsOff { worker });
        }
        let order = config.order()?;
        let owner = self.core.streams_opened.fetch_add(1, Ordering::Relaxed);
        let mut stream = rank.stream.lock();
        if stream.is_closed() {
            return Err(OpenStreamError::UnknownRank { worker });
        }
        if stream.engine.as_ref().is_some_and(|engine| engine.is_open) {
            return Err(OpenStreamError::InUse { worker });
        }
        let is_untouched = stream.is_untouched();
        stream.open(order, Engine::new(Ingest::new(config.ingest(self.scheme())), owner));
        if !is_untouched {
            // A clear is never refused.
            let _ = self.core.index.apply(worker, &KvEvent::Cleared);
        }
        settle(&self.core, rank, stream, Heard::Nothing);
        Ok(EngineStream {
            core: Arc::clone(&self.core),
            rank: Arc::clone(rank),
            owner,
            naming: config.naming,
            lives: config.lives,
            has_source: config.feed.replay.is_some(),
            limits: config.limits,
            wire: WireBatch::new(),
            tickets: 0,
        })
    }
}

impl EngineStream {
    /// Whose stream it is.
    pub fn worker(&self) -> WorkerRank {
        self.rank.id
    }

    /// A frame came live.
    ///
    /// # Errors
    ///
    /// [`EngineStreamError`] when the worker has left. A frame that cannot be read is none: its fault is in the report,
    /// counted, and the stream goes on.
    pub fn frame(&mut self, frame: EngineFrame<'_>, now: Instant) -> Result<FrameReport, EngineStreamError> {
        let fault = self.read(frame.payload);
        let came = Some(Came { live: Some(now), ..Came::of(frame, fault) });
        if fault.is_some() && self.has_source {
            return self.drive(came, |order, out| order.tick(now, out));
        }
        let (batch, hash) = self.numbered(frame, fault);
        self.drive(came, |order, out| order.live(now, batch, hash, out))
    }

    /// A frame came in answer to replay request `id`. Frames of one answer come in their order.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn replayed(
        &mut self,
        id: RecoveryId,
        frame: EngineFrame<'_>,
        now: Instant,
    ) -> Result<FrameReport, EngineStreamError> {
        let fault = self.read(frame.payload);
        let (batch, hash) = self.numbered(frame, fault);
        let came = Some(Came::of(frame, fault));
        self.drive(came, |order, out| order.replayed(now, id, batch, hash, out))
    }

    /// The answer to replay request `id` is complete.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn replay_ended(&mut self, id: RecoveryId, now: Instant) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.replay_ended(now, id, out))
    }

    /// Replay request `id` is not answered, or not to its end: what cannot be had is given up, and the rank goes on live,
    /// cold, and asks now and then whether the source reaches back again.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn replay_failed(
        &mut self,
        id: RecoveryId,
        fault: ReplayFault,
        now: Instant,
    ) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.replay_failed(now, id, fault, out))
    }

    /// Ends waits whose deadline has come, and looks after a cold rank. Call it when nothing comes, and at
    /// [`next_deadline`](Self::next_deadline) at the latest.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn tick(&mut self, now: Instant) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.tick(now, out))
    }

    /// A connection to the publisher was made, or made anew; what comes from here on comes over it. Asks for what was
    /// published unseen, and for the last frame that was applied: a process that started again does not have it. Until
    /// it has answered, frames wait, and the rank is [recovering](kv_router_schedule::StreamFreshness::Recovering).
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn connected(&mut self, now: Instant) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.connected(now, out))
    }

    /// Asks for what was published unseen. The loss of the very last frames shows only when another one comes, so a
    /// stream that fell silent is worth asking now and then. Does nothing while something is asked already.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn catch_up(&mut self, now: Instant) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.catch_up(now, out))
    }

    /// Forgets the rank and asks for all of it again, because what is known of it is [suspect](crate::RankStatus::suspect).
    /// Does nothing where nobody can be asked, or while something is asked already.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn resync(&mut self, now: Instant) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.resync(now, out))
    }

    /// Forgets the rank, because its engine is known to have started again, and asks for the new life from its first
    /// frame on.
    ///
    /// # Errors
    ///
    /// As [`frame`](Self::frame).
    pub fn forget(&mut self, now: Instant) -> Result<FrameReport, EngineStreamError> {
        self.drive(None, |order, out| order.forget(now, out))
    }

    /// When to [`tick`](Self::tick) next. `Some` while something is asked, and while a cold rank may ask again.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.rank.stream.lock().order.next_deadline()
    }

    /// Whether replay request `id` is still open. A source may stop sending once it is not.
    pub fn wants_replay(&self, id: RecoveryId) -> bool {
        self.rank.stream.lock().order.wants_replay(id)
    }

    /// Decodes a payload, without any lock.
    fn read(&mut self, payload: &[u8]) -> Option<FrameFault> {
        self.tickets += 1;
        if let Err(error) = self.wire.decode(payload, &self.limits) {
            return Some(FrameFault::Undecodable(error));
        }
        let named = self.wire.rank().filter(|&named| named != self.rank.id.rank)?;
        (self.naming == RankNaming::Own).then_some(FrameFault::OtherRank { named })
    }

    fn numbered(&self, frame: EngineFrame<'_>, fault: Option<FrameFault>) -> (Numbered<Payload>, FrameHash) {
        let bytes = fault.is_none().then(|| frame.payload.into());
        let hash = match self.lives {
            EngineLives::Proven => FrameHash::of(frame.payload),
            EngineLives::Numbered => FrameHash::new(0), // nobody looks at it
        };
        let batch = Numbered {
            incarnation: frame.incarnation,
            sequence: frame.sequence,
            clears: fault.is_none() && self.wire.clears(),
            lossy: fault.is_some() || self.wire.is_lossy(),
            payload: Payload::Frame(Frame { ticket: self.tickets, bytes }),
        };
        (batch, hash)
    }

    /// Puts something into what orders the frames, and does what it says. `came` is of the frame in hand.
    fn drive(
        &mut self,
        came: Option<Came>,
        input: impl FnOnce(&mut Order, &mut Actions),
    ) -> Result<FrameReport, EngineStreamError> {
        let Self { core, rank, owner, lives, limits, wire, tickets, .. } = self;
        let mut stream = rank.stream.lock();
        let left = EngineStreamError::Left { worker: rank.id };
        let is_closed = stream.is_closed();
        let Some(engine) = stream.engine.as_mut().filter(|engine| !is_closed && engine.owner == *owner)
        else {
            return Err(left);
        };
        let mut fault = None;
        if let Some(Came { incarnation, fault: found, live, .. }) = came {
            fault = found;
            engine.received(wire, found);
            if let (Some(now), None) = (live, found) {
                engine.measure_lag(now, wire);
            }
            if *lives == EngineLives::Numbered && stream.is_stale(incarnation) {
                let report = stream.report(Default::default(), Some(SkipReason::Stale), None);
                return Ok(FrameReport { fault, ..FrameReport::new(report) });
            }
        }
        stream.actions.clear();
        let lane = &mut *stream;
        input(&mut lane.order, &mut lane.actions);
        let sequence = came.map(|came| came.sequence);
        let mut decoder = Decoder { wire, limits, ticket: *tickets, sequence };
        let (mut report, heard) = stream.run(rank, &mut decoder, &*core.index);
        report.fault = fault;
        report.batch.freshness = settle(core, rank, stream, heard);
        Ok(report)
    }
}

/// What has to be known of a frame besides what is in it.
#[derive(Clone, Copy)]
struct Came {
    incarnation: Incarnation,
    sequence: u64,
    fault: Option<FrameFault>,
    /// When, if it came live.
    live: Option<Instant>,
}

impl Came {
    fn of(frame: EngineFrame<'_>, fault: Option<FrameFault>) -> Self {
        Self { incarnation: frame.incarnation, sequence: frame.sequence, fault, live: None }
    }
}

impl Drop for EngineStream {
    fn drop(&mut self) {
        let mut stream = self.rank.stream.lock();
        if let Some(engine) = stream.engine.as_mut().filter(|engine| engine.owner == self.owner) {
            engine.is_open = false;
        }
    }
}

impl fmt::Debug for EngineStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineStream").field("worker", &self.rank.id).finish_non_exhaustive()
    }
}
