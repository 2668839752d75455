//! The handle of the thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError, bounded};
use kv_router_transport::{RecoveryId, ReplayRequest};
use parking_lot::Mutex;

use crate::reactor::{Command, Depth, PublisherState, ReactorShared, reactor};
use crate::wake::{Waker, wake_pair};
use crate::{
    Endpoint, Incoming, PublisherHealth, PublisherId, RecvError, RequestError, Source, StartError,
    SubscriberConfig, SubscriberCounters,
};

/// Listens to any number of publishers on one thread of its own.
///
/// What comes is taken with [`recv`](Self::recv) and belongs into the stream of its publisher: the `EngineStream` of a
/// `Router`, or a feed of your own ([`Incoming::hand_to`]). That also says what to ask for with
/// [`request_replay`](Self::request_replay).
///
/// # Consistency
///
/// Messages of one connection come in the order in which they were sent, after its [`Incoming::Connected`].
/// Replayed batches come in order too. Between a live stream and a replay there is no order.
///
/// # Dropping it
///
/// Stops the thread and waits for it, for at most two seconds. What is queued is lost.
pub struct Subscriber {
    /// `None` only while dropping: that the sender is gone is how the thread learns of it.
    commands: Option<Sender<Command>>,
    waker: Arc<Waker>,
    incoming: Receiver<Incoming>,
    depth: Arc<Depth>,
    shared: Arc<ReactorShared>,
    publishers: Mutex<BTreeMap<PublisherId, Arc<PublisherState>>>,
    next_publisher: AtomicU64,
    thread: Option<JoinHandle<()>>,
    stopped: Receiver<()>,
}

/// Requests that wait for the thread at most.
const MAX_COMMANDS: usize = 65_536;

/// Longest wait for the thread to end.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(2);

impl Subscriber {
    /// Starts the thread. `now` is the clock of all deadlines: `Instant::now`, as a rule.
    ///
    /// # Errors
    ///
    /// [`StartError`] when the configuration means nothing, or the operating system gives no thread or pipe.
    pub fn start(
        config: SubscriberConfig,
        now: impl Fn() -> Instant + Send + 'static,
    ) -> Result<Self, StartError> {
        config.validate()?;
        let (waker, sleeper) = wake_pair().map_err(StartError::Io)?;
        let waker = Arc::new(waker);
        let (commands, obeyed) = bounded(MAX_COMMANDS);
        let (stopping, stopped) = bounded(1);
        let (reactor, incoming, depth, shared) = reactor(config, obeyed, Arc::clone(&waker), sleeper);
        let thread = std::thread::Builder::new()
            .name(String::from("kv-zmq-sub"))
            .spawn(move || {
                reactor.run(now);
                drop(stopping);
            })
            .map_err(StartError::Io)?;
        Ok(Self {
            commands: Some(commands),
            waker,
            incoming,
            depth,
            shared,
            publishers: Mutex::default(),
            next_publisher: AtomicU64::new(1),
            thread: Some(thread),
            stopped,
        })
    }

    /// Listens to one more publisher. It need not exist yet: connecting is tried until the publisher is removed.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stopped`] or [`RequestError::Busy`].
    pub fn add(&self, source: Source) -> Result<PublisherId, RequestError> {
        let publisher = PublisherId(self.next_publisher.fetch_add(1, Ordering::Relaxed));
        let state = Arc::new(PublisherState::new(&source));
        self.command(Command::Add(publisher, source, Arc::clone(&state)))?;
        self.publishers.lock().insert(publisher, state);
        Ok(publisher)
    }

