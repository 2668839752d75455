//! The in-process transport: a bounded channel of batches inside one program.

mod error;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel as cb;

pub use error::{RecvError, SendError};

use crate::EventBatch;

/// Makes the in-process transport: a channel that holds at most `capacity` batches.
///
/// The slots are allocated here, less than 100 bytes each; events stay where their batch has them. It has no
/// replay source: a batch that was refused and dropped is a gap, and the rank goes cold.
///
/// # Order
///
/// What one sender sends is received in that order. Clones of a sender interleave freely, so the batches of one
/// rank go through one of them. There is one receiver, and it takes `&mut self`: two consumers would race each
/// other and reorder a rank.
///
/// # Close
///
/// There is no close call: an end closes by being dropped, so no send can slip in behind a close.
///
/// * The last sender is dropped: the receiver still gets everything that was queued, then [`RecvError::Closed`].
/// * The receiver is dropped: every send, waiting ones included, gives its batch back in [`SendError::Closed`].
///   What is queued then is discarded: a successful send means queued, not received. Once both ends are quiet,
///   [`ChannelCounters::sent`] less [`ChannelCounters::received`] tells how many that were.
pub fn batch_channel(capacity: NonZeroUsize) -> (BatchSender, BatchReceiver) {
    let (sender, receiver) = cb::bounded(capacity.get());
    let counters = Arc::new(Counters::default());
    let sender = BatchSender { inner: sender, counters: Arc::clone(&counters) };
    (sender, BatchReceiver { inner: receiver, counters })
}

/// The end that publishes. Clones share the channel; [`batch_channel`] says what that means for order.
#[derive(Clone)]
pub struct BatchSender {
    inner: cb::Sender<EventBatch>,
    counters: Arc<Counters>,
}

impl BatchSender {
    /// Queues a batch, or gives it back at once.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] when the receiver lags by the whole capacity, [`SendError::Closed`] when it is gone.
    /// Dropping a refused batch is a gap that the receiver sees: the next batch's sequence number tells.
    pub fn try_send(&self, batch: EventBatch) -> Result<(), SendError> {
        let outcome = self.inner.try_send(batch).map_err(|refused| match refused {
            cb::TrySendError::Full(batch) => SendError::Full(batch),
            cb::TrySendError::Disconnected(batch) => SendError::Closed(batch),
        });
        self.count(outcome)
    }

    /// Queues a batch, waiting up to `patience` for room.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] when there was no room in time, [`SendError::Closed`] when the receiver is gone or
    /// went while this waited.
    pub fn send_timeout(&self, batch: EventBatch, patience: Duration) -> Result<(), SendError> {
        let outcome = self.inner.send_timeout(batch, patience).map_err(|refused| match refused {
            cb::SendTimeoutError::Timeout(batch) => SendError::Full(batch),
            cb::SendTimeoutError::Disconnected(batch) => SendError::Closed(batch),
        });
        self.count(outcome)
    }

    /// Batches queued now.
    pub fn depth(&self) -> usize {
        self.inner.len()
    }

    /// What went through so far, from all senders.
    pub fn counters(&self) -> ChannelCounters {
        self.counters.read()
    }

    fn count(&self, outcome: Result<(), SendError>) -> Result<(), SendError> {
        let counter = match &outcome {
            Ok(()) => &self.counters.sent,
            Err(SendError::Full(_)) => &self.counters.refused_full,
            Err(SendError::Closed(_)) => &self.counters.refused_closed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        outcome
    }
}

/// The end that subscribes: one a channel.
pub struct BatchReceiver {
    inner: cb::Receiver<EventBatch>,
    counters: Arc<Counters>,
}

impl BatchReceiver {
    /// Takes the next batch if there is one.
    ///
    /// # Errors
    ///
    /// [`RecvError::Empty`] when nothing is queued, [`RecvError::Closed`] when nothing will ever be.
    pub fn try_recv(&mut self) -> Result<EventBatch, RecvError> {
        let outcome = self.inner.try_recv().map_err(|error| match error {
            cb::TryRecvError::Empty => RecvError::Empty,
            cb::TryRecvError::Disconnected => RecvError::Closed,
        });
        self.count(outcome)
    }

    /// Takes the next batch, waiting up to `patience` for one.
    ///
    /// # Errors
    ///
    /// [`RecvError::Empty`] when nothing came in time, [`RecvError::Closed`] when nothing will ever come.
    pub fn recv_timeout(&mut self, patience: Duration) -> Result<EventBatch, RecvError> {
        let outcome = self.inner.recv_timeout(patience).map_err(|error| match error {
            cb::RecvTimeoutError::Timeout => RecvError::Empty,
            cb::RecvTimeoutError::Disconnected => RecvError::Closed,
        });
        self.count(outcome)
    }

    /// Moves what is queued to the end of `out`, at most `limit` batches, and says how many.
    ///
    /// Never waits. The limit is what ends a drain while publishers keep up with it.
    pub fn drain_into(&mut self, out: &mut Vec<EventBatch>, limit: usize) -> usize {
        let before = out.len();
        while out.len() - before < limit {
            match self.try_recv() {
                Ok(batch) => out.push(batch),
                Err(_) => break,
            }
        }
        out.len() - before
    }

    /// Batches queued now.
    pub fn depth(&self) -> usize {
        self.inner.len()
    }

    /// What went through so far.
    pub fn counters(&self) -> ChannelCounters {
        self.counters.read()
    }

    fn count(&self, outcome: Result<EventBatch, RecvError>) -> Result<EventBatch, RecvError> {
        if outcome.is_ok() {
            self.counters.received.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

impl fmt::Debug for BatchSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("BatchSender", self.depth(), self.counters(), f)
    }
}

impl fmt::Debug for BatchReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("BatchReceiver", self.depth(), self.counters(), f)
    }
}

fn describe(end: &str, depth: usize, counters: ChannelCounters, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct(end).field("depth", &depth).field("counters", &counters).finish_non_exhaustive()
}

/// What went through a channel, in batches. Each number only grows.
///
/// They are read one by one: while threads are sending, `received` may be ahead of `sent` for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelCounters {
    /// Queued.
    pub sent: u64,
    /// Taken by the receiver.
    pub received: u64,
    /// Given back because the channel was full, at once or after the wait.
    pub refused_full: u64,
    /// Given back because the receiver is gone.
    pub refused_closed: u64,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    refused_full: AtomicU64,
    refused_closed: AtomicU64,
}

impl Counters {
    fn read(&self) -> ChannelCounters {
        ChannelCounters {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            refused_full: self.refused_full.load(Ordering::Relaxed),
            refused_closed: self.refused_closed.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
