//! Prints the bytes that each index has on the heap after a corpus, one line an index. The benchmark runs it in a process
//! of its own, because counting slows everything down.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use kv_router_peers::corpus::{Kind, Scale, build};
use kv_router_peers::subjects::ROSTER;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes on the heap of every index after a corpus.
#[derive(Debug, Parser)]
struct Args {
    /// The corpus.
    #[arg(long)]
    corpus: String,
    /// Workers of the fleet.
    #[arg(long)]
    workers: u32,
    /// The small one.
    #[arg(long)]
    quick: bool,
    /// A folder of full traces.
    #[arg(long)]
    traces: Option<PathBuf>,
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "memory: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<(), Box<dyn Error>> {
    let kind = Kind::named(&args.corpus).ok_or("there is no such corpus")?;
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let corpus = build(kind, args.workers, scale, args.traces.as_deref())?.ok_or("it needs --traces")?;
    let corpus = Arc::new(corpus);
    let mut out = io::stdout();
    for entry in ROSTER {
        writeln!(out, "{}", (entry.grown)(&corpus, live_bytes) as f64 / corpus.held().max(1) as f64)?;
    }
    Ok(())
}

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    // What a reallocation adds or gives back is in these two; `bytes_reallocated` says it once more.
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}
