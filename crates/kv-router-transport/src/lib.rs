//! Event batches, their binary form, an in-process channel and the sequence machine.
#![forbid(unsafe_code)]

mod batch;

pub use batch::{EventBatch, Incarnation};
