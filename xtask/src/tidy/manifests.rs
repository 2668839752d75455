//! Member manifests: what they inherit, how they are named, and where versions stand.

use std::collections::BTreeMap;

use super::toml::{Entry, entries};
use super::{Findings, Tree};

/// What every member takes from `[workspace.package]`.
const INHERITED: &[&str] = &["version", "edition", "license", "rust-version"];

/// Runs the rules of this file.
pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.with_extension("/Cargo.toml") {
        let Some(member) = member_folder(path) else { continue };
        let entries = entries(text);
        inheritance(path, &entries, findings);
        dependencies(path, &entries, findings);
        if let Some(folder) = member.strip_prefix("crates/") {
            name(path, folder, &entries, findings);
            example(tree, path, member, &entries, findings);
        }
    }
}

/// The folder of a member's manifest. Packages deeper down are workspaces of their own, with their own rules.
fn member_folder(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    let parts: Vec<&str> = folder.split('/').collect();
    matches!(parts.as_slice(), ["crates", _] | ["benches"] | ["fuzz"] | ["xtask"]).then_some(folder)
}

fn find<'a>(entries: &'a [Entry], table: &str, key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.table == table && entry.key == key)
}

fn package_name(entries: &[Entry]) -> &str {
    find(entries, "package", "name").map_or("", |entry| entry.value.trim_matches('"'))
}

fn inheritance(path: &str, entries: &[Entry], findings: &mut Findings) {
    for key in INHERITED {
        let inherited = find(entries, "package", &format!("{key}.workspace"));
        if inherited.is_none_or(|entry| entry.value != "true") {
            let line = find(entries, "package", key).map_or(1, |entry| entry.line);
            findings.add(path, line, format!("`{key}` is not inherited; write `{key}.workspace = true`"));
        }
    }
    if find(entries, "lints", "workspace").is_none_or(|entry| entry.value != "true") {
        findings.add(path, 1, "lints are not inherited; add `[lints]` with `workspace = true`");
    }
}

fn name(path: &str, folder: &str, entries: &[Entry], findings: &mut Findings) {
    let name = package_name(entries);
    if name != folder {
        let line = find(entries, "package", "name").map_or(1, |entry| entry.line);
        findings.add(path, line, format!("package `{name}` in folder `{folder}`; give both one name"));
    }
}

fn example(tree: &Tree, path: &str, member: &str, entries: &[Entry], findings: &mut Findings) {
    let published = find(entries, "package", "publish").is_none_or(|entry| entry.value != "false");
    let examples = format!("{member}/examples/");
    let mut sources = tree.with_extension(".rs").filter(|(source, _)| source.starts_with(&examples));
    if published && sources.next().is_none() {
        findings.add(path, 1, format!("a published crate without an example; add a program to {examples}"));
    }
}

/// Versions stand in the workspace table alone. A dev-dependency on the crate itself has none.
fn dependencies(path: &str, entries: &[Entry], findings: &mut Findings) {
    let mut inherited: BTreeMap<(&str, &str), (usize, bool)> = BTreeMap::new();
    for entry in entries {
        let Some((section, name, workspace)) = dependency(entry) else { continue };
        let itself = section.ends_with("dev-dependencies")
            && name == package_name(entries)
            && entry.value.contains("path")
            && !entry.value.contains("version");
        let (_, fine) = inherited.entry((section, name)).or_insert((entry.line, false));
        *fine |= workspace || itself;
    }
    for ((_, name), (line, _)) in inherited.into_iter().filter(|(_, (_, fine))| !fine) {
        let message = format!(
            "`{name}` does not come from the workspace; put its version into [workspace.dependencies] and write \
             `{name}.workspace = true`"
        );
        findings.add(path, line, message);
    }
}

