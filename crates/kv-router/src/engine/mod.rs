//! Streams of real engines: from the frames of a publisher to the index.

mod config;
mod error;
mod lag;
mod lane;
mod pulled;
mod stream;

pub use config::{EngineKind, EngineLives, EngineStreamConfig, RankNaming};
pub use error::{EngineStreamError, OpenStreamError};
pub(crate) use lane::Engine;
pub use lane::EngineCounters;
pub use pulled::{PulledReport, PulledStream};
pub use stream::{EngineFrame, EngineStream, FrameFault, FrameReport};
