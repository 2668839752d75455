//! The knobs of a queue, and what it refuses.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Who is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// Who came first, among those of the highest priority. The shortest tail of waiting times.
    #[default]
    Fcfs,
    /// The highest `(1 + priority) / uncached_tokens`: short work first. The shortest mean.
    Wspt,
    /// Who came last, among those of the highest priority. For clients that have given up by the time an old request
    /// would be served.
    Lcfs,
}

/// The knobs of a [`Queue`](crate::Queue). When a request has to wait at all is
/// [`FilterConfig::wait_prefill`](crate::FilterConfig::wait_prefill).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Who is next. Default: who came first.
    pub order: QueueOrder,
    /// Requests that may wait at a time, at least 1. Default 4,096.
    pub max_requests: u32,
    /// Prompt tokens to compute of all that wait, at least 1. Default 67,108,864.
    pub max_tokens: u64,
    /// After this time of waiting a request is overdue: overdue ones come before all others, in the order in which
    /// they arrived, whatever the order and the priorities. Default 30 s. It bounds how long a request can be
    /// overtaken.
    pub aging: Duration,
}

impl QueueConfig {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that is 0 and must not be.
    pub const fn validate(&self) -> Result<(), QueueConfigError> {
        if self.max_requests == 0 {
            return Err(QueueConfigError::MaxRequests);
        }
        if self.max_tokens == 0 {
            return Err(QueueConfigError::MaxTokens);
        }
        Ok(())
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            order: QueueOrder::default(),
            max_requests: 4_096,
            max_tokens: 1 << 26,
            aging: Duration::from_secs(30),
        }
    }
}

/// A field of [`QueueConfig`] outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueConfigError {
    /// `max_requests` is 0.
    MaxRequests,
    /// `max_tokens` is 0.
    MaxTokens,
}

impl fmt::Display for QueueConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self {
            Self::MaxRequests => "max_requests",
            Self::MaxTokens => "max_tokens",
        };
        write!(f, "{field} is 0: choose at least 1, or have no queue")
    }
}

impl Error for QueueConfigError {}

/// Why a request may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueFull {
    /// [`QueueConfig::max_requests`] are waiting.
    Requests {
        /// The limit, in requests.
        limit: u32,
    },
    /// Its tokens do not fit under [`QueueConfig::max_tokens`].
    Tokens {
        /// Tokens of those that wait.
        waiting: u64,
        /// Tokens of this one.
        asked: u64,
        /// The limit, in tokens.
        limit: u64,
    },
    /// Its deadline is over already.
    DeadlinePassed,
}

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { limit } => {
                write!(f, "{limit} requests are waiting: shed load, or raise max_requests")
            }
            Self::Tokens { waiting, asked, limit } => write!(
                f,
                "{asked} tokens do not fit beside the {waiting} that wait, under {limit}: shed load, or raise \
                 max_tokens"
            ),
            Self::DeadlinePassed => f.write_str("the deadline is over already: answer the client so"),
        }
    }
}

/// A request that may not wait, handed back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// The request, as it was given.
    pub item: T,
    /// Why.
    pub reason: QueueFull,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<T> Error for Refused<T> {}
