//! What can be watched.

use kv_router_index::Occupancy;
use kv_router_load::{LoadStats, SyncStats};
use kv_router_schedule::{QueueStats, SessionStats};

use crate::PredictionStats;

/// What a router holds and has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouterStats {
    /// Worker ranks in the fleet.
    pub ranks: usize,
    /// What the index holds.
    pub index: Occupancy,
    /// What the load tracker holds.
    pub load: LoadStats,
    /// Who waits. All zero without a queue.
    pub queue: QueueStats,
    /// Sessions that are remembered.
    pub sessions: SessionStats,
    /// What is known of the other routers. All zero for a router that is alone.
    pub peers: SyncStats,
    /// What is guessed, of ranks without events.
    pub prediction: PredictionStats,
    /// Batches refused because their rank had not joined.
    pub unknown_rank_batches: u64,
    /// Batches refused because their rank had joined without events.
    pub events_off_batches: u64,
}
