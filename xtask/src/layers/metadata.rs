//! What `cargo metadata` says, reduced to what the layer check asks.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of the crate: every user gets it. Build scripts count, since every user runs them.
    Normal,
    /// For tests, examples and benchmarks.
    Dev,
}

/// A line of a manifest, whether or not a feature or a target switches it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) optional: bool,
}

/// One package of the resolved graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// The SPDX expression of the manifest.
    pub(super) licence: Option<String>,
    /// Whether it belongs to the workspace.
    pub(super) member: bool,
    pub(super) declared: Vec<Dependency>,
    /// Indices of what is linked into it, with all features, on any platform. Cargo unites the features that
    /// the whole workspace asks for, so this may hold more than a user of one crate gets, never less.
    pub(super) linked: Vec<usize>,
}

/// All packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) packages: Vec<Package>,
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory(json: &[u8]) -> Result<PathBuf, MetadataError> {
    let root: Value = serde_json::from_slice(json).map_err(MetadataError::Json)?;
    string(&root, "target_directory").map(PathBuf::from)
}

impl Graph {
    /// Reads the output of `cargo metadata --format-version 1`.
    pub(super) fn parse(json: &[u8]) -> Result<Self, MetadataError> {
        let root: Value = serde_json::from_slice(json).map_err(MetadataError::Json)?;
        let members: Vec<&str> =
            array(&root, "workspace_members")?.iter().filter_map(Value::as_str).collect();

        let mut packages = Vec::new();
        let mut index_of = HashMap::new();
        for package in array(&root, "packages")? {
            let id = string(package, "id")?;
            index_of.insert(id, packages.len());
            packages.push(Package {
                name: string(package, "name")?.to_owned(),
                version: string(package, "version")?.to_owned(),
                licence: package["license"].as_str().map(str::to_owned),
                member: members.contains(&id),
                declared: array(package, "dependencies")?.iter().map(dependency).collect::<Result<_, _>>()?,
                linked: Vec::new(),
            });
        }

        for node in array(&root["resolve"], "nodes")? {
            let linked = array(node, "deps")?
                .iter()
                .filter(|dep| {
                    dep["dep_kinds"].as_array().is_some_and(|k| k.iter().any(|k| k["kind"].is_null()))
                })
                .map(|dep| {
                    index_of.get(string(dep, "pkg")?).copied().ok_or(MetadataError::Missing("packages"))
                })
                .collect::<Result<_, _>>()?;
            let index = *index_of.get(string(node, "id")?).ok_or(MetadataError::Missing("packages"))?;
            packages[index].linked = linked;
        }
        Ok(Self { packages })
    }
}

fn dependency(value: &Value) -> Result<Dependency, MetadataError> {
    Ok(Dependency {
        name: string(value, "name")?.to_owned(),
        kind: if value["kind"].as_str() == Some("dev") { Kind::Dev } else { Kind::Normal },
        optional: value["optional"].as_bool().unwrap_or(false),
    })
}

fn array<'a>(value: &'a Value, field: &'static str) -> Result<&'a [Value], MetadataError> {
    value[field].as_array().map(Vec::as_slice).ok_or(MetadataError::Missing(field))
}

fn string<'a>(value: &'a Value, field: &'static str) -> Result<&'a str, MetadataError> {
    value[field].as_str().ok_or(MetadataError::Missing(field))
}

/// `cargo metadata` did not print its documented format.
#[derive(Debug)]
pub(crate) enum MetadataError {
    /// Not JSON.
    Json(serde_json::Error),
    /// A field is missing or has another type.
    Missing(&'static str),
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "`cargo metadata` printed no JSON ({error}): run it to see why"),
            Self::Missing(field) => write!(
                f,
                "`cargo metadata` printed no usable `{field}`: adapt xtask/src/layers/metadata.rs to this cargo"
            ),
        }
    }
}

impl Error for MetadataError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Missing(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
        "workspace_members": ["a"],
        "packages": [
            {"id": "a", "name": "ours", "version": "0.1.0", "license": null, "dependencies": [
                {"name": "theirs", "kind": null, "optional": true},
                {"name": "generator", "kind": "build", "optional": false},
                {"name": "checker", "kind": "dev", "optional": false}]},
            {"id": "b", "name": "theirs", "version": "1.2.3", "license": "MIT", "dependencies": []},
            {"id": "c", "name": "checker", "version": "2.0.0", "license": "MIT", "dependencies": []}
        ],
        "resolve": {"nodes": [
            {"id": "b", "deps": []},
            {"id": "c", "deps": []},
            {"id": "a", "deps": [
                {"pkg": "c", "dep_kinds": [{"kind": "dev"}]},
                {"pkg": "b", "dep_kinds": [{"kind": "dev"}, {"kind": null}]}]}
        ]}
    }"#;

    #[test]
    fn keeps_members_declarations_licences_and_links() {
        let graph = Graph::parse(SMALL.as_bytes()).unwrap();
        let ours = &graph.packages[0];
        assert!(ours.member && !graph.packages[1].member);
        assert_eq!(ours.linked, [1], "a dev-dependency is not linked");
        assert_eq!(graph.packages[1].licence.as_deref(), Some("MIT"));
        let declared: Vec<_> = ours.declared.iter().map(|d| (d.name.as_str(), d.kind, d.optional)).collect();
        let expected = [
            ("theirs", Kind::Normal, true),
            ("generator", Kind::Normal, false),
            ("checker", Kind::Dev, false),
        ];
        assert_eq!(declared, expected);
    }

    #[test]
    fn another_format_is_an_error_that_names_the_field() {
        assert!(matches!(Graph::parse(b"error: no"), Err(MetadataError::Json(_))));
        let without = SMALL.replace("\"resolve\"", "\"resolved\"");
        assert!(matches!(Graph::parse(without.as_bytes()), Err(MetadataError::Missing("nodes"))));
        let without = SMALL.replace("\"pkg\": \"b\"", "\"pkg\": \"z\"");
        assert!(matches!(Graph::parse(without.as_bytes()), Err(MetadataError::Missing("packages"))));
    }
}
