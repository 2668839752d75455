//! How big and how fast an engine is.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kv_router_types::BlockSize;

use super::ladder::LadderConfig;
use crate::prompt::TraceBlockSize;

/// Size and speed of one engine. The defaults describe a mid-size model on one accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Tokens per block. Default 16.
    pub block_size: TraceBlockSize,
    /// Blocks of KV memory, running and cached ones together. Default 16,384: 262,144 tokens at 16 a block.
    pub pool_blocks: u32,
    /// Prompt tokens computed per second. Default 8,000.
    pub prefill_tokens_per_second: u32,
    /// What one token for every decoding request costs, however many there are. Default 25 ms.
    pub decode_step: Duration,
    /// Prompt tokens computed in one step at most, over all requests: a long prompt is computed in chunks of
    /// this size, and decoding goes on between them. Decoded tokens do not count. Default 2,048.
    pub step_token_budget: u32,
    /// Requests that hold blocks at one time. Default 256.
    pub max_running: u32,
    /// Tiers below the device. Default `None`: what the device gives up is gone.
    pub ladder: Option<LadderConfig>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            block_size: DEFAULT_BLOCK_SIZE,
            pool_blocks: 16_384,
            prefill_tokens_per_second: 8_000,
            decode_step: Duration::from_millis(25),
            step_token_budget: 2_048,
            max_running: 256,
            ladder: None,
        }
    }
}

const DEFAULT_BLOCK_SIZE: TraceBlockSize = match TraceBlockSize::new(16) {
    Ok(size) => size,
    Err(_) => unreachable!(),
};

impl EngineConfig {
    /// The largest pool accepted, in blocks. A pool takes memory only for blocks that were ever used.
    pub const MAX_POOL_BLOCKS: u32 = 1 << 24;

    /// Checks that every number means something.
    ///
    /// # Errors
    ///
    /// [`EngineConfigError`] for the first field outside its range.
    pub fn validate(&self) -> Result<(), EngineConfigError> {
        let out_of_range = |field, found, max| Err(EngineConfigError { field, found, max });
        let fields = [
            ("pool_blocks", self.pool_blocks, Self::MAX_POOL_BLOCKS),
            ("prefill_tokens_per_second", self.prefill_tokens_per_second, u32::MAX),
            ("step_token_budget", self.step_token_budget, u32::MAX),
            ("max_running", self.max_running, u32::MAX),
        ];
        for (field, found, max) in fields {
            if found == 0 || found > max {
                return out_of_range(field, u64::from(found), u64::from(max));
            }
        }
        let step = u64::try_from(self.decode_step.as_nanos()).unwrap_or(u64::MAX);
        if step == 0 || step > MAX_DECODE_STEP_NANOS {
            return out_of_range("decode_step (ns)", step, MAX_DECODE_STEP_NANOS);
        }
        if let Some((field, found, max)) = self.ladder.and_then(|ladder| ladder.fault()) {
            return out_of_range(field, u64::from(found), u64::from(max));
        }
        Ok(())
    }

    /// How long `tokens` prompt tokens take to compute.
    #[inline]
    pub fn prefill_time(&self, tokens: u64) -> Duration {
        let nanos = u128::from(tokens) * 1_000_000_000 / u128::from(self.prefill_tokens_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Blocks that `tokens` tokens occupy, the partial last one included.
    #[inline]
    pub(crate) fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(u64::from(self.tokens_per_block()))
    }

    #[inline]
    pub(crate) fn tokens_per_block(&self) -> u32 {
        self.size().get()
    }

    #[inline]
    pub(crate) fn size(&self) -> BlockSize {
        self.block_size.get()
    }
}

/// One hour: a longer step is a mistaken unit.
const MAX_DECODE_STEP_NANOS: u64 = 3_600_000_000_000;

/// A field of [`EngineConfig`] outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfigError {
    /// Which field.
    pub field: &'static str,
    /// Its value.
    pub found: u64,
    /// The largest value accepted; the smallest is 1, or 0 for the size of a lower tier.
    pub max: u64,
}

impl fmt::Display for EngineConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine: {} = {} is outside 1..={}: set it within", self.field, self.found, self.max)
    }
}

impl Error for EngineConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(field: &str, change: impl FnOnce(&mut EngineConfig)) {
        let mut config = EngineConfig::default();
        change(&mut config);
        assert_eq!(config.validate().unwrap_err().field, field);
    }

    #[test]
    fn every_field_is_checked() {
        assert_eq!(EngineConfig::default().validate(), Ok(()));
        refused("pool_blocks", |c| c.pool_blocks = 0);
        refused("pool_blocks", |c| c.pool_blocks = EngineConfig::MAX_POOL_BLOCKS + 1);
        refused("prefill_tokens_per_second", |c| c.prefill_tokens_per_second = 0);
        refused("step_token_budget", |c| c.step_token_budget = 0);
        refused("max_running", |c| c.max_running = 0);
        refused("decode_step (ns)", |c| c.decode_step = Duration::ZERO);
        refused("decode_step (ns)", |c| c.decode_step = Duration::MAX);
        let ladder = |change: fn(&mut LadderConfig)| {
            let mut ladder = LadderConfig::default();
            change(&mut ladder);
            Some(ladder)
        };
        refused("ladder.host.blocks", |c| c.ladder = ladder(|l| l.host.blocks = u32::MAX));
        refused("ladder.disk.blocks_per_second", |c| c.ladder = ladder(|l| l.disk.blocks_per_second = 0));
        refused("ladder.flush_at", |c| c.ladder = ladder(|l| l.flush_at = 0));
    }

    #[test]
    fn prefill_time_is_exact_at_the_default_rate() {
        assert_eq!(EngineConfig::default().prefill_time(1), Duration::from_micros(125));
        assert_eq!(EngineConfig::default().prefill_time(8_000), Duration::from_secs(1));
    }
}
