//! The rules, as functions of the graph and the table.

use std::collections::VecDeque;
use std::fmt;

use super::licence::{self, Malformed};
use super::metadata::{Graph, Kind, Package};
use super::{Ban, Layer, Rule};

/// Everything found, and how much was looked at.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) violations: Vec<Violation>,
    crates: usize,
    edges: usize,
    licences: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crates, edges, licences, .. } = self;
        write!(f, "{crates} crates, {edges} dependency edges and {licences} licences are as the table says")
    }
}

/// One broken rule; its text says which, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// A workspace crate that the table does not know.
    NoRule { name: String },
    /// A normal or build dependency that the table does not have.
    Edge { from: String, to: String },
    /// A library depends on a tool.
    UsesTool { from: String, to: String },
    /// A dependency that the table allows only behind a feature.
    NotOptional { from: String, to: String },
    /// Tests of a lower layer need a higher one.
    DevUpwards { from: String, to: String },
    /// The table allows what nobody uses.
    Unused { from: String, to: String },
    /// Something banned is linked in, along this path.
    Banned { path: Vec<String>, reason: &'static str },
    /// A third-party licence that is not accepted. `None`: the manifest states none.
    Licence { package: String, expression: Option<String> },
    /// A third-party licence that is no SPDX expression.
    LicenceMalformed { package: String, expression: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TABLE: &str = "xtask/src/layers.rs";
        match self {
            Self::NoRule { name } => write!(
                f,
                "{name}: no rule for this crate; give it a layer and its dependencies in {TABLE} and docs/architecture.md"
            ),
            Self::Edge { from, to } => write!(
                f,
                "{from} -> {to}: not in the table; add a decision record and the edge in {TABLE}, or drop the dependency"
            ),
            Self::UsesTool { from, to } => write!(
                f,
                "{from} -> {to}: a library must not depend on a development tool; drop the dependency, or move what it \
                 needs into a library"
            ),
            Self::NotOptional { from, to } => write!(
                f,
                "{from} -> {to}: allowed only as an optional dependency; put it behind a feature with `optional = true`"
            ),
            Self::DevUpwards { from, to } => write!(
                f,
                "{from} -> {to} (dev): tests may use only the own or a lower layer; move the test up to {to}"
            ),
            Self::Unused { from, to } => write!(
                f,
                "{from} -> {to}: allowed and not used; delete it from {TABLE}, so that the table stays true"
            ),
            Self::Banned { path, reason } => write!(
                f,
                "{}: {reason}; drop the dependency, or switch off the feature that brings it in",
                path.join(" -> ")
            ),
            Self::Licence { package, expression: None } => {
                write!(f, "{package}: states no licence; drop the dependency, or choose another crate")
            }
            Self::Licence { package, expression: Some(expression) } => write!(
                f,
                "{package}: licence {expression} is not accepted; drop the dependency, or add a decision record and the \
                 licence in xtask/src/layers/licence.rs and .deny.toml"
            ),
            Self::LicenceMalformed { package, expression } => write!(
                f,
                "{package}: licence `{expression}` is no SPDX expression; read the licence, or choose another crate"
            ),
        }
    }
}

/// Checks every edge, closure and licence. The order of the result is the order of the graph.
pub(super) fn check(graph: &Graph, rules: &[Rule], bans: &[Ban], leaves: &[&str]) -> Report {
    let mut report = Report::default();
    for (index, package) in graph.packages.iter().enumerate().filter(|(_, package)| package.member) {
        report.crates += 1;
        let Some(rule) = rules.iter().find(|rule| rule.name == package.name) else {
            report.violations.push(Violation::NoRule { name: package.name.clone() });
            continue;
        };
        if rule.layer != Layer::DevOnly {
            report.edges += package.declared.len();
            normal_edges(package, rule, rules, &mut report.violations);
            dev_edges(package, rule, rules, &mut report.violations);
        }
        for ban in bans.iter().filter(|ban| rule.layer <= ban.up_to) {
            banned_paths(graph, index, ban, leaves, &mut report.violations);
        }
    }
    licences(graph, licence::ACCEPTED, &mut report);
    report
}

