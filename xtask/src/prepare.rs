//! `cargo xtask prepare`: what a build and the tests need beside Rust: a C++ compiler for libzmq, a Python with pyzmq for
//! the interop tests, a NATS server to talk to, and OpenSSL for the certificates of its tests. What is there already
//! costs a second.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::flags::Prepare;
use crate::shell::Shell;

/// Where Debian puts the server: not on everybody's `PATH`.
const NATS_SERVER: [&str; 2] = ["nats-server", "/usr/sbin/nats-server"];

/// Any release with libzmq 4.3.
const PYZMQ: &str = "pyzmq>=26,<28";

impl Prepare {
    /// Looks for each of them, and installs what is missing, from Debian's packages and from PyPI.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        compiler(shell)?;
        nats_server(shell)?;
        openssl(shell)?;
        let folder = target_directory(shell)?.join("tmp").join("pyzmq");
        let python = folder.join("bin").join("python");
        if python.exists() && imports_zmq(shell, &python) {
            eprintln!("prepare: a C++ compiler, nats-server, openssl and {} are there", folder.display());
            return Ok(());
        }
        let make = || shell.program("python3").args(["-m", "venv", "--clear"]).args([&folder]).run();
        if make().is_err() {
            // Debian has the module without what it needs to work.
            install(shell, "python3-venv")?;
            make()?;
        }
        shell.program_at(&python).args(["-m", "pip", "install", "--quiet", PYZMQ]).run()
    }
}

/// What builds libzmq.
pub(crate) fn compiler(shell: &Shell) -> Result<(), Error> {
    match shell.program("c++").args(["--version"]).read() {
        Ok(_) => Ok(()),
        Err(_) => install(shell, "g++"),
    }
}

/// The broker that tests and `chaos --nats` start for themselves.
pub(crate) fn nats_server(shell: &Shell) -> Result<(), Error> {
    if NATS_SERVER.iter().any(|name| shell.program(name).args(["--version"]).read().is_ok()) {
        return Ok(());
    }
    install(shell, "nats-server")
}

/// What makes the keys of tests, so that none is in the repository: docs/decisions/0023.
fn openssl(shell: &Shell) -> Result<(), Error> {
    match shell.program("openssl").args(["version"]).read() {
        Ok(_) => Ok(()),
        Err(_) => install(shell, "openssl"),
    }
}

fn imports_zmq(shell: &Shell, python: &Path) -> bool {
    shell.program_at(python).args(["-c", "import zmq"]).run().is_ok()
}

fn install(shell: &Shell, package: &str) -> Result<(), Error> {
    shell
        .program("apt-get")
        .args(["install", "--yes", "--no-install-recommends", package])
        .run()
        .map_err(|error| Error::Missing { package: package.to_owned(), source: Box::new(error) })
}

fn target_directory(shell: &Shell) -> Result<PathBuf, Error> {
    let metadata = shell.cargo().args(["metadata", "--format-version", "1", "--no-deps"]).read()?;
    Ok(crate::layers::target_directory(&metadata)?)
}
