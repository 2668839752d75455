//! Prints the bytes that one index has on the heap after a corpus. The benchmark runs it in a process of its own.

use std::alloc::System;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kv_router_benches::corpus::{Corpus, Op};
use kv_router_benches::subject::SUBJECTS;
use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::trace::{ReadOptions, Trace};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes on the heap of one index after a corpus.
#[derive(Debug, Parser)]
struct Args {
    /// The index.
    #[arg(long)]
    index: String,
    /// A trace to record from. Default: the bundled sample.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Engines in the fleet.
    #[arg(long)]
    engines: u32,
    /// Tokens per block.
    #[arg(long)]
    block_size: u32,
    /// Requests to replay; 0 for all.
    #[arg(long)]
    requests: usize,
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
    let trace = match &args.trace {
        Some(path) => Trace::read_with(File::open(path)?, ReadOptions::default())?,
        None => Trace::sample()?,
    };
    let requests = if args.requests == 0 { usize::MAX } else { args.requests };
    let block_size = TraceBlockSize::new(args.block_size)?;
    let corpus = Corpus::record(String::new(), trace.head(requests), args.engines, block_size)?;

    let region = Region::new(ALLOCATOR);
    let subject = (entry.build)()?;
    for (_, op) in &corpus.ops {
        if let Op::Apply(from, event) = op {
            subject.apply(*from, event);
        }
    }
    subject.settle();
    let change = region.change();
    drop(subject);
    // Reallocations count the difference alone, so it belongs to neither of the other two.
    let grown = change.bytes_allocated.saturating_add_signed(change.bytes_reallocated);
    Ok(grown.saturating_sub(change.bytes_deallocated))
}
