//! `cargo xtask chaos`: mock engines on real sockets that fail at random, and routers that must come out right.

use crate::error::Error;
use crate::flags::Chaos;
use crate::prepare;
use crate::shell::Shell;

impl Chaos {
    /// Builds and runs it. stdout is the program's alone.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        prepare::compiler(shell)?;
        shell
            .cargo()
            .args([
                "run",
                "--release",
                "-p",
                "kv-router-sim",
                "--features",
                "wire",
                "--bin",
                "kv-router-chaos",
                "--",
            ])
            .args(&self.args)
            .run()
    }
}
