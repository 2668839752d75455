//! Every text file: clean line ends, and nothing that exists on one machine only.

use super::{Findings, Tree};

/// Folders of one machine. Without their trailing slash, so that this list does not find itself.
const MACHINE_FOLDERS: &[&str] = &["/home", "/root", "/tmp", "/work"];

/// Runs the rules of this file.
pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts() {
        line_ends(path, text, findings);
        machine_paths(path, text, findings);
    }
}

fn line_ends(path: &str, text: &str, findings: &mut Findings) {
    if let Some(line) = text.split('\n').position(|line| line.ends_with('\r')) {
        findings.add(path, line + 1, "CRLF line end; convert the file to LF");
    }
    for (line, content) in (1..).zip(text.lines()) {
        if content.ends_with([' ', '\t']) {
            findings.add(path, line, "trailing white space; delete it");
        }
    }
    let lines = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        findings.add(path, lines, "no newline at the end of the file; add one");
    }
    if text.ends_with("\n\n") {
        findings.add(path, lines, "blank line at the end of the file; delete it");
    }
}

fn machine_paths(path: &str, text: &str, findings: &mut Findings) {
    for (line, content) in (1..).zip(text.lines()) {
        for folder in MACHINE_FOLDERS {
            if names_folder(content, folder) {
                let message = format!(
                    "{folder}/ is a path of one machine; use a path relative to the repository, or std::env::temp_dir()"
                );
                findings.add(path, line, message);
            }
        }
    }
}

/// Whether `folder` stands in the line as an absolute path, not inside a longer path or a web address.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let inside =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '/' | '}' | ')' | '>' | '*');
        line[at + folder.len()..].starts_with('/') && !line[..at].ends_with(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::check_rule;
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[(&str, &str)]) {
        check_rule(check, &[("a.txt", text)], expected);
    }

    #[test]
    fn clean_text() {
        check_text("", &[]);
        check_text("one\n\n  two\n", &[]);
    }

    #[test]
    fn line_ends_are_clean() {
        check_text(
            "one \ntwo\t\n",
            &[("a.txt:1", "trailing white space"), ("a.txt:2", "trailing white space")],
        );
        check_text("one\ntwo\r\nthree\r\n", &[("a.txt:2", "CRLF line end")]);
        check_text("one\ntwo", &[("a.txt:2", "no newline at the end")]);
        check_text("one\n\n", &[("a.txt:2", "blank line at the end")]);
    }

    #[test]
    fn paths_of_one_machine() {
        for folder in MACHINE_FOLDERS {
            for before in ["", "\"", "(", "cd ", "=", "`"] {
                check_text(
                    &format!("x\n{before}{folder}/x\n"),
                    &[("a.txt:2", &format!("{folder}/ is a path"))],
                );
            }
        }
    }

    #[test]
    fn paths_of_every_machine() {
        for folder in MACHINE_FOLDERS {
            for before in ["a", "https://example.com", "..", "${ROOT}", "docs/x", "~"] {
                check_text(&format!("{before}{folder}/x\n"), &[]);
            }
            check_text(&format!("{folder}\n{folder}s/x\n"), &[]);
        }
    }
}
