//! `cargo xtask ci`: what a change must pass. Green here is green on the server, which runs nothing else.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::flags::{Ci, Layers, Loom, Prepare, Test, Tidy};
use crate::shell::{Shell, now, seconds};

/// A step by name.
type Step = (&'static str, fn(&Shell) -> Result<(), Error>);

/// Cheap steps first: a formatting slip is known in a second, not after the test suite.
const STEPS: &[Step] = &[
    ("fmt", fmt),
    ("tidy", |shell| Tidy::default().run(shell)),
    ("layers", |shell| Layers.run(shell)),
    ("prepare", |shell| Prepare.run(shell)),
    ("clippy", clippy),
    ("doc", doc),
    ("loom", |shell| Loom::default().run(shell)),
    ("test", |shell| Test::default().run(shell)),
];

impl Ci {
    /// Runs the steps, stops at the first that fails, and prints what each one took.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        // A server starts with an empty disk, and not always with a large one.
        let (report, result) = run_steps(STEPS, &shell.for_one_build());
        print!("{report}");
        result
    }
}

/// The peers' workspace is formatted like ours. Nothing else of it is checked here, for its dependencies alone take
/// minutes to compile: docs/decisions/0010.
fn fmt(shell: &Shell) -> Result<(), Error> {
    shell.cargo().args(["fmt", "--all", "--", "--check"]).run()?;
    shell.cargo().args(["fmt", "--manifest-path", "benches/peers/Cargo.toml", "--", "--check"]).run()
}

fn clippy(shell: &Shell) -> Result<(), Error> {
    // As an argument, not in RUSTFLAGS: those would rebuild every dependency.
    shell
        .cargo()
        .args(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
        .run()
}

fn doc(shell: &Shell) -> Result<(), Error> {
    // Without --document-private-items, which would hide links from public docs to private items.
    shell
        .cargo()
        .args(["doc", "--workspace", "--no-deps", "--all-features"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn run_steps(steps: &[Step], shell: &Shell) -> (Report, Result<(), Error>) {
    let mut rows = Vec::with_capacity(steps.len());
    let mut result = Ok(());
    for &(name, step) in steps {
        if result.is_err() {
            rows.push((name, Outcome::NotRun));
            continue;
        }
        eprintln!("== {name}");
        let started = now();
        result = step(shell);
        let took = started.elapsed();
        rows.push((name, if result.is_ok() { Outcome::Passed(took) } else { Outcome::Failed(took) }));
    }
    (Report(rows), result)
}

#[derive(Debug)]
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

/// The closing table.
#[derive(Debug)]
struct Report(Vec<(&'static str, Outcome)>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<8}{:>10}  result", "step", "time")?;
        for (name, outcome) in &self.0 {
            let (time, result) = match outcome {
                Outcome::Passed(took) => (seconds(*took), "ok"),
                Outcome::Failed(took) => (seconds(*took), "FAILED"),
                Outcome::NotRun => (String::from("-"), "not run"),
            };
            writeln!(f, "{name:<8}{time:>10}  {result}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(_: &Shell) -> Result<(), Error> {
        Err(Error::Findings { command: "tidy", count: 3 })
    }

    #[test]
    fn the_first_failure_stops_the_run_and_is_the_result() {
        let steps: &[Step] = &[
            ("fmt", |_| Ok(())),
            ("tidy", fails),
            ("test", |_| panic!("a step behind a failure must not run")),
        ];
        let (report, result) = run_steps(steps, &Shell::at_workspace_root());
        assert!(matches!(result, Err(Error::Findings { command: "tidy", count: 3 })));
        let lines: Vec<String> = report.to_string().lines().map(String::from).collect();
        assert!(lines[2].starts_with("fmt") && lines[2].ends_with("ok"), "{report}");
        assert!(lines[3].starts_with("tidy") && lines[3].ends_with("FAILED"), "{report}");
        assert!(lines[4].starts_with("test") && lines[4].ends_with("not run"), "{report}");
    }

    #[test]
    fn a_run_without_failure_passes() {
        let (_, result) = run_steps(&[("fmt", |_| Ok(()))], &Shell::at_workspace_root());
        assert!(result.is_ok());
    }
}
