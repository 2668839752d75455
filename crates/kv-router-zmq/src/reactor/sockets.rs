//! Sockets and the contexts that own them.
//!
//! A context has a limit of 1023 sockets that the binding cannot raise, so publishers are spread over several.
//! Each context costs two threads of ZeroMQ's, which wait for the network.

use std::time::Duration;

use crate::{SocketError, SocketOperation, SubscriberConfig};

/// Publishers of one context: each has a socket, both ends of a monitor, and for moments a second one of each.
const PUBLISHERS_PER_CONTEXT: usize = 250;

/// Which context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shelf(usize);

pub(super) struct Sockets {
    /// Each with the publishers that use it.
    contexts: Vec<(zmq::Context, usize)>,
    monitors: u64,
}

impl Sockets {
    pub(super) fn new() -> Self {
        Self { contexts: Vec::new(), monitors: 0 }
    }

    /// Room for one publisher more.
    pub(super) fn reserve(&mut self) -> Shelf {
        let shelf = self.contexts.iter().position(|&(_, users)| users < PUBLISHERS_PER_CONTEXT);
        let shelf = shelf.unwrap_or_else(|| {
            self.contexts.push((zmq::Context::new(), 0));
            self.contexts.len() - 1
        });
        self.contexts[shelf].1 += 1;
        Shelf(shelf)
    }

    pub(super) fn release(&mut self, shelf: Shelf) {
        self.contexts[shelf.0].1 -= 1;
    }

    pub(super) fn create(&self, shelf: Shelf, kind: zmq::SocketType) -> Result<zmq::Socket, SocketError> {
        self.contexts[shelf.0]
            .0
            .socket(kind)
            .map_err(|error| SocketError::new(SocketOperation::Create, error))
    }

    /// A monitor of a socket that was not connected yet.
    pub(super) fn monitor(&mut self, shelf: Shelf, socket: &zmq::Socket) -> Result<Monitor, SocketError> {
        let reader = self.create(shelf, zmq::PAIR)?;
        self.monitors += 1;
        let name = format!("inproc://monitor-{}", self.monitors);
        let events = [
            zmq::SocketEvent::HANDSHAKE_SUCCEEDED,
            zmq::SocketEvent::DISCONNECTED,
            zmq::SocketEvent::CLOSED,
            zmq::SocketEvent::HANDSHAKE_FAILED_NO_DETAIL,
            zmq::SocketEvent::HANDSHAKE_FAILED_PROTOCOL,
            zmq::SocketEvent::HANDSHAKE_FAILED_AUTH,
        ];
        let mask = events.iter().fold(0, |mask, event| mask | i32::from(event.to_raw()));
        reader
            .set_linger(0)
            .and_then(|()| socket.monitor(&name, mask))
            .and_then(|()| reader.connect(&name))
            .map_err(|error| SocketError::new(SocketOperation::Configure, error))?;
        Ok(Monitor(reader))
    }
}

/// What happens to a socket's connections.
pub(super) struct Monitor(zmq::Socket);

impl Monitor {
    /// The number of the next event, if there was one.
    pub(super) fn next(&self) -> Option<u16> {
        let event = self.0.recv_msg(zmq::DONTWAIT).ok()?;
        if event.get_more() {
            // The endpoint, which we know.
            let _ = self.0.recv_msg(zmq::DONTWAIT);
        }
        let (number, _) = event.split_first_chunk::<2>()?;
        Some(u16::from_ne_bytes(*number))
    }
}

/// Whether an event says that there will be no connection.
pub(super) fn failed(event: u16) -> bool {
    [
        zmq::SocketEvent::HANDSHAKE_FAILED_NO_DETAIL,
        zmq::SocketEvent::HANDSHAKE_FAILED_PROTOCOL,
        zmq::SocketEvent::HANDSHAKE_FAILED_AUTH,
    ]
    .iter()
    .any(|failure| failure.to_raw() == event)
}

/// What live and replay sockets have in common.
pub(super) fn configure(socket: &zmq::Socket, config: &SubscriberConfig) -> Result<(), zmq::Error> {
    let heartbeat = config.heartbeat;
    socket.set_linger(0)?;
    socket.set_rcvhwm(i32::try_from(config.backlog).unwrap_or(i32::MAX))?;
    // Room above our own limit: a frame a little too long is skipped and counted, and only one that is far too long
    // costs the connection.
    socket.set_maxmsgsize(2 * config.frame_bytes as i64)?;
    socket.set_reconnect_ivl(-1)?;
    socket.set_heartbeat_ivl(milliseconds(heartbeat.interval))?;
    socket.set_heartbeat_timeout(milliseconds(heartbeat.timeout))?;
    socket.set_handshake_ivl(milliseconds(heartbeat.timeout))?;
    socket.set_ipv6(true)
}

pub(super) fn milliseconds(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)
}