    /// Listens to it no longer. What of it is queued still comes.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub fn remove(&self, publisher: PublisherId) -> Result<(), RequestError> {
        let mut publishers = self.publishers.lock();
        if !publishers.contains_key(&publisher) {
            return Err(RequestError::UnknownPublisher);
        }
        self.command(Command::Remove(publisher))?;
        publishers.remove(&publisher);
        Ok(())
    }

    /// Asks a publisher to send batches again, in place of what it was asked before. The answer comes with
    /// [`recv`](Self::recv), and ends with [`Incoming::ReplayEnded`] or [`Incoming::ReplayFailed`], always: every
    /// wait has a deadline. Only a request that is replaced or cancelled ends without a word.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub fn request_replay(&self, publisher: PublisherId, ask: ReplayRequest) -> Result<(), RequestError> {
        let has_replay = self.publishers.lock().get(&publisher).map(|state| state.has_replay);
        match has_replay {
            None => Err(RequestError::UnknownPublisher),
            Some(false) => Err(RequestError::NoReplayEndpoint),
            Some(true) => self.command(Command::Replay(publisher, ask)),
        }
    }

    /// Stops listening to an answer. Nothing happens when it is over.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stopped`] or [`RequestError::Busy`].
    pub fn cancel_replay(&self, publisher: PublisherId, replay: RecoveryId) -> Result<(), RequestError> {
        self.command(Command::Cancel(publisher, replay))
    }

    /// The next thing that happened; waits for it at most this long.
    ///
    /// # Errors
    ///
    /// [`RecvError::Empty`] when nothing came, [`RecvError::Stopped`] when nothing ever will.
    pub fn recv(&self, wait: Duration) -> Result<Incoming, RecvError> {
        match self.incoming.recv_timeout(wait) {
            Ok(incoming) => Ok(self.taken(incoming)),
            Err(RecvTimeoutError::Timeout) => Err(RecvError::Empty),
            Err(RecvTimeoutError::Disconnected) => Err(RecvError::Stopped),
        }
    }

    /// The next thing that happened, if it did already.
    ///
    /// # Errors
    ///
    /// Those of [`recv`](Self::recv).
    pub fn try_recv(&self) -> Result<Incoming, RecvError> {
        match self.incoming.try_recv() {
            Ok(incoming) => Ok(self.taken(incoming)),
            Err(TryRecvError::Empty) => Err(RecvError::Empty),
            Err(TryRecvError::Disconnected) => Err(RecvError::Stopped),
        }
    }

    /// How a publisher does. `None` when it is unknown or was removed.
    pub fn health(&self, publisher: PublisherId) -> Option<PublisherHealth> {
        let state = Arc::clone(self.publishers.lock().get(&publisher)?);
        let health = *state.health.lock();
        Some(health)
    }

    /// Where we listen for a publisher's connection, once we do. A source that says port 0 learns its port here.
    pub fn bound_endpoint(&self, publisher: PublisherId) -> Option<Endpoint> {
        let state = Arc::clone(self.publishers.lock().get(&publisher)?);
        let bound = state.bound.lock();
        Endpoint::new(bound.as_deref()?).ok()
    }

    /// How the subscriber does.
    pub fn counters(&self) -> SubscriberCounters {
        SubscriberCounters {
            queued_messages: self.depth.messages(),
            queued_bytes: self.depth.bytes(),
            open_replays: self.shared.open_replays.load(Ordering::Relaxed),
            dropped: self.depth.dropped(),
        }
    }

    fn taken(&self, incoming: Incoming) -> Incoming {
        self.depth.taken(&incoming);
        incoming
    }

    fn command(&self, command: Command) -> Result<(), RequestError> {
        let commands = self.commands.as_ref().ok_or(RequestError::Stopped)?;
        let sent = commands.try_send(command);
        self.waker.wake();
        sent.map_err(|error| match error {
            TrySendError::Full(_) => RequestError::Busy,
            TrySendError::Disconnected(_) => RequestError::Stopped,
        })
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.commands = None;
        self.waker.wake();
        join(&self.stopped, self.thread.take());
    }
}

/// Waits for a thread that was told to stop. One that does not is left behind: it ends when it can.
pub(crate) fn join(stopped: &Receiver<()>, thread: Option<JoinHandle<()>>) {
    if stopped.recv_timeout(STOP_WAIT) == Err(RecvTimeoutError::Disconnected)
        && let Some(thread) = thread
    {
        // A panic of the thread was reported by its hook, and a destructor has nobody to tell.
        let _ = thread.join();
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
