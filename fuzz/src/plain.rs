//! A target on files.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its terminal")]

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;

use kv_router_fuzz::{TARGETS, Target};

/// Checks each file; one that breaks the target ends the program by the panic that it is.
pub(crate) fn run(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let named = args.next().and_then(|name| Target::named(name.to_str()?));
    let Some(target) = named else {
        eprintln!("usage: kv-router-fuzz TARGET FILE...\ntargets:");
        for Target { name, about, .. } in TARGETS {
            eprintln!("  {name:<14} {about}");
        }
        return ExitCode::from(2);
    };
    for path in args {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("cannot read {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        };
        println!("{}: {} bytes", path.display(), bytes.len());
        (target.check)(&bytes);
    }
    println!("{} holds", target.name);
    ExitCode::SUCCESS
}
