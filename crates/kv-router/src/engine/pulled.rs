//! Engines that are asked for their events instead of publishing them: TensorRT-LLM's HTTP server.

use std::num::NonZeroU32;
use std::time::Instant;

use kv_router_engines::{BatchError, DecodeLimits, TrtllmDecoder};
use kv_router_transport::ForgetReason;
use kv_router_types::{DpRank, WorkerId, WorkerRank};

use super::{EngineFrame, EngineStream, EngineStreamConfig, EngineStreamError, OpenStreamError};
use crate::Router;
use crate::ingest::EventCounters;

/// The events of all ranks of an engine that a gateway polls, from the bodies of its answers to the index.
///
/// An event's `event_id` is its number. What the server has dropped before it was asked is a gap that nobody can fill:
/// the rank is forgotten and goes on cold, and both are counted in its [`RankStatus`](crate::RankStatus). An engine that
/// started again counts from 0 again. No I/O: the gateway polls, often enough that the server need not drop anything.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Instant;
///
/// use kv_router::{BlockSize, EngineKind, EngineStreamConfig, RouteRequest, Router, RouterConfig, WorkerId, WorkerSpec};
///
/// let block_size = BlockSize::new(2)?;
/// let router = Router::builder(RouterConfig::new(block_size)).build()?;
/// let worker = WorkerId::new(1);
/// router.join(worker, WorkerSpec::new(block_size))?;
/// let config = EngineStreamConfig::new(worker.into(), EngineKind::TensorRtLlm);
/// let mut stream = router.pulled_stream(config, NonZeroU32::MIN)?;
///
/// // The body of an answer of `/kv_cache_events`.
/// let body = br#"[{"event_id": 0, "data": {"type": "stored", "parent_hash": null, "blocks": [
///     {"block_hash": 7, "tokens": [{"token_id": 1}, {"token_id": 2}], "cache_level": 0}]}, "window_size": 4096}]"#;
/// let report = stream.pulled(body, Instant::now())?;
/// assert_eq!(report.events.applied.stored, 1);
/// assert_eq!(router.route(&RouteRequest::from_tokens(&[1, 2]))?.overlap_blocks(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PulledStream {
    decoder: TrtllmDecoder,
    limits: DecodeLimits,
    worker: WorkerId,
    /// By rank.
    streams: Vec<EngineStream>,
}

/// What became of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PulledReport {
    /// What the events did that were applied.
    pub events: EventCounters,
    /// Events that had a number and a rank of ours.
    pub taken: u64,
    /// Events without a number. The one after them shows a gap.
    pub unnumbered: u64,
    /// Events of ranks that the stream was not opened for.
    pub other_rank: u64,
    /// Why everything known of a rank was forgotten; the first reason of the first such rank.
    pub forgot: Option<ForgetReason>,
    /// Why the answer could not be read, or not to its end: what is lost of it shows as a gap before the next event.
    pub fault: Option<BatchError>,
}

impl Router {
    /// Opens the streams of ranks 0 to `ranks` - 1 of an engine whose events are pulled, each as `config` says, whatever
    /// rank that names. Nobody is asked for replays.
    ///
    /// # Errors
    ///
    /// As [`engine_stream`](Self::engine_stream). Ranks before the one that fails were forgotten, and are as they are
    /// after their stream was dropped.
    pub fn pulled_stream(
        &self,
        config: EngineStreamConfig,
        ranks: NonZeroU32,
    ) -> Result<PulledStream, OpenStreamError> {
        let config = config.without_replay();
        let (limits, worker) = (config.limits, config.worker.worker);
        let open = |rank| {
            let worker = WorkerRank::new(worker, DpRank::new(rank));
            self.engine_stream(EngineStreamConfig { worker, ..config.clone() })
        };
        let streams = (0..ranks.get()).map(open).collect::<Result<_, _>>()?;
        Ok(PulledStream { decoder: TrtllmDecoder::new(), limits, worker, streams })
    }
}

impl PulledStream {
    /// Whose streams they are.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// An answer came: a list of events, or one event.
    ///
    /// # Errors
    ///
    /// [`EngineStreamError`] when the worker has left.
    pub fn pulled(&mut self, json: &[u8], now: Instant) -> Result<PulledReport, EngineStreamError> {
        let Self { decoder, limits, streams, .. } = self;
        let mut report = PulledReport::default();
        let mut left = None;
        let read = decoder.frames(json, limits, |frame| {
            let rank = frame.rank.map_or(0, DpRank::get) as usize;
            let Some(stream) = streams.get_mut(rank) else {
                report.other_rank += 1;
                return;
            };
            match stream.frame(EngineFrame::new(frame.sequence, frame.payload), now) {
                Ok(done) => {
                    report.taken += 1;
                    report.events.add(&done.batch.events);
                    report.forgot = report.forgot.or(done.batch.forgot);
                }
                Err(error) => left = Some(error),
            }
        });
        match read {
            Ok(unnumbered) => report.unnumbered = unnumbered,
            Err(fault) => report.fault = Some(fault),
        }
        left.map_or(Ok(report), Err)
    }
}
