//! A publisher as engines have one: a numbered live stream, and a buffer that answers replay requests.

mod buffer;
mod server;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

use self::server::{Server, Shared};
use crate::subscriber::join;
use crate::wake::{Waker, wake_pair};
use crate::{Attach, ConfigError, Endpoint, PublishError, StartError};

/// How a replayed batch stands on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplayFraming {
    /// `"", sequence, payload`: vLLM up to 0.25, SGLang up to 0.5.21.
    WithoutTopic,
    /// `"", topic, sequence, payload`: vLLM from 0.26, SGLang from 0.5.22, TensorRT-LLM.
    #[default]
    WithTopic,
}

/// What a [`Publisher`] does, and what it may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherConfig {
    /// The live stream. Default: listens on a free port that only this machine reaches.
    pub live: Attach,
    /// Where replay requests are answered. Default: a free port that only this machine reaches.
    pub replay: Option<Endpoint>,
    /// Topic of every message. Default: empty.
    pub topic: Vec<u8>,
    /// Default: with topic.
    pub framing: ReplayFraming,
    /// Batches kept for replays. Default: 10,000, as engines do.
    pub buffer_batches: usize,
    /// Payload bytes kept for replays. Default: 256 MiB.
    pub buffer_bytes: usize,
    /// Batches that wait to be sent, and messages that ZeroMQ keeps for a slow subscriber. Beyond that it misses
    /// some: a gap, which it notices. Default: 100,000, as engines do.
    pub backlog: u32,
}

impl Default for PublisherConfig {
    fn default() -> Self {
        Self {
            live: Attach::Bind(Endpoint::loopback(0)),
            replay: Some(Endpoint::loopback(0)),
            topic: Vec::new(),
            framing: ReplayFraming::default(),
            buffer_batches: 10_000,
            buffer_bytes: 256 << 20,
            backlog: 100_000,
        }
    }
}

impl PublisherConfig {
    /// Checks that every number means something.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("buffer_batches", self.buffer_batches, 1 << 30),
            ("buffer_bytes", self.buffer_bytes, 1 << 40),
            ("backlog", self.backlog as usize, 1 << 30),
        ];
        for (field, value, most) in counts {
            if value == 0 || value > most {
                return Err(ConfigError::CountOutOfRange { field, value, most });
            }
        }
        Ok(())
    }
}

/// How a publisher does. Numbers only grow, but for those of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherCounters {
    /// Batches handed to ZeroMQ. Whether a slow subscriber got them only it can tell.
    pub sent: u64,
    /// Batches kept for replays, now.
    pub buffered_batches: usize,
    /// Their payload bytes, now.
    pub buffered_bytes: usize,
    /// Replays asked for.
    pub replays: u64,
    /// Replays sent to the end.
    pub replays_ended: u64,
    /// Replays given up because whoever asked is gone, or reads too slowly.
    pub replays_abandoned: u64,
    /// Requests that were none, or that came while too many were open.
    pub refused: u64,
}

/// Publishes batches on a thread of its own, numbered from 0, and sends them again when asked.
///
/// Publishing never waits for a subscriber, and a replay never holds up the live stream.
pub struct Publisher {
    /// `None` only while dropping: that the sender is gone is how the thread learns of it.
    batches: Option<Sender<(u64, Vec<u8>)>>,
    /// The next number. Held while sending, so that numbers are sent in order.
    next: Mutex<u64>,
    waker: Arc<Waker>,
    shared: Arc<Shared>,
    live: Endpoint,
    replay: Option<Endpoint>,
    thread: Option<JoinHandle<()>>,
    stopped: Receiver<()>,
}

impl Publisher {
    /// Opens the sockets and starts the thread.
    ///
    /// # Errors
    ///
    /// [`StartError`] when the configuration means nothing, an endpoint cannot be bound, or the operating system
    /// gives no thread, pipe or socket.
    pub fn start(config: PublisherConfig) -> Result<Self, StartError> {
        config.validate()?;
        let (waker, sleeper) = wake_pair().map_err(StartError::Io)?;
        let waker = Arc::new(waker);
        let (batches, queued) = bounded(config.backlog as usize);
        let (stopping, stopped) = bounded(1);
        let shared = Arc::new(Shared::default());
        let (server, live, replay) =
            Server::open(config, queued, Arc::clone(&waker), sleeper, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new()
            .name(String::from("kv-zmq-pub"))
            .spawn(move || {
                server.run();
                drop(stopping);
            })
            .map_err(StartError::Io)?;
        Ok(Self {
            batches: Some(batches),
            next: Mutex::new(0),
            waker,
            shared,
            live,
            replay,
            thread: Some(thread),
            stopped,
        })
    }

    /// Queues a batch; its number. Never waits.
    ///
    /// # Errors
    ///
    /// [`PublishError`]: the batch comes back, and no number is used up.
    pub fn publish(&self, payload: Vec<u8>) -> Result<u64, PublishError> {
        if payload.is_empty() {
            return Err(PublishError::Empty);
        }
        let Some(batches) = &self.batches else { return Err(PublishError::Stopped(payload)) };
        let mut next = self.next.lock();
        let sequence = *next;
        match batches.try_send((sequence, payload)) {
            Ok(()) => {
                *next += 1;
                drop(next);
                self.waker.wake();
                Ok(sequence)
            }
            Err(TrySendError::Full((_, payload))) => Err(PublishError::Full(payload)),
            Err(TrySendError::Disconnected((_, payload))) => Err(PublishError::Stopped(payload)),
        }
    }

    /// Where the live stream is, with the port that was found.
    pub fn live_endpoint(&self) -> &Endpoint {
        &self.live
    }

    /// Where replay requests are answered, with the port that was found.
    pub fn replay_endpoint(&self) -> Option<&Endpoint> {
        self.replay.as_ref()
    }

    /// How the publisher does.
    pub fn counters(&self) -> PublisherCounters {
        *self.shared.counters.lock()
    }
}

/// Stops the thread and waits for it, for at most two seconds. What is queued is sent, as far as subscribers take
/// it in a tenth of a second.
impl Drop for Publisher {
    fn drop(&mut self) {
        self.batches = None;
        self.waker.wake();
        join(&self.stopped, self.thread.take());
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("live", &self.live).finish_non_exhaustive()
    }
}
