//! The files that git would commit, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use crate::error::Error;
use crate::shell::Shell;

/// Every file by its path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// `None`: not UTF-8, or not a regular file.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads what git tracks and what it would add. Works in a clean clone; ignored files do not count.
    pub(super) fn read(shell: &Shell) -> Result<Self, Error> {
        let listed =
            shell.git().args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).read()?;
        let mut files = BTreeMap::new();
        for path in String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()) {
            let full = shell.root().join(path);
            let text = match fs::symlink_metadata(&full) {
                // Captured bytes stay as they are, whatever they look like.
                Ok(metadata) if metadata.is_file() && !path.ends_with(".bin") => {
                    let bytes = fs::read(&full).map_err(|source| Error::Read { path: full, source })?;
                    String::from_utf8(bytes).ok()
                }
                Ok(_) => None,
                // Deleted and not yet committed: gone as far as the next commit is concerned.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(Error::Read { path: full, source }),
            };
            files.insert(path.to_owned(), text);
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn from_texts(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|&(path, text)| (path.to_owned(), Some(text.to_owned())));
        Self { files: files.collect() }
    }

    /// The number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// All paths, in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// All text files, in order.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text files whose name ends in `extension`, which includes the dot.
    pub(super) fn with_extension(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(extension))
    }

    /// A text file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether a file has this path, or lies in a folder that has it. The root is the empty path.
    pub(super) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.paths().any(|file| file.starts_with(&folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// A git checkout of its own, deleted at the end.
    struct Checkout(PathBuf);

    impl Checkout {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("kv-router-tidy-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            let checkout = Self(path);
            checkout.git(&["init", "--quiet"]);
            checkout
        }

        fn git(&self, args: &[&str]) {
            self.shell().git().args(args).read().unwrap();
        }

        fn shell(&self) -> Shell {
            Shell::at(self.0.clone())
        }

        fn write(&self, path: &str, bytes: &[u8]) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    impl Drop for Checkout {
        fn drop(&mut self) {
            // A leftover in the folder for temporary files is harmless, a panic while panicking is not.
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn reads_what_git_would_commit() {
        let checkout = Checkout::new();
        checkout.write(".gitignore", b"/target\n");
        checkout.write("target/ignored.rs", b"");
        checkout.write("crates/a/src/lib.rs", b"tracked");
        checkout.write("gone.rs", b"");
        checkout.git(&["add", "."]);
        checkout.write("untracked file.rs", b"new");
        checkout.write("binary", &[0xff, 0xfe]);
        checkout.write("capture.bin", b"text by chance");
        fs::remove_file(checkout.0.join("gone.rs")).unwrap();

        let tree = Tree::read(&checkout.shell()).unwrap();
        let paths: Vec<_> = tree.paths().collect();
        assert_eq!(
            paths,
            [".gitignore", "binary", "capture.bin", "crates/a/src/lib.rs", "untracked file.rs"]
        );
        assert_eq!(tree.text("crates/a/src/lib.rs"), Some("tracked"));
        assert_eq!((tree.text("binary"), tree.text("capture.bin")), (None, None));
    }

    #[test]
    fn folders_exist_when_they_hold_a_file() {
        let tree = Tree::from_texts(&[("crates/a/Cargo.toml", "")]);
        assert!(["", "crates", "crates/a", "crates/a/Cargo.toml"].iter().all(|path| tree.exists(path)));
        assert!(["crate", "crates/a/Cargo", "docs"].iter().all(|path| !tree.exists(path)));
    }
}
