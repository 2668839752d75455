//! How the stream of one engine is to be read.

use kv_router_engines::{DecodeLimits, IngestConfig, MediaTable, Presence};
use kv_router_hash::HashScheme;
use kv_router_transport::{FeedConfig, ReplayWaits, SequencerConfig, SequencerConfigError};
use kv_router_transport::{RankFeed, StreamSequencer};
use kv_router_types::WorkerRank;

use crate::order::Order;

/// Who publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// vLLM: each store is one physical copy more.
    Vllm,
    /// SGLang: a store says that the block is there, however often.
    Sglang,
    /// TensorRT-LLM, its pushed stream.
    TensorRtLlm,
    /// Mooncake's master: numbers from 1, and nobody to ask for a replay.
    Mooncake,
}

/// What the rank that a payload names means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankNaming {
    /// It is the rank of the stream, or none: a payload of another one is refused, and the rank suspect.
    #[default]
    Own,
    /// Nothing: the ranks of the engine are workers of their own here, of one rank each.
    Ignored,
}

/// Who knows in which life of the engine a frame was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineLives {
    /// Nobody, as with every engine of today: whenever it is in doubt, the engine's replay source has to show the last
    /// frame that was applied.
    #[default]
    Proven,
    /// Whoever receives the frames: see [`EngineFrame::incarnation`](crate::EngineFrame::incarnation).
    Numbered,
}

/// How the stream of one rank is to be read. [`new`](Self::new) has what fits the engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineStreamConfig {
    /// Whose stream it is: one publisher, one rank.
    pub worker: WorkerRank,
    /// What repeated stores of one name mean.
    pub presence: Presence,
    /// Which tier a medium is.
    pub media: MediaTable,
    /// Names of adapters for engines that send only numbers. Default: none.
    pub adapters: Vec<(i64, String)>,
    /// Names that are remembered at most, 70 to 100 bytes each. Default 16,777,216.
    pub max_names: usize,
    /// Who knows lives. Default: nobody.
    pub lives: EngineLives,
    /// Whether there is somebody to ask for what is missing, for how long, and what may wait meanwhile. Default: a replay
    /// source answers within 2 s; engines number from 0 in each life, over connections that keep their order, so
    /// `late_window` is 0.
    pub feed: FeedConfig,
    /// How much one payload may ask.
    pub limits: DecodeLimits,
    /// What the rank that a payload names means.
    pub naming: RankNaming,
}

impl EngineStreamConfig {
    /// What fits an engine of this kind.
    pub fn new(worker: WorkerRank, kind: EngineKind) -> Self {
        let presence = if kind == EngineKind::Sglang { Presence::Logical } else { Presence::Copies };
        let is_mooncake = kind == EngineKind::Mooncake;
        let feed = FeedConfig {
            first_sequence: u64::from(is_mooncake),
            replay: (!is_mooncake).then(ReplayWaits::default),
            late_window: 0,
            ..FeedConfig::default()
        };
        Self {
            worker,
            presence,
            media: MediaTable::default(),
            adapters: Vec::new(),
            max_names: 1 << 24,
            lives: EngineLives::default(),
            feed,
            limits: DecodeLimits::default(),
            naming: RankNaming::default(),
        }
    }

    /// The same, where the replay source is asked by somebody who gives up after these waits:
    /// `ReplayPolicy::waits` of `kv-router-zmq`.
    #[must_use]
    pub fn with_waits(mut self, waits: ReplayWaits) -> Self {
        self.feed.replay = Some(waits);
        self
    }

    /// The same, where nobody can be asked for what is missing.
    #[must_use]
    pub fn without_replay(mut self) -> Self {
        self.feed.replay = None;
        self
    }

    /// The same, where whoever receives the frames knows which life of the engine they are of: see
    /// [`EngineFrame::incarnation`](crate::EngineFrame::incarnation).
    #[must_use]
    pub fn with_incarnations(mut self) -> Self {
        self.lives = EngineLives::Numbered;
        self
    }

    pub(crate) fn order(&self) -> Result<Order, SequencerConfigError> {
        let FeedConfig { replay, first_sequence, held, .. } = self.feed;
        match self.lives {
            EngineLives::Proven => Ok(Order::Proven(Box::new(RankFeed::new(self.feed)?))),
            EngineLives::Numbered => {
                let config = SequencerConfig { first_sequence, replay, snapshot: None, held };
                Ok(Order::Numbered(Box::new(StreamSequencer::new(config)?)))
            }
        }
    }

    pub(crate) fn ingest(&self, scheme: HashScheme) -> IngestConfig {
        IngestConfig {
            presence: self.presence,
            media: self.media.clone(),
            adapters: self.adapters.clone(),
            max_names: self.max_names,
            ..IngestConfig::new(scheme)
        }
    }
}
