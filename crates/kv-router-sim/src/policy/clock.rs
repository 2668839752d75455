//! Virtual time for those who take their time from a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_router::Clock;

use crate::time::SimTime;

/// The router's view of virtual time.
#[derive(Clone, Debug)]
pub(super) struct VirtualClock {
    /// Only a point to count from: it decides nothing.
    origin: Instant,
    nanos: Arc<AtomicU64>,
}

impl VirtualClock {
    #[expect(clippy::disallowed_methods, reason = "an Instant can only be made from another one")]
    pub(super) fn new() -> Self {
        Self { origin: Instant::now(), nanos: Arc::default() }
    }

    pub(super) fn set(&self, now: SimTime) {
        self.nanos.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}
