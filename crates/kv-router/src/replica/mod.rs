//! A router at the end of a transport that puts batches in order itself: what it applies, forgets and takes over, who
//! joins and leaves, and what goes to the other routers.

mod lane;
mod spec;

use std::fmt;
use std::sync::Arc;

use kv_router_transport::{
    Audience, DumpFingerprint, EventBatch, FleetSnapshot, FollowSink, ForgetReason, ReplicaSink, Standing,
    Watermark,
};
use kv_router_types::{KvEvent, WorkerId, WorkerRank};

pub use spec::{SpecDecodeError, SpecEncodeError};

use crate::{EventSource, PeerLimits, PeerMessage, Recipient, Router, WorkerSpec};

/// Gives a router to whatever carries the streams of its fleet: it is the [`ReplicaSink`] of a transport, for example of
/// `kv_router_nats::Replica`.
///
/// Events, workers and messages of other routers come in by one thread; decisions are made on the [`Router`] itself,
/// on any number of them. A rank that is fed so must not be [fed](Router::apply) by anybody else.
pub struct RouterReplica {
    router: Arc<Router>,
    limits: PeerLimits,
    counters: ReplicaCounters,
}

/// What could not be passed on. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaCounters {
    /// Workers whose description could not be read, or that the router did not take.
    pub refused_workers: u64,
    /// Batches and states of ranks that the router does not take from here: not joined, without events, or with an
    /// [engine stream](Router::engine_stream).
    pub refused_batches: u64,
    /// Messages of other routers that could not be read.
    pub malformed_messages: u64,
    /// Messages to other routers above a limit of [`PeerLimits`].
    pub oversized_messages: u64,
    /// Snapshots that could not be written.
    pub failed_snapshots: u64,
}

impl RouterReplica {
    /// Messages that other routers get keep to `limits`. Give all routers the same, and no more bytes than the
    /// transport carries.
    pub fn new(router: Arc<Router>, limits: PeerLimits) -> Self {
        Self { router, limits, counters: ReplicaCounters::default() }
    }

    /// The router.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// What a snapshot has to be of to mean anything to this router: give it to whatever reads snapshots.
    pub fn fingerprint(&self) -> DumpFingerprint {
        crate::snapshot::fingerprint(self.router.scheme())
    }

    /// What could not be passed on.
    pub fn counters(&self) -> ReplicaCounters {
        self.counters
    }
}

impl FollowSink for RouterReplica {
    fn apply(&mut self, batch: EventBatch) {
        self.counters.refused_batches += u64::from(self.router.apply(&batch).is_err());
    }

    fn forget(&mut self, rank: WorkerRank, _reason: ForgetReason) {
        self.router.forget_rank(rank);
    }

    fn restore(&mut self, rank: WorkerRank, watermark: Watermark, events: &[KvEvent]) {
        let taken = self.router.replace_rank(rank, watermark, events);
        self.counters.refused_batches += u64::from(!taken);
    }

    fn standing(&mut self, rank: WorkerRank, standing: Standing) {
        self.router.set_standing(rank, standing);
    }
}

impl ReplicaSink for RouterReplica {
    fn join(&mut self, worker: WorkerId, about: &[u8]) -> u32 {
        // Nothing is known of its cache from here on, and nothing of its load.
        let _was_there = self.router.leave(worker);
        let Ok(spec) = WorkerSpec::decode(about) else {
            self.counters.refused_workers += 1;
            return 0;
        };
        let followed = if spec.events == EventSource::On { spec.ranks } else { 0 };
        if self.router.join(worker, spec).is_err() {
            self.counters.refused_workers += 1;
            return 0;
        }
        followed
    }

    fn leave(&mut self, worker: WorkerId) {
        // One that was refused is not there.
        let _was_there = self.router.leave(worker);
    }

    fn tell_peers(&mut self, tell: &mut dyn FnMut(Audience, Vec<u8>)) {
        for envelope in self.router.poll_peers() {
            let mut bytes = Vec::new();
            if envelope.message.encode(&self.limits, &mut bytes).is_err() {
                self.counters.oversized_messages += 1;
                continue;
            }
            let audience = match envelope.to {
                Recipient::Everyone => Audience::Everyone,
                Recipient::Only(replica) => Audience::Replica(replica.get()),
            };
            tell(audience, bytes);
        }
    }

    fn hear_peer(&mut self, message: &[u8]) {
        let Ok(message) = PeerMessage::decode(message, &self.limits) else {
            self.counters.malformed_messages += 1;
            return;
        };
        // What came of it is counted by the router.
        let _outcome = self.router.receive_peer(message);
    }

    fn snapshot(&mut self) -> Option<FleetSnapshot> {
        let mut bytes = Vec::new();
        match self.router.snapshot(&mut bytes) {
            Ok(report) => Some(FleetSnapshot { bytes, ranks: report.ranks, left_out: report.left_out }),
            Err(_) => {
                self.counters.failed_snapshots += 1;
                None
            }
        }
    }
}

impl fmt::Debug for RouterReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterReplica").field("counters", &self.counters).finish_non_exhaustive()
    }
}
