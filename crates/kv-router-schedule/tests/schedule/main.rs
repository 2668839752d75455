//! The selector from outside: the contract with its numbers, reported faults, properties, explanations.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod affinity;
mod common;
mod contract;
mod custom;
mod explanations;
mod properties;
mod queue;
mod reports;
mod slates;
mod strategies;
