//! `cargo xtask soak`: the long runs.

use crate::error::Error;
use crate::flags::Soak;
use crate::shell::Shell;

impl Soak {
    /// Builds and runs the long runs. stdout is the program's alone.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        shell
            .cargo()
            .args(["run", "--release", "-p", "kv-router-benches", "--bin", "kv-router-soak", "--"])
            .args(&self.args)
            .run()
    }
}
