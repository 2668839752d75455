//! What is told to whoever keeps the state of a fleet, by whoever receives its streams.
//!
//! The two do not know each other: a router has no sockets, and a client of a broker no index. These traits are what
//! they share.

use kv_router_types::{KvEvent, WorkerId, WorkerRank};

use crate::{EventBatch, ForgetReason, Standing, Watermark};

/// What keeps the state of ranks, an index or a router, and leaves their sequence machines to its caller.
///
/// What comes in keeps the rules of [`StreamSequencer`](crate::StreamSequencer): between two calls of
/// [`forget`](Self::forget) or [`restore`](Self::restore) for a rank, its batches are a run of one life.
pub trait FollowSink {
    /// Apply these, in order.
    fn apply(&mut self, batch: EventBatch);

    /// Forget all that the rank holds, in every tier.
    fn forget(&mut self, rank: WorkerRank, reason: ForgetReason);

    /// Replace all that the rank holds by what these events build: its state as of `watermark`.
    fn restore(&mut self, rank: WorkerRank, watermark: Watermark, events: &[KvEvent]);

    /// What is held of the rank can be trusted so far from here on. Ranks begin as [`Standing::Cold`].
    fn standing(&mut self, rank: WorkerRank, standing: Standing);
}

/// A whole router over one fleet, to whoever connects it with the workers and the other routers.
pub trait ReplicaSink: FollowSink {
    /// The worker is there, and says this of itself. How many ranks of it are to be followed, from rank 0; 0 when it was
    /// not taken, or tells no events. One that is there already is there anew, as of now.
    fn join(&mut self, worker: WorkerId, about: &[u8]) -> u32;

    /// The worker is gone. Nothing of it is followed any more.
    fn leave(&mut self, worker: WorkerId);

    /// Hands over all that other routers have to be told now, a message a call of `tell`.
    fn tell_peers(&mut self, tell: &mut dyn FnMut(Audience, Vec<u8>));

    /// Another router, or this one, said something: however late, often or out of order.
    fn hear_peer(&mut self, message: &[u8]);

    /// Writes down the state of the fleet, as a dump with a watermark for each rank in it. `None` when it cannot.
    fn snapshot(&mut self) -> Option<FleetSnapshot>;
}

/// Who has to get a message between routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Every router.
    Everyone,
    /// The router of this number.
    Replica(u64),
}

/// The state of a fleet, written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetSnapshot {
    /// The dump.
    pub bytes: Vec<u8>,
    /// Ranks in it.
    pub ranks: usize,
    /// Ranks of the fleet that are not, because what is known of them is not all they hold.
    pub left_out: usize,
}
