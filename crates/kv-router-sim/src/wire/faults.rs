//! Everything that goes wrong between an engine and a router.

use std::fmt;
use std::time::Duration;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A batch is not sent, as at a high-water mark.
    Drop,
    /// A batch is sent twice.
    Duplicate,
    /// A batch is sent after the next one.
    Reorder,
    /// A batch is sent without its end.
    Truncate,
    /// A batch names the rank of a neighbour.
    RankCollision,
    /// The engine starts again, with an empty cache and number 0.
    Restart,
    /// The connection is closed; the engine goes on.
    Disconnect,
    /// The engine does nothing for a while.
    Stall,
    /// Replay requests are not answered for a while.
    SilentReplay,
    /// Replays trickle for a while.
    SlowReplay,
    /// Replays begin half way for a while.
    LateReplay,
    /// Replays stop half way for a while, without an end.
    StoppedReplay,
    /// Replays are an end and nothing else for a while.
    EmptyReplay,
    /// Replays leave out a batch for a while, as at a high-water mark.
    HoledReplay,
}

impl Fault {
    /// All faults, in declaration order.
    pub const ALL: [Self; 14] = [
        Self::Drop,
        Self::Duplicate,
        Self::Reorder,
        Self::Truncate,
        Self::RankCollision,
        Self::Restart,
        Self::Disconnect,
        Self::Stall,
        Self::SilentReplay,
        Self::SlowReplay,
        Self::LateReplay,
        Self::StoppedReplay,
        Self::EmptyReplay,
        Self::HoledReplay,
    ];

    /// Those that strike single batches.
    pub(super) const OF_BATCHES: &'static [Self] = Self::ALL.split_at(5).0;
    /// Those that last for a while, or hit the whole engine.
    pub(super) const OF_ENGINES: &'static [Self] = Self::ALL.split_at(5).1;
}

/// How often what goes wrong. Mean numbers: when exactly is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// Of 10,000 batches, so many are struck.
    pub batches_in_10_000: u32,
    /// Mean time between faults of a whole engine.
    pub engine_every: Duration,
    /// Longest time that such a fault lasts.
    pub lasts: Duration,
    /// Which of them there are. Default: all.
    pub of_engines: &'static [Fault],
}

impl Default for FaultRates {
    fn default() -> Self {
        Self {
            batches_in_10_000: 200,
            engine_every: Duration::from_millis(700),
            lasts: Duration::from_millis(600),
            of_engines: Fault::OF_ENGINES,
        }
    }
}

/// How often what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; Fault::ALL.len()]);

impl FaultCounts {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often this.
    pub fn get(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// How often anything.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl std::ops::AddAssign for FaultCounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{} {fault:?}", self.get(fault))?;
        }
        Ok(())
    }
}
