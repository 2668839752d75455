//! What stands where: the visible root, the readme, decision records, and no scripts.

use std::collections::BTreeSet;

use super::{Findings, Tree};

/// Everything at the root that does not start with a dot.
const ROOT: &[&str] =
    &["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "benches", "crates", "docs", "fuzz", "xtask"];

const README_LIMIT: usize = 150;
const DECISION_LIMIT: usize = 60;
const DECISIONS: &str = "docs/decisions/";

/// The one script: what the server calls.
const CI: &str = ".ci/run";
const CI_CALLS: &str = "exec cargo xtask ci";

/// Runs the rules of this file.
pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    root(tree, findings);
    readme(tree, findings);
    scripts(tree, findings);
    decisions(tree, findings);
    decision_references(tree, findings);
}

fn root(tree: &Tree, findings: &mut Findings) {
    let visible: BTreeSet<&str> = tree
        .paths()
        .filter_map(|path| path.split('/').next())
        .filter(|name| !name.starts_with('.'))
        .collect();
    for name in visible.iter().filter(|name| !ROOT.contains(name)) {
        findings.add(
            name,
            1,
            "not part of the visible root; move it into a folder, or give a tool setting a leading dot",
        );
    }
    for name in ROOT.iter().filter(|name| !visible.contains(*name)) {
        findings.add(name, 1, "missing at the root; add it");
    }
}

fn readme(tree: &Tree, findings: &mut Findings) {
    let lines = tree.text("README.md").unwrap_or_default().lines().count();
    if lines > README_LIMIT {
        let message = format!("{lines} lines, the limit is {README_LIMIT}; move detail to docs/ and link it");
        findings.add("README.md", README_LIMIT + 1, message);
    }
}

fn scripts(tree: &Tree, findings: &mut Findings) {
    for path in tree.paths() {
        let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        let extension = [".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd"];
        let runner = ["makefile", "gnumakefile", "justfile", ".justfile"];
        let interpreted = path != CI && tree.text(path).is_some_and(|text| text.starts_with("#!/"));
        if extension.iter().any(|end| name.ends_with(end)) || runner.contains(&name.as_str()) || interpreted {
            findings.add(path, 1, "a script; make it a command of xtask, which runs on every machine");
        }
    }
    match tree.text(CI) {
        None => findings.add(CI, 1, format!("missing; it starts bash and says `{CI_CALLS}`")),
        Some(text) if text.lines().skip(1).ne([CI_CALLS]) => {
            findings.add(
                CI,
                2,
                format!("must say `{CI_CALLS}` and nothing else; add steps to xtask/src/ci.rs"),
            );
        }
        Some(_) => {}
    }
}

/// Files are `NNNN-title.md`, numbered from 0001 without gaps; a README.md, if there is one, lists all of them.
fn decisions(tree: &Tree, findings: &mut Findings) {
    let index = tree.text(&format!("{DECISIONS}README.md"));
    let mut expected = 1;
    for path in tree.paths() {
        let Some(name) = path.strip_prefix(DECISIONS).filter(|name| *name != "README.md") else { continue };
        let Some(number) = record_number(name) else {
            findings.add(
                path,
                1,
                "not named NNNN-title.md; rename it (title in lower case, words joined by `-`)",
            );
            continue;
        };
        if number != expected {
            let message =
                format!("number {number:04} where {expected:04} comes next; number records without gaps");
            findings.add(path, 1, message);
        }
        expected = number.saturating_add(1);
        let lines = tree.text(path).unwrap_or_default().lines().count();
        if lines > DECISION_LIMIT {
            let message =
                format!("{lines} lines, the limit is {DECISION_LIMIT}; keep context, decision, consequence");
            findings.add(path, DECISION_LIMIT + 1, message);
        }
        if index.is_some_and(|index| !index.contains(name)) {
            findings.add(path, 1, format!("not listed in {DECISIONS}README.md; add a line there"));
        }
    }
}

/// The number of `0012-some-title.md`.
fn record_number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let digits = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (digits && !title.is_empty() && title.bytes().all(word)).then(|| number.parse().ok())?
}

