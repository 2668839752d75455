//! `cargo xtask bench`: the benchmarks.

use crate::error::Error;
use crate::flags::{Against, Bench};
use crate::prepare;
use crate::shell::Shell;

impl Bench {
    /// Builds and runs the benchmark program. stdout is the program's alone.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        let package: &[&str] = match self.against {
            Against::Family => &["--release", "-p", "kv-router-benches"],
            // A workspace of its own, excluded from ours, with a lockfile that pins the peers.
            Against::Peers => &["--release", "--locked", "--manifest-path", "benches/peers/Cargo.toml"],
        };
        // The sockets of `--streams` need libzmq, and that a C++ compiler; nothing else does.
        let wants_sockets = self.args.iter().any(|arg| arg == "--streams");
        let features: &[&str] = if wants_sockets {
            prepare::compiler(shell)?;
            &["--features", "wire"]
        } else {
            &[]
        };
        // `run` builds one program. The one that counts bytes, which it starts, must stand beside it.
        shell.cargo().args(["build", "--bins"]).args(package).args(features).run()?;
        shell.cargo().args(["run"]).args(package).args(features).args(["--"]).args(&self.args).run()
    }
}
