//! The router's settings: those of its parts, nested, and a few bounds of its own.

use std::error::Error;
use std::fmt;

use kv_router_approx::predicted::PredictedConfigError;
use kv_router_hash::{HashScheme, Window};
use kv_router_index::PositionalConfigError;
use kv_router_index::paged::PagedConfigError;
use kv_router_load::{JournalConfig, LoadConfig, LoadConfigError, SyncConfig, SyncConfigError};
use kv_router_schedule::{
    ConfigError, CostConfig, FilterConfig, NoSessions, QueueConfig, QueueConfigError, SessionConfig, Spread,
};
use kv_router_types::BlockSize;

use crate::index::IndexConfig;
use crate::predict::PredictionConfig;

/// Everything that a router is built from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RouterConfig {
    /// How the engines cut and hash prompts. One router serves engines of one scheme.
    pub scheme: HashScheme,
    /// How load and overlap become a cost.
    pub cost: CostConfig,
    /// Who is not considered at all.
    pub filters: FilterConfig,
    /// What to make of near equals: [`Spread::TwoChoices`] when several routers share a fleet. Default: the lowest cost.
    pub spread: Spread,
    /// Where requests wait that come in by [`Router::admit`](crate::Router::admit) while every worker is above
    /// [`FilterConfig::wait_prefill`]. Default `None`: they are refused.
    pub queue: Option<QueueConfig>,
    /// Bounds of the table of sessions.
    pub sessions: SessionConfig,
    /// Who this router is among several over one fleet. Default `None`: it is alone, and keeps no journal of its
    /// bookings for others. See [`Router::poll_peers`](crate::Router::poll_peers).
    pub journal: Option<JournalConfig>,
    /// Bounds and times of what is known of the other routers. Of no use without a journal.
    pub sync: SyncConfig,
    /// Bounds of the load tracker; its `max_ranks` bounds the fleet.
    pub load: LoadConfig,
    /// Which index, and its bounds. Default: the paged one.
    pub index: IndexConfig,
    /// How the cache of a worker is guessed that has no events, or falls silent.
    pub prediction: PredictionConfig,
    /// The longest prompt accepted, in tokens. Default 4,194,304. It bounds the memory and the time of a decision.
    pub max_prompt_tokens: usize,
    /// Memory that [`Router::restore`](crate::Router::restore) may take for a snapshot until it is in place, in bytes.
    /// Default 8 GiB, which is some 150 million blocks.
    pub max_restore_bytes: usize,
}

impl RouterConfig {
    /// The defaults, for engines with this block size.
    pub fn new(block_size: BlockSize) -> Self {
        Self {
            scheme: HashScheme::new(block_size, Window::Plain),
            cost: CostConfig::default(),
            filters: FilterConfig::default(),
            spread: Spread::default(),
            queue: None,
            sessions: SessionConfig::default(),
            journal: None,
            sync: SyncConfig::default(),
            load: LoadConfig::default(),
            index: IndexConfig::default(),
            prediction: PredictionConfig::default(),
            max_prompt_tokens: 1 << 22,
            max_restore_bytes: 8 << 30,
        }
    }
}

/// A setting that no router can be built with.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// A weight, factor or threshold is out of range.
    Selection(ConfigError),
    /// A bound of the load tracker is out of range.
    Load(LoadConfigError),
    /// A bound of what is known of other routers is out of range.
    Sync(SyncConfigError),
    /// There is no room for a session.
    Sessions(NoSessions),
    /// A bound of the queue is out of range.
    Queue(QueueConfigError),
    /// A bound of the paged index is out of range.
    PagedIndex(PagedConfigError),
    /// A setting of the positional index is out of range.
    PositionalIndex(PositionalConfigError),
    /// A bound of the predicted index is out of range.
    Prediction(PredictedConfigError),
    /// The rule for silence asks for no request at all.
    SilentRequests,
    /// `max_prompt_tokens` is below one block, or above what a booking can count.
    MaxPromptTokens {
        /// The refused value.
        given: usize,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selection(error) => error.fmt(f),
            Self::Load(error) => error.fmt(f),
            Self::Sync(error) => error.fmt(f),
            Self::Queue(error) => error.fmt(f),
            Self::Sessions(error) => error.fmt(f),
            Self::PagedIndex(error) => error.fmt(f),
            Self::PositionalIndex(error) => error.fmt(f),
            Self::Prediction(error) => error.fmt(f),
            Self::SilentRequests => {
                f.write_str("requests of the rule for silence is 0: choose at least 1, or have no such rule")
            }
            Self::MaxPromptTokens { given } => {
                write!(f, "max_prompt_tokens is {given}: choose at least one block and at most {}", u32::MAX)
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Selection(error) => Some(error),
            Self::Load(error) => Some(error),
            Self::Sync(error) => Some(error),
            Self::Queue(error) => Some(error),
            Self::Sessions(error) => Some(error),
            Self::PagedIndex(error) => Some(error),
            Self::PositionalIndex(error) => Some(error),
            Self::Prediction(error) => Some(error),
            Self::SilentRequests | Self::MaxPromptTokens { .. } => None,
        }
    }
}

impl From<ConfigError> for BuildError {
    fn from(error: ConfigError) -> Self {
        Self::Selection(error)
    }
}

impl From<LoadConfigError> for BuildError {
    fn from(error: LoadConfigError) -> Self {
        Self::Load(error)
    }
}

impl From<SyncConfigError> for BuildError {
    fn from(error: SyncConfigError) -> Self {
        Self::Sync(error)
    }
}

impl From<QueueConfigError> for BuildError {
    fn from(error: QueueConfigError) -> Self {
        Self::Queue(error)
    }
}

impl From<NoSessions> for BuildError {
    fn from(error: NoSessions) -> Self {
        Self::Sessions(error)
    }
}
