//! No stability promise. Random event histories and named examples, checked against the
//! [`Oracle`](crate::Oracle).
//!
//! For implementers of an index. A test file is this:
//!
//! ```
//! use kv_router_index::RadixTree;
//! use kv_router_index::conformance::Suite;
//!
//! let suite = Suite::new(RadixTree::new).with_a_node_per_place();
//! suite.run_examples();
//! suite.run_churn(1_000);
//! # if false {
//! suite.run_histories(); // as many as `PROPTEST_CASES` says
//! # }
//! ```
//!
//! A concurrent index, which implements [`ApplyEvents`](crate::ApplyEvents) for `&TheIndex`, goes in as
//! `Suite::new(|| Shared(TheIndex::new()))`, and once more, with threads, as `ConcurrentRun::default().run(&TheIndex::new())`.
//!
//! A history is a list of abstract operations ("remove the middle of the chain that ends in the k-th block
//! that this rank holds") which are made concrete against the oracle's state as they are applied. So they
//! stay meaningful when a failing history is shrunk, and reach the states where indexes go wrong;
//! [`Coverage`] counts which.
//!
//! After each operation the results of its events, some answers, in full and with early exit, and the
//! occupancy must equal the oracle's. In the end every known prefix is asked for, the dump is replayed into a
//! fresh index and a fresh oracle, and everything is removed in random order: nothing may be left.

mod churn;
mod concurrent;
mod coverage;
mod driver;
mod engine;
mod examples;
mod history;
mod mismatch;
mod observe;
mod rng;
mod shared;
mod strategies;
mod suite;
mod world;

pub use churn::FailedChurn;
pub use concurrent::{ConcurrentReport, ConcurrentRun, Consistency, FailedRun};
pub use coverage::Coverage;
pub use examples::FailedExample;
pub use history::{Copies, Flaw, History, Naming, Op, Order, Packing, Part, Pick, Under, Variation};
pub use mismatch::{Mismatch, What};
pub use shared::Shared;
pub use strategies::histories;
pub use suite::{Counterexample, Subject, Suite};
