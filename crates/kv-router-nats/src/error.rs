//! What can go wrong, one enum for each operation that fails in its own way.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kv_router_transport::{DumpReadError, EncodeError, SequencerConfigError};

/// What the client of the broker said, as its own type's text and sources.
pub struct Cause(Box<dyn Error + Send + Sync>);

impl Cause {
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Why a configuration was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A subject cannot begin like this.
    Prefix,
    /// A bucket or topic cannot be called this.
    Name,
    /// A wait is 0, or above a day.
    WaitOutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        wait: Duration,
    },
    /// A limit is 0.
    Zero {
        /// Which one.
        field: &'static str,
    },
    /// A limit is outside what works.
    OutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        found: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// Workers would be taken for gone while the connection is still thought to be up.
    TtlTooShort {
        /// What it is.
        ttl: Duration,
        /// The least that works with this `ping_interval`.
        least: Duration,
    },
    /// The sequence machine refuses its part.
    Sequencer(SequencerConfigError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => f.write_str(
                "bad subject prefix: use up to 64 letters, digits, - and _, in words separated by dots",
            ),
            Self::Name => f.write_str("bad name: use 1 to 64 letters, digits, - and _"),
            Self::WaitOutOfRange { field, wait } => {
                write!(f, "{field} is {wait:?}: choose more than 0 and up to 24 hours")
            }
            Self::Zero { field } => write!(f, "{field} is 0: allow at least one"),
            Self::OutOfRange { field, found, least, most } => {
                write!(f, "{field} is {found}: choose {least} to {most}")
            }
            Self::TtlTooShort { ttl, least } => write!(
                f,
                "ttl is {ttl:?}: choose at least {least:?}, or a lost connection is noticed later than it expires workers"
            ),
            Self::Sequencer(error) => error.fmt(f),
        }
    }
}

impl Error for ConfigError {}

/// Why there is no link.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration makes no sense.
    Config(ConfigError),
    /// The thread of the link was not started.
    Thread(io::Error),
    /// The broker did not answer in time.
    Timeout {
        /// How long it was waited for.
        wait: Duration,
    },
    /// The credentials cannot be used.
    Credentials(CredentialsError),
    /// The broker does not know who we say we are, or wants to know who we are and we did not say.
    Denied(Cause),
    /// The broker is not there, or does not take the connection.
    Refused(Cause),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "the thread of the link was not started: {error}"),
            Self::Timeout { wait } => {
                write!(
                    f,
                    "no answer from the NATS server in {wait:?}: check the address, or raise connect_wait"
                )
            }
            Self::Credentials(error) => error.fmt(f),
            Self::Denied(cause) => {
                write!(f, "the NATS server does not let us in: {cause}; check the credentials")
            }
            Self::Refused(cause) => {
                write!(f, "no connection to the NATS server: {cause}; check its address and the TLS files")
            }
        }
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Credentials(error) => Some(error),
            Self::Denied(cause) | Self::Refused(cause) => Some(cause),
            Self::Timeout { .. } => None,
        }
    }
}

impl From<ConfigError> for ConnectError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<CredentialsError> for ConnectError {
    fn from(error: CredentialsError) -> Self {
        Self::Credentials(error)
    }
}

/// Why credentials cannot be used. Nothing of a secret is in it.
#[derive(Debug)]
#[non_exhaustive]
pub enum CredentialsError {
    /// [`Credentials::Nkey`](crate::Credentials::Nkey) is not the seed of a user's key.
    Seed,
    /// [`Credentials::File`](crate::Credentials::File) is no credential file.
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
}

/// What is wrong with a credential file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileFault {
    /// It cannot be read.
    Read(io::Error),
    /// It is larger than any that was meant.
    TooLarge {
        /// Bytes allowed.
        limit: u64,
    },
    /// There is no JWT between lines of dashes, or what is there is none.
    Jwt,
    /// There is no seed between lines of dashes behind the JWT, or what is there is not the seed of a user's key.
    Seed,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed => {
                f.write_str("credentials: not the seed of a user's nkey: give the line that begins with SU")
            }
            Self::File { path, fault } => write!(f, "credentials: {}: {fault}", path.display()),
        }
    }
}

impl Error for CredentialsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::File { fault: FileFault::Read(error), .. } => Some(error),
            Self::File { .. } | Self::Seed => None,
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::TooLarge { limit } => {
                write!(f, "above {limit} bytes: a credential file has one JWT and one seed")
            }
            Self::Jwt => f.write_str("no JWT of a user first: write it anew with nsc"),
            Self::Seed => f.write_str("no seed of a user's nkey behind the JWT: write it anew with nsc"),
        }
    }
}

/// Why something asked of the broker did not happen.
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestError {
    /// The configuration makes no sense.
    Config(ConfigError),
    /// No answer in time. Whether it happened is not known.
    Timeout {
        /// How long it was waited for.
        wait: Duration,
    },
    /// The link was closed.
    Closed,
    /// The broker or its client said no.
    Broker(Cause),
    /// It is larger than allowed.
    TooLarge {
        /// Bytes of it.
        found: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// What waits to be sent is at its limit: try later, or leave it.
    Full,
    /// The entry of this worker is no longer the one announced here: another process announced the worker, or it
    /// expired. It was left as it is.
    Superseded,
    /// A batch cannot be encoded.
    Encode(EncodeError),
    /// The numbers of this life are used up.
    Exhausted,
    /// What came from the store is no dump.
    Dump(DumpReadError),
    /// The object changed while it was read, or its bytes are damaged: try again.
    Torn,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Timeout { wait } => write!(f, "no answer from the NATS server in {wait:?}: try again"),
            Self::Closed => f.write_str("the link is closed: connect a new one"),
            Self::Broker(cause) => write!(f, "the NATS server did not do it: {cause}"),
            Self::TooLarge { found, limit } => {
                write!(
                    f,
                    "{found} bytes are above the limit of {limit}: raise it on both sides, or send less"
                )
            }
            Self::Full => f.write_str("too much waits to be sent: try later, or leave it"),
            Self::Superseded => f.write_str(
                "another process announced this worker meanwhile, or its entry expired: nothing to do",
            ),
            Self::Encode(error) => error.fmt(f),
            Self::Exhausted => f.write_str("all sequence numbers are used: begin a new incarnation"),
            Self::Dump(error) => error.fmt(f),
            Self::Torn => f.write_str("the object changed while it was read, or is damaged: try again"),
        }
    }
}

impl Error for RequestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Broker(cause) => Some(cause),
            Self::Encode(error) => Some(error),
            Self::Dump(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ConfigError> for RequestError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<EncodeError> for RequestError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl From<DumpReadError> for RequestError {
    fn from(error: DumpReadError) -> Self {
        Self::Dump(error)
    }
}
