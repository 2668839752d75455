//! How long predictions live, and how many there may be.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// How long predictions live, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedConfig {
    /// How long a block is taken for cached after the last decision that used it. Default 120 s. Longer predicts hits
    /// that the engine has evicted; shorter forgets hits that it still has. At most [`Self::MAX_TTL`].
    pub ttl: Duration,
    /// How exact the end of a life is: a block lives for at least its time, and for less than one tick more. Default
    /// 1 s, at least 1 ms.
    pub tick: Duration,
    /// Blocks of all ranks together; beyond it, the oldest leaves go. Default 1,048,576, which takes some 100 MiB.
    /// From 1 to [`Self::MAX_BLOCKS`].
    pub max_blocks: usize,
}

impl PredictedConfig {
    /// The longest time to live: 365 days.
    pub const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

    /// The shortest tick.
    pub const MIN_TICK: Duration = Duration::from_millis(1);

    /// The largest cap.
    pub const MAX_BLOCKS: usize = 1 << 28;

    /// Whether every field is in its range.
    ///
    /// # Errors
    ///
    /// [`PredictedConfigError`], which names the field.
    pub fn validate(&self) -> Result<(), PredictedConfigError> {
        if self.ttl.is_zero() || self.ttl > Self::MAX_TTL {
            return Err(PredictedConfigError::Ttl { ttl: self.ttl });
        }
        if self.tick < Self::MIN_TICK || self.tick > Self::MAX_TTL {
            return Err(PredictedConfigError::Tick { tick: self.tick });
        }
        if self.max_blocks == 0 || self.max_blocks > Self::MAX_BLOCKS {
            return Err(PredictedConfigError::MaxBlocks { max_blocks: self.max_blocks });
        }
        Ok(())
    }
}

impl Default for PredictedConfig {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(120), tick: Duration::from_secs(1), max_blocks: 1 << 20 }
    }
}

/// A field of [`PredictedConfig`] that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PredictedConfigError {
    /// The time to live is zero, or too long.
    Ttl {
        /// The refused value.
        ttl: Duration,
    },
    /// The tick is too short, or too long.
    Tick {
        /// The refused value.
        tick: Duration,
    },
    /// The cap is zero, or too large.
    MaxBlocks {
        /// The refused value, in blocks.
        max_blocks: usize,
    },
}

impl fmt::Display for PredictedConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = PredictedConfig::MAX_TTL;
        match self {
            Self::Ttl { ttl } => write!(f, "ttl is {ttl:?}: choose a time above 0 and up to {longest:?}"),
            Self::Tick { tick } => {
                write!(f, "tick is {tick:?}: choose from {:?} to {longest:?}", PredictedConfig::MIN_TICK)
            }
            Self::MaxBlocks { max_blocks } => {
                write!(f, "max_blocks is {max_blocks}: choose from 1 to {}", PredictedConfig::MAX_BLOCKS)
            }
        }
    }
}

impl Error for PredictedConfigError {}
