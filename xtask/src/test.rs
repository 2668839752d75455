//! `cargo xtask test`: everything that can fail, in one run, with the totals at the end.

use std::fmt;

use crate::error::Error;
use crate::flags::{Prepare, Test};
use crate::shell::{Shell, now, seconds};

impl Test {
    /// Runs all tests and doctests. The environment passes through, `PROPTEST_CASES` included.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        Prepare.run(shell)?;
        let started = now();
        let mut totals = Totals::default();
        // One run shows every failure, not only those of the first program that has one.
        let mut cargo = shell.cargo().args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
        if !self.args.is_empty() {
            cargo = cargo.args(["--"]).args(&self.args);
        }
        let result = cargo.run_seeing(|line| totals.add(line));
        println!("test: {totals}, {}", seconds(started.elapsed()));
        result
    }
}

/// Sums of the closing lines of all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    programs: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Totals {
    /// Adds a line such as `test result: ok. 5 passed; 0 failed; 1 ignored; ...`; other lines count for nothing.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let Some((_, counts)) = result.split_once(". ") else { return };
        self.programs += 1;
        for count in counts.split(';') {
            let mut words = count.split_whitespace();
            let number = words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, passed, failed, ignored } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored in {programs} test programs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_sums_of_all_closing_lines() {
        let mut totals = Totals::default();
        for line in [
            "running 5 tests\n",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n",
            "test tests::result ... ok\n",
            "test result: FAILED. 6 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.5s\n",
        ] {
            totals.add(line);
        }
        assert_eq!(totals, Totals { programs: 2, passed: 11, failed: 2, ignored: 1 });
        assert_eq!(totals.to_string(), "11 passed, 2 failed, 1 ignored in 2 test programs");
    }
}
