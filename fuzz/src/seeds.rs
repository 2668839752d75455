//! Inputs to start from that are files of the checkout, or examples of its documents.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the checkout that this was built from.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file of a folder, in the order of their names; none where there is no such folder.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).flat_map(fs::read).collect()
}

/// Inputs that once broke a target.
pub(crate) fn kept(target: &str) -> Vec<Vec<u8>> {
    files(&root().join("fuzz/seeds").join(target))
}

/// Payloads that engines sent, and damaged ones.
pub(crate) fn vectors(folder: &str) -> Vec<Vec<u8>> {
    let mut vectors = files(&root().join("crates/kv-router-engines/tests/vectors").join(folder));
    // The long ones try limits of megabytes, which the tests of the crate do.
    vectors.retain(|vector| vector.len() < 4_096);
    vectors
}

/// An example of docs/wire.md by its name.
pub(crate) fn example(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(root().join("docs/wire.md")).unwrap_or_default();
    let start = format!("```hex {name}\n");
    let block = text.split_once(&start).and_then(|(_, rest)| rest.split_once("```"));
    let lines = block.map_or("", |(block, _)| block).lines();
    let words = lines.flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    words.flat_map(|word| u8::from_str_radix(word, 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_where_they_are_looked_for() {
        assert!(vectors("valid").len() > 50 && vectors("malformed").len() > 30 && vectors("load").len() > 4);
        for (name, magic) in
            [("batch", b"KVRT"), ("dump", b"KVRT"), ("filter", b"KVCF"), ("peer-want", b"KVRP")]
        {
            assert!(example(name).starts_with(magic), "{name}");
        }
    }
}
