//! Our indexes beside the published ones: the same traffic, answers checked, ratios reported.
//!
//! A [`corpus`] is a recorded stream of lookups and cache events with the right answer to every lookup, which a
//! [`reference`](mod@reference) gives that has nothing in common with any index. Each of the [`subjects`] gets the
//! stream in its own event type and through the calls that its authors' benchmarks use. [`replay`] times it on one
//! thread, [`duel`] with a writer and a reader at full rate, [`memory`] counts its bytes; [`relay`](mod@relay) times what turns
//! names into numbers for one of them. [`report`] turns the figures
//! into medians and ratios.
#![forbid(unsafe_code)]

pub mod chart;
pub mod clock;
pub mod corpus;
pub mod duel;
pub mod memory;
pub mod reference;
pub mod relay;
pub mod replay;
pub mod report;
pub mod subjects;