/// The section, the name and whether the version is inherited, of an entry that belongs to a dependency. Cargo
/// has three spellings: `x.workspace = true`, `x = { workspace = true }`, and a table `[dependencies.x]`.
fn dependency(entry: &Entry) -> Option<(&str, &str, bool)> {
    let is_section =
        |table: &str| table.rsplit('.').next().is_some_and(|last| last.ends_with("dependencies"));
    if is_section(&entry.table) {
        let (name, field) = entry.key.split_once('.').unwrap_or((&entry.key, ""));
        let inline = entry.value.replace(' ', "");
        let workspace = match field {
            "" => inline.starts_with('{') && inline.contains("workspace=true"),
            field => field == "workspace" && inline == "true",
        };
        return Some((&entry.table, name, workspace));
    }
    let (section, name) = entry.table.rsplit_once('.').filter(|(section, _)| is_section(section))?;
    Some((section, name, entry.key == "workspace" && entry.value == "true"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::check_rule;
    use super::*;

    const GOOD: &str = r#"[package]
name = "kv-a"
version.workspace = true
edition.workspace = true
license.workspace = true
rust-version.workspace = true

[dependencies]
one.workspace = true
two = { workspace = true, optional = true, features = [
    "x",
] }

[dependencies.three]
workspace = true
features = ["y"]

[target.'cfg(kv_router_loom)'.dependencies]
four.workspace = true

[dev-dependencies]
kv-a = { path = ".", features = ["conformance"] }

[lints]
workspace = true
"#;

    /// The good manifest with one replacement.
    #[track_caller]
    fn check_manifest(from: &str, to: &str, expected: &[(&str, &str)]) {
        assert!(GOOD.contains(from));
        let manifest = GOOD.replace(from, to);
        let files = [("crates/kv-a/Cargo.toml", manifest.as_str()), ("crates/kv-a/examples/a.rs", "")];
        check_rule(check, &files, expected);
    }

    #[test]
    fn a_member_that_inherits_everything() {
        check_manifest("", "", &[]);
    }

    #[test]
    fn package_fields_are_inherited() {
        let expected = [("crates/kv-a/Cargo.toml:3", "`version` is not inherited")];
        check_manifest("version.workspace = true\nedition", "version = \"0.1.0\"\nedition", &expected);
        check_manifest("edition.workspace = true\n", "", &[("crates/kv-a/Cargo.toml:1", "`edition` is not")]);
        check_manifest(
            "license.w",
            "licence.w",
            &[("crates/kv-a/Cargo.toml:1", "`license` is not inherited")],
        );
        let expected = [("crates/kv-a/Cargo.toml:6", "`rust-version` is not inherited")];
        check_manifest("rust-version.workspace = true", "rust-version = \"1.80\"", &expected);
    }

    #[test]
    fn lints_are_inherited() {
        let expected = [("crates/kv-a/Cargo.toml:1", "lints are not inherited")];
        check_manifest("[lints]\nworkspace = true\n", "", &expected);
    }

    #[test]
    fn folder_and_package_share_a_name() {
        let manifest = GOOD.replace("name = \"kv-a\"", "name = \"kv-b\"").replace("kv-a = {", "kv-b = {");
        let files = [("crates/kv-a/Cargo.toml", manifest.as_str()), ("crates/kv-a/examples/a.rs", "")];
        check_rule(check, &files, &[("crates/kv-a/Cargo.toml:2", "package `kv-b` in folder `kv-a`")]);
    }

    #[test]
    fn published_crates_have_an_example() {
        let expected = [("crates/kv-a/Cargo.toml:1", "a published crate without an example")];
        check_rule(check, &[("crates/kv-a/Cargo.toml", GOOD)], &expected);
        let private = GOOD.replace("[package]\n", "[package]\npublish = false\n");
        check_rule(check, &[("crates/kv-a/Cargo.toml", &private)], &[]);
    }

    #[test]
    fn versions_stand_in_the_workspace_table() {
        let expected = [("crates/kv-a/Cargo.toml:9", "`one` does not come from the workspace")];
        check_manifest("one.workspace = true", "one = \"1\"", &expected);
        check_manifest("one.workspace = true", "one = { version = \"1\" }", &expected);
        check_manifest("one.workspace = true", "one.version = \"1\"", &expected);
        check_manifest("one.workspace = true", "one = { path = \"../one\" }", &expected);
        let expected = [("crates/kv-a/Cargo.toml:15", "`three` does not come")];
        check_manifest(
            "[dependencies.three]\nworkspace = true",
            "[dependencies.three]\nversion = \"1\"",
            &expected,
        );
        let expected = [("crates/kv-a/Cargo.toml:19", "`four` does not come")];
        check_manifest("four.workspace = true", "four = \"1\"", &expected);
    }

    #[test]
    fn only_the_crate_itself_may_come_by_path() {
        let expected = [("crates/kv-a/Cargo.toml:22", "`kv-b` does not come from the workspace")];
        check_manifest("kv-a = { path", "kv-b = { path", &expected);
        let expected = [("crates/kv-a/Cargo.toml:22", "`kv-a` does not come from the workspace")];
        check_manifest("path = \".\",", "path = \".\", version = \"1\",", &expected);
    }

    #[test]
    fn workspaces_of_their_own_have_their_own_rules() {
        check_rule(check, &[("Cargo.toml", ""), ("benches/peers/Cargo.toml", "")], &[]);
        check_rule(check, &[("crates/kv-a/fuzz/Cargo.toml", "")], &[]);
    }
}
