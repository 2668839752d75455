//! What a gateway does with streams: a subscriber, and a `Router` with a stream for each rank.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use kv_router::{
    BuildError, EngineFrame, EngineKind, EngineStream, EngineStreamConfig, EngineStreamError, FrameReport,
    JoinError, OpenStreamError, RankStatus, RestoreError, Router, RouterConfig, SnapshotError,
    StreamFreshness, WorkerSpec,
};
use kv_router_hash::HashScheme;
use kv_router_index::DumpEvents;
use kv_router_transport::Backoff;
use kv_router_types::{KvEvent, WorkerId, WorkerRank};
use kv_router_zmq::{
    Incoming, PublisherId, RecvError, ReplayPolicy, RequestError, Source, StartError, Subscriber,
    SubscriberConfig,
};

use super::{Dialect, Holdings, holdings};

/// One router's view of a fleet.
pub struct WireRouter {
    subscriber: Subscriber,
    policy: ReplayPolicy,
    router: Router,
    ranks: BTreeMap<PublisherId, Rank>,
    resyncs: u64,
}

struct Rank {
    stream: EngineStream,
    /// When to ask a silent stream.
    ask_at: Instant,
    /// When a suspect rank may be asked for again.
    resync_at: Instant,
}

/// Why a router does not work.
#[derive(Debug)]
#[non_exhaustive]
pub enum WireRouterError {
    /// No subscriber.
    Start(StartError),
    /// The subscriber refused.
    Request(RequestError),
    /// The subscriber ended.
    Stopped,
    /// No router.
    Build(BuildError),
    /// A worker did not join.
    Join(JoinError),
    /// A rank has no stream.
    Open(OpenStreamError),
    /// A stream is over.
    Stream(EngineStreamError),
    /// No snapshot.
    Snapshot(SnapshotError),
    /// A snapshot that is none.
    Restore(RestoreError),
}

impl fmt::Display for WireRouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Stopped => f.write_str("the subscriber ended: look for a panic above"),
            Self::Build(error) => error.fmt(f),
            Self::Join(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Stream(error) => error.fmt(f),
            Self::Snapshot(error) => error.fmt(f),
            Self::Restore(error) => error.fmt(f),
        }
    }
}

impl Error for WireRouterError {}

/// What a router saw, over all ranks. Each fault of an engine is in one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterReport {
    /// Batches applied.
    pub applied: u64,
    /// Blocks stored and removed.
    pub blocks: u64,
    /// Payloads that no decoder takes.
    pub undecodable: u64,
    /// Batches that named another rank than their subscription.
    pub other_rank: u64,
    /// Gaps.
    pub gaps: u64,
    /// Batches that came again.
    pub duplicates: u64,
    /// Lives after the first.
    pub new_lives: u64,
    /// Reconnections to the same life, and snapshots of it.
    pub same_life: u64,
    /// Connections lost.
    pub disconnects: u64,
    /// Replays asked for.
    pub replays: u64,
    /// Replays that did not come to their end.
    pub failed_replays: u64,
    /// Tries beyond the first of each replay.
    pub second_tries: u64,
    /// Times a rank was forgotten.
    pub forgets: u64,
    /// Times all of a suspect rank was asked for again.
    pub resyncs: u64,
    /// Cold ranks that became warm again.
    pub healed: u64,
    /// Live batches dropped at a full queue.
    pub dropped: u64,
    /// Events that the index refused.
    pub refused: u64,
    /// Ranks that are fresh now.
    pub fresh: usize,
}

/// How long a stream may be silent before it is asked whether something was lost at its end.
const SILENCE: Duration = Duration::from_millis(500);

