//! What a sequencer may rely on, and how long it waits.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Longest wait that can be meant. It also keeps every deadline representable.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How one life of an engine is told from the next: the rule that decides what a number going backwards means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// Batches carry incarnation numbers that grow from life to life.
    ///
    /// Exact, whatever the transport loses, repeats or reorders:
    ///
    /// * the same incarnation and a sequence that was applied already: a duplicate, skipped;
    /// * a lower incarnation: stale, never applies;
    /// * a higher incarnation: the rank is forgotten, then the new life starts.
    Explicit,
    /// Batches carry no incarnation (what [`Numbered::incarnation`](crate::Numbered::incarnation) says is
    /// ignored) and the engine starts again at the first sequence: the event streams of engines over ZeroMQ.
    ///
    /// `newest` below is the highest sequence seen live in this life. Until one was, as after
    /// [`restored`](crate::StreamSequencer::restored) or [`catch_up`](crate::StreamSequencer::catch_up), it is
    /// the last one applied. A live sequence `s` is a **new life** when
    ///
    /// * `s <= first_sequence`, always. Should it be a late duplicate after all, forgetting and applying it
    ///   again is wrong by nothing: the state is rebuilt from the start;
    /// * or `s <= newest` and `newest - s >= late_window`: on a stream that never repeats or reorders, which is
    ///   a window of 0, any step back.
    ///
    /// Otherwise it is a **duplicate** when it was applied already and **late** (it may fill a gap) when not.
    /// Duplicates that a replay makes are another matter: they are ahead of `newest`, so no window is needed.
    ///
    /// What numbers alone cannot tell: a new life whose first batch seen is already ahead of `newest`, or inside
    /// the window. Whoever learns of a restart in another way (discovery, a changed process id, a dropped
    /// connection) says so with [`retire`](crate::StreamSequencer::retire) and
    /// [`revive`](crate::StreamSequencer::revive). For engines' own streams there is [`RankFeed`](crate::RankFeed),
    /// which has the engine prove its life.
    Implicit {
        /// How many batches late a live batch may come, in batches. 0 for one connection to one publisher, where
        /// order is kept; not above what is needed, because a restart inside the window goes unseen.
        late_window: u64,
    },
}

/// How long a replay may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayWaits {
    /// Longest silence between two replayed batches, and before the first.
    pub idle: Duration,
    /// Longest time from the request to the last batch.
    pub total: Duration,
}

/// 2 s of silence, 30 s in all.
impl Default for ReplayWaits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(2), total: Duration::from_secs(30) }
    }
}

/// What one stream can do and what its sequencer may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencerConfig {
    /// How lives are told apart. Default: [`Lives::Explicit`].
    pub lives: Lives,
    /// The number of the first batch of a life. Default: 0; some publishers start at 1.
    pub first_sequence: u64,
    /// How long to wait for missing batches. Default: `None`, there is no replay source, as with the in-process
    /// channel: a gap makes the rank cold at once.
    pub replay: Option<ReplayWaits>,
    /// How long to wait for a snapshot from a peer when a replay cannot help. Default: `None`, there is no peer.
    /// Needs [`Lives::Explicit`]: a watermark whose life nobody can name cannot be trusted.
    pub snapshot: Option<Duration>,
    /// Most live batches held during one recovery, in batches. Default: 1,024. Memory is bounded by this times
    /// the largest batch; when it is not enough the rank goes cold and live.
    pub held: usize,
}

impl Default for SequencerConfig {
    fn default() -> Self {
        Self { lives: Lives::Explicit, first_sequence: 0, replay: None, snapshot: None, held: 1024 }
    }
}

impl SequencerConfig {
    /// Checks that the parts fit together.
    ///
    /// # Errors
    ///
    /// The first [`SequencerConfigError`] found.
    pub fn validate(&self) -> Result<(), SequencerConfigError> {
        if self.held == 0 {
            return Err(SequencerConfigError::HoldsNothing);
        }
        let waits = self.replay.map(|waits| [waits.idle, waits.total]).unwrap_or([MAX_WAIT; 2]);
        let snapshot = self.snapshot.unwrap_or(MAX_WAIT);
        for (wait, field) in [(waits[0], "replay.idle"), (waits[1], "replay.total"), (snapshot, "snapshot")] {
            if wait.is_zero() || wait > MAX_WAIT {
                return Err(SequencerConfigError::WaitOutOfRange { field, wait });
            }
        }
        match (self.snapshot, self.lives) {
            (Some(_), Lives::Implicit { .. }) => Err(SequencerConfigError::SnapshotWithoutIncarnations),
            _ => Ok(()),
        }
    }
}

/// Why a [`SequencerConfig`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequencerConfigError {
    /// `held` is 0.
    HoldsNothing,
    /// A wait is 0, or above a day.
    WaitOutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        wait: Duration,
    },
    /// `snapshot` is set and `lives` is [`Lives::Implicit`].
    SnapshotWithoutIncarnations,
}

impl fmt::Display for SequencerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HoldsNothing => f.write_str("held is 0: allow at least one batch"),
            Self::WaitOutOfRange { field, wait } => {
                write!(f, "{field} is {wait:?}: wait up to 24 hours, or set it to None if there is no such source")
            }
            Self::SnapshotWithoutIncarnations => f.write_str(
                "snapshots need incarnation numbers that peers agree on: use Lives::Explicit, or set snapshot to None",
            ),
        }
    }
}

impl Error for SequencerConfigError {}
