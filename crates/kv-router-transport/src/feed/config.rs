//! What one feed may rely on, and how it recovers.

use std::time::Duration;

use crate::{Backoff, ReplayWaits};

/// What one [`RankFeed`](super::RankFeed) may rely on, and how it recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedConfig {
    /// Whether the publisher answers replay requests, and the longest waits for it. Default: `None`. Whoever asks may
    /// try more than once: allow for all tries.
    pub replay: Option<ReplayWaits>,
    /// The number of the first batch of a life. Default: 0; Mooncake starts at 1.
    pub first_sequence: u64,
    /// How far behind the newest one a live batch may be without meaning that the engine started again, in batches.
    /// Default: 64. Over one connection to one publisher nothing comes out of order; over a relay it may. Not above
    /// what is needed: a restart inside the window goes unseen until the next connection. The first batch of a life
    /// never comes late: it means that the engine started again, unless it is the newest one.
    pub late_window: u64,
    /// Most live batches held while something is found out: by the sequence machine, and by the feed itself.
    /// Default: 1,024. Memory is bounded by twice this times the largest batch.
    pub held: usize,
    /// How soon a cold rank asks whether the source reaches back to the first batch. Default: after 1 s, up to 60 s.
    pub heal: Backoff,
    /// Where chance in waits starts. Default: 0.
    pub seed: u64,
}

impl Default for FeedConfig {
    fn default() -> Self {
        Self {
            replay: None,
            first_sequence: 0,
            late_window: 64,
            held: 1024,
            heal: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
            seed: 0,
        }
    }
}
