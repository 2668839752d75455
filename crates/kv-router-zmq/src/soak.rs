//! No stability promise: messages taken apart without a socket, for tests and for `cargo xtask fuzz`.

use crate::MessageFault;
use crate::frames::{Frames, ReplayMessage};

/// The number and the payload of a live message of these frames, none of which may be longer than `limit` bytes.
///
/// # Errors
///
/// [`MessageFault`] when it is none.
pub fn live(frames: &[&[u8]], limit: usize) -> Result<(u64, Vec<u8>), MessageFault> {
    let batch = Frames::of(frames, limit).live()?;
    Ok((batch.sequence, batch.payload.to_vec()))
}

/// The same for a message of a replay; `None` is the end of one.
///
/// # Errors
///
/// [`MessageFault`] when it is none.
pub fn replayed(frames: &[&[u8]], limit: usize) -> Result<Option<(u64, Vec<u8>)>, MessageFault> {
    match Frames::of(frames, limit).replayed()? {
        ReplayMessage::Batch { sequence, payload } => Ok(Some((sequence, payload.to_vec()))),
        ReplayMessage::End => Ok(None),
    }
}
