//! What a router does with streams: subscriber, feeds, decoders, ingest, an index.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use kv_router_engines::{DecodeLimits, Ingest, IngestConfig, WireBatch};
use kv_router_hash::HashScheme;
use kv_router_index::ApplyEvents;
use kv_router_index::paged::PagedIndex;
use kv_router_transport::{SequencerConfigError, Standing};
use kv_router_types::{KvEvent, WorkerRank};
use kv_router_zmq::{
    Backoff, Decoded, FeedAction, FeedConfig, Incoming, Payload, PublisherId, RankFeed, RecvError,
    ReplayPolicy, RequestError, Source, StartError, Subscriber, SubscriberConfig,
};

use super::{Dialect, Holdings, holdings};

/// One router's view of a fleet.
pub struct WireRouter {
    subscriber: Subscriber,
    policy: ReplayPolicy,
    ranks: BTreeMap<PublisherId, Rank>,
    index: PagedIndex,
    scratch: Scratch,
    report: RouterReport,
}

struct Rank {
    rank: WorkerRank,
    feed: RankFeed<Payload>,
    ingest: Ingest,
    /// When to ask a silent stream.
    ask_at: Instant,
}

/// Buffers that are used again and again.
#[derive(Default)]
struct Scratch {
    batch: WireBatch,
    /// Which batch is in `batch`.
    decoded: Option<(PublisherId, u64)>,
    actions: Vec<FeedAction<Payload>>,
    events: Vec<KvEvent>,
}

/// Why a router does not work.
#[derive(Debug)]
pub enum WireRouterError {
    /// No subscriber.
    Start(StartError),
    /// The subscriber refused.
    Request(RequestError),
    /// The subscriber ended.
    Stopped,
    /// A wait that means nothing.
    Feed(SequencerConfigError),
}

