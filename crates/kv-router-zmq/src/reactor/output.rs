//! The queue between the thread and whoever reads: bounded in messages and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::{Incoming, SubscriberConfig};

/// What is in the queue. The channel itself has no bound; these counts are it.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Depth {
    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn taken(&self, incoming: &Incoming) {
        self.bytes.fetch_sub(incoming.payload_bytes(), Ordering::Relaxed);
        self.messages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The thread's end of the queue.
pub(super) struct Output {
    sender: Sender<Incoming>,
    depth: Arc<Depth>,
    messages: usize,
    bytes: usize,
}

pub(super) fn output(config: &SubscriberConfig) -> (Output, Receiver<Incoming>, Arc<Depth>) {
    let (sender, receiver) = unbounded();
    let depth = Arc::new(Depth::default());
    let output = Output {
        sender,
        depth: Arc::clone(&depth),
        messages: config.queue_messages,
        bytes: config.queue_bytes,
    };
    (output, receiver, depth)
}

impl Output {
    /// Queues a live batch, or drops it at a full queue and says so.
    pub(super) fn live(&mut self, incoming: Incoming) -> bool {
        if self.is_full() {
            self.depth.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.push(incoming);
        true
    }

    /// Queues a replayed batch. Replays are read only while the queue is not half full, so there is room.
    pub(super) fn replayed(&mut self, incoming: Incoming) {
        self.push(incoming);
    }

    /// Queues what must not be lost, or says that it has to be tried again. It has room of its own, as large as the
    /// queue, so that a reader who is behind learns of a new connection before the messages on it.
    pub(super) fn control(&mut self, incoming: Incoming) -> bool {
        let room = self.depth.messages() < self.messages.saturating_mul(2);
        if room {
            self.push(incoming);
        }
        room
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.depth.messages() > self.messages / 2 || self.depth.bytes() > self.bytes / 2
    }

    fn is_full(&self) -> bool {
        self.depth.messages() >= self.messages || self.depth.bytes() >= self.bytes
    }

    fn push(&mut self, incoming: Incoming) {
        self.depth.bytes.fetch_add(incoming.payload_bytes(), Ordering::Relaxed);
        self.depth.messages.fetch_add(1, Ordering::Relaxed);
        // Nobody reads any more: the thread is about to be told to stop.
        let _ = self.sender.send(incoming);
    }
}
