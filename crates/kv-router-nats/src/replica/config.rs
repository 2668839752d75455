//! How a replica works, in one place.

use std::time::Duration;

use kv_router_transport::DumpFingerprint;

use crate::config::check_wait;
use crate::error::ConfigError;
use crate::{Followed, FollowerConfig, GossipConfig, RegistryConfig, SnapshotConfig, SnapshotSchedule};

/// How one router over a fleet is fed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplicaConfig {
    /// The number of this router among those over the fleet: no other has it.
    pub replica: u64,
    /// How streams are followed. [`Followed::Admitted`] whatever it says: those of workers that are there.
    pub follower: FollowerConfig,
    /// How workers are known.
    pub registry: RegistryConfig,
    /// Where snapshots are kept.
    pub snapshots: SnapshotConfig,
    /// How snapshots are written. `None` when this replica never does. Its `spread` is mixed with `replica`.
    pub schedule: Option<SnapshotSchedule>,
    /// Bounds of messages between routers.
    pub gossip: GossipConfig,
    /// How often other routers are told what there is. Default: 100 ms. A few times as often as routers take each other
    /// for dead.
    pub gossip_every: Duration,
    /// How long the snapshot that was found at the start is kept for workers that are not there yet. Default: 60 s.
    pub keep_snapshot: Duration,
}

impl ReplicaConfig {
    /// The defaults, for the router of this number, which takes snapshots of this fingerprint.
    pub fn new(replica: u64, fingerprint: DumpFingerprint) -> Self {
        let followed = Followed::Admitted;
        Self {
            replica,
            follower: FollowerConfig { followed, fingerprint, ..FollowerConfig::default() },
            registry: RegistryConfig::default(),
            snapshots: SnapshotConfig::default(),
            schedule: Some(SnapshotSchedule::default()),
            gossip: GossipConfig::default(),
            gossip_every: Duration::from_millis(100),
            keep_snapshot: Duration::from_secs(60),
        }
    }

    /// Checks that the parts make sense.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_wait("gossip_every", self.gossip_every)?;
        check_wait("keep_snapshot", self.keep_snapshot)?;
        if let Some(schedule) = &self.schedule {
            schedule.validate()?;
        }
        self.follower.validate()
    }
}
