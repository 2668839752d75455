//! Why something could not be done.

use std::error::Error;
use std::fmt;
use std::io;

use crate::ConfigError;

/// Why a subscriber or a publisher did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration means nothing.
    Config(ConfigError),
    /// The operating system gave no thread or no pipe.
    Io(io::Error),
    /// A socket could not be made, bound or connected.
    Socket(SocketError),
}

/// ZeroMQ refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketError {
    /// What was tried.
    pub operation: SocketOperation,
    /// What the operating system or ZeroMQ said: a value of errno.
    pub code: i32,
}

/// What was tried on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketOperation {
    /// To make one.
    Create,
    /// To set an option.
    Configure,
    /// To listen.
    Bind,
    /// To connect.
    Connect,
    /// To wait for messages.
    Poll,
}

impl SocketError {
    pub(crate) fn new(operation: SocketOperation, error: zmq::Error) -> Self {
        Self { operation, code: error.to_raw() }
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (doing, advice) = match self.operation {
            SocketOperation::Create => ("make a socket", "raise the limit of open files"),
            SocketOperation::Configure => ("configure a socket", "check the configuration"),
            SocketOperation::Bind => ("listen", "check that the endpoint is free and of this machine"),
            SocketOperation::Connect => ("connect", "check the endpoint"),
            SocketOperation::Poll => ("wait for messages", "start the subscriber again"),
        };
        write!(f, "cannot {doing}: {}; {advice}", io::Error::from_raw_os_error(self.code))
    }
}

impl Error for SocketError {}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Io(error) => write!(f, "no thread to run on: {error}"),
            Self::Socket(error) => error.fmt(f),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::Socket(error) => Some(error),
        }
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<SocketError> for StartError {
    fn from(error: SocketError) -> Self {
        Self::Socket(error)
    }
}

/// Why nothing was received.
///
/// Not `#[non_exhaustive]`: there is no third way, and a reader must think of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// Nothing came in time. More may come.
    Empty,
    /// The thread ended: nothing ever comes again.
    Stopped,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "nothing came in time: wait again",
            Self::Stopped => "the subscriber's thread ended: start a new subscriber",
        })
    }
}

impl Error for RecvError {}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// No such publisher, or it was removed.
    UnknownPublisher,
    /// It has no replay endpoint.
    NoReplayEndpoint,
    /// The thread has too many requests before it.
    Busy,
    /// The thread ended.
    Stopped,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPublisher => "no such publisher: add it first",
            Self::Busy => "too many requests wait: ask again later",
            Self::NoReplayEndpoint => "the publisher has no replay endpoint: give its source one",
            Self::Stopped => "the subscriber's thread ended: start a new subscriber",
        })
    }
}

impl Error for RequestError {}

/// Why a batch was not taken for publishing. It comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// Too many batches wait.
    Full(Vec<u8>),
    /// An empty payload would be taken for the end of a replay.
    Empty,
    /// The thread ended.
    Stopped(Vec<u8>),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "too many batches wait to be published: publish it again later, or drop it",
            Self::Empty => "an empty batch cannot be published: leave it out",
            Self::Stopped(_) => "the publisher's thread ended: start a new publisher",
        })
    }
}

impl Error for PublishError {}
