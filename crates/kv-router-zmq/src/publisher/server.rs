//! The publisher's thread: the live stream first, replays in slices between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, tick};
use parking_lot::Mutex;

use super::buffer::ReplayBuffer;
use super::{PublisherConfig, PublisherCounters, ReplayFraming};
use crate::wake::{Sleeper, Waker};
use crate::{Attach, Endpoint, SocketError, SocketOperation};

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counters: Mutex<PublisherCounters>,
}

pub(super) struct Server {
    config: PublisherConfig,
    queued: Receiver<(u64, Vec<u8>)>,
    waker: Arc<Waker>,
    sleeper: Sleeper,
    shared: Arc<Shared>,
    buffer: ReplayBuffer,
    replays: VecDeque<Replay>,
    /// One a second. Turns say nothing of time: each batch that is published makes one.
    seconds: Receiver<Instant>,
    live: zmq::Socket,
    router: Option<zmq::Socket>,
    /// Last, so that every socket is closed before it.
    _context: zmq::Context,
}

/// A replay that is being sent.
struct Replay {
    /// Whom to.
    peer: zmq::Message,
    next: u64,
    /// Seconds since something could be sent.
    stuck: u32,
}

enum Sent {
    All,
    Some,
    /// The peer's queue is full.
    None,
    PeerGone,
}

/// Batches sent live before replays have a turn, and the other way round.
const PER_TURN: usize = 256;
/// Replays open at the same time.
const MAX_REPLAYS: usize = 64;
/// Wait when a peer's queue is full. A router socket cannot say when there is room.
const STUCK_WAIT_MS: i64 = 5;
/// Seconds before a peer that takes nothing is given up.
const MAX_STUCK: u32 = 10;
/// How long what was sent may take to leave after the publisher was dropped, in milliseconds.
const LINGER_MS: i32 = 100;
/// Longest message that a peer may send us: an identity, and a number.
const MAX_REQUEST_BYTES: i64 = 1024;

impl Server {
    pub(super) fn open(
        config: PublisherConfig,
        queued: Receiver<(u64, Vec<u8>)>,
        waker: Arc<Waker>,
        sleeper: Sleeper,
        shared: Arc<Shared>,
    ) -> Result<(Self, Endpoint, Option<Endpoint>), SocketError> {
        let context = zmq::Context::new();
        let backlog = i32::try_from(config.backlog).unwrap_or(i32::MAX);
        let live = socket(&context, zmq::PUB, backlog)?;
        let endpoint = attach(&live, &config.live)?;
        let router = match &config.replay {
            None => None,
            Some(replay) => {
                let router = socket(&context, zmq::ROUTER, backlog)?;
                // Without it a router drops what a slow reader cannot take, without a word.
                router
                    .set_router_mandatory(true)
                    .map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
                let at = attach(&router, &Attach::Bind(replay.clone()))?;
                Some((router, at))
            }
        };
        let (router, replay) = router.unzip();
        let buffer = ReplayBuffer::new(config.buffer_batches, config.buffer_bytes);
        let server = Self {
            config,
            queued,
            waker,
            sleeper,
            shared,
            buffer,
            replays: VecDeque::new(),
            seconds: tick(Duration::from_secs(1)),
            live,
            router,
            _context: context,
        };
        Ok((server, endpoint, replay))
    }

    /// Runs until the handle is gone and everything queued is sent.
    pub(super) fn run(mut self) {
        loop {
            self.waker.seen(&self.sleeper);
            let more = match self.publish() {
                Ok(more) => more,
                Err(Gone) => return,
            };
            self.requests();
            let progress = self.replay();
            let wait = match (more, self.replays.is_empty(), progress) {
                (true, _, _) | (false, false, true) => 0,
                (false, false, false) => STUCK_WAIT_MS,
                (false, true, _) => 1_000,
            };
            if wait > 0 && self.wait(wait).is_err() {
                return;
            }
        }
    }

