//! What routers tell each other of their sessions. Plain data: how it travels is the caller's business.

use std::time::Duration;

use kv_router_types::WorkerRank;

use super::SessionId;

/// How young a binding is: by count, then by who made it, so that all routers agree which of two is younger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingVersion {
    /// One more than the highest that its maker had seen.
    pub count: u64,
    /// Who made it.
    pub replica: u64,
}

/// Where a session is bound now. It may come late, often and out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionGossip {
    /// The session.
    pub session: SessionId,
    /// Where it is bound; `None` when it was unbound.
    pub worker: Option<WorkerRank>,
    /// How young that is.
    pub version: BindingVersion,
    /// How long the session had not been used when this was said. Zero when it is said at once.
    pub idle: Duration,
}
