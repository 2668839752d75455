//! How much one frame may ask of its reader.

use std::error::Error;
use std::fmt;

/// What one frame may hold. Both sides check: a writer refuses what no reader would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes of a frame, header included. Default: 16 MiB.
    pub frame_bytes: usize,
    /// Events of one batch. Default: 65,536.
    pub events: usize,
    /// Blocks of one event. Default: 262,144, which at 16 tokens a block is a prompt of four million tokens.
    pub blocks: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self { frame_bytes: 16 << 20, events: 1 << 16, blocks: 1 << 18 }
    }
}

impl WireLimits {
    /// Checks that an event of `blocks` blocks fits into a frame, and a frame's length into its header.
    ///
    /// # Errors
    ///
    /// [`WireLimitsError`] when not.
    pub fn validate(&self) -> Result<(), WireLimitsError> {
        if self.events == 0 {
            return Err(WireLimitsError::NoEvents);
        }
        if self.blocks == 0 {
            return Err(WireLimitsError::NoBlocks);
        }
        if u32::try_from(self.frame_bytes).is_err() {
            return Err(WireLimitsError::FrameAboveFormat { frame_bytes: self.frame_bytes });
        }
        let needed = self.blocks.saturating_mul(super::layout::BLOCK_BYTES);
        let needed = needed.saturating_add(super::FRAME_OVERHEAD);
        if needed > self.frame_bytes {
            return Err(WireLimitsError::FrameTooSmall { frame_bytes: self.frame_bytes, needed });
        }
        Ok(())
    }
}

/// Why [`WireLimits`] were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireLimitsError {
    /// `events` is 0.
    NoEvents,
    /// `blocks` is 0.
    NoBlocks,
    /// `frame_bytes` does not fit the format's 32 bits.
    FrameAboveFormat {
        /// The limit asked for.
        frame_bytes: usize,
    },
    /// An event of `blocks` blocks does not fit into `frame_bytes`.
    FrameTooSmall {
        /// The limit asked for.
        frame_bytes: usize,
        /// What one event of `blocks` blocks takes.
        needed: usize,
    },
}

impl fmt::Display for WireLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvents => f.write_str("events is 0: allow at least one event a batch"),
            Self::NoBlocks => f.write_str("blocks is 0: allow at least one block an event"),
            Self::FrameAboveFormat { frame_bytes } => {
                write!(
                    f,
                    "frame_bytes {frame_bytes} is above what the format can say: lower it to {}",
                    u32::MAX
                )
            }
            Self::FrameTooSmall { frame_bytes, needed } => write!(
                f,
                "frame_bytes {frame_bytes} does not fit one event: raise it to {needed}, or lower blocks"
            ),
        }
    }
}

impl Error for WireLimitsError {}
