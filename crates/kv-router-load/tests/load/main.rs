//! The tracker from outside: reported faults, random lifecycles against a model, threads.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod engines;
mod lifecycles;
mod mending;
mod replicas;
mod reports;
mod snapshots;
mod threads;
