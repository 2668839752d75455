//! Each rule on a small graph: silent when it is kept, loud when it is broken.

use super::super::metadata::Dependency;
use super::*;

const RULES: &[Rule] = &[
    Rule { name: "words", layer: Layer::L0, uses: &[], optional: &[] },
    Rule { name: "index", layer: Layer::L2, uses: &["words", "locks"], optional: &["cases"] },
    Rule { name: "leaf", layer: Layer::L3, uses: &["words", "tokio"], optional: &[] },
    Rule { name: "facade", layer: Layer::L4, uses: &["index", "leaf"], optional: &[] },
    Rule { name: "sim", layer: Layer::DevOnly, uses: &[], optional: &[] },
];

const BANS: &[Ban] = &[
    Ban { up_to: Layer::L4, crates: &["tokio"], reason: "no runtime" },
    Ban { up_to: Layer::L2, crates: &["serde"], reason: "no serde" },
];

const MEMBERS: &[&str] = &["words", "index", "leaf", "facade", "sim", "stranger"];

/// A graph from lines `from -> to`, `from -dev> to`, `from -opt> to`; names outside [`MEMBERS`] are third-party.
fn graph(lines: &str) -> Graph {
    let mut graph = Graph::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[from, arrow, to] = words.as_slice() else { panic!("not an edge: {line}") };
        let (from, to) = (intern(&mut graph, from), intern(&mut graph, to));
        let kind = if arrow == "-dev>" { Kind::Dev } else { Kind::Normal };
        let name = graph.packages[to].name.clone();
        graph.packages[from].declared.push(Dependency { name, kind, optional: arrow == "-opt>" });
        if kind == Kind::Normal {
            graph.packages[from].linked.push(to);
        }
    }
    graph
}

fn intern(graph: &mut Graph, name: &str) -> usize {
    graph.packages.iter().position(|package| package.name == name).unwrap_or_else(|| {
        graph.packages.push(Package {
            name: name.to_owned(),
            version: String::from("1.0.0"),
            licence: Some(String::from("MIT")),
            member: MEMBERS.contains(&name),
            ..Package::default()
        });
        graph.packages.len() - 1
    })
}

const GOOD: &str = "
    index -> words
    index -> locks
    index -opt> cases
    index -dev> index
    index -dev> serde
    leaf -> words
    leaf -> tokio
    facade -> index
    facade -> leaf
    facade -dev> words
    sim -> facade
    sim -> serde
    sim -> tokio
";

/// The good graph plus `extra`, minus the line `without`, breaks exactly these rules.
#[track_caller]
fn check_graph(extra: &str, without: &str, expected: &[&str]) {
    let lines: Vec<&str> = GOOD
        .lines()
        .filter(|line| without.is_empty() || line.trim() != without)
        .chain(extra.lines())
        .collect();
    let report = check(&graph(&lines.join("\n")), RULES, BANS, &["leaf"]);
    let found: Vec<String> = report.violations.iter().map(Violation::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "expected {expected}, found {found}");
    }
}

#[test]
fn the_table_kept_is_silent() {
    check_graph("", "", &[]);
}

#[test]
fn a_crate_without_a_rule() {
    check_graph("stranger -> words", "", &["stranger: no rule for this crate"]);
}

#[test]
fn an_edge_that_the_table_does_not_have() {
    check_graph("words -> bytes", "", &["words -> bytes: not in the table; add a decision record"]);
    check_graph("facade -> words", "", &["facade -> words: not in the table"]);
}

#[test]
fn a_library_that_uses_a_tool() {
    check_graph(
        "index -> sim",
        "sim -> tokio",
        &["index -> sim: a library must not", "index -> sim -> serde"],
    );
}

#[test]
fn an_optional_dependency_made_mandatory() {
    check_graph("index -> cases", "index -opt> cases", &["index -> cases: allowed only as an optional"]);
}

#[test]
fn tests_that_reach_upwards() {
    check_graph("index -dev> facade", "", &["index -> facade (dev): tests may use only"]);
    check_graph("facade -dev> sim", "", &["facade -> sim (dev)"]);
}

#[test]
fn an_allowance_that_nobody_uses() {
    check_graph("", "index -> locks", &["index -> locks: allowed and not used"]);
    check_graph("", "index -opt> cases", &["index -> cases: allowed and not used"]);
    check_graph("index -dev> locks", "index -> locks", &["index -> locks: allowed and not used"]);
}

#[test]
fn a_ban_covers_what_is_reached_indirectly_and_shows_the_path() {
    check_graph("locks -> small\nsmall -> serde", "", &["index -> locks -> small -> serde: no serde"]);
    check_graph(
        "locks -> tokio",
        "",
        &["index -> locks -> tokio: no runtime", "facade -> index -> locks -> tokio"],
    );
}

#[test]
fn the_path_shown_is_the_shortest() {
    let detour = "locks -> other\nlocks -> small\nother -> serde\nsmall -> smaller\nsmaller -> serde";
    check_graph(detour, "", &["index -> locks -> other -> serde: no serde"]);
}

#[test]
fn a_ban_ends_at_its_layer_and_at_the_leaves() {
    // The leaf and the facade link tokio, the simulator everything, and the first test finds that silent.
    let without_leaves = check(&graph(GOOD), RULES, BANS, &[]);
    let expected = [["leaf", "tokio"].as_slice(), ["facade", "leaf", "tokio"].as_slice()];
    let paths: Vec<_> = without_leaves
        .violations
        .iter()
        .map(|violation| match violation {
            Violation::Banned { path, .. } => path.clone(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(paths, expected);
}

#[test]
fn cycles_end() {
    check_graph("locks -> locks2\nlocks2 -> locks", "", &[]);
}

#[track_caller]
fn check_licence(package: &str, licence: Option<&str>, expected: &[&str]) {
    let mut graph = graph(&format!("{GOOD}\nlocks -> deep\nindex -dev> tests-only"));
    let found = graph.packages.iter_mut().find(|candidate| candidate.name == package).unwrap();
    found.licence = licence.map(str::to_owned);
    let report = check(&graph, RULES, BANS, &["leaf"]);
    let found: Vec<String> = report.violations.iter().map(Violation::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "expected {expected}, found {found}");
    }
}

#[test]
fn licences_of_everything_linked() {
    check_licence("deep", Some("GPL-3.0-only OR MIT"), &[]);
    check_licence("deep", Some("GPL-3.0-only"), &["deep 1.0.0: licence GPL-3.0-only is not accepted"]);
    check_licence("deep", None, &["deep 1.0.0: states no licence"]);
    check_licence("deep", Some("MIT MIT"), &["deep 1.0.0: licence `MIT MIT` is no SPDX expression"]);
}

#[test]
fn licences_of_members_and_of_what_only_tests_use_are_not_asked() {
    check_licence("index", None, &[]);
    check_licence("tests-only", Some("GPL-3.0-only"), &[]);
}
