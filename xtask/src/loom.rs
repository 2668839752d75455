//! `cargo xtask loom`: every interleaving of a few operations, and the proof that the models can fail.
//!
//! The models are listed in [`SUITES`], over the real types. With `--mutate` each bug of the list in
//! `loom/mutations.rs` is planted into a copy of the checkout, and the model named beside it must fail there.

mod mutations;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::flags::Loom;
use crate::shell::{Program, Shell};
use mutations::Mutation;

/// Where models are built: not with the ordinary targets, which other flags would rebuild each time.
const TARGET: &str = "target/loom";
/// Where bugs are planted.
const COPY: &str = "target/loom/tree";

/// A file of models, and how cargo is told to run them.
struct Suite {
    package: &'static str,
    target: &'static [&'static str],
    file: &'static str,
    /// What the names of its models have in common, for a target with other tests too.
    prefix: &'static str,
}

const SUITES: &[Suite] = &[
    Suite {
        package: "kv-router-index",
        target: &["--test", "loom"],
        file: "crates/kv-router-index/tests/loom/main.rs",
        prefix: "",
    },
    Suite {
        package: "kv-router-index",
        target: &["--test", "loom"],
        file: "crates/kv-router-index/tests/loom/paged.rs",
        prefix: "paged::",
    },
    Suite {
        package: "kv-router",
        target: &["--lib"],
        file: "crates/kv-router/src/admit/models.rs",
        prefix: "admit::models::",
    },
];

impl Suite {
    /// The names of its models that contain `wanted`.
    fn models(&self, root: &Path, wanted: &str) -> Result<Vec<String>, Error> {
        let text = read(&root.join(self.file))?;
        let names = text.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split('(').next());
        Ok(names.filter(|name| name.contains(wanted)).map(str::to_owned).collect())
    }
}

impl Loom {
    /// Runs the models whose name contains `model`, or plants the bugs that such models must catch.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        let wanted = self.model.as_deref().unwrap_or_default();
        if self.mutate {
            return mutate(shell, wanted);
        }
        let mut any = false;
        for suite in SUITES {
            let models = suite.models(shell.root(), wanted)?;
            any |= !models.is_empty();
            if !models.is_empty() {
                test(shell, shell.root(), suite, &models).run()?;
            }
        }
        if any { Ok(()) } else { Err(Error::NoModel { wanted: wanted.to_owned() }) }
    }
}

fn mutate(shell: &Shell, wanted: &str) -> Result<(), Error> {
    let copy = shell.root().join(COPY);
    copy_checkout(shell, &copy)?;
    let mut missed = 0;
    let chosen: Vec<_> = mutations::all().filter(|mutation| mutation.model.contains(wanted)).collect();
    if chosen.is_empty() {
        return Err(Error::NoModel { wanted: wanted.to_owned() });
    }
    for mutation in &chosen {
        let caught = try_out(shell, &copy, mutation)?;
        missed += usize::from(!caught);
        println!("{:<8}{} by {}", if caught { "caught" } else { "MISSED" }, mutation.name, mutation.model);
    }
    match missed {
        0 => {
            println!("loom: {0} of {0} planted bugs caught", chosen.len());
            Ok(())
        }
        count => Err(Error::Findings { command: "loom", count }),
    }
}

/// Plants a bug, runs its model, and takes the bug out again. Tells whether the model failed.
fn try_out(shell: &Shell, copy: &Path, mutation: &Mutation) -> Result<bool, Error> {
    let path = copy.join(mutation.file);
    let original = read(&path)?;
    write(&path, &original.replacen(mutation.find, mutation.replace, 1))?;
    // Built apart: a bug that does not compile proves nothing about the model.
    let mut caught = Ok(false);
    for suite in SUITES {
        let models = suite.models(copy, mutation.model)?;
        if models.is_empty() {
            continue;
        }
        let result =
            build(shell, copy, suite).run().and_then(|()| match test(shell, copy, suite, &models).read() {
                Ok(_) => Ok(false),
                Err(Error::Failed { .. }) => Ok(true),
                Err(error) => Err(error),
            });
        caught = caught.and_then(|caught| Ok(caught | result?));
    }
    write(&path, &original)?;
    caught
}

