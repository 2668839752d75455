//! Predicted state: what workers without events probably hold, from our own routing decisions.
//!
//! Whoever routes a request to a rank knows that the rank is about to compute, and keep, the blocks of its prompt. For
//! how long it does not know; so what was predicted ages out after a time to live, and under a cap on the size the
//! oldest goes first.
//!
//! It is a side index. It never mixes with an exact one, because an engine may salt its names, and one block must not
//! be filed twice: ask both, and take a rank's answer from the one that its events, or their absence, call for.
//!
//! # Guarantees
//!
//! * **Answers are guesses** and say so: [`Certainty::Guess`](kv_router_index::Certainty).
//! * **A block never outlives its prefix.** A decision renews all blocks of its prompt, so that a parent expires no
//!   earlier than its children; and the cap takes the oldest leaf. There are no holes and no orphans.
//! * **Bounded.** No more blocks than the cap, over all ranks together. Recording one prompt again
//!   changes times and nothing else.
//! * **Deterministic.** Time is an argument, and equal calls leave equal states.
//! * **Empty is empty.** When the last block is gone, so are all tables.

mod config;
mod index;
mod list;
mod store;
#[cfg(test)]
mod tests;
mod wheel;

pub use config::{PredictedConfig, PredictedConfigError};
pub use index::{PredictedIndex, Recorded};
