//! What a follower may spend, and how long it waits.

use std::time::Duration;

use kv_router_transport::{DumpFingerprint, ReplayWaits, SequencerConfig};

use crate::SnapshotName;
use crate::config::{check_count, check_wait};
use crate::error::ConfigError;

/// How a replica follows the ranks of its fleet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowerConfig {
    /// How long missing batches are waited for; `idle` is also the longest wait for one page.
    pub replay: ReplayWaits,
    /// How long a snapshot is waited for when a relay no longer has what is missing. Default: 30 s; `None` when
    /// nobody writes any.
    pub snapshot: Option<Duration>,
    /// How long a rank stays cold before it is forgotten and built anew: what it lacks may be there again. Twice as long
    /// after each try, up to 4,096 times. Default: 5 s; `None`: never.
    pub heal_after: Option<Duration>,
    /// The snapshot to start from and to recover with. Default: [`SnapshotName::fleet`].
    pub name: SnapshotName,
    /// What a snapshot has to be of. One of another fingerprint is as good as none.
    pub fingerprint: DumpFingerprint,
    /// Batches of one rank that may wait for missing ones. Default: 1,024.
    pub held: usize,
    /// Which ranks are followed. Default: [`Followed::Heard`].
    pub followed: Followed,
    /// Ranks followed, those that retired and that no other took the place of included; batches of more are counted and
    /// dropped. Default: 16,384.
    pub ranks: usize,
    /// Pages under way at a time, over all ranks. Default: 8.
    pub pages: usize,
}

/// Which ranks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// All that are heard of.
    Heard,
    /// Those that were [admitted](crate::Follower::admit), until they are [dismissed](crate::Follower::dismiss): for
    /// a sink that takes nothing of a worker that it does not know yet.
    Admitted,
}

impl Default for FollowerConfig {
    fn default() -> Self {
        Self {
            replay: ReplayWaits::default(),
            snapshot: Some(Duration::from_secs(30)),
            heal_after: Some(Duration::from_secs(5)),
            name: SnapshotName::fleet(),
            fingerprint: DumpFingerprint::default(),
            held: 1024,
            followed: Followed::Heard,
            ranks: 16_384,
            pages: 8,
        }
    }
}

impl FollowerConfig {
    /// Checks that the parts make sense.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(wait) = self.heal_after {
            check_wait("heal_after", wait)?;
        }
        check_count("ranks", self.ranks)?;
        check_count("pages", self.pages)?;
        self.sequencer().validate().map_err(ConfigError::Sequencer)
    }

    pub(super) fn sequencer(&self) -> SequencerConfig {
        SequencerConfig {
            first_sequence: 0,
            replay: Some(self.replay),
            snapshot: self.snapshot,
            held: self.held,
        }
    }
}
