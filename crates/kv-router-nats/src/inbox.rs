//! One subscription, into a queue that is bounded by messages and by bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use futures_util::StreamExt;

use crate::error::RequestError;
use crate::link::{Shared, Task, subscribe};

/// A message that waits.
pub(crate) struct Message {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
}

/// A subscription. It ends when this is dropped.
pub(crate) struct Inbox {
    waiting: Receiver<Message>,
    room: Arc<Room>,
    _task: Task,
}

#[derive(Default)]
struct Room {
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Inbox {
    /// Subscribes; see [`subscribe`].
    pub(crate) fn open(shared: &Arc<Shared>, subject: String) -> Result<Self, RequestError> {
        let (client, wait) = (shared.client.clone(), shared.config.request_wait);
        let subscriber = shared.call(wait, async move { subscribe(&client, subject).await })?;
        let (sender, waiting) = bounded(shared.config.waiting_messages);
        let room = Arc::new(Room::default());
        let task = shared.spawn(fill(subscriber, sender, Arc::clone(&room), shared.config.waiting_bytes));
        Ok(Self { waiting, room, _task: task })
    }

    /// What waits; give each message taken from it to [`taken`](Self::taken).
    pub(crate) fn waiting(&self) -> &Receiver<Message> {
        &self.waiting
    }

    /// A message was taken out: there is room for its bytes again.
    pub(crate) fn taken(&self, message: &Message) {
        self.room.bytes.fetch_sub(message.payload.len(), Ordering::Relaxed);
    }

    /// Messages that came when there was no room.
    pub(crate) fn dropped(&self) -> u64 {
        self.room.dropped.load(Ordering::Relaxed)
    }
}

async fn fill(mut from: async_nats::Subscriber, to: Sender<Message>, room: Arc<Room>, limit: usize) {
    while let Some(message) = from.next().await {
        let bytes = message.payload.len();
        // Only this task adds, so the sum cannot pass the limit between the look and the addition.
        if room.bytes.load(Ordering::Relaxed).saturating_add(bytes) > limit {
            room.dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        room.bytes.fetch_add(bytes, Ordering::Relaxed);
        let message = Message { subject: message.subject.as_str().to_owned(), payload: message.payload };
        if to.try_send(message).is_err() {
            room.bytes.fetch_sub(bytes, Ordering::Relaxed);
            room.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
