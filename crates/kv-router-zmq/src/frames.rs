//! The frames of a message: read without growing with what a peer sends, and taken apart.
//!
//! Live: `topic, sequence, payload`. Replayed: `"", sequence, payload` from older engines and `"", topic, sequence,
//! payload` from newer ones, so both are read from the end. A replay ends with sequence `u64::MAX` and no payload.

use crate::message::{MessageFault, Payload};

/// Most frames that any message we understand has.
const MAX_FRAMES: usize = 4;

/// The frames of one message. A message may have more of them than are kept.
#[derive(Default)]
pub(crate) struct Frames {
    kept: Vec<zmq::Message>,
    /// How many there were.
    count: usize,
    too_long: bool,
}

/// A live batch. Its topic is left in [`Frames::topic`], because it is nearly always the one before.
pub(crate) struct LiveBatch {
    pub(crate) sequence: u64,
    pub(crate) payload: Payload,
}

pub(crate) enum ReplayMessage {
    Batch { sequence: u64, payload: Payload },
    End,
}

impl Frames {
    /// Reads one message, if there is one. `limit` is the most bytes of a frame.
    pub(crate) fn receive(&mut self, socket: &zmq::Socket, limit: usize) -> Result<(), zmq::Error> {
        self.kept.clear();
        (self.count, self.too_long) = (0, false);
        loop {
            let frame = socket.recv_msg(zmq::DONTWAIT)?;
            let more = frame.get_more();
            self.count += 1;
            self.too_long |= frame.len() > limit;
            if self.kept.len() < MAX_FRAMES {
                self.kept.push(frame);
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes a live message apart.
    pub(crate) fn live(&mut self) -> Result<LiveBatch, MessageFault> {
        if self.count != 3 {
            return Err(MessageFault::FrameCount);
        }
        let (sequence, payload) = self.tail()?;
        if payload.is_empty() {
            return Err(MessageFault::EmptyPayload);
        }
        Ok(LiveBatch { sequence, payload })
    }

    /// The first frame: the topic of a live message, the delimiter of a replayed one.
    pub(crate) fn first(&self) -> &[u8] {
        self.kept.first().map_or(&[], |frame| frame)
    }

    /// Takes a replayed message apart, in either framing.
    pub(crate) fn replayed(&mut self) -> Result<ReplayMessage, MessageFault> {
        if !(3..=MAX_FRAMES).contains(&self.count) || !self.first().is_empty() {
            return Err(MessageFault::FrameCount);
        }
        let (sequence, payload) = self.tail()?;
        match (sequence, payload.is_empty()) {
            (u64::MAX, true) => Ok(ReplayMessage::End),
            (_, true) => Err(MessageFault::EmptyPayload),
            (_, false) => Ok(ReplayMessage::Batch { sequence, payload }),
        }
    }

    /// The last two frames, which both framings share.
    fn tail(&mut self) -> Result<(u64, Payload), MessageFault> {
        if self.too_long {
            return Err(MessageFault::FrameTooLong);
        }
        let payload = self.kept.pop().ok_or(MessageFault::FrameCount)?;
        let sequence = self.kept.pop().ok_or(MessageFault::FrameCount)?;
        let sequence = <[u8; 8]>::try_from(&*sequence).map_err(|_| MessageFault::SequenceLength)?;
        Ok((u64::from_be_bytes(sequence), Payload::received(payload)))
    }
}

#[cfg(any(test, feature = "soak"))]
impl Frames {
    /// What [`receive`](Self::receive) makes of a message of these frames.
    pub(crate) fn of(parts: &[&[u8]], limit: usize) -> Self {
        let kept = parts.iter().take(MAX_FRAMES).map(|&part| zmq::Message::from(part)).collect();
        Self { kept, count: parts.len(), too_long: parts.iter().any(|part| part.len() > limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(parts: &[&[u8]]) -> Frames {
        Frames::of(parts, 64)
    }

    const ONE: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 1];
    const END: &[u8] = &[0xff; 8];

    #[test]
    fn live_messages_have_three_frames_and_something_in_them() {
        let live =
            |parts: &[&[u8]]| frames(parts).live().map(|batch| (batch.sequence, batch.payload.to_vec()));
        assert_eq!(live(&[b"topic", ONE, b"x"]), Ok((1, b"x".to_vec())));
        assert_eq!(live(&[b"", ONE, b"x"]), Ok((1, b"x".to_vec())));
        assert_eq!(live(&[ONE, b"x"]), Err(MessageFault::FrameCount));
        assert_eq!(live(&[b"", ONE, b"x", b"y"]), Err(MessageFault::FrameCount));
        assert_eq!(live(&[b"", ONE, b"x", b"y", b"z"]), Err(MessageFault::FrameCount));
        assert_eq!(live(&[b"", &ONE[1..], b"x"]), Err(MessageFault::SequenceLength));
        assert_eq!(live(&[b"", ONE, b""]), Err(MessageFault::EmptyPayload));
        assert_eq!(live(&[b"", ONE, &[7; 65]]), Err(MessageFault::FrameTooLong));
    }

    #[test]
    fn both_replay_framings_are_read_from_the_end() {
        let replayed = |parts: &[&[u8]]| match frames(parts).replayed() {
            Ok(ReplayMessage::Batch { sequence, payload }) => Ok(Some((sequence, payload.to_vec()))),
            Ok(ReplayMessage::End) => Ok(None),
            Err(fault) => Err(fault),
        };
        assert_eq!(replayed(&[b"", ONE, b"x"]), Ok(Some((1, b"x".to_vec()))));
        assert_eq!(replayed(&[b"", b"topic", ONE, b"x"]), Ok(Some((1, b"x".to_vec()))));
        assert_eq!(replayed(&[b"", END, b""]), Ok(None));
        assert_eq!(replayed(&[b"", b"", END, b""]), Ok(None));
        assert_eq!(replayed(&[b"x", END, b""]), Err(MessageFault::FrameCount));
        assert_eq!(replayed(&[END, b""]), Err(MessageFault::FrameCount));
        assert_eq!(replayed(&[b"", b"", b"", ONE, b"x"]), Err(MessageFault::FrameCount));
        assert_eq!(replayed(&[b"", b"", b"x"]), Err(MessageFault::SequenceLength));
        assert_eq!(replayed(&[b"", ONE, b""]), Err(MessageFault::EmptyPayload));
    }
}
