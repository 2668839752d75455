//! Prints the bytes that one index has on the heap after a corpus. The benchmark runs it in a process of its own.

use std::alloc::System;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use kv_router_benches::corpus::Op;
use kv_router_benches::heap;
use kv_router_benches::source::Source;
use kv_router_benches::subject::SUBJECTS;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes on the heap of one index after a corpus.
#[derive(Debug, Parser)]
struct Args {
    /// The index.
    #[arg(long)]
    index: String,
    #[command(flatten)]
    source: Source,
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(bytes) => {
            let _ = writeln!(io::stdout(), "{bytes}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "memory: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<usize, Box<dyn Error>> {
    let entry = SUBJECTS.iter().find(|entry| entry.name == args.index).ok_or("there is no such index")?;
    let corpus = args.source.record()?;

    let before = heap::live(&ALLOCATOR.stats());
    let subject = (entry.build)()?;
    for (_, op) in &corpus.ops {
        if let Op::Apply(from, event) = op {
            subject.apply(*from, event);
        }
    }
    subject.settle();
    let bytes = heap::live(&ALLOCATOR.stats()) - before;
    drop(subject);
    Ok(bytes)
}
