//! What a sequencer may rely on, and how long it waits.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Longest wait that can be meant. It also keeps every deadline representable.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// The number of the first batch of a life. Default: 0; some publishers start at 1.
    pub first_sequence: u64,
    /// How long to wait for missing batches. Default: `None`, there is no replay source, as with the in-process
    /// channel: a gap makes the rank cold at once.
    pub replay: Option<ReplayWaits>,
    /// How long to wait for a snapshot from a peer when a replay cannot help. Default: `None`, there is no peer.
    /// A peer is of use only if it knows lives by the same numbers.
    pub snapshot: Option<Duration>,
    /// Most live batches held during one recovery, in batches. Default: 1,024. Memory is bounded by this times
    /// the largest batch; when it is not enough the rank goes cold and live.
    pub held: usize,
}

impl Default for SequencerConfig {
    fn default() -> Self {
        Self { first_sequence: 0, replay: None, snapshot: None, held: 1024 }
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
            SequencerConfigError::check_wait(field, wait)?;
        }
        Ok(())
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
}

impl SequencerConfigError {
    pub(crate) fn check_wait(field: &'static str, wait: Duration) -> Result<(), Self> {
        if wait.is_zero() || wait > MAX_WAIT { Err(Self::WaitOutOfRange { field, wait }) } else { Ok(()) }
    }
}

impl fmt::Display for SequencerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HoldsNothing => f.write_str("held is 0: allow at least one batch"),
            Self::WaitOutOfRange { field, wait } => {
                write!(
                    f,
                    "{field} is {wait:?}: choose more than 0 and up to 24 hours, or None for a source that is not there"
                )
            }
        }
    }
}

impl Error for SequencerConfigError {}