impl WireRouter {
    /// Listens to these engines, from a [snapshot](Self::snapshot) on if there is one.
    ///
    /// # Errors
    ///
    /// [`WireRouterError`] when there is no thread or no socket, or the snapshot is none.
    pub fn start(
        config: SubscriberConfig,
        scheme: HashScheme,
        engines: &[(WorkerRank, Dialect, Source)],
        snapshot: Option<&[u8]>,
        now: fn() -> Instant,
    ) -> Result<Self, WireRouterError> {
        let (policy, seed) = (config.replay, config.seed);
        let mut settings = RouterConfig::new(scheme.block_size());
        settings.scheme = scheme;
        let router = Router::builder(settings).build().map_err(WireRouterError::Build)?;
        let mut workers: BTreeMap<WorkerId, u32> = BTreeMap::new();
        for (rank, ..) in engines {
            let ranks = workers.entry(rank.worker).or_default();
            *ranks = (*ranks).max(rank.rank.get() + 1);
        }
        for (worker, ranks) in workers {
            let spec = WorkerSpec::new(scheme.block_size()).with_ranks(ranks);
            router.join(worker, spec).map_err(WireRouterError::Join)?;
        }
        let mut streams = Vec::new();
        for (rank, dialect, source) in engines {
            let mut config = EngineStreamConfig::new(*rank, EngineKind::Vllm).with_waits(policy.waits());
            config.presence = dialect.presence;
            config.feed.held = 4096;
            config.feed.late_window = 64; // some faults bring batches out of order
            config.feed.heal = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(2) };
            config.feed.seed = seed;
            streams.push((router.engine_stream(config).map_err(WireRouterError::Open)?, source));
        }
        if let Some(mut snapshot) = snapshot {
            router.restore(&mut snapshot).map_err(WireRouterError::Restore)?;
        }
        let subscriber = Subscriber::start(config, now).map_err(WireRouterError::Start)?;
        let mut ranks = BTreeMap::new();
        for (stream, source) in streams {
            let publisher = subscriber.add(source.clone()).map_err(WireRouterError::Request)?;
            ranks.insert(publisher, Rank { stream, ask_at: now() + SILENCE, resync_at: now() });
        }
        Ok(Self { subscriber, policy, router, ranks, resyncs: 0 })
    }

    /// Does what there is to do, and waits for at most this long if there is nothing.
    ///
    /// # Errors
    ///
    /// [`WireRouterError::Stopped`], or a request that was refused.
    pub fn turn(&mut self, now: fn() -> Instant, wait: Duration) -> Result<(), WireRouterError> {
        let mut next = self.subscriber.recv(wait);
        for _ in 0..1024 {
            match next {
                Ok(incoming) => self.happens(now(), &incoming)?,
                Err(RecvError::Empty) => break,
                Err(RecvError::Stopped) => return Err(WireRouterError::Stopped),
            }
            next = self.subscriber.try_recv();
        }
        if let Ok(incoming) = next {
            self.happens(now(), &incoming)?;
        }
        self.tick(now())
    }

    /// What the index holds.
    pub fn holdings(&self) -> Holdings {
        holdings(&Index(&self.router))
    }

    /// What another router goes on from.
    ///
    /// # Errors
    ///
    /// [`WireRouterError::Snapshot`].
    pub fn snapshot(&self) -> Result<Vec<u8>, WireRouterError> {
        let mut bytes = Vec::new();
        self.router.snapshot(&mut bytes).map_err(WireRouterError::Snapshot)?;
        Ok(bytes)
    }

    /// The router itself.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// Whether all is known of every rank.
    pub fn is_fresh(&self) -> bool {
        self.router.streams().iter().all(|status| status.freshness == StreamFreshness::Fresh)
    }

    /// What was seen so far.
    pub fn report(&self) -> RouterReport {
        let mut report = RouterReport { resyncs: self.resyncs, ..RouterReport::default() };
        for status in self.router.streams() {
            let RankStatus { stream, events, .. } = status;
            let (engine, lives) = (status.engine.unwrap_or_default(), status.lives.unwrap_or_default());
            report.applied += stream.applied;
            report.blocks += events.applied.stored + events.applied.removed;
            report.refused += events.refused();
            report.undecodable += engine.undecodable;
            report.other_rank += engine.other_rank;
            report.gaps += stream.gaps;
            report.duplicates += stream.duplicates;
            report.forgets += stream.forgets;
            report.new_lives += lives.new_life;
            report.same_life += lives.same_life;
            report.healed += lives.healed;
            report.fresh += usize::from(status.freshness == StreamFreshness::Fresh);
        }
        for &publisher in self.ranks.keys() {
            if let Some(health) = self.subscriber.health(publisher) {
                report.disconnects += health.disconnects;
                report.replays += health.replays.asked;
                report.failed_replays += health.replays.failed;
                report.second_tries += health.replays.tries.saturating_sub(health.replays.asked);
                report.dropped += health.dropped;
            }
        }
        report
    }

    /// How replays are asked for.
    pub fn policy(&self) -> ReplayPolicy {
        self.policy
    }

    /// All that a gateway has to do: each kind of news has its call, and what the stream asks for is asked.
    fn happens(&mut self, now: Instant, incoming: &Incoming) -> Result<(), WireRouterError> {
        let publisher = incoming.publisher();
        let Some(Rank { stream, ask_at, .. }) = self.ranks.get_mut(&publisher) else { return Ok(()) };
        let report = match incoming {
            Incoming::Connected { .. } => stream.connected(now),
            Incoming::Live { sequence, payload, .. } => {
                *ask_at = now + SILENCE;
                stream.frame(EngineFrame::new(*sequence, payload), now)
            }
            Incoming::Replayed { replay, sequence, payload, .. } => {
                *ask_at = now + SILENCE;
                stream.replayed(*replay, EngineFrame::new(*sequence, payload), now)
            }
            Incoming::ReplayEnded { replay, .. } => stream.replay_ended(*replay, now),
            Incoming::ReplayFailed { replay, reason, .. } => {
                stream.replay_failed(*replay, reason.fault(), now)
            }
        };
        ask(&self.subscriber, publisher, report)
    }

    fn tick(&mut self, now: Instant) -> Result<(), WireRouterError> {
        let statuses = self.router.streams();
        let is_suspect = |worker| statuses.iter().any(|status| status.worker == worker && status.suspect);
        for (&publisher, Rank { stream, ask_at, resync_at }) in &mut self.ranks {
            ask(&self.subscriber, publisher, stream.tick(now))?;
            if now >= *ask_at {
                *ask_at = now + SILENCE;
                ask(&self.subscriber, publisher, stream.catch_up(now))?;
            }
            if now >= *resync_at && is_suspect(stream.worker()) {
                *resync_at = now + SILENCE;
                self.resyncs += 1;
                ask(&self.subscriber, publisher, stream.resync(now))?;
            }
        }
        Ok(())
    }
}

fn ask(
    subscriber: &Subscriber,
    publisher: PublisherId,
    report: Result<FrameReport, EngineStreamError>,
) -> Result<(), WireRouterError> {
    match report.map_err(WireRouterError::Stream)?.ask {
        Some(ask) => subscriber.request_replay(publisher, ask).map_err(WireRouterError::Request),
        None => Ok(()),
    }
}

struct Index<'a>(&'a Router);

impl DumpEvents for Index<'_> {
    fn dump(&self, emit: &mut dyn FnMut(WorkerRank, KvEvent)) {
        self.0.dump(emit);
    }
}

impl fmt::Debug for WireRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireRouter").field("report", &self.report()).finish_non_exhaustive()
    }
}
