//! Where a socket is: checked once, so that a typing error is an error and not a stream that stays silent.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

/// A place that a socket connects to or listens on: `tcp://host:port`, or `ipc://path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(String);

/// Longest endpoint accepted, in bytes.
const MAX_BYTES: usize = 512;

impl Endpoint {
    /// Checks an endpoint as engines write it in their configuration.
    ///
    /// `tcp://*:port` is every interface of this machine. Listen there only if whoever reaches the port may send
    /// events, for ZeroMQ asks nobody for a password; [`Endpoint::loopback`] is the cautious choice.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] when ZeroMQ would not understand it.
    pub fn new(text: &str) -> Result<Self, EndpointError> {
        if text.len() > MAX_BYTES {
            return Err(EndpointError::TooLong { bytes: text.len(), limit: MAX_BYTES });
        }
        if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return Err(EndpointError::BadCharacter);
        }
        if let Some(path) = text.strip_prefix("ipc://") {
            return if path.is_empty() { Err(EndpointError::NoAddress) } else { Ok(Self(text.to_owned())) };
        }
        let address = text.strip_prefix("tcp://").ok_or(EndpointError::UnknownTransport)?;
        let (host, port) = address.rsplit_once(':').ok_or(EndpointError::NoPort)?;
        if host.is_empty() {
            return Err(EndpointError::NoAddress);
        }
        // ZeroMQ writes "any free port" as `*`; engines write 0.
        if port != "*" && port.parse::<u16>().is_err() {
            return Err(EndpointError::NoPort);
        }
        Ok(Self(text.to_owned()))
    }

    /// A port of this machine that no other machine can reach. Port 0 is any free one.
    pub fn loopback(port: u16) -> Self {
        Self(format!("tcp://127.0.0.1:{port}"))
    }

    /// As ZeroMQ writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self(format!("tcp://{address}"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which side waits for the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attach {
    /// The other side listens. The usual way to subscribe.
    Connect(Endpoint),
    /// We listen, and the other side, or several of them, connects to us.
    Bind(Endpoint),
}

impl Attach {
    /// The place, whoever waits there.
    pub fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Connect(endpoint) | Self::Bind(endpoint) => endpoint,
        }
    }
}

/// Why a text is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is longer than any address.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest accepted.
        limit: usize,
    },
    /// A space or a control character is in it.
    BadCharacter,
    /// It starts with neither `tcp://` nor `ipc://`.
    UnknownTransport,
    /// Nothing stands between the transport and the port, or behind `ipc://`.
    NoAddress,
    /// What follows the last colon is no port.
    NoPort,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, limit } => {
                write!(f, "an endpoint of {bytes} bytes: write one of at most {limit}")
            }
            Self::BadCharacter => f.write_str("a space or a control character in an endpoint: take it out"),
            Self::UnknownTransport => f.write_str("write tcp://host:port or ipc://path"),
            Self::NoAddress => {
                f.write_str("an endpoint without an address: write tcp://host:port or ipc://path")
            }
            Self::NoPort => f.write_str("no port behind the last colon: write tcp://host:port"),
        }
    }
}

impl Error for EndpointError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, error: EndpointError) {
        assert_eq!(Endpoint::new(text), Err(error), "{text:?}");
    }

    #[test]
    fn what_engines_write_is_taken() {
        for text in [
            "tcp://*:5557",
            "tcp://127.0.0.1:0",
            "tcp://node-7.example:5557",
            "tcp://[::1]:5557",
            "tcp://127.0.0.1:*",
            "ipc:///run/events",
        ] {
            assert_eq!(Endpoint::new(text).unwrap().as_str(), text);
        }
        assert_eq!(Endpoint::from(SocketAddr::from(([127, 0, 0, 1], 7))), Endpoint::loopback(7));
    }

    #[test]
    fn what_zeromq_would_not_understand_is_refused() {
        refused("", EndpointError::UnknownTransport);
        refused("localhost:5557", EndpointError::UnknownTransport);
        refused("inproc://x", EndpointError::UnknownTransport);
        refused("tcp://localhost", EndpointError::NoPort);
        refused("tcp://localhost:", EndpointError::NoPort);
        refused("tcp://localhost:65536", EndpointError::NoPort);
        refused("tcp://:5557", EndpointError::NoAddress);
        refused("ipc://", EndpointError::NoAddress);
        refused("tcp://a b:1", EndpointError::BadCharacter);
        refused("tcp://a\0:1", EndpointError::BadCharacter);
        let long = format!("ipc://{}", "x".repeat(MAX_BYTES));
        refused(&long, EndpointError::TooLong { bytes: long.len(), limit: MAX_BYTES });
    }
}
