//! Everything about bytes: batch frames, dumps, and the golden bytes of the documentation.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod batch_frames;
mod common;
mod dumps;
mod golden;
