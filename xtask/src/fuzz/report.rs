//! What there is to run, and what became of it.

use std::fmt;
use std::path::Path;

use crate::error::Error;

/// The targets, as their list in the source says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known(Vec<Entry>);

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    about: String,
}

impl Known {
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let quoted = |text: &str, field: &str| {
            let (_, rest) = text.split_once(&format!("{field}: \""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let entries = text.split("Target {").skip(1);
        let entries = entries
            .filter_map(|text| Some(Entry { name: quoted(text, "name")?, about: quoted(text, "about")? }));
        Self(entries.collect())
    }

    /// Those of these names; all without a name.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<String>, Error> {
        if names.is_empty() {
            return Ok(self.0.iter().map(|entry| entry.name.clone()).collect());
        }
        match names.iter().find(|name| !self.0.iter().any(|entry| entry.name == **name)) {
            Some(unknown) => Err(Error::NoTarget { wanted: unknown.clone() }),
            None => Ok(names.to_vec()),
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|Entry { name, about }| writeln!(f, "{name:<14} {about}"))
    }
}

/// How far a target got, by the last line that libFuzzer wrote of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Inputs that were tried.
    runs: u64,
    /// Edges of the control flow that were reached.
    coverage: u64,
    /// Inputs that each reach something that the others do not.
    corpus: u64,
}

impl Status {
    /// Reads a line such as `#4096 pulse  cov: 310 ft: 901 corp: 120/9Kb lim: 64 exec/s: 2048 rss: 40Mb`.
    pub(super) fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix('#') else { return };
        let mut words = rest.split_whitespace();
        let Some(Ok(runs)) = words.next().map(str::parse) else { return };
        self.runs = runs;
        let words: Vec<&str> = words.collect();
        for pair in words.windows(2) {
            let number = pair[1].split('/').next().and_then(|number| number.parse().ok());
            match (pair[0], number) {
                ("cov:", Some(number)) => self.coverage = number,
                ("corp:", Some(number)) => self.corpus = number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, coverage, corpus } = self;
        write!(f, "{runs} runs, {coverage} edges, {corpus} inputs kept")
    }
}

/// The file that has the input, where a line says so.
pub(super) fn crash(line: &str) -> Option<String> {
    line.split_once("Test unit written to ").map(|(_, path)| path.trim().to_owned())
}

/// Whether a target held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Broken {
        /// The input; empty where the program died before it could be saved.
        input: String,
    },
}

/// What became of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) target: String,
    pub(super) status: Status,
    pub(super) verdict: Verdict,
}

impl Report {
    /// The line above the others.
    pub(super) const HEAD: &str = "\ntarget                runs     edges    inputs  verdict";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { runs, coverage, corpus } = self.status;
        write!(f, "{:<14}{runs:>12}{coverage:>10}{corpus:>10}  ", self.target)?;
        match &self.verdict {
            Verdict::Holds => f.write_str("holds"),
            Verdict::Broken { input } => write!(f, "BROKEN by {input}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Shell;

    #[test]
    fn the_list_is_read_from_the_source() {
        let known = Known::read(&Shell::at_workspace_root().root().join(super::super::LIST)).unwrap();
        let all = known.chosen(&[]).unwrap();
        assert!(all.len() > 10 && all.contains(&String::from("dump")), "{all:?}");
        assert_eq!(known.chosen(&[String::from("dump")]).unwrap(), ["dump"]);
        assert!(
            matches!(known.chosen(&[String::from("dum")]), Err(Error::NoTarget { wanted }) if wanted == "dum")
        );
        assert!(known.to_string().lines().all(|line| line.len() > 20), "{known}");
    }

    #[test]
    fn status_is_that_of_the_last_line_that_has_one() {
        let mut status = Status::default();
        for line in [
            "INFO: Seed: 1",
            "#2\tINITED cov: 3 ft: 3 corp: 1/1b exec/s: 0 rss: 30Mb",
            "#4096\tNEW    cov: 310 ft: 901 corp: 120/9Kb lim: 64 exec/s: 2048 rss: 40Mb L: 9/64 MS: 1 CopyPart-",
            "==123== ERROR: libFuzzer: deadly signal",
            "#x",
        ] {
            status.add(line);
        }
        assert_eq!(status, Status { runs: 4096, coverage: 310, corpus: 120 });
    }

    #[test]
    fn an_input_is_found_where_it_was_saved() {
        let line = "artifact_prefix='a/dump-'; Test unit written to a/dump-crash-01\n";
        assert_eq!(crash(line).as_deref(), Some("a/dump-crash-01"));
        assert_eq!(crash("#4096\tNEW"), None);
    }
}
