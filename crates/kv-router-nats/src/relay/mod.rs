//! Beside the engines: numbers what happens in their caches, publishes it, and gives it again to who missed it.

pub(crate) mod buffer;
mod split;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use kv_router_transport::Incarnation;
use kv_router_types::{KvEvent, WorkerRank};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use self::buffer::ReplayBuffer;
use crate::config::{check_count, check_wait};
use crate::error::{ConfigError, RequestError};
use crate::link::{Link, Shared, Task, round_trip, subscribe};
use crate::replay::{Ask, FRAME_HEAD_BYTES, PAGE_HEAD_BYTES};

/// Largest newest batch that is sent again as a beat; after a larger one an empty batch is.
const BEAT_BYTES: usize = 1024;
/// What a NATS server takes as one message unless it is told otherwise.
const MOST_PAGE_BYTES: usize = 1 << 20;

/// How a relay publishes one rank.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RelayConfig {
    /// Largest frame; what is larger is published as several batches. Default: 256 KiB.
    pub frame_bytes: usize,
    /// Bytes of one answer to a replay request. At least a frame's, and no more than the server takes as one
    /// message. Default: 768 KiB.
    pub page_bytes: usize,
    /// Bytes of batches kept for replays, of one rank. Default: 32 MiB. Who missed more needs a snapshot.
    pub replay_bytes: usize,
    /// How often the newest batch is said again when nothing new is: whoever lost it learns of it no later.
    /// Default: 1 s.
    pub beat: Duration,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            frame_bytes: 256 << 10,
            page_bytes: 768 << 10,
            replay_bytes: 32 << 20,
            beat: Duration::from_secs(1),
        }
    }
}

impl RelayConfig {
    /// Checks that the parts fit together.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_wait("beat", self.beat)?;
        check_count("replay_bytes", self.replay_bytes)?;
        let head = PAGE_HEAD_BYTES + FRAME_HEAD_BYTES;
        for (field, found, least, most) in [
            ("frame_bytes", self.frame_bytes, split::LEAST_FRAME_BYTES, MOST_PAGE_BYTES - head),
            ("page_bytes", self.page_bytes, self.frame_bytes.saturating_add(head), MOST_PAGE_BYTES),
        ] {
            if found < least || found > most {
                let (found, least, most) = (found as u64, least as u64, most as u64);
                return Err(ConfigError::OutOfRange { field, found, least, most });
            }
        }
        Ok(())
    }
}

/// Publishes the cache events of one rank in one life of its engine.
///
/// Starting it says that the life began, with nothing in the cache: batch 0, which is empty. From then on followers
/// know that the rank holds nothing, and what it held in an earlier life is forgotten, before it has stored a block.
///
/// Batches are numbered without gaps. Publishing never waits: a batch that the broker does not get now is kept for
/// replays, and followers learn from the next one, or from the beat, that they miss it. Dropping the publisher
/// ends it; start the engine's next life with a new one and a larger incarnation, after the old one is dropped.
pub struct RankPublisher {
    shared: Arc<Shared>,
    state: Arc<State>,
    outgoing: mpsc::Sender<Outgoing>,
    frame_bytes: usize,
    _task: Task,
}

struct State {
    buffer: Mutex<ReplayBuffer>,
    published: AtomicU64,
    unsent: AtomicU64,
    beats: AtomicU64,
    pages: AtomicU64,
    refused: AtomicU64,
}

enum Outgoing {
    Frame(Bytes),
    Flush(oneshot::Sender<()>),
}

/// What a publisher did so far. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayCounters {
    /// Batches numbered, that of the beginning included.
    pub published: u64,
    /// Of those, batches that did not fit what waits to be sent, or that the client refused: to be had by replay
    /// only.
    pub unsent: u64,
    /// Times the newest batch was said again.
    pub beats: u64,
    /// Pages of replays given.
    pub pages: u64,
    /// Replay requests that made no sense.
    pub refused: u64,
}