fn build(shell: &Shell, root: &Path, suite: &Suite) -> Program {
    cargo(shell, root, suite).args(["--no-run"])
}

fn test(shell: &Shell, root: &Path, suite: &Suite, models: &[String]) -> Program {
    // One after the other: each says how many interleavings it had.
    let names = models.iter().map(|model| format!("{}{model}", suite.prefix));
    cargo(shell, root, suite).args(["--", "--nocapture", "--test-threads=1", "--exact"]).args(names)
}

fn cargo(shell: &Shell, root: &Path, suite: &Suite) -> Program {
    shell
        .cargo()
        .args(["test", "--profile", "loom", "--package", suite.package])
        .args(suite.target)
        .args([OsString::from("--manifest-path"), root.join("Cargo.toml").into_os_string()])
        .args([OsString::from("--target-dir"), shell.root().join(TARGET).into_os_string()])
        .env("RUSTFLAGS", "--cfg kv_router_loom")
}

/// Copies what git would commit, and nothing else stays in the copy. What was copied before and is the same keeps its
/// time, so cargo does not build it again.
fn copy_checkout(shell: &Shell, copy: &Path) -> Result<(), Error> {
    let listed = shell.git().args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).read()?;
    let listed = String::from_utf8_lossy(&listed);
    let mut kept = HashSet::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let (from, to) = (shell.root().join(path), copy.join(path));
        let bytes = match fs::read(&from) {
            Ok(bytes) => bytes,
            // Deleted and not yet committed, or a folder of its own.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {
                continue;
            }
            Err(source) => return Err(Error::Read { path: from, source }),
        };
        kept.insert(to.clone());
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        let written = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, bytes));
        written.map_err(|source| Error::Write { path: to, source })?;
    }
    remove_others(copy, &kept)
}

/// Removes every file below `folder` that is not among `kept`: a test that has moved would be built twice.
fn remove_others(folder: &Path, kept: &HashSet<PathBuf>) -> Result<(), Error> {
    let fault = |source| Error::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let path = entry.path();
        if entry.file_type().map_err(fault)?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) && entry.file_name() != "Cargo.lock" {
            fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        read(&Shell::at_workspace_root().root().join(path)).unwrap()
    }

    fn models() -> Vec<String> {
        let shell = Shell::at_workspace_root();
        SUITES.iter().flat_map(|suite| suite.models(shell.root(), "").unwrap()).collect()
    }

    #[test]
    fn every_bug_can_be_planted_in_one_place_and_has_a_model() {
        let models = models();
        for Mutation { name, file, find, replace, model } in mutations::all() {
            assert_eq!(text(file).matches(find).count(), 1, "{name}: `find` must occur once in {file}");
            assert_ne!(find, replace, "{name}");
            assert!(models.iter().any(|known| known == model), "{name}: no model {model}");
        }
    }

    #[test]
    fn what_has_left_the_checkout_leaves_the_copy() {
        let folder = std::env::temp_dir().join(format!("kv-router-xtask-{}", std::process::id()));
        let [kept, moved] = ["a/kept.rs", "a/b/moved.rs"].map(|path| folder.join(path));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        write(&kept, "").unwrap();
        write(&moved, "").unwrap();
        remove_others(&folder, &HashSet::from([kept.clone()])).unwrap();
        assert_eq!((kept.exists(), moved.exists()), (true, false));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_locking_document_names_every_model() {
        let document = text("docs/locking.md");
        for model in models() {
            assert!(
                document.contains(&format!("`{model}`")),
                "docs/locking.md does not say what {model} checks"
            );
        }
    }
}