    /// Sends what is queued, for a turn; whether there may be more.
    fn publish(&mut self) -> Result<bool, Gone> {
        let mut sent = 0;
        while sent < PER_TURN {
            match self.queued.try_recv() {
                Ok((sequence, payload)) => {
                    let frames = [&self.config.topic[..], &sequence.to_be_bytes(), &payload];
                    // A publishing socket never waits: what a subscriber cannot take, it misses.
                    let _ = self.live.send_multipart(frames, zmq::DONTWAIT);
                    self.buffer.push(Arc::from(payload));
                    sent += 1;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(Gone),
            }
        }
        if sent > 0 {
            let mut counters = self.shared.counters.lock();
            counters.sent += sent as u64;
            counters.buffered_batches = self.buffer.len();
            counters.buffered_bytes = self.buffer.bytes();
        }
        Ok(sent == PER_TURN)
    }

    /// Takes replay requests: whom from, an empty frame, a number of 1 to 8 bytes.
    fn requests(&mut self) {
        let Some(router) = &self.router else { return };
        for _ in 0..PER_TURN {
            let Ok(peer) = router.recv_msg(zmq::DONTWAIT) else { return };
            let mut frames = [None, None];
            let (mut count, mut more) = (0, peer.get_more());
            while more {
                let Ok(frame) = router.recv_msg(zmq::DONTWAIT) else { return };
                more = frame.get_more();
                if let Some(slot) = frames.get_mut(count) {
                    *slot = Some(frame);
                }
                count += 1;
            }
            let start = match frames {
                [Some(delimiter), Some(start)] if count == 2 && delimiter.is_empty() => number(&start),
                _ => None,
            };
            let mut counters = self.shared.counters.lock();
            match start {
                Some(next) if self.replays.len() < MAX_REPLAYS => {
                    counters.replays += 1;
                    self.replays.push_back(Replay { peer, next, stuck: 0 });
                }
                _ => counters.refused += 1,
            }
        }
    }

    /// Sends a slice of each replay; whether any got further.
    fn replay(&mut self) -> bool {
        let mut progress = false;
        let seconds = u32::from(self.seconds.try_recv().is_ok());
        for _ in 0..self.replays.len() {
            let Some(mut replay) = self.replays.pop_front() else { break };
            match self.slice(&mut replay) {
                Sent::All => {
                    self.shared.counters.lock().replays_ended += 1;
                    progress = true;
                }
                Sent::Some => {
                    replay.stuck = 0;
                    progress = true;
                    self.replays.push_back(replay);
                }
                Sent::None if replay.stuck < MAX_STUCK => {
                    replay.stuck += seconds;
                    self.replays.push_back(replay);
                }
                Sent::None | Sent::PeerGone => self.shared.counters.lock().replays_abandoned += 1,
            }
        }
        progress
    }

    fn slice(&self, replay: &mut Replay) -> Sent {
        for sent in 0..PER_TURN {
            let batch = self.buffer.at_or_after(replay.next);
            let (sequence, payload) = batch.map_or((u64::MAX, &[][..]), |(at, payload)| (at, &payload[..]));
            match self.send(&replay.peer, sequence, payload) {
                Ok(()) if batch.is_none() => return Sent::All,
                Ok(()) => replay.next = sequence + 1,
                Err(zmq::Error::EAGAIN) if sent > 0 => return Sent::Some,
                Err(zmq::Error::EAGAIN) => return Sent::None,
                Err(_) => return Sent::PeerGone,
            }
        }
        Sent::Some
    }

    fn send(&self, peer: &[u8], sequence: u64, payload: &[u8]) -> Result<(), zmq::Error> {
        let Some(router) = &self.router else { return Err(zmq::Error::ENOTSOCK) };
        let sequence = sequence.to_be_bytes();
        match self.config.framing {
            ReplayFraming::WithoutTopic => {
                router.send_multipart([peer, &[], &sequence, payload], zmq::DONTWAIT)
            }
            ReplayFraming::WithTopic => {
                router.send_multipart([peer, &[], &self.config.topic, &sequence, payload], zmq::DONTWAIT)
            }
        }
    }

    fn wait(&self, milliseconds: i64) -> Result<(), zmq::Error> {
        let mut items = vec![zmq::PollItem::from_fd(self.sleeper.fd(), zmq::POLLIN)];
        items.extend(self.router.as_ref().map(|router| router.as_poll_item(zmq::POLLIN)));
        match zmq::poll(&mut items, milliseconds) {
            Ok(_) | Err(zmq::Error::EINTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The handle is gone.
struct Gone;

/// Engines take any number of bytes; more than 8 of them are beyond every number.
fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn socket(context: &zmq::Context, kind: zmq::SocketType, backlog: i32) -> Result<zmq::Socket, SocketError> {
    let socket = context.socket(kind).map_err(|error| SocketError::new(SocketOperation::Create, error))?;
    socket
        .set_linger(LINGER_MS)
        .and_then(|()| socket.set_sndhwm(backlog))
        .and_then(|()| socket.set_maxmsgsize(MAX_REQUEST_BYTES))
        .and_then(|()| socket.set_ipv6(true))
        .map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
    Ok(socket)
}

/// Connects or listens; where, as far as we know.
fn attach(socket: &zmq::Socket, attach: &Attach) -> Result<Endpoint, SocketError> {
    match attach {
        Attach::Connect(endpoint) => {
            socket
                .connect(endpoint.as_str())
                .map_err(|error| SocketError::new(SocketOperation::Connect, error))?;
            Ok(endpoint.clone())
        }
        Attach::Bind(endpoint) => {
            socket.bind(endpoint.as_str()).map_err(|error| SocketError::new(SocketOperation::Bind, error))?;
            let bound = socket.get_last_endpoint().ok().and_then(Result::ok);
            Ok(bound.and_then(|bound| Endpoint::new(&bound).ok()).unwrap_or_else(|| endpoint.clone()))
        }
    }
}
