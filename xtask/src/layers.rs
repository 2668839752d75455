//! `cargo xtask layers`: which crate may use what, as a table, and the check of every dependency against it.
//!
//! The table mirrors docs/architecture.md. A new edge or a new third-party crate is a decision record in
//! docs/decisions/ and a change here; an allowance that is no longer used must go, so that the table stays true.

mod check;
mod licence;
mod metadata;

pub(crate) use metadata::{MetadataError, target_directory};

use crate::error::Error;
use crate::flags;
use crate::shell::Shell;
use metadata::Graph;

/// Where a crate stands. A crate may use what stands below it; the table says which of that it does use.
/// L5, the applications, comes with the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// The words everyone shares.
    L0,
    /// Tokens to hashes.
    L1,
    /// Structures: indexes, load, scheduling.
    L2,
    /// Streams of events.
    L3,
    /// The facade.
    L4,
    /// Simulator, benchmarks, this tool: they may use anything, and no library may use them.
    DevOnly,
}

/// What one crate may depend on, apart from its tests.
#[derive(Debug)]
struct Rule {
    name: &'static str,
    layer: Layer,
    /// Workspace crates and third-party crates, for every user of the crate.
    uses: &'static [&'static str],
    /// The same, but only as an optional dependency behind a feature.
    optional: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule { name: "kv-router-types", layer: Layer::L0, uses: &[], optional: &[] },
    Rule {
        name: "kv-router-hash",
        layer: Layer::L1,
        uses: &["kv-router-types", "xxhash-rust"],
        optional: &[],
    },
    Rule {
        name: "kv-router-index",
        layer: Layer::L2,
        uses: &[
            "kv-router-hash",
            "kv-router-types",
            "crossbeam-channel",
            "dashmap",
            "loom", // under cfg(kv_router_loom) alone: `cargo xtask loom`
            "parking_lot",
            "rustc-hash",
        ],
        optional: &["proptest"], // feature `conformance`: the suite for implementers of an index
    },
    Rule {
        name: "kv-router-approx",
        layer: Layer::L2,
        uses: &["kv-router-hash", "kv-router-index", "kv-router-types", "rustc-hash", "xxhash-rust"],
        optional: &[],
    },
    Rule {
        name: "kv-router-load",
        layer: Layer::L2,
        uses: &["kv-router-types", "parking_lot", "rustc-hash"],
        optional: &[],
    },
    Rule { name: "kv-router-schedule", layer: Layer::L2, uses: &["kv-router-types"], optional: &[] },
    Rule {
        name: "kv-router-transport",
        layer: Layer::L3,
        uses: &["kv-router-types", "bincode", "crossbeam-channel", "serde", "xxhash-rust"],
        optional: &[],
    },
    Rule {
        name: "kv-router-engines",
        layer: Layer::L3,
        uses: &["kv-router-hash", "kv-router-types", "rustc-hash", "serde", "serde_json"],
        optional: &[],
    },
    Rule {
        name: "kv-router-zmq",
        layer: Layer::L3,
        uses: &["kv-router-transport", "crossbeam-channel", "parking_lot", "zmq"],
        optional: &[],
    },
    Rule {
        name: "kv-router-nats",
        layer: Layer::L3,
        uses: &[
            "kv-router-transport",
            "kv-router-types",
            "async-nats",
            "bytes",
            "crossbeam-channel",
            "futures-util",
            "nkeys",
            "parking_lot",
            "tokio",
        ],
        optional: &[],
    },
    Rule {
        name: "kv-router",
        layer: Layer::L4,
        uses: &[
            "kv-router-approx",
            "kv-router-engines",
            "kv-router-hash",
            "kv-router-index",
            "kv-router-load",
            "kv-router-schedule",
            "kv-router-transport",
            "kv-router-types",
            "loom", // under cfg(kv_router_loom) alone: `cargo xtask loom`
            "parking_lot",
            "rustc-hash",
        ],
        optional: &[],
    },
    Rule { name: "kv-router-sim", layer: Layer::DevOnly, uses: &[], optional: &[] },
    Rule { name: "kv-router-benches", layer: Layer::DevOnly, uses: &[], optional: &[] },
    Rule { name: "kv-router-fuzz", layer: Layer::DevOnly, uses: &[], optional: &[] },
    Rule { name: "xtask", layer: Layer::DevOnly, uses: &[], optional: &[] },
];

/// What must not be reachable, however indirectly, from a library.
#[derive(Debug)]
struct Ban {
    /// The highest layer that the ban covers.
    up_to: Layer,
    crates: &'static [&'static str],
    reason: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        up_to: Layer::L4,
        crates: &[
            "async-executor",
            "async-global-executor",
            "async-std",
            "futures-executor",
            "glommio",
            "monoio",
            "smol",
            "tokio",
        ],
        reason: "no async runtime below L5: waiting is a `Future` on `std::task::Waker`, which runs under any of them",
    },
    Ban {
        up_to: Layer::L2,
        crates: &["serde", "serde_core"],
        reason: "no serialisation in the structures: transport owns the wire structs and converts",
    },
];

/// Crates whose own third-party side is an async runtime. The bans do not look into them.
const LEAVES: &[&str] = &["kv-router-nats", "kv-router-zmq"];

impl flags::Layers {
    /// Prints every violation with the rule and the way out, or one line with counts.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        let metadata = shell.cargo().args(["metadata", "--format-version", "1", "--all-features"]).read()?;
        let graph = Graph::parse(&metadata)?;
        let report = check::check(&graph, RULES, BANS, LEAVES);
        for violation in &report.violations {
            println!("{violation}");
        }
        match report.violations.len() {
            0 => {
                println!("layers: {report}");
                Ok(())
            }
            count => Err(Error::Findings { command: "layers", count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_never_points_upwards() {
        for rule in RULES {
            for target in RULES.iter().filter(|target| rule.uses.contains(&target.name)) {
                assert!(target.layer <= rule.layer, "{} -> {}", rule.name, target.name);
            }
        }
    }

    #[test]
    fn the_table_names_each_crate_once() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
