//! What is known of each publisher, and of the subscriber as a whole.

use std::time::Instant;

use crate::MessageFaults;

/// How one publisher does. Numbers only grow.
///
/// What the sequence machine knows (gaps, standing, restarts) is in [`FeedHealth`](kv_router_transport::FeedHealth).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherHealth {
    /// Connections that stand now: 0 or 1 where we connect, any number where we listen.
    pub connected: u32,
    /// Connections made so far.
    pub connections: u64,
    /// Connections that were lost, or could not be made in time.
    pub disconnects: u64,
    /// Sockets that could not be made: no file handles left, or an endpoint that cannot be bound.
    pub socket_errors: u64,
    /// When the last live message came. `None`: none yet. On an idle engine this is old and nothing is wrong.
    pub last_message: Option<Instant>,
    /// The number of the last live batch.
    pub last_sequence: Option<u64>,
    /// Live batches received.
    pub batches: u64,
    /// Payload bytes of live batches received.
    pub bytes: u64,
    /// Live batches that were dropped because nobody took what was queued. Each is a gap to the sequencer.
    pub dropped: u64,
    /// Live messages that were no batch.
    pub faults: MessageFaults,
    /// Replays.
    pub replays: ReplayCounts,
}

/// What became of replay requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayCounts {
    /// Asked for.
    pub asked: u64,
    /// Tries, first ones included.
    pub tries: u64,
    /// Complete.
    pub ended: u64,
    /// Not complete.
    pub failed: u64,
    /// Replaced by a later request, or cancelled.
    pub cancelled: u64,
    /// Batches received.
    pub batches: u64,
    /// Messages that were no batch.
    pub faults: MessageFaults,
}

/// How the subscriber does. Numbers only grow, but for those of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriberCounters {
    /// Messages waiting to be taken, now.
    pub queued_messages: usize,
    /// Their payload bytes, now.
    pub queued_bytes: usize,
    /// Replays waiting or running, now.
    pub open_replays: usize,
    /// Live batches dropped at a full queue, of all publishers.
    pub dropped: u64,
}
