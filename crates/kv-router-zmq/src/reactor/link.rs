//! The live stream of one publisher: its socket, its connection, and how it is made again.
//!
//! ZeroMQ can reconnect by itself, but not after a frame above its limit, and not in a way that tells one
//! connection from the next. So each connection we make has a socket of its own. Where we listen, one socket
//! lives on, and every publisher that comes is a new connection.

use std::sync::Arc;
use std::time::Instant;

use kv_router_transport::Jitter;

use super::sockets::{Monitor, Shelf, Sockets, configure, failed};
use super::{Output, PublisherState, RECEIVES_PER_TURN};
use crate::frames::Frames;
use crate::{
    Attach, Connection, Incoming, MessageFault, PublisherId, SocketError, SocketOperation, Source,
    SubscriberConfig, Topic,
};

pub(super) struct Link {
    pub(super) publisher: PublisherId,
    pub(super) source: Source,
    pub(super) state: Arc<PublisherState>,
    shelf: Shelf,
    phase: Phase,
    connection: Connection,
    /// Whether `connection` was announced.
    announced: bool,
    /// Tries since the last connection that stood.
    attempt: u32,
    /// Where we listen: handshakes that failed, and whose end is still to be told. ZeroMQ tells the end of those as it does
    /// that of connections.
    refused: u32,
    topic: Topic,
}

enum Phase {
    /// No socket until then.
    Waiting(Instant),
    /// A socket that is to be connected by then.
    Connecting(Open, Instant),
    /// A connection stands, or we listen.
    Open(Open),
}

struct Open {
    socket: zmq::Socket,
    monitor: Monitor,
}

impl Link {
    pub(super) fn new(
        publisher: PublisherId,
        source: Source,
        state: Arc<PublisherState>,
        shelf: Shelf,
        now: Instant,
    ) -> Self {
        let topic = Topic::new(&[]);
        Self {
            publisher,
            source,
            state,
            shelf,
            phase: Phase::Waiting(now),
            connection: Connection(0),
            announced: true,
            attempt: 0,
            refused: 0,
            topic,
        }
    }

    pub(super) fn shelf(&self) -> Shelf {
        self.shelf
    }

    pub(super) fn socket(&self) -> Option<&zmq::Socket> {
        match &self.phase {
            Phase::Waiting(_) => None,
            Phase::Connecting(open, _) | Phase::Open(open) => Some(&open.socket),
        }
    }

    /// Looks after the connection: what the monitor saw, what is due. Called a few dozen times a second.
    pub(super) fn tend(
        &mut self,
        now: Instant,
        config: &SubscriberConfig,
        sockets: &mut Sockets,
        jitter: &mut Jitter,
        output: &mut Output,
    ) {
        self.watch(now, config, jitter);
        let due = match &self.phase {
            Phase::Waiting(until) => now >= *until,
            Phase::Connecting(_, until) => {
                if now >= *until {
                    self.lost(now, config, jitter);
                }
                false
            }
            Phase::Open(_) => false,
        };
        if due {
            match self.open(now, config, sockets) {
                Ok(phase) => self.phase = phase,
                Err(_) => {
                    self.state.health.lock().socket_errors += 1;
                    self.wait(now, config, jitter);
                }
            }
        }
        self.announce(output);
    }

