//! As much TOML as a manifest of this workspace uses, with line numbers.
//!
//! Not a TOML parser: no multi-line strings, no escapes in keys. It exists because the rules need lines to point
//! at, which cargo does not report, and because this crate keeps its dependencies to two.

/// One `key = value`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// From 1: where the key stands.
    pub(super) line: usize,
    /// The header above, without brackets: `target.'cfg(unix)'.dependencies`.
    pub(super) table: String,
    /// As written: `version.workspace`.
    pub(super) key: String,
    /// As written, comments removed, lines joined.
    pub(super) value: String,
}

/// All entries, in order. Lines that are no TOML are skipped: cargo reports those.
pub(super) fn entries(text: &str) -> Vec<Entry> {
    let mut table = String::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut open = 0; // brackets of the last entry's value that are not closed yet
    for (line, content) in (1..).zip(text.lines()) {
        let content = without_comment(content).trim();
        if open > 0 {
            if let Some(last) = entries.last_mut() {
                last.value.push_str(content);
            }
            open += depth(content);
        } else if content.starts_with('[') {
            table = content.trim_matches(['[', ']']).trim().to_owned();
        } else if let Some((key, value)) = content.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            open = depth(&value);
            entries.push(Entry { line, table: table.clone(), key, value });
        }
    }
    entries
}

fn without_comment(line: &str) -> &str {
    outside_strings(line).find(|(_, character)| *character == '#').map_or(line, |(at, _)| &line[..at])
}

fn depth(value: &str) -> i32 {
    outside_strings(value)
        .map(|(_, character)| match character {
            '[' | '{' => 1,
            ']' | '}' => -1,
            _ => 0,
        })
        .sum()
}

/// The characters that are not inside a string.
fn outside_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut escaped = false;
    text.char_indices().filter(move |&(_, character)| match quote {
        Some('"') if escaped => {
            escaped = false;
            false
        }
        Some('"') if character == '\\' => {
            escaped = true;
            false
        }
        Some(open) => {
            if character == open {
                quote = None;
            }
            false
        }
        None => {
            if matches!(character, '"' | '\'') {
                quote = Some(character);
            }
            quote.is_none()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str, &str, &str)]) {
        let found = entries(text);
        let found: Vec<_> =
            found.iter().map(|e| (e.line, e.table.as_str(), e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn tables_keys_and_comments() {
        check(
            "# head\n[package]\nname = \"a#b\" # why\nversion.workspace = true\n\n[target.'cfg(x)'.dependencies]\nb = {}\n",
            &[
                (3, "package", "name", "\"a#b\""),
                (4, "package", "version.workspace", "true"),
                (7, "target.'cfg(x)'.dependencies", "b", "{}"),
            ],
        );
    }

    #[test]
    fn values_over_several_lines_are_one_entry() {
        check(
            "a = [ # first\n  \"x = ]\", # not the end\n  \"y\",\n]\nb = 1\n",
            &[(1, "", "a", "[\"x = ]\",\"y\",]"), (5, "", "b", "1")],
        );
    }

    #[test]
    fn escaped_quotes_do_not_end_a_string() {
        check("a = \"x\\\"#y\" # z\nb = '\\'\n", &[(1, "", "a", "\"x\\\"#y\""), (2, "", "b", "'\\'")]);
    }
}
