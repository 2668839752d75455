//! `cargo xtask chaos`: mock engines on real sockets that fail at random, and routers that must come out right; with
//! `--nats`, whole routers over a NATS server that fails, too.

use crate::error::Error;
use crate::flags::{Chaos, Over};
use crate::prepare;
use crate::shell::Shell;

impl Chaos {
    /// Builds and runs it. stdout is the program's alone.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        let (feature, program) = match self.over {
            Over::Sockets => ("wire", "kv-router-chaos"),
            Over::Nats => ("nats", "kv-router-nats-chaos"),
        };
        match self.over {
            Over::Sockets => prepare::compiler(shell)?,
            Over::Nats => prepare::nats_server(shell)?,
        }
        shell
            .cargo()
            .args(["run", "--release", "-p", "kv-router-sim", "--features", feature, "--bin", program, "--"])
            .args(&self.args)
            .run()
    }
}
