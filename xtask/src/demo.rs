//! `cargo xtask demo`: the demonstration fleet.

use crate::error::Error;
use crate::flags::Demo;
use crate::shell::Shell;

impl Demo {
    /// Builds and runs the demonstration. stdout is the program's alone; cargo and the echo write to stderr.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        shell
            .cargo()
            .args(["run", "--release", "-p", "kv-router-sim", "--bin", "kv-router-demo", "--"])
            .args(&self.args)
            .run()
    }
}