impl RankPublisher {
    /// Starts to publish, and to answer replay requests.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when the configuration makes no sense, or the link is closed or silent.
    pub fn start(
        link: &Link,
        rank: WorkerRank,
        incarnation: Incarnation,
        config: RelayConfig,
    ) -> Result<Self, RequestError> {
        config.validate()?;
        let shared = Arc::clone(link.shared());
        let client = shared.client.clone();
        let subject = shared.config.prefix.replays(rank);
        let wait = shared.config.request_wait;
        let questions = shared.call(wait, async move { subscribe(&client, subject).await })?;
        let mut buffer = ReplayBuffer::new(rank, incarnation, config.replay_bytes);
        // Without it an idle rank would be as unknown as one whose relay is gone, and an old life's blocks would count
        // until the new life stores its first. As a batch it is repeated, replayed and kept in watermarks like any.
        let beginning = buffer.push(Vec::new())?;
        let state = Arc::new(State {
            buffer: Mutex::new(buffer),
            published: AtomicU64::new(1),
            unsent: AtomicU64::new(0),
            beats: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let (outgoing, waiting) = mpsc::channel(shared.config.outgoing_messages);
        let speaker = Speaker {
            client: shared.client.clone(),
            subject: shared.config.prefix.batches(rank),
            state: Arc::clone(&state),
            config,
        };
        let task = shared.spawn(speaker.run(beginning, waiting, questions));
        Ok(Self { shared, state, outgoing, frame_bytes: config.frame_bytes, _task: task })
    }

    /// Publishes what happened, in one batch or more, and returns the number of the last.
    ///
    /// # Errors
    ///
    /// [`RequestError::Encode`] or [`RequestError::Exhausted`]: nothing that comes from a broker.
    pub fn publish(&self, events: Vec<KvEvent>) -> Result<u64, RequestError> {
        let batches = split::split(events, self.frame_bytes);
        // Under the lock until they are queued: two callers must not swap their batches.
        let mut buffer = self.state.buffer.lock();
        for batch in batches {
            let frame = buffer.push(batch)?;
            self.state.published.fetch_add(1, Ordering::Relaxed);
            if self.outgoing.try_send(Outgoing::Frame(frame)).is_err() {
                self.state.unsent.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(buffer.next() - 1)
    }

    /// Waits until the broker has everything that was published, except what is counted as unsent.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when that takes longer than `wait`, or the link is closed.
    pub fn flush(&self, wait: Duration) -> Result<(), RequestError> {
        let (outgoing, client) = (self.outgoing.clone(), self.shared.client.clone());
        self.shared.call(wait, async move {
            let (done, flushed) = oneshot::channel();
            outgoing.send(Outgoing::Flush(done)).await.map_err(|_| RequestError::Closed)?;
            flushed.await.map_err(|_| RequestError::Closed)?;
            round_trip(&client).await
        })
    }

    /// What happened so far.
    pub fn counters(&self) -> RelayCounters {
        let state = &self.state;
        let [published, unsent, beats, pages, refused] =
            [&state.published, &state.unsent, &state.beats, &state.pages, &state.refused]
                .map(|counter| counter.load(Ordering::Relaxed));
        RelayCounters { published, unsent, beats, pages, refused }
    }
}

impl fmt::Debug for RankPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RankPublisher").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// The task of one rank.
struct Speaker {
    client: async_nats::Client,
    subject: String,
    state: Arc<State>,
    config: RelayConfig,
}

impl Speaker {
    async fn run(
        self,
        beginning: Bytes,
        mut waiting: mpsc::Receiver<Outgoing>,
        questions: async_nats::Subscriber,
    ) {
        // Two loops that share nothing but the buffer: a broker that takes no batches does not stop answers.
        tokio::join!(self.speak(beginning, &mut waiting), self.answer(questions));
    }

    async fn speak(&self, beginning: Bytes, waiting: &mut mpsc::Receiver<Outgoing>) {
        let mut beat = tokio::time::interval(self.config.beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Before what waits: it has the lowest number.
        self.send(beginning).await;
        beat.reset();
        loop {
            tokio::select! {
                outgoing = waiting.recv() => match outgoing {
                    Some(Outgoing::Frame(frame)) => {
                        self.send(frame).await;
                        beat.reset();
                    }
                    // What went before is with the client now; the rest of the way is the asker's to wait for.
                    Some(Outgoing::Flush(done)) => {
                        let _gone = done.send(());
                    }
                    None => return,
                },
                _ = beat.tick() => {
                    if let Some(frame) = self.beat() {
                        self.state.beats.fetch_add(1, Ordering::Relaxed);
                        self.send(frame).await;
                    }
                }
            }
        }
    }

    async fn send(&self, frame: Bytes) {
        if self.client.publish(self.subject.clone(), frame).await.is_err() {
            self.state.unsent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What tells a follower where the stream stands; `None` when all numbers are used.
    fn beat(&self) -> Option<Bytes> {
        let mut buffer = self.state.buffer.lock();
        let newest = buffer.newest()?;
        if newest.len() <= BEAT_BYTES {
            return Some(newest.clone());
        }
        let empty = buffer.push(Vec::new()).ok()?;
        self.state.published.fetch_add(1, Ordering::Relaxed);
        Some(empty)
    }

    async fn answer(&self, mut questions: async_nats::Subscriber) {
        while let Some(question) = questions.next().await {
            let (Some(ask), Some(reply)) = (Ask::decode(&question.payload), question.reply) else {
                self.state.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            // Frames are shared with the buffer, so the lock is not held while they are copied.
            let page = self.state.buffer.lock().page(&ask, self.config.page_bytes);
            self.state.pages.fetch_add(1, Ordering::Relaxed);
            if self.client.publish(reply, page.encode().into()).await.is_err() {
                self.state.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