fn normal_edges(package: &Package, rule: &Rule, rules: &[Rule], violations: &mut Vec<Violation>) {
    let from = || package.name.clone();
    for dependency in package.declared.iter().filter(|dependency| dependency.kind == Kind::Normal) {
        let to = dependency.name.as_str();
        let tool = rules.iter().any(|rule| rule.name == to && rule.layer == Layer::DevOnly);
        if tool {
            violations.push(Violation::UsesTool { from: from(), to: to.to_owned() });
        } else if rule.uses.contains(&to) {
            // Allowed to everyone; whether it is optional is the crate's own business.
        } else if !rule.optional.contains(&to) {
            violations.push(Violation::Edge { from: from(), to: to.to_owned() });
        } else if !dependency.optional {
            violations.push(Violation::NotOptional { from: from(), to: to.to_owned() });
        }
    }
    for &allowed in rule.uses.iter().chain(rule.optional) {
        if !package.declared.iter().any(|used| used.kind == Kind::Normal && used.name == allowed) {
            violations.push(Violation::Unused { from: from(), to: allowed.to_owned() });
        }
    }
}

/// Third-party crates are free in tests. A crate without a rule is reported where it is declared.
fn dev_edges(package: &Package, rule: &Rule, rules: &[Rule], violations: &mut Vec<Violation>) {
    for dependency in package.declared.iter().filter(|dependency| dependency.kind == Kind::Dev) {
        let target = rules.iter().find(|target| target.name == dependency.name);
        if target.is_some_and(|target| target.layer > rule.layer) {
            let (from, to) = (package.name.clone(), dependency.name.clone());
            violations.push(Violation::DevUpwards { from, to });
        }
    }
}

/// Reports the shortest path to each banned crate, since the edge to cut is rarely the last one.
fn banned_paths(graph: &Graph, start: usize, ban: &Ban, leaves: &[&str], violations: &mut Vec<Violation>) {
    let mut came_from: Vec<Option<usize>> = vec![None; graph.packages.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        let package = &graph.packages[at];
        if ban.crates.contains(&package.name.as_str()) {
            let mut path: Vec<String> =
                std::iter::successors(Some(at), |&at| came_from[at].filter(|_| at != start))
                    .map(|at| graph.packages[at].name.clone())
                    .collect();
            path.reverse();
            violations.push(Violation::Banned { path, reason: ban.reason });
            continue;
        }
        if leaves.contains(&package.name.as_str()) {
            continue;
        }
        for &next in &package.linked {
            if next != start && came_from[next].is_none() {
                came_from[next] = Some(at);
                queue.push_back(next);
            }
        }
    }
}

/// Licences of everything linked into any member; what only tests use is not distributed.
fn licences(graph: &Graph, accepted: &[&str], report: &mut Report) {
    let mut linked = vec![false; graph.packages.len()];
    let mut stack: Vec<usize> =
        (0..graph.packages.len()).filter(|&index| graph.packages[index].member).collect();
    while let Some(at) = stack.pop() {
        for &next in &graph.packages[at].linked {
            if !linked[next] {
                linked[next] = true;
                stack.push(next);
            }
        }
    }
    for (package, _) in
        graph.packages.iter().zip(linked).filter(|(package, linked)| *linked && !package.member)
    {
        report.licences += 1;
        let name = format!("{} {}", package.name, package.version);
        let verdict = package.licence.as_deref().map(|expression| licence::satisfied(expression, accepted));
        match verdict {
            Some(Ok(true)) => {}
            None | Some(Ok(false)) => {
                report
                    .violations
                    .push(Violation::Licence { package: name, expression: package.licence.clone() });
            }
            Some(Err(Malformed)) => {
                let expression = package.licence.clone().unwrap_or_default();
                report.violations.push(Violation::LicenceMalformed { package: name, expression });
            }
        }
    }
}

#[cfg(test)]
mod tests;
