//! Who owns a cache.

use std::fmt;

/// One inference worker: an engine process group with one address, chosen by the gateway.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(u64);

impl WorkerId {
    /// Wraps the gateway's own number for a worker.
    #[inline]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The gateway's own number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerId({})", self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Data-parallel rank inside one worker, from 0. An engine without data parallelism has rank 0 alone.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DpRank(u32);

impl DpRank {
    /// Wraps a rank number.
    #[inline]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The rank number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for DpRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DpRank({})", self.0)
    }
}

impl fmt::Display for DpRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One data-parallel rank of one worker: the unit that owns a cache, publishes events and carries load.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerRank {
    /// The worker.
    pub worker: WorkerId,
    /// The rank inside it.
    pub rank: DpRank,
}

impl WorkerRank {
    /// A rank of a worker.
    #[inline]
    pub const fn new(worker: WorkerId, rank: DpRank) -> Self {
        Self { worker, rank }
    }
}

/// Rank 0, for workers without data parallelism.
impl From<WorkerId> for WorkerRank {
    fn from(worker: WorkerId) -> Self {
        Self::new(worker, DpRank::new(0))
    }
}

impl fmt::Debug for WorkerRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerRank({self})")
    }
}

/// `worker@rank`, as gateways write it.
impl fmt::Display for WorkerRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.worker, self.rank)
    }
}

/// The gateway's own name for one request, for instance its UUID.
///
/// 128 bits, so that a UUID fits whole and a hash of any other name does not collide in practice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// Wraps a raw 128-bit value.
    #[inline]
    pub const fn new(raw: u128) -> Self {
        Self(raw)
    }

    /// The raw 128-bit value.
    #[inline]
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({:032x})", self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