    /// Takes at most a turn's worth of messages, so that every publisher has its turn.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        config: &SubscriberConfig,
        jitter: &mut Jitter,
        frames: &mut Frames,
        output: &mut Output,
    ) {
        if matches!(self.source.live, Attach::Bind(_)) {
            // Whether a publisher came is known before its first message: ask before reading.
            self.watch(now, config, jitter);
        }
        for _ in 0..RECEIVES_PER_TURN {
            let Some(socket) = self.socket() else { return };
            if frames.receive(socket, config.frame_bytes).is_err() {
                return; // nothing more now; a broken socket is seen by its monitor
            }
            if matches!(self.phase, Phase::Connecting(..)) {
                self.established(now);
            }
            self.announce(output);
            self.message(now, frames, output);
        }
    }

    fn message(&mut self, now: Instant, frames: &mut Frames, output: &mut Output) {
        if frames.first() != &*self.topic && frames.first().len() <= MAX_TOPIC_BYTES {
            self.topic = Topic::new(frames.first());
        }
        let topic_too_long = frames.first().len() > MAX_TOPIC_BYTES;
        let batch = frames.live();
        let mut health = self.state.health.lock();
        health.last_message = Some(now);
        match batch {
            _ if topic_too_long => health.faults.add(MessageFault::FrameTooLong),
            Err(fault) => health.faults.add(fault),
            Ok(batch) => {
                health.batches += 1;
                health.bytes += batch.payload.len() as u64;
                health.last_sequence = Some(batch.sequence);
                let incoming = Incoming::Live {
                    publisher: self.publisher,
                    connection: self.connection,
                    topic: self.topic.clone(),
                    sequence: batch.sequence,
                    payload: batch.payload,
                };
                if !output.live(incoming) {
                    health.dropped += 1;
                }
            }
        }
    }

    /// What the monitor saw since the last look.
    fn watch(&mut self, now: Instant, config: &SubscriberConfig, jitter: &mut Jitter) {
        let listens = matches!(self.source.live, Attach::Bind(_));
        loop {
            let event = match &self.phase {
                Phase::Waiting(_) => return,
                Phase::Connecting(open, _) | Phase::Open(open) => open.monitor.next(),
            };
            let Some(event) = event else { return };
            if event == zmq::SocketEvent::HANDSHAKE_SUCCEEDED.to_raw() {
                if listens || matches!(self.phase, Phase::Connecting(..)) {
                    self.established(now);
                }
            } else if failed(event) && listens {
                self.refused = self.refused.saturating_add(1);
            } else if event == zmq::SocketEvent::DISCONNECTED.to_raw() && listens {
                let mut health = self.state.health.lock();
                health.disconnects += 1;
                match self.refused.checked_sub(1) {
                    Some(left) => self.refused = left,
                    None => health.connected = health.connected.saturating_sub(1),
                }
            } else if !listens
                && (event == zmq::SocketEvent::DISCONNECTED.to_raw()
                    || event == zmq::SocketEvent::CLOSED.to_raw()
                    || failed(event))
            {
                self.lost(now, config, jitter);
            }
        }
    }

    fn open(
        &self,
        now: Instant,
        config: &SubscriberConfig,
        sockets: &mut Sockets,
    ) -> Result<Phase, SocketError> {
        let socket = sockets.create(self.shelf, zmq::SUB)?;
        configure(&socket, config).map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
        socket
            .set_subscribe(&self.source.topic)
            .map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
        let monitor = sockets.monitor(self.shelf, &socket)?;
        let endpoint = self.source.live.endpoint().as_str();
        let open = Open { socket, monitor };
        match self.source.live {
            Attach::Connect(_) => {
                open.socket
                    .connect(endpoint)
                    .map_err(|error| SocketError::new(SocketOperation::Connect, error))?;
                Ok(Phase::Connecting(open, now + config.heartbeat.timeout))
            }
            Attach::Bind(_) => {
                open.socket.bind(endpoint).map_err(|error| SocketError::new(SocketOperation::Bind, error))?;
                let bound = open.socket.get_last_endpoint().ok().and_then(Result::ok);
                *self.state.bound.lock() = bound;
                Ok(Phase::Open(open))
            }
        }
    }

    fn established(&mut self, now: Instant) {
        let phase = std::mem::replace(&mut self.phase, Phase::Waiting(now));
        self.phase = match phase {
            Phase::Connecting(open, _) => Phase::Open(open),
            other => other,
        };
        self.attempt = 0;
        self.connection.0 += 1;
        self.announced = false;
        let mut health = self.state.health.lock();
        health.connected += 1;
        health.connections += 1;
    }

    fn lost(&mut self, now: Instant, config: &SubscriberConfig, jitter: &mut Jitter) {
        {
            let mut health = self.state.health.lock();
            health.disconnects += 1;
            health.connected = 0;
        }
        self.wait(now, config, jitter);
    }

    /// Closes the socket, and opens another one later.
    fn wait(&mut self, now: Instant, config: &SubscriberConfig, jitter: &mut Jitter) {
        self.phase = Phase::Waiting(now + config.reconnect.wait(self.attempt, jitter));
        self.attempt = self.attempt.saturating_add(1);
    }

    /// Says that a connection stands, before the first message on it. At a full queue it is said later: only the
    /// newest connection matters.
    fn announce(&mut self, output: &mut Output) {
        if !self.announced {
            let (publisher, connection) = (self.publisher, self.connection);
            self.announced = output.control(Incoming::Connected { publisher, connection });
        }
    }
}

/// Longest topic accepted, in bytes. It names a pod and a model.
const MAX_TOPIC_BYTES: usize = 4096;
