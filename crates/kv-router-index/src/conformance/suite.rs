//! The suite: what an implementer calls.

use std::error::Error;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::churn::{self, FailedChurn};
use super::coverage::Coverage;
use super::driver::{self, NodeCount};
use super::examples::{self, FailedExample};
use super::history::History;
use super::mismatch::Mismatch;
use super::strategies::histories;
use crate::{ApplyEvents, DumpEvents, Inspect, PrefixIndex};

/// What can be tested: an index that reads, writes, dumps and counts. Nothing implements it by hand.
pub trait Subject: PrefixIndex + ApplyEvents + DumpEvents + Inspect {}

impl<T: PrefixIndex + ApplyEvents + DumpEvents + Inspect> Subject for T {}

/// All checks of one kind of index, given how to make an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Suite<F> {
    new: F,
    nodes: NodeCount,
}

impl<I: Subject, F: Fn() -> I> Suite<F> {
    /// A suite for the indexes that `new` makes. They must promise
    /// [`Certainty::Exact`](crate::Certainty::Exact).
    pub fn new(new: F) -> Self {
        Self { new, nodes: NodeCount::Free }
    }

    /// Expects [`Occupancy::nodes`](crate::Occupancy::nodes) to be one for each place that somebody holds or
    /// that leads to one. Without this, nodes are only expected to come to nothing in the end.
    #[must_use]
    pub fn with_a_node_per_place(mut self) -> Self {
        self.nodes = NodeCount::OnePerPlace;
        self
    }

    /// Checks one history and tells which states it reached.
    ///
    /// # Errors
    ///
    /// The first difference from the oracle.
    pub fn check(&self, history: &History) -> Result<Coverage, Mismatch> {
        driver::check(&self.new, self.nodes, history)
    }

    /// Checks `cases` random histories, always the same.
    ///
    /// # Errors
    ///
    /// The smallest failing history that could be found, and how it fails.
    pub fn search(&self, cases: u32) -> Result<(), Counterexample> {
        self.search_from(0, cases)
    }

    /// Checks `cases` random histories that `seed` decides.
    ///
    /// # Errors
    ///
    /// The smallest failing history that could be found, and how it fails.
    pub fn search_from(&self, seed: u64, cases: u32) -> Result<(), Counterexample> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { cases, ..config() };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        self.search_with(TestRunner::new_with_rng(config, rng))
    }

    /// Checks random histories, other ones each time: as many as `PROPTEST_CASES` says, by default 256.
    ///
    /// # Panics
    ///
    /// When one fails, with the smallest such history that could be found. Keep that as a test.
    #[track_caller]
    pub fn run_histories(&self) {
        if let Err(counterexample) = self.search_with(TestRunner::new(config())) {
            panic!("{counterexample}");
        }
    }

    /// Checks the named examples.
    ///
    /// # Errors
    ///
    /// The first that fails.
    pub fn check_examples(&self) -> Result<(), FailedExample> {
        examples::check_all(&self.new)
    }

    /// Checks the named examples.
    ///
    /// # Panics
    ///
    /// When one fails.
    #[track_caller]
    pub fn run_examples(&self) {
        if let Err(failed) = self.check_examples() {
            panic!("{failed}");
        }
    }

    /// Stores and removes `operations` blocks with at most 10,000 alive, then removes all: nothing may be
    /// left.
    ///
    /// # Errors
    ///
    /// What is left, or the first removal that the index did not know.
    pub fn check_churn(&self, operations: u32) -> Result<(), FailedChurn> {
        churn::check((self.new)(), operations)
    }

    /// [`check_churn`](Self::check_churn), as a test.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn run_churn(&self, operations: u32) {
        if let Err(failed) = self.check_churn(operations) {
            panic!("{failed}");
        }
    }

    fn search_with(&self, mut runner: TestRunner) -> Result<(), Counterexample> {
        let outcome = runner.run(&histories(), |history| match self.check(&history) {
            Ok(_) => Ok(()),
            Err(mismatch) => Err(TestCaseError::fail(mismatch.to_string())),
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(TestError::Fail(reason, history)) => Err(self.without_idle_ops(history, reason.to_string())),
            Err(TestError::Abort(reason)) => {
                Err(Counterexample { history: None, reason: reason.to_string() })
            }
        }
    }

    /// Leaves out each operation without which the history fails too. The runner tries that only before it
    /// has made the operations themselves simpler, when many still matter.
    fn without_idle_ops(&self, mut history: History, mut reason: String) -> Counterexample {
        let mut at = history.ops.len();
        while at > 0 {
            at -= 1;
            let mut shorter = history.clone();
            shorter.ops.remove(at);
            // A panic inside the index is kept as it was found, since its message is not at hand.
            let checked = panic::catch_unwind(AssertUnwindSafe(|| self.check(&shorter)));
            if let Ok(Err(mismatch)) = checked {
                (history, reason) = (shorter, mismatch.to_string());
                at = history.ops.len();
            }
        }
        Counterexample { history: Some(history), reason }
    }
}

/// Failures are kept as named tests, not in files of seeds.
fn config() -> Config {
    Config { failure_persistence: None, max_shrink_iters: 4096, ..Config::default() }
}

/// A history that an index gets wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Counterexample {
    /// The smallest that was found; `None` when the search itself gave up.
    pub history: Option<History>,
    /// The mismatch, or the message of a panic inside the index.
    reason: String,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.history {
            Some(history) => write!(f, "{history:?}\n{}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl Error for Counterexample {}
