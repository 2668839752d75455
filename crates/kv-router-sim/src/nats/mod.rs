//! Routers and workers over a real NATS server, with everything that goes wrong between them; and the runs that show
//! that the routers come out right.
//!
//! Everything in a run happens on one thread, in turns: what is concurrent is the server and the clients' own threads.
//! [`scenario`] has one fault each, [`chaos`] all of them at random.

pub mod broker;
mod cache;
pub mod chaos;
mod gateway;
pub mod partition;
mod rig;
pub mod scenario;
mod worker;

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use kv_router::{BlockSize, BuildError};
use kv_router_nats::{ConnectError, RequestError};

pub use self::broker::{Broker, BrokerError};
pub use self::partition::Partition;

/// Why there was no run.
#[derive(Debug)]
#[non_exhaustive]
pub enum NatsRunError {
    /// There is no server.
    Broker(BrokerError),
    /// There is no network to it.
    Network(io::Error),
    /// A client does not connect.
    Connect(ConnectError),
    /// A client's request failed that must not.
    Request(RequestError),
    /// A router cannot be built.
    Router(BuildError),
    /// Something that has to happen did not.
    Stuck {
        /// What.
        what: &'static str,
        /// How long it was waited for.
        wait: Duration,
    },
}

impl fmt::Display for NatsRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker(error) => error.fmt(f),
            Self::Network(error) => write!(f, "no socket for the network: {error}"),
            Self::Connect(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Router(error) => error.fmt(f),
            Self::Stuck { what, wait } => write!(f, "{what} did not happen in {wait:?}"),
        }
    }
}

impl Error for NatsRunError {}

impl From<BrokerError> for NatsRunError {
    fn from(error: BrokerError) -> Self {
        Self::Broker(error)
    }
}

impl From<io::Error> for NatsRunError {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
    }
}

impl From<ConnectError> for NatsRunError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<RequestError> for NatsRunError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<BuildError> for NatsRunError {
    fn from(error: BuildError) -> Self {
        Self::Router(error)
    }
}

/// Tokens a block.
fn block_size() -> BlockSize {
    const SIZE: BlockSize = match BlockSize::new(16) {
        Ok(size) => size,
        Err(_) => unreachable!(),
    };
    SIZE
}

/// Which routers came out exact, and how long after the last fault.
#[derive(Clone, Debug)]
pub struct Exactness {
    /// What happened.
    pub what: String,
    /// Each router: how long it took; `None`: it is not exact.
    pub routers: Vec<Option<Duration>>,
    /// Blocks in all caches in the end.
    pub blocks: usize,
    /// What the routers counted, and what is not as it should be.
    pub notes: Vec<String>,
}

impl Exactness {
    /// Whether every router came out exact.
    pub fn is_exact(&self) -> bool {
        self.routers.iter().all(Option::is_some)
    }
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} blocks: time to exact", self.what, self.blocks)?;
        for time in &self.routers {
            match time {
                Some(time) => write!(f, " {} ms", time.as_millis())?,
                None => write!(f, " NEVER")?,
            }
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n  {note}"))
    }
}
