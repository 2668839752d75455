//! Rust sources: size, characters, what stands at the top, and nothing left for later.

use super::{Findings, Tree};

/// Lines above which a file should be split when it is next touched.
pub(super) const SOFT_LIMIT: usize = 400;
const HARD_LIMIT: usize = 700;
const HARD_LIMIT_TESTS: usize = 1000;

/// Words that mean "later", each in two parts so that this file may name them.
const LATER: &str = concat!("TO", "DO");
const BROKEN: &str = concat!("FIX", "ME");
const PLACEHOLDERS: &[&str] = &[concat!("to", "do!"), concat!("unimple", "mented!")];

/// Runs the rules of this file.
pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for path in tree.paths().filter(|path| path.ends_with(".rs")) {
        let Some(text) = tree.text(path) else {
            findings.add(path, 1, "not UTF-8; Rust sources are ASCII");
            continue;
        };
        size(path, text, findings);
        head(path, text, findings);
        characters(path, text, findings);
        leftovers(path, text, findings);
        ignored(path, text, findings);
    }
}

/// Files above the soft limit with their number of lines.
pub(super) fn above_soft_limit(tree: &Tree) -> Vec<(&str, usize)> {
    let lines = tree.with_extension(".rs").map(|(path, text)| (path, text.lines().count()));
    lines.filter(|(_, lines)| *lines > SOFT_LIMIT).collect()
}

fn size(path: &str, text: &str, findings: &mut Findings) {
    let parts: Vec<&str> = path.split('/').collect();
    let is_test = parts.contains(&"tests") || parts.last() == Some(&"tests.rs");
    let limit = if is_test { HARD_LIMIT_TESTS } else { HARD_LIMIT };
    let lines = text.lines().count();
    if lines > limit {
        findings.add(
            path,
            limit + 1,
            format!("{lines} lines, the limit is {limit}; split the file by subject"),
        );
    }
}

fn head(path: &str, text: &str, findings: &mut Findings) {
    if !text.starts_with("//!") {
        findings.add(path, 1, "does not start with `//!`; say what the file is, guarantees, and leaves out");
    }
    let is_library = path.starts_with("crates/") && path.ends_with("/src/lib.rs");
    if is_library && !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
        findings.add(path, 1, "a library without `#![forbid(unsafe_code)]`; add it below the head");
    }
}

fn characters(path: &str, text: &str, findings: &mut Findings) {
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(found) = content.chars().find(|character| !character.is_ascii()) {
            let message =
                format!("U+{:04X} is not ASCII; write it in ASCII, or as an escape", u32::from(found));
            findings.add(path, line, message);
        }
    }
}

fn leftovers(path: &str, text: &str, findings: &mut Findings) {
    for (line, content) in (1..).zip(text.lines()) {
        if words(content, LATER).any(|rest| !names_issue(rest)) {
            findings.add(path, line, format!("{LATER} without an issue; do it now, or write {LATER}(#123)"));
        }
        if words(content, BROKEN).next().is_some() {
            findings.add(path, line, format!("{BROKEN}; fix it now, or write {LATER}(#123)"));
        }
        for placeholder in PLACEHOLDERS {
            if words(content, placeholder).next().is_some() {
                findings.add(path, line, format!("`{placeholder}`; write the code, or leave the item out"));
            }
        }
    }
}

/// What follows each occurrence of `word` that is not part of a longer one.
fn words<'a>(line: &'a str, word: &str) -> impl Iterator<Item = &'a str> {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).filter_map(move |(at, word)| {
        let rest = &line[at + word.len()..];
        let whole = !line[..at].ends_with(part) && (word.ends_with('!') || !rest.starts_with(part));
        whole.then_some(rest)
    })
}