impl fmt::Display for WireRouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Stopped => f.write_str("the subscriber ended: look for a panic above"),
            Self::Feed(error) => error.fmt(f),
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
    /// Live payloads that no decoder takes.
    pub undecodable: u64,
    /// Batches that named another rank than their subscription.
    pub other_rank: u64,
    /// Gaps.
    pub gaps: u64,
    /// Batches that came again.
    pub duplicates: u64,
    /// Lives after the first.
    pub new_lives: u64,
    /// Reconnections to the same life.
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
    /// Listens to these engines.
    ///
    /// # Errors
    ///
    /// [`WireRouterError`] when there is no thread or no socket.
    pub fn start(
        config: SubscriberConfig,
        scheme: HashScheme,
        engines: &[(WorkerRank, Dialect, Source)],
        now: fn() -> Instant,
    ) -> Result<Self, WireRouterError> {
        let policy = config.replay;
        let seed = config.seed;
        let subscriber = Subscriber::start(config, now).map_err(WireRouterError::Start)?;
        let mut ranks = BTreeMap::new();
        for (rank, dialect, source) in engines {
            let publisher = subscriber.add(source.clone()).map_err(WireRouterError::Request)?;
            let heal = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(2) };
            let feed = FeedConfig { heal, seed, held: 4096, ..FeedConfig::default() }.with_replay(&policy);
            let ingest = IngestConfig { presence: dialect.presence, ..IngestConfig::new(scheme) };
            ranks.insert(
                publisher,
                Rank {
                    rank: *rank,
                    feed: RankFeed::new(feed).map_err(WireRouterError::Feed)?,
                    ingest: Ingest::new(ingest),
                    ask_at: now() + SILENCE,
                },
            );
        }
        let (index, scratch, report) = (PagedIndex::new(), Scratch::default(), RouterReport::default());
        Ok(Self { subscriber, policy, ranks, index, scratch, report })
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
                Ok(incoming) => self.happens(now(), incoming)?,
                Err(RecvError::Empty) => break,
                Err(RecvError::Stopped) => return Err(WireRouterError::Stopped),
            }
            next = self.subscriber.try_recv();
        }
        if let Ok(incoming) = next {
            self.happens(now(), incoming)?;
        }
        self.tick(now())
    }

    /// What the index holds.
    pub fn holdings(&self) -> Holdings {
        holdings(&self.index)
    }

    /// What was seen so far.
    pub fn report(&self) -> RouterReport {
        let mut report = self.report;
        for (&publisher, rank) in &self.ranks {
            let feed = rank.feed.health();
            report.gaps += feed.sequencer.gaps;
            report.duplicates += feed.sequencer.duplicates;
            report.forgets += feed.sequencer.forgets;
            report.new_lives += feed.new_life;
            report.same_life += feed.same_life;
            report.healed += feed.healed;
            report.fresh += usize::from(feed.standing == Standing::Fresh);
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

    fn happens(&mut self, now: Instant, incoming: Incoming) -> Result<(), WireRouterError> {
        let publisher = incoming.publisher();
        let Some(rank) = self.ranks.get_mut(&publisher) else { return Ok(()) };
        let scratch = &mut self.scratch;
        let (mut clears, mut lossy) = (false, false);
        if let Incoming::Live { sequence, payload, .. } | Incoming::Replayed { sequence, payload, .. } =
            &incoming
        {
            rank.ask_at = now + SILENCE;
            scratch.decoded = Some((publisher, *sequence));
            match scratch.batch.decode(payload, &DecodeLimits::default()) {
                Ok(()) => (clears, lossy) = (scratch.batch.clears(), scratch.batch.is_lossy()),
                Err(_) if matches!(incoming, Incoming::Live { .. }) => {
                    // As if it had been lost: the gap gets another copy from the engine.
                    self.report.undecodable += 1;
                    return Ok(());
                }
                Err(_) => lossy = true, // there is no better copy
            }
            if scratch.batch.rank().is_some_and(|named| named != rank.rank.rank) {
                self.report.other_rank += 1; // whose socket it is counts
            }
        }
        let decode = |payload| Decoded { clears, lossy, payload };
        rank.feed.handle(now, incoming, decode, &mut scratch.actions);
        act(publisher, rank, scratch, &self.index, &self.subscriber, &mut self.report)
    }

    fn tick(&mut self, now: Instant) -> Result<(), WireRouterError> {
        for (&publisher, rank) in &mut self.ranks {
            rank.feed.tick(now, &mut self.scratch.actions);
            if now >= rank.ask_at {
                rank.ask_at = now + SILENCE;
                rank.feed.catch_up(now, &mut self.scratch.actions);
            }
            act(publisher, rank, &mut self.scratch, &self.index, &self.subscriber, &mut self.report)?;
        }
        Ok(())
    }
}

fn act(
    publisher: PublisherId,
    rank: &mut Rank,
    scratch: &mut Scratch,
    index: &PagedIndex,
    subscriber: &Subscriber,
    report: &mut RouterReport,
) -> Result<(), WireRouterError> {
    let mut index = index;
    for action in scratch.actions.drain(..) {
        scratch.events.clear();
        match action {
            FeedAction::Apply { sequence, payload } => {
                report.applied += 1;
                if scratch.decoded != Some((publisher, sequence)) {
                    scratch.decoded = Some((publisher, sequence));
                    // One that cannot be decoded is lossy, and was said to be.
                    let _ = scratch.batch.decode(&payload, &DecodeLimits::default());
                }
                rank.ingest.apply(&scratch.batch, &mut scratch.events);
            }
            FeedAction::Forget(_) => {
                rank.ingest.forget();
                scratch.events.push(KvEvent::Cleared);
            }
            FeedAction::Ask(ask) => {
                subscriber.request_replay(publisher, ask).map_err(WireRouterError::Request)?;
            }
        }
        for event in &scratch.events {
            match index.apply(rank.rank, event) {
                Ok(_) => report.blocks += event.block_count() as u64,
                Err(_) => report.refused += 1,
            }
        }
    }
    Ok(())
}

impl fmt::Debug for WireRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireRouter").field("report", &self.report()).finish_non_exhaustive()
    }
}
