//! The project's own commands: `cargo xtask help`.
//!
//! Each command is one file with one `run`; `flags` turns the command line into one of them. Every program that
//! a command starts is echoed to stderr with the time it took, so stdout belongs to the program. No shell is
//! involved, so a command means the same on every machine. Think twice before adding a dependency here: CI
//! builds this crate before it can do anything else.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its terminal")]

mod bench;
mod chaos;
mod ci;
mod demo;
mod error;
mod flags;
mod fuzz;
mod layers;
mod loom;
mod prepare;
mod shell;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use error::Error;
use flags::Command;
use shell::Shell;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            error.exit_code()
        }
    }
}

fn run() -> Result<(), Error> {
    let command = flags::parse(std::env::args_os().skip(1))?;
    let shell = Shell::at_workspace_root();
    match command {
        Command::Help => {
            print!("{}", flags::HELP);
            Ok(())
        }
        Command::Prepare(command) => command.run(&shell),
        Command::Test(command) => command.run(&shell),
        Command::Demo(command) => command.run(&shell),
        Command::Bench(command) => command.run(&shell),
        Command::Soak(command) => command.run(&shell),
        Command::Layers(command) => command.run(&shell),
        Command::Chaos(command) => command.run(&shell),
        Command::Loom(command) => command.run(&shell),
        Command::Fuzz(command) => command.run(&shell),
        Command::Tidy(command) => command.run(&shell),
        Command::Ci(command) => command.run(&shell),
    }
}
