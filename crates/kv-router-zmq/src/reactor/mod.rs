//! The thread: every socket of a subscriber, one wait for all of them.
//!
//! Each turn takes a bounded number of messages from each socket that has some, so a busy publisher delays nobody
//! for long, and a replay delays no live stream. Connections and deadlines are looked after every [`TEND_EVERY`].

pub(crate) mod answer;
mod link;
mod output;
mod replays;
mod sockets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use kv_router_transport::{Jitter, RecoveryId, ReplayRequest};
use parking_lot::Mutex;

use self::link::Link;
pub(crate) use self::output::Depth;
use self::output::{Output, output};
use self::replays::{Replays, Target};
use self::sockets::Sockets;
use crate::frames::Frames;
use crate::wake::{Sleeper, Waker};
use crate::{Incoming, PublisherHealth, PublisherId, Source, SubscriberConfig};

/// Messages taken from one socket before the next has its turn.
const RECEIVES_PER_TURN: usize = 256;

/// How often connections and deadlines are looked after.
const TEND_EVERY: Duration = Duration::from_millis(20);

/// What the handle and the thread share about one publisher.
#[derive(Debug)]
pub(crate) struct PublisherState {
    pub(crate) health: Mutex<PublisherHealth>,
    /// Where we listen, once we do: port 0 has become a port.
    pub(crate) bound: Mutex<Option<String>>,
    pub(crate) has_replay: bool,
}

impl PublisherState {
    pub(crate) fn new(source: &Source) -> Self {
        Self { health: Mutex::default(), bound: Mutex::default(), has_replay: source.replay.is_some() }
    }
}

/// What the handle asks of the thread.
pub(crate) enum Command {
    Add(PublisherId, Source, Arc<PublisherState>),
    Remove(PublisherId),
    Replay(PublisherId, ReplayRequest),
    Cancel(PublisherId, RecoveryId),
}

pub(crate) struct Reactor {
    config: SubscriberConfig,
    commands: Receiver<Command>,
    waker: Arc<Waker>,
    sleeper: Sleeper,
    output: Output,
    shared: Arc<ReactorShared>,
    jitter: Jitter,
    frames: Frames,
    links: BTreeMap<PublisherId, Link>,
    replays: Replays,
    /// Last, so that every socket is closed before its context: a context waits for them.
    sockets: Sockets,
}

/// What the handle may look at.
#[derive(Debug, Default)]
pub(crate) struct ReactorShared {
    pub(crate) open_replays: AtomicUsize,
}

/// A socket that has messages.
#[derive(Clone, Copy)]
enum Ready {
    Live(PublisherId),
    Replay(usize),
}

/// The thread's end of things, and the handle's.
pub(crate) fn reactor(
    config: SubscriberConfig,
    commands: Receiver<Command>,
    waker: Arc<Waker>,
    sleeper: Sleeper,
) -> (Reactor, Receiver<Incoming>, Arc<Depth>, Arc<ReactorShared>) {
    let (output, incoming, depth) = output(&config);
    let shared = Arc::new(ReactorShared::default());
    let reactor = Reactor {
        jitter: Jitter::new(config.seed),
        config,
        commands,
        waker,
        sleeper,
        output,
        shared: Arc::clone(&shared),
        frames: Frames::default(),
        links: BTreeMap::new(),
        replays: Replays::default(),
        sockets: Sockets::new(),
    };
    (reactor, incoming, depth, shared)
}

impl Reactor {
    /// Runs until the handle is gone.
    pub(crate) fn run(mut self, now: impl Fn() -> Instant) {
        let mut tend_at = now();
        loop {
            self.waker.seen(&self.sleeper);
            if !self.obey(now()) {
                return;
            }
            let time = now();
            if time >= tend_at {
                self.tend(time);
                tend_at = time + TEND_EVERY;
            }
            let Ok(ready) = self.wait(tend_at.saturating_duration_since(now())) else { return };
            // Replays that are over leave their places: from the last place to the first.
            for ready in ready.into_iter().rev() {
                self.receive(now(), ready);
            }
        }
    }

    /// Does what was asked; false when nobody can ask any more.
    fn obey(&mut self, now: Instant) -> bool {
        use crossbeam_channel::TryRecvError;
        loop {
            match self.commands.try_recv() {
                Ok(Command::Add(publisher, source, state)) => {
                    let shelf = self.sockets.reserve();
                    let mut link = Link::new(publisher, source, state, shelf, now);
                    link.tend(now, &self.config, &mut self.sockets, &mut self.jitter, &mut self.output);
                    self.links.insert(publisher, link);
                }
                Ok(Command::Remove(publisher)) => {
                    self.replays.cancel(publisher, None);
                    if let Some(link) = self.links.remove(&publisher) {
                        self.sockets.release(link.shelf());
                    }
                }
                Ok(Command::Replay(publisher, ask)) => self.ask(now, publisher, ask),
                Ok(Command::Cancel(publisher, id)) => self.replays.cancel(publisher, Some(id)),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn ask(&mut self, now: Instant, publisher: PublisherId, ask: ReplayRequest) {
        let Some(link) = self.links.get(&publisher) else { return };
        let Some(endpoint) = link.source.replay.clone() else { return };
        let target = Target { publisher, endpoint, shelf: link.shelf(), state: Arc::clone(&link.state) };
        self.replays.ask(now, target, ask, &self.config);
        self.replays.tend(now, &self.config, &self.sockets, &mut self.jitter, &mut self.output);
    }

    fn tend(&mut self, now: Instant) {
        for link in self.links.values_mut() {
            link.tend(now, &self.config, &mut self.sockets, &mut self.jitter, &mut self.output);
        }
        if self.output.is_half_full() {
            self.replays.excuse(now);
        }
        self.replays.tend(now, &self.config, &self.sockets, &mut self.jitter, &mut self.output);
        let open = self.replays.len();
        self.shared.open_replays.store(open, Ordering::Relaxed);
    }

    /// Waits for messages or a command, and no longer than this.
    fn wait(&self, wait: Duration) -> Result<Vec<Ready>, zmq::Error> {
        let mut places = Vec::with_capacity(self.links.len() + 8);
        let mut items = Vec::with_capacity(self.links.len() + 9);
        items.push(zmq::PollItem::from_fd(self.sleeper.fd(), zmq::POLLIN));
        for (&publisher, link) in &self.links {
            if let Some(socket) = link.socket() {
                places.push(Ready::Live(publisher));
                items.push(socket.as_poll_item(zmq::POLLIN));
            }
        }
        if !self.output.is_half_full() {
            for (place, socket) in self.replays.sockets() {
                places.push(Ready::Replay(place));
                items.push(socket.as_poll_item(zmq::POLLIN));
            }
        }
        // Rounded up: a wait of less than a millisecond must not become a busy loop.
        let milliseconds = i64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX);
        match zmq::poll(&mut items, milliseconds) {
            Ok(0) | Err(zmq::Error::EINTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let ready = items[1..].iter().zip(places).filter(|(item, _)| item.is_readable());
        Ok(ready.map(|(_, place)| place).collect())
    }

    fn receive(&mut self, now: Instant, ready: Ready) {
        match ready {
            Ready::Live(publisher) => {
                if let Some(link) = self.links.get_mut(&publisher) {
                    link.receive(now, &self.config, &mut self.jitter, &mut self.frames, &mut self.output);
                }
            }
            Ready::Replay(place) => self.replays.receive(
                place,
                now,
                &mut self.frames,
                &mut self.jitter,
                &mut self.output,
                self.config.frame_bytes,
            ),
        }
    }
}
