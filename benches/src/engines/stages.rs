//! The way of a payload into an index, stage by stage, on one thread.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use kv_router::{
    EngineFrame, EngineKind, EngineStream, EngineStreamConfig, Router, RouterConfig, WorkerSpec,
};
use kv_router_engines::{DecodeLimits, Ingest, IngestConfig, WireBatch};
use kv_router_hash::{HashScheme, Prompt};
use kv_router_index::oracle::Oracle;
use kv_router_index::paged::{PagedIndex, RankWriter};
use kv_router_index::{ApplyEvents, Overlap, Overlaps, PrefixIndex};
use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use super::traffic::{Dialect, Frame, Recording};

/// How far payloads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// They are decoded.
    Decode,
    /// Their tokens are hashed and their copies counted, too.
    Ingest,
    /// The index is told, too.
    Index,
    /// The same through a router's streams: numbers are checked, a replay source could be asked.
    Router,
}

impl Stage {
    /// All of them, each with what the ones before it do.
    pub const ALL: [Self; 4] = [Self::Decode, Self::Ingest, Self::Index, Self::Router];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Ingest => "+ ingest",
            Self::Index => "+ index",
            Self::Router => "router",
        }
    }

    /// What JSON calls it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Ingest => "decode_ingest",
            Self::Index => "decode_ingest_index",
            Self::Router => "router",
        }
    }
}

/// The rank of the index that a rank of a recording is.
pub fn worker(rank: u32) -> WorkerRank {
    WorkerId::new(u64::from(rank)).into()
}

/// Ranks that are fed, each by its own state.
#[derive(Debug)]
pub struct Lanes {
    limits: DecodeLimits,
    batch: WireBatch,
    events: Vec<KvEvent>,
    ingests: Vec<Ingest>,
    /// Empty where no index is told.
    writers: Vec<RankWriter>,
}

impl Lanes {
    /// Ranks that hold nothing.
    ///
    /// # Errors
    ///
    /// When a rank has a writer already.
    pub fn new(
        recording: &Recording,
        scheme: HashScheme,
        index: Option<&PagedIndex>,
    ) -> Result<Self, Box<dyn Error>> {
        let config = || {
            let mut config = IngestConfig::new(scheme);
            config.presence = recording.dialect.presence();
            config
        };
        let writers =
            index.iter().flat_map(|index| (0..recording.ranks).map(|rank| index.writer(worker(rank))));
        Ok(Self {
            limits: DecodeLimits::default(),
            batch: WireBatch::new(),
            events: Vec::new(),
            ingests: (0..recording.ranks).map(|_| Ingest::new(config())).collect(),
            writers: writers.collect::<Result<_, _>>()?,
        })
    }

    /// Feeds one payload.
    ///
    /// # Errors
    ///
    /// When anything in it is refused: nothing should be.
    pub fn feed(&mut self, rank: u32, payload: &[u8]) -> Result<(), Box<dyn Error>> {
        self.batch.decode(payload, &self.limits)?;
        let Some(ingest) = self.ingests.get_mut(rank as usize) else { return Err("no such rank".into()) };
        self.events.clear();
        ingest.apply(&self.batch, &mut self.events);
        if let Some(writer) = self.writers.get_mut(rank as usize) {
            for event in &self.events {
                writer.apply(event)?;
            }
        }
        black_box(&self.events);
        Ok(())
    }

    /// Blocks stored and removed so far.
    pub fn blocks(&self) -> u64 {
        let counters = self.ingests.iter().map(Ingest::counters);
        counters.map(|counters| counters.blocks_stored + counters.blocks_removed).sum()
    }
}

