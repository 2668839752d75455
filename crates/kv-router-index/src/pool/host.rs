//! What a pool asks of whoever embeds it.

use std::time::Instant;

use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use crate::ApplyError;

/// What a pool asks of whoever embeds it: the time, and an ear for what went wrong.
///
/// A function that tells the time is a host that listens to nothing: what goes wrong is counted anyhow.
/// The calls come from the pool's threads and hold up the events behind: hand over and return. Do not enqueue
/// from there: the queue may be full, and its thread is the caller.
pub trait PoolHost: Send + Sync + 'static {
    /// The time, for [`Lag`](crate::Lag).
    fn now(&self) -> Instant;

    /// The index refused an event. By default nothing more is done about it.
    fn refused(&self, from: WorkerRank, event: KvEvent, error: ApplyError) {
        let _ = (from, event, error);
    }

    /// The index panicked on an event of this worker. By default nothing more is done about it.
    fn panicked(&self, worker: WorkerId) {
        let _ = worker;
    }
}

impl<F: Fn() -> Instant + Send + Sync + 'static> PoolHost for F {
    fn now(&self) -> Instant {
        self()
    }
}
