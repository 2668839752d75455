//! `cargo xtask bench`: the benchmarks.

use crate::error::Error;
use crate::flags::Bench;
use crate::shell::Shell;

impl Bench {
    /// Builds and runs the benchmark program. stdout is the program's alone.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        shell.cargo().args(["run", "--release", "-p", "kv-router-benches", "--"]).args(&self.args).run()
    }
}
