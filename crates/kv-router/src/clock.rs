//! Where the facade gets the time from.

use std::fmt;
use std::time::Instant;

/// A source of time. Programs use [`SystemClock`]; tests and simulations bring their own.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Instant;
}

/// The operating system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the facade reads the clock")]
    fn now(&self) -> Instant {
        Instant::now()
    }
}
