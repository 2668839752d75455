//! What came over the wire, in our own words, and what a message must look like.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// One publisher that a [`Subscriber`](crate::Subscriber) listens to. Never used again after it was removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublisherId(pub(crate) u64);

impl fmt::Debug for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublisherId({})", self.0)
    }
}

/// One connection to a publisher: a larger number is a later one. A process that starts again can only be reached
/// by a new connection, so whatever comes over one connection comes from one process, unless a proxy stands
/// between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub(crate) u64);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.0)
    }
}

/// The topic of a message: any bytes, by convention text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Topic(Arc<[u8]>);

impl Topic {
    /// The same topic for all, or the beginning of many.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }
}

impl Deref for Topic {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({:?})", String::from_utf8_lossy(&self.0))
    }
}

/// The bytes of a batch, in the buffer in which they were received.
pub struct Payload(Buffer);

enum Buffer {
    Received(zmq::Message),
    Owned(Vec<u8>),
}

impl Payload {
    pub(crate) fn received(message: zmq::Message) -> Self {
        Self(Buffer::Received(message))
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Buffer::Owned(bytes))
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Buffer::Received(message) => message,
            Buffer::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

/// Why a message is no batch. It is skipped and counted; its number, if it had one, is a gap to the sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MessageFault {
    /// Not the number of frames that the protocol has: 3, in replays also 4.
    FrameCount,
    /// The sequence frame is not 8 bytes long.
    SequenceLength,
    /// No byte in the payload.
    EmptyPayload,
    /// A frame longer than [`SubscriberConfig::frame_bytes`](crate::SubscriberConfig::frame_bytes).
    FrameTooLong,
}

impl MessageFault {
    /// Every fault, in declaration order.
    pub const ALL: [Self; 4] =
        [Self::FrameCount, Self::SequenceLength, Self::EmptyPayload, Self::FrameTooLong];

    /// A short name for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FrameCount => "frame_count",
            Self::SequenceLength => "sequence_length",
            Self::EmptyPayload => "empty_payload",
            Self::FrameTooLong => "frame_too_long",
        }
    }
}

/// Messages that were no batch, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFaults([u64; MessageFault::ALL.len()]);

impl MessageFaults {
    pub(crate) fn add(&mut self, fault: MessageFault) {
        self.0[fault as usize] += 1;
    }

    /// How many for this reason.
    pub fn get(&self, fault: MessageFault) -> u64 {
        self.0[fault as usize]
    }

    /// How many for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_apart() {
        let mut faults = MessageFaults::default();
        for fault in MessageFault::ALL {
            faults.add(fault);
            assert_eq!(faults.get(fault), 1, "{}", fault.name());
        }
        assert_eq!(faults.total(), 4);
    }
}
