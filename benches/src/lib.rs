//! Measures the indexes on recorded traffic, after checking their answers.
//!
//! A corpus is recorded once from a trace replayed over simulated engines. Every index answers it on one thread and
//! is compared with the oracle lookup by lookup; then it is replayed against deadlines at rising rates.
#![forbid(unsafe_code)]

pub mod chart;
pub mod corpus;
pub mod decisions;
pub mod engines;
pub mod heap;
pub mod open_loop;
pub mod payloads;
pub mod serial;
mod shared_prompts;
pub mod soak;
pub mod source;
pub mod subject;
pub mod truth;