/// A comment that names a record by number must find it.
fn decision_references(tree: &Tree, findings: &mut Findings) {
    let known: BTreeSet<&str> = tree
        .paths()
        .filter_map(|path| path.strip_prefix(DECISIONS))
        .filter(|name| record_number(name).is_some())
        .filter_map(|name| name.get(..4))
        .collect();
    for (path, text) in tree.texts() {
        for (line, content) in (1..).zip(text.lines()) {
            for (at, _) in content.match_indices(DECISIONS) {
                let number = content.get(at + DECISIONS.len()..at + DECISIONS.len() + 4);
                let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
                if let Some(number) = number.filter(|number| !known.contains(number)) {
                    findings.add(
                        path,
                        line,
                        format!("names record {number}, which does not exist; write it"),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::check_rule;
    use super::*;

    #[test]
    fn the_root_is_exactly_the_card() {
        let mut files: Vec<_> = [
            "Cargo.lock",
            "Cargo.toml",
            "LICENSE",
            "README.md",
            "benches/x",
            "crates/x",
            "docs/x",
            "fuzz/x",
            "xtask/x",
        ]
        .map(|path| (path, ""))
        .to_vec();
        files.push((".deny.toml", ""));
        check_rule(root, &files, &[]);
        files.push(("notes.txt", ""));
        files.push(("tools/x", ""));
        files.retain(|(path, _)| *path != "LICENSE");
        let expected = [
            ("LICENSE:1", "missing at the root"),
            ("notes.txt:1", "not part of the visible root"),
            ("tools:1", "not part of the visible root"),
        ];
        check_rule(root, &files, &expected);
    }

    #[test]
    fn the_readme_is_short() {
        check_rule(readme, &[("README.md", &"x\n".repeat(150))], &[]);
        check_rule(readme, &[("README.md", &"x\n".repeat(151))], &[("README.md:151", "151 lines")]);
    }

    #[test]
    fn no_scripts_but_the_one_that_calls_us() {
        let run = "#!/usr/bin/env bash\nexec cargo xtask ci\n";
        let attribute = ("crates/a/src/lib.rs", "#![forbid(unsafe_code)]\n");
        check_rule(scripts, &[(".ci/run", run), attribute], &[]);
        for bad in ["x/build.sh", "Makefile", "crates/a/justfile", "x/run.PS1"] {
            check_rule(scripts, &[(".ci/run", run), (bad, "")], &[(&format!("{bad}:1"), "a script")]);
        }
        check_rule(scripts, &[(".ci/run", run), ("x/tool", "#!/bin/sh\n")], &[("x/tool:1", "a script")]);
        check_rule(scripts, &[], &[(".ci/run:1", "missing")]);
        let more = format!("{run}cargo audit\n");
        check_rule(scripts, &[(".ci/run", &more)], &[(".ci/run:2", "must say `exec cargo xtask ci`")]);
    }

    #[test]
    fn decision_records_are_numbered_without_gaps() {
        let first = ("docs/decisions/0001-layers.md", "");
        check_rule(decisions, &[first, ("docs/decisions/0002-hash-map.md", "")], &[]);
        let gap = ("docs/decisions/0003-x.md", "");
        check_rule(decisions, &[first, gap], &[("docs/decisions/0003-x.md:1", "number 0003 where 0002")]);
        let twice = ("docs/decisions/0001-other.md", "");
        check_rule(
            decisions,
            &[first, twice],
            &[("docs/decisions/0001-other.md:1", "number 0001 where 0002")],
        );
    }

    #[test]
    fn decision_records_are_named_alike() {
        for name in ["1-x.md", "0001.md", "0001-.md", "0001-Big.md", "0001-x.txt", "001a-x.md", "notes/x.md"]
        {
            let path = format!("docs/decisions/{name}");
            check_rule(decisions, &[(&path, "")], &[(&format!("{path}:1"), "not named NNNN-title.md")]);
        }
    }

    #[test]
    fn decision_records_are_short() {
        let path = "docs/decisions/0001-x.md";
        check_rule(decisions, &[(path, &"x\n".repeat(60))], &[]);
        check_rule(decisions, &[(path, &"x\n".repeat(61))], &[("docs/decisions/0001-x.md:61", "61 lines")]);
    }

    #[test]
    fn decision_records_are_listed_where_there_is_a_list() {
        let record = ("docs/decisions/0001-x.md", "");
        check_rule(decisions, &[record, ("docs/decisions/README.md", "- [x](0001-x.md)")], &[]);
        let empty = ("docs/decisions/README.md", "");
        check_rule(decisions, &[record, empty], &[("docs/decisions/0001-x.md:1", "not listed")]);
    }

    #[test]
    fn references_to_decision_records_resolve() {
        let record = ("docs/decisions/0001-x.md", "");
        // Put together here, or this file would itself name records that do not exist.
        let known = format!("# why: {DECISIONS}0001\n# in general: {DECISIONS}README.md\n");
        check_rule(decision_references, &[record, ("Cargo.toml", &known)], &[]);
        let unknown = format!("# fine\n# why: {DECISIONS}0002-y.md\n");
        let expected = [("Cargo.toml:2", "names record 0002")];
        check_rule(decision_references, &[record, ("Cargo.toml", &unknown)], &expected);
    }
}
