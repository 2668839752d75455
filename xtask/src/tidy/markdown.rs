//! Relative links in Markdown lead to files of the repository.

use super::{Findings, Tree};

/// Runs the rules of this file.
pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.with_extension(".md") {
        let mut fence = None;
        for (line, content) in (1..).zip(text.lines()) {
            let start = content.trim_start();
            let marker = ["```", "~~~"].into_iter().find(|marker| start.starts_with(marker));
            match (fence, marker) {
                (None, Some(_)) => fence = marker,
                (Some(open), Some(close)) if open == close => fence = None,
                (Some(_), _) => {}
                (None, None) => {
                    for target in targets(&without_code(content)) {
                        if !resolves(tree, path, target) {
                            findings.add(
                                path,
                                line,
                                format!("`{target}` is no file of the repository; fix the link"),
                            );
                        }
                    }
                }
            }
        }
    }
}

/// The line with everything between backticks removed. Code spans over several lines are not recognised.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// What the inline links, images and reference definitions of a line point at.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.match_indices("](").map(|(at, open)| until_closed(&line[at + open.len()..]));
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .filter(|rest| !rest.starts_with('^'))
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target);
    inline.chain(definition).filter_map(|target| target.split_whitespace().next()).collect()
}

/// The text up to the parenthesis that closes the one before it.
fn until_closed(text: &str) -> &str {
    let mut depth = 1;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

fn resolves(tree: &Tree, from: &str, target: &str) -> bool {
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let file = target.split('#').next().unwrap_or(target);
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = if file.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop(); // the file that holds the link
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false; // out of the repository
                }
            }
            part => parts.push(part),
        }
    }
    tree.exists(&parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::check_rule;
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[(&str, &str)]) {
        let files = [("docs/a.md", text), ("docs/b.md", ""), ("crates/c/src/x(1).rs", "")];
        check_rule(check, &files, expected);
    }

    #[test]
    fn links_that_lead_somewhere() {
        for link in [
            "b.md",
            "./b.md#part",
            "<b.md>",
            "b.md \"title\"",
            "../docs/b.md",
            "/docs/b.md",
            "../crates",
            "..",
        ] {
            check_text(&format!("see [b]({link})\n"), &[]);
        }
        check_text("[x](../crates/c/src/x(1).rs)\n", &[]);
        check_text("[web](https://example.com/a) [mail](mailto:a@example.com) [here](#part)\n", &[]);
        check_text("[b]: b.md\n[^1]: no.md is a note\n", &[]);
    }

    #[test]
    fn links_that_lead_nowhere() {
        check_text("\nsee [b](c.md) and [b](b.md)\n", &[("docs/a.md:2", "`c.md` is no file")]);
        check_text("![b](img/c.svg)\n", &[("docs/a.md:1", "`img/c.svg` is no file")]);
        check_text("[b]: c.md\n", &[("docs/a.md:1", "`c.md` is no file")]);
        check_text("[b](../../b.md)\n", &[("docs/a.md:1", "`../../b.md` is no file")]);
        check_text("[b](/b.md)\n", &[("docs/a.md:1", "`/b.md` is no file")]);
    }

    #[test]
    fn code_holds_no_links() {
        check_text("`a[0](c.md)` and\n```rust\nv[i](c.md)\n~~~\n```\n", &[]);
        check_text("```\n~~~\n```\n[b](c.md)\n", &[("docs/a.md:4", "`c.md` is no file")]);
    }
}
