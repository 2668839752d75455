//! `cargo xtask tidy`: house rules that neither rustc nor clippy checks, over every file that git would commit.
//!
//! Each rule is a function from the files to findings, so that it can be shown a bad tree in memory. A finding
//! is one line, `path:line: what is wrong; what to do`.

mod layout;
mod manifests;
mod markdown;
mod rust;
mod text;
mod toml;
mod tree;

use std::fmt;

use crate::error::Error;
use crate::flags;
use crate::shell::Shell;
use tree::Tree;

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; also 1 when the whole file is meant.
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Collects findings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.0.push(Finding { path: path.to_owned(), line, message: message.into() });
    }
}

impl flags::Tidy {
    /// Prints every finding, or one line with the number of files.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        let tree = Tree::read(shell)?;
        let findings = check(&tree);
        for finding in &findings {
            println!("{finding}");
        }
        if self.verbose {
            for (path, lines) in rust::above_soft_limit(&tree) {
                println!("note: {path} has {lines} lines; the soft limit is {}", rust::SOFT_LIMIT);
            }
        }
        match findings.len() {
            0 => {
                println!("tidy: {} files are as the house rules say", tree.len());
                Ok(())
            }
            count => Err(Error::Findings { command: "tidy", count }),
        }
    }
}

/// All rules, findings in order of path and line.
fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Findings::default();
    layout::check(tree, &mut findings);
    manifests::check(tree, &mut findings);
    markdown::check(tree, &mut findings);
    rust::check(tree, &mut findings);
    text::check(tree, &mut findings);
    findings.0.sort();
    findings.0
}

/// What the tests of every rule need.
#[cfg(test)]
mod testing {
    use super::{Finding, Findings, Tree};

    /// Runs one rule on a tree and compares `path:line` and the start of the message of every finding.
    #[track_caller]
    pub(super) fn check_rule(
        rule: impl Fn(&Tree, &mut Findings),
        files: &[(&str, &str)],
        expected: &[(&str, &str)],
    ) {
        let mut findings = Findings::default();
        rule(&Tree::from_texts(files), &mut findings);
        findings.0.sort();
        let shown: Vec<String> = findings.0.iter().map(Finding::to_string).collect();
        assert_eq!(shown.len(), expected.len(), "{shown:#?}");
        for (shown, (place, message)) in shown.iter().zip(expected) {
            let start = format!("{place}: {message}");
            assert!(shown.starts_with(&start), "expected {start}, found {shown}");
        }
    }
}
