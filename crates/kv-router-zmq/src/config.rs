//! What a subscriber may spend, how long it waits, and whom it listens to.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kv_router_transport::ReplayWaits;

use crate::{Attach, Backoff, Endpoint};

/// Longest wait that can be meant. ZeroMQ counts milliseconds in 32 bits.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Bounds and waits of one [`Subscriber`](crate::Subscriber).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberConfig {
    /// Most bytes of a frame. Default: 16 MiB. A longer one is skipped and counted; beyond twice this many it is
    /// not even received, and the connection is closed and made again.
    pub frame_bytes: usize,
    /// Most messages that ZeroMQ keeps for one publisher until the thread takes them. Default: 10,000.
    pub backlog: u32,
    /// Most messages that wait to be taken from the subscriber. Default: 65,536.
    pub queue_messages: usize,
    /// Most payload bytes that wait to be taken. Default: 256 MiB.
    pub queue_bytes: usize,
    /// How a dead connection is told from an idle publisher. Default: a ping every 5 s, given up after 15 s.
    pub heartbeat: Heartbeat,
    /// How soon a lost connection is made again. Default: after 100 ms, up to 5 s.
    pub reconnect: Backoff,
    /// How replays are asked for.
    pub replay: ReplayPolicy,
    /// Where chance in waits starts. Default: 0. Give each router another one.
    pub seed: u64,
}

/// Pings. Engines answer them, although they send none themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two pings.
    pub interval: Duration,
    /// A connection on which nothing came for this long after a ping is dead; also the longest that connecting
    /// may take.
    pub timeout: Duration,
}

/// How a replay is asked for, and when it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPolicy {
    /// Longest silence of a source. Default: 2 s.
    pub idle: Duration,
    /// Longest time from the request to the last batch, waiting for a turn and other tries included. Default: 30 s.
    pub total: Duration,
    /// How often a source that falls silent, or whose answer has a hole, is asked. Default: 3.
    pub tries: u32,
    /// Waits between tries. Default: 200 ms, up to 2 s.
    pub backoff: Backoff,
    /// Replays that run at the same time; others wait. Default: 8. An engine does not publish while it replays.
    pub at_once: usize,
}

impl Default for SubscriberConfig {
    fn default() -> Self {
        Self {
            frame_bytes: 16 << 20,
            backlog: 10_000,
            queue_messages: 65_536,
            queue_bytes: 256 << 20,
            heartbeat: Heartbeat { interval: Duration::from_secs(5), timeout: Duration::from_secs(15) },
            reconnect: Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) },
            replay: ReplayPolicy::default(),
            seed: 0,
        }
    }
}

impl Default for ReplayPolicy {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(2),
            total: Duration::from_secs(30),
            tries: 3,
            backoff: Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(2) },
            at_once: 8,
        }
    }
}

impl ReplayPolicy {
    /// How long whoever asked waits for an answer: a little longer than the subscriber does, which knows more about the
    /// reasons.
    pub fn waits(&self) -> ReplayWaits {
        let wait = self.total + Duration::from_secs(1);
        ReplayWaits { idle: wait, total: wait }
    }
}

impl SubscriberConfig {
    /// Checks that every number means something.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("frame_bytes", self.frame_bytes, 1 << 30),
            ("backlog", self.backlog as usize, 1 << 30),
            ("queue_messages", self.queue_messages, 1 << 30),
            ("queue_bytes", self.queue_bytes, 1 << 40),
            ("replay.tries", self.replay.tries as usize, 1_000),
            ("replay.at_once", self.replay.at_once, 256),
        ];
        for (field, value, most) in counts {
            if value == 0 || value > most {
                return Err(ConfigError::CountOutOfRange { field, value, most });
            }
        }
        let waits = [
            ("heartbeat.interval", self.heartbeat.interval),
            ("heartbeat.timeout", self.heartbeat.timeout),
            ("reconnect.first", self.reconnect.first),
            ("reconnect.longest", self.reconnect.longest),
            ("replay.idle", self.replay.idle),
            ("replay.total", self.replay.total),
            ("replay.backoff.first", self.replay.backoff.first),
            ("replay.backoff.longest", self.replay.backoff.longest),
        ];
        for (field, wait) in waits {
            if wait < Duration::from_millis(1) || wait > MAX_WAIT {
                return Err(ConfigError::WaitOutOfRange { field, wait });
            }
        }
        Ok(())
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A count is 0, or too large to be meant.
    CountOutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        value: usize,
        /// The largest accepted.
        most: usize,
    },
    /// A wait is below a millisecond, or above a day.
    WaitOutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        wait: Duration,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CountOutOfRange { field, value, most } => {
                write!(f, "{field} is {value}: choose 1 to {most}")
            }
            Self::WaitOutOfRange { field, wait } => {
                write!(f, "{field} is {wait:?}: choose 1 ms to 24 hours")
            }
        }
    }
}

impl Error for ConfigError {}

/// One publisher to listen to: a data-parallel rank of an engine, as a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its live stream.
    pub live: Attach,
    /// Where it answers replay requests, if it does.
    pub replay: Option<Endpoint>,
    /// Only topics that begin so are received. Empty: all.
    pub topic: Vec<u8>,
}

impl Source {
    /// Connects to a live stream, all topics.
    pub fn connect(live: Endpoint) -> Self {
        Self { live: Attach::Connect(live), replay: None, topic: Vec::new() }
    }

    /// Listens for publishers that connect to us, all topics. Several may come to the same endpoint: tell them
    /// apart by their topics, and give each a feed of its own.
    pub fn bind(live: Endpoint) -> Self {
        Self { live: Attach::Bind(live), replay: None, topic: Vec::new() }
    }

    /// With a replay endpoint.
    pub fn with_replay(mut self, replay: Endpoint) -> Self {
        self.replay = Some(replay);
        self
    }

    /// Only topics that begin with this.
    pub fn with_topic(mut self, prefix: &[u8]) -> Self {
        self.topic = prefix.to_vec();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_named() {
        assert_eq!(SubscriberConfig::default().validate(), Ok(()));
        let error = SubscriberConfig { queue_messages: 0, ..Default::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "queue_messages is 0: choose 1 to 1073741824");
        let replay = ReplayPolicy { idle: Duration::ZERO, ..Default::default() };
        let error = SubscriberConfig { replay, ..Default::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "replay.idle is 0ns: choose 1 ms to 24 hours");
    }
}
