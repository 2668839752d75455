//! The bounds of a tracker.

use std::error::Error;
use std::fmt;

/// The bounds of a [`LoadTracker`](crate::LoadTracker).
///
/// They are there against leaks and floods, not to shape traffic: set them well above what the fleet can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Our own requests in flight over all ranks, 1 to 16,777,216. Default 262,144. Above it, booking is refused.
    pub max_requests: u32,
    /// Prompt blocks stored for them over all ranks, at least 1. Default 33,554,432. A prefix shared by requests of
    /// neighbouring ranks is stored once; a block takes 8 bytes. Above it, booking is refused.
    pub max_prompt_blocks: u64,
    /// Requests of all other replicas together, 0 to 16,777,216. Default 1,048,576. Those above it are not counted, and
    /// asked for again: [`SyncStats::refused`](crate::SyncStats::refused). They take no room of our own.
    pub max_peer_requests: u32,
    /// Blocks in their prompts, each as often as it is booked. Default 67,108,864. As above. At most so many are stored
    /// beside our own.
    pub max_peer_prompt_blocks: u64,
    /// Ranks known at one time, at least 1. Default 65,536. Above it, adding a rank is refused.
    pub max_ranks: u32,
    /// Attempts remembered that ended before they were booked. Default 65,536; 0 for none. Above it the oldest is
    /// forgotten, and its booking would count when it came.
    pub max_tombstones: u32,
}

impl LoadConfig {
    /// The largest accepted [`max_requests`](Self::max_requests): sums over that many requests cannot overflow.
    pub const MAX_REQUESTS: u32 = 1 << 24;

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field outside its range.
    pub const fn validate(&self) -> Result<(), LoadConfigError> {
        if self.max_requests == 0 || self.max_requests > Self::MAX_REQUESTS {
            return Err(LoadConfigError::MaxRequests { given: self.max_requests });
        }
        if self.max_peer_requests > Self::MAX_REQUESTS {
            return Err(LoadConfigError::MaxPeerRequests { given: self.max_peer_requests });
        }
        if self.max_prompt_blocks == 0 {
            return Err(LoadConfigError::MaxPromptBlocks);
        }
        if self.max_ranks == 0 {
            return Err(LoadConfigError::MaxRanks);
        }
        Ok(())
    }
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            max_requests: 1 << 18,
            max_prompt_blocks: 1 << 25,
            max_peer_requests: 1 << 20,
            max_peer_prompt_blocks: 1 << 26,
            max_ranks: 1 << 16,
            max_tombstones: 1 << 16,
        }
    }
}

/// A field of [`LoadConfig`] outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadConfigError {
    /// `max_requests` is 0 or above [`LoadConfig::MAX_REQUESTS`].
    MaxRequests {
        /// The refused value.
        given: u32,
    },
    /// `max_peer_requests` is above [`LoadConfig::MAX_REQUESTS`].
    MaxPeerRequests {
        /// The refused value.
        given: u32,
    },
    /// [`JournalConfig::max_message_bytes`](crate::JournalConfig::max_message_bytes) is below 1,024 or above 2^30.
    MaxMessageBytes {
        /// The refused value, in bytes.
        given: usize,
    },
    /// `max_prompt_blocks` is 0.
    MaxPromptBlocks,
    /// `max_ranks` is 0.
    MaxRanks,
}

impl fmt::Display for LoadConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxRequests { given } => {
                write!(f, "max_requests is {given}: choose 1..={}", LoadConfig::MAX_REQUESTS)
            }
            Self::MaxPeerRequests { given } => {
                write!(f, "max_peer_requests is {given}: choose 0..={}", LoadConfig::MAX_REQUESTS)
            }
            Self::MaxMessageBytes { given } => {
                write!(f, "max_message_bytes is {given}: choose 1024..={}", 1 << 30)
            }
            Self::MaxPromptBlocks => f.write_str("max_prompt_blocks is 0: choose at least 1"),
            Self::MaxRanks => f.write_str("max_ranks is 0: choose at least 1"),
        }
    }
}

impl Error for LoadConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut LoadConfig), expected: Result<(), LoadConfigError>) {
        let mut config = LoadConfig::default();
        change(&mut config);
        assert_eq!(config.validate(), expected);
    }

    #[test]
    fn each_field_is_checked_and_named() {
        check(|_| (), Ok(()));
        check(|c| c.max_requests = 1 << 24, Ok(()));
        check(|c| c.max_requests = 0, Err(LoadConfigError::MaxRequests { given: 0 }));
        check(|c| c.max_requests = (1 << 24) + 1, Err(LoadConfigError::MaxRequests { given: (1 << 24) + 1 }));
        check(|c| c.max_peer_requests = 0, Ok(()));
        let given = (1 << 24) + 1;
        check(|c| c.max_peer_requests = given, Err(LoadConfigError::MaxPeerRequests { given }));
        check(|c| c.max_prompt_blocks = 0, Err(LoadConfigError::MaxPromptBlocks));
        check(|c| c.max_ranks = 0, Err(LoadConfigError::MaxRanks));
        assert!(LoadConfigError::MaxRequests { given: 0 }.to_string().contains("max_requests is 0"));
    }
}
