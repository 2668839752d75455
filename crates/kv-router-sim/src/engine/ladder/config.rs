//! How big and how fast the tiers below the device are.

use std::time::Duration;

use kv_router_types::Tier;

/// One tier below the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Blocks that it holds. 0: there is no such tier, nor any below it.
    pub blocks: u32,
    /// What one transfer from or to it takes before the first block moves.
    pub latency: Duration,
    /// Blocks that then move in a second. Above 0.
    pub blocks_per_second: u32,
    /// How often a block must have been used to be worth a place here: 1 takes all.
    pub min_uses: u32,
}

impl TierConfig {
    /// How long `blocks` blocks take; nothing takes no time.
    pub(super) fn transfer_time(&self, blocks: u64) -> Duration {
        if blocks == 0 {
            return Duration::ZERO;
        }
        let nanos = u128::from(blocks) * 1_000_000_000 / u128::from(self.blocks_per_second.max(1));
        self.latency.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// The tiers below the device, and how blocks come down to them.
///
/// The defaults are for blocks of 16 tokens of a mid-size model, some 2 MB each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderConfig {
    /// Pinned host memory. Default 16,384 blocks, 100 us, 8,000 blocks a second.
    pub host: TierConfig,
    /// Local disk. Default 65,536 blocks, 1 ms, 2,000 blocks a second.
    pub disk: TierConfig,
    /// Object store. Default 262,144 blocks, 50 ms, 1,000 blocks a second, for blocks used twice.
    pub object: TierConfig,
    /// Blocks that make a batch go at once. Default 8.
    pub flush_at: u32,
    /// Blocks in one transfer at most. Default 64.
    pub batch_cap: u32,
    /// How long a block waits for others to make a batch. Default 10 ms.
    pub flush_after: Duration,
    /// Blocks on their way between two tiers at most; what comes on top is not offloaded. Default 4,096.
    pub max_queued: u32,
}

impl Default for LadderConfig {
    fn default() -> Self {
        let tier = |blocks, latency, blocks_per_second, min_uses| TierConfig {
            blocks,
            latency,
            blocks_per_second,
            min_uses,
        };
        Self {
            host: tier(16_384, Duration::from_micros(100), 8_000, 1),
            disk: tier(65_536, Duration::from_millis(1), 2_000, 1),
            object: tier(262_144, Duration::from_millis(50), 1_000, 2),
            flush_at: 8,
            batch_cap: 64,
            flush_after: Duration::from_millis(10),
            max_queued: 4_096,
        }
    }
}

/// The tiers below the device, from fast to slow.
pub(super) const LOWER: [Tier; 3] = [Tier::Host, Tier::Disk, Tier::Object];

impl LadderConfig {
    /// The tiers in the order of [`LOWER`].
    pub(super) fn tiers(&self) -> [TierConfig; 3] {
        [self.host, self.disk, self.object]
    }

    /// The first field that is out of range, its value and its largest value.
    pub(in super::super) fn fault(&self) -> Option<(&'static str, u32, u32)> {
        const MAX_BLOCKS: u32 = 1 << 26;
        let most = [
            ("ladder.host.blocks", self.host.blocks),
            ("ladder.disk.blocks", self.disk.blocks),
            ("ladder.object.blocks", self.object.blocks),
        ];
        let positive = [
            ("ladder.host.blocks_per_second", self.host.blocks_per_second),
            ("ladder.disk.blocks_per_second", self.disk.blocks_per_second),
            ("ladder.object.blocks_per_second", self.object.blocks_per_second),
            ("ladder.flush_at", self.flush_at),
            ("ladder.batch_cap", self.batch_cap),
            ("ladder.max_queued", self.max_queued),
        ];
        let too_large = most.into_iter().find(|(_, found)| *found > MAX_BLOCKS);
        let too_large = too_large.map(|(field, found)| (field, found, MAX_BLOCKS));
        too_large.or_else(|| {
            positive.into_iter().find(|(_, found)| *found == 0).map(|(field, found)| (field, found, u32::MAX))
        })
    }
}