/// Time on a core that the steady part of a recording takes up to a stage; the caches are filled first.
///
/// # Errors
///
/// When anything is refused, or lost.
pub fn time(recording: &Recording, scheme: HashScheme, stage: Stage) -> Result<Duration, Box<dyn Error>> {
    match stage {
        Stage::Decode => {
            let mut lanes = Lanes::new(recording, scheme, None)?;
            timed(recording, |frame| {
                lanes.batch.decode(&frame.payload, &lanes.limits)?;
                black_box(&lanes.batch);
                Ok(())
            })
        }
        Stage::Ingest => {
            let mut lanes = Lanes::new(recording, scheme, None)?;
            timed(recording, |frame| lanes.feed(frame.rank, &frame.payload))
        }
        Stage::Index => {
            let index = PagedIndex::new();
            let mut lanes = Lanes::new(recording, scheme, Some(&index))?;
            let took = timed(recording, |frame| lanes.feed(frame.rank, &frame.payload))?;
            whole(recording, lanes.blocks())?;
            Ok(took)
        }
        Stage::Router => {
            let (router, mut streams) = router(recording, scheme)?;
            let now = now();
            let took = timed(recording, |frame| {
                let Some(stream) = streams.get_mut(frame.rank as usize) else {
                    return Err("no such rank".into());
                };
                stream.frame(EngineFrame::new(frame.sequence, &frame.payload), now)?;
                Ok(())
            })?;
            let ranks = router.streams();
            let applied = ranks.iter().map(|rank| rank.events.applied.stored + rank.events.applied.removed);
            whole(recording, applied.sum())?;
            Ok(took)
        }
    }
}

fn timed(
    recording: &Recording,
    mut feed: impl FnMut(&Frame) -> Result<(), Box<dyn Error>>,
) -> Result<Duration, Box<dyn Error>> {
    recording.filling.iter().try_for_each(&mut feed)?;
    let (on_core, start) = (on_core(), now());
    steady(recording, feed)?;
    let took = start.elapsed();
    Ok(self::on_core().zip(on_core).map_or(took, |(end, start)| end - start))
}

/// Apart, so that a profiler can be told to look at nothing else.
#[inline(never)]
fn steady(
    recording: &Recording,
    feed: impl FnMut(&Frame) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    recording.steady.iter().try_for_each(feed)
}

/// How long this thread has had a core, where the system says so: what others take of a shared machine is not in it.
fn on_core() -> Option<Duration> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    line.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn whole(recording: &Recording, blocks: u64) -> Result<(), Box<dyn Error>> {
    let sent = recording.filled + recording.blocks;
    if blocks == sent { Ok(()) } else { Err(format!("{blocks} of {sent} blocks were applied").into()) }
}

fn router(recording: &Recording, scheme: HashScheme) -> Result<(Router, Vec<EngineStream>), Box<dyn Error>> {
    let kind = match recording.dialect {
        Dialect::VllmArrays | Dialect::VllmMaps => EngineKind::Vllm,
        Dialect::SglangMaps => EngineKind::Sglang,
    };
    let router = Router::builder(RouterConfig::new(scheme.block_size())).build()?;
    let mut streams = Vec::new();
    for rank in 0..recording.ranks {
        router.join(worker(rank).worker, WorkerSpec::new(scheme.block_size()))?;
        streams.push(router.engine_stream(EngineStreamConfig::new(worker(rank), kind))?);
    }
    Ok((router, streams))
}

/// Answers of an index that differ from the oracle's, of as many prompts as the recording has, and how many of these
/// somebody holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// That differ.
    pub wrong: usize,
    /// Prompts of which somebody holds something.
    pub held: usize,
}

/// Asks an index that was fed with a recording for its prompts. The oracle was told what the engines did, not what they
/// wrote.
///
/// # Errors
///
/// When the oracle refuses an event: the recording is wrong then.
pub fn compare(
    recording: &Recording,
    scheme: HashScheme,
    index: &PagedIndex,
) -> Result<Answers, Box<dyn Error>> {
    let mut oracle = Oracle::new();
    for (rank, event) in &recording.history {
        oracle.apply(worker(*rank), event)?;
    }
    let mut answers = Answers::default();
    for prompt in &recording.prompts {
        let locals = scheme.hash(&Prompt::new(prompt));
        let expected = sorted(&oracle.find(&locals));
        answers.held += usize::from(!expected.is_empty());
        answers.wrong += usize::from(sorted(&index.find(&locals)) != expected);
    }
    Ok(answers)
}

fn sorted(overlaps: &Overlaps) -> Vec<Overlap> {
    let mut entries: Vec<_> = overlaps.iter().collect();
    entries.sort_unstable();
    entries
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}
