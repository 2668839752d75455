//! Payloads of real engines, for runs that damage them.

use std::fs;
use std::io;
use std::path::Path;

/// The longest payload taken: damage to a longer one is mostly damage to its tokens.
const LONGEST: usize = 20_000;

/// The vectors of `kv-router-engines`, in the order of their names.
///
/// # Errors
///
/// When they cannot be read: this is a program for a checkout.
pub fn corpus() -> io::Result<Vec<Vec<u8>>> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kv-router-engines/tests/vectors");
    let mut paths = Vec::new();
    for folder in ["valid", "malformed", "load"] {
        for entry in fs::read_dir(vectors.join(folder))? {
            paths.push(entry?.path());
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension != "json"));
    paths.sort();
    let mut corpus = paths.into_iter().map(fs::read).collect::<io::Result<Vec<_>>>()?;
    corpus.retain(|payload| payload.len() <= LONGEST);
    Ok(corpus)
}