/// Whether the text goes on with `(#123)`.
fn names_issue(rest: &str) -> bool {
    rest.strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn ignored(path: &str, text: &str, findings: &mut Findings) {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    for (index, line) in lines.iter().enumerate() {
        let conditional = line.starts_with("#[cfg_attr(") && words(line, "ignore").next().is_some();
        if !line.starts_with("#[ignore") && !conditional {
            continue;
        }
        let name = lines[index..].iter().find_map(|line| function_name(line)).unwrap_or_default();
        let message = format!(
            "`{name}` is ignored; make it fast enough to run, and give `cargo xtask soak` the long form of it"
        );
        findings.add(path, index + 1, message);
    }
}

/// The name in `pub async fn name(...)`.
fn function_name(line: &str) -> Option<&str> {
    let rest = words(line, "fn").next()?.strip_prefix(' ')?;
    rest.split(|character: char| !character.is_alphanumeric() && character != '_').next()
}

#[cfg(test)]
mod tests {
    use super::super::testing::check_rule;
    use super::*;

    #[track_caller]
    fn check_source(path: &str, text: &str, expected: &[(&str, &str)]) {
        check_rule(check, &[(path, text)], expected);
    }

    fn lines(count: usize) -> String {
        "//! Head.\n".repeat(count)
    }

    #[test]
    fn a_file_has_a_hard_limit() {
        check_source("crates/a/src/b.rs", &lines(700), &[]);
        check_source(
            "crates/a/src/b.rs",
            &lines(701),
            &[("crates/a/src/b.rs:701", "701 lines, the limit is 700")],
        );
        for path in ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs", "crates/a/src/tests/b.rs"] {
            check_source(path, &lines(1000), &[]);
            check_source(path, &lines(1001), &[(&format!("{path}:1001"), "1001 lines, the limit is 1000")]);
        }
        check_source(
            "crates/a/src/contests.rs",
            &lines(701),
            &[("crates/a/src/contests.rs:701", "701 lines")],
        );
    }

    #[test]
    fn the_soft_limit_is_only_counted() {
        let (at, above) = (lines(SOFT_LIMIT), lines(SOFT_LIMIT + 1));
        let tree = Tree::from_texts(&[("a.rs", &at), ("b.rs", &above), ("c.md", &above)]);
        assert_eq!(above_soft_limit(&tree), [("b.rs", SOFT_LIMIT + 1)]);
    }

    #[test]
    fn a_file_starts_with_its_head() {
        check_source("xtask/src/a.rs", "//! Head.\n", &[]);
        for text in ["", "\n//! Head.\n", "use std::fmt;\n", "// Head.\n", "#![cfg(unix)]\n//! Head.\n"] {
            check_source("xtask/src/a.rs", text, &[("xtask/src/a.rs:1", "does not start with `//!`")]);
        }
    }

    #[test]
    fn a_library_forbids_unsafe_code() {
        check_source("crates/a/src/lib.rs", "//! Head.\n#![forbid(unsafe_code)]\n", &[]);
        let expected = [("crates/a/src/lib.rs:1", "a library without `#![forbid(unsafe_code)]`")];
        check_source("crates/a/src/lib.rs", "//! Head.\n", &expected);
        check_source("crates/a/src/lib.rs", "//! Head.\n// #![forbid(unsafe_code)]\n", &expected);
    }

    #[test]
    fn sources_are_ascii() {
        check_source("a.rs", "//! Head.\n// 3 \u{d7} 4\n", &[("a.rs:2", "U+00D7 is not ASCII")]);
    }

    #[test]
    fn later_needs_an_issue() {
        for fine in ["(#12) faster", "S", "_LIST"] {
            check_source("a.rs", &format!("//! Head.\n// {LATER}{fine}\n"), &[]);
        }
        for bad in ["", ": faster", "(me)", "(#)", "(#12", "(#x)"] {
            let expected = [("a.rs:2", &*format!("{LATER} without an issue"))];
            check_source("a.rs", &format!("//! Head.\n// {LATER}{bad}\n"), &expected);
        }
    }

    #[test]
    fn nothing_is_left_for_later() {
        check_source("a.rs", &format!("//! Head.\n// {BROKEN}(#12)\n"), &[("a.rs:2", BROKEN)]);
        for placeholder in PLACEHOLDERS {
            let expected = [("a.rs:2", &*format!("`{placeholder}`"))];
            check_source("a.rs", &format!("//! Head.\nfn f() {{ std::{placeholder}() }}\n"), &expected);
            check_source("a.rs", &format!("//! Head.\nfn f() {{ my_{placeholder}() }}\n"), &[]);
        }
    }

    #[test]
    fn no_test_is_ignored() {
        let source = |attribute: &str| format!("//! Head.\n#[test]\n    {attribute}\n    fn slow() {{}}\n");
        for attribute in ["#[ignore]", "#[ignore = \"slow\"]", "#[cfg_attr(miri, ignore)]"] {
            check_rule(check, &[("a.rs", &source(attribute))], &[("a.rs:3", "`slow` is ignored")]);
        }
        check_rule(check, &[("a.rs", &source("#[cfg_attr(miri, ignored_by_nobody)]"))], &[]);
    }
}
