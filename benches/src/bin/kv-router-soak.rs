//! `cargo xtask soak`: every exact index against the oracle for long, and every index through a long life.

use std::alloc::System;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kv_router_benches::heap;
use kv_router_benches::payloads;
use kv_router_benches::soak::{self, Churn, EXACT, Exact, Heap, Readings};
use kv_router_benches::subject::{Entry, SUBJECTS};
use kv_router_engines::soak::SoakReport;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Long runs of the indexes: random histories, threads against each other, memory over a long life.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask soak")]
struct Args {
    /// Only this index; may be repeated.
    #[arg(long = "index", value_name = "NAME")]
    indexes: Vec<String>,
    /// Random histories for each exact index.
    #[arg(long, default_value_t = 10_000)]
    histories: u32,
    /// Seconds of four writers and four readers for each concurrent index.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Stores and removals for each index.
    #[arg(long, default_value_t = 1_000_000)]
    cycles: u32,
    /// Workers that come and go for each index.
    #[arg(long, default_value_t = 100_000)]
    workers: u32,
    /// Seconds of churn in full caches for each index; memory is read at each tenth and must not grow.
    #[arg(long, default_value_t = 60)]
    churn_seconds: u64,
    /// Damaged payloads of engines for the decoders.
    #[arg(long, default_value_t = 1_000_000)]
    decoders: u64,
    /// Decides histories and events; another one each time is another run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Payloads between two steps of the progress bar.
const DECODER_STEP: u64 = 10_000;

/// Chains of churn between two looks at the clock.
const CHURN_STEP: u32 = 1_000;

/// Readings of memory in a churn.
const READINGS: u32 = 10;

/// Histories between two steps of the progress bar.
const STEP: u32 = 250;

fn main() -> ExitCode {
    match soak(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn soak(args: &Args) -> Result<(), Box<dyn Error>> {
    if let Some(unknown) = args.indexes.iter().find(|name| SUBJECTS.iter().all(|s| s.name != name.as_str())) {
        let names: Vec<&str> = SUBJECTS.iter().map(|entry| entry.name).collect();
        return Err(format!("there is no index {unknown}: use one of {}", names.join(", ")).into());
    }
    decoders(args)?;
    let wanted = |name: &str| args.indexes.is_empty() || args.indexes.iter().any(|index| index == name);
    for exact in EXACT.iter().filter(|exact| wanted(exact.name)) {
        histories(args, exact).map_err(|error| format!("{}, histories: {error}", exact.name))?;
        threads(args, exact).map_err(|error| format!("{}, threads: {error}", exact.name))?;
    }
    for entry in SUBJECTS.iter().filter(|entry| wanted(entry.name)) {
        lives(args, *entry).map_err(|error| format!("{}: {error}", entry.name))?;
    }
    Ok(())
}

/// Damaged payloads against every decoder: whatever goes wrong panics.
fn decoders(args: &Args) -> Result<(), Box<dyn Error>> {
    let corpus = payloads::corpus()?;
    let bar = bar(args.decoders, "decoders");
    let mut total = SoakReport::default();
    while total.payloads < args.decoders {
        let payloads = DECODER_STEP.min(args.decoders - total.payloads);
        let report = kv_router_engines::soak::run(&corpus, payloads, args.seed.wrapping_add(total.payloads));
        total.payloads += report.payloads;
        total.accepted += report.accepted;
        total.lost_events += report.lost_events;
        total.events += report.events;
        bar.inc(payloads);
    }
    bar.finish_and_clear();
    say(&format!(
        "{:<18}{} damaged payloads: {} accepted, {} events lost from them, {} came out",
        "decoders", total.payloads, total.accepted, total.lost_events, total.events
    ))
}

fn histories(args: &Args, exact: &Exact) -> Result<(), Box<dyn Error>> {
    if args.histories == 0 {
        return Ok(());
    }
    let bar = bar(u64::from(args.histories), exact.name);
    let mut done = 0;
    while done < args.histories {
        let cases = STEP.min(args.histories - done);
        (exact.histories)(cases, args.seed.wrapping_mul(1 << 32) + u64::from(done))?;
        done += cases;
        bar.inc(u64::from(cases));
    }
    bar.finish_and_clear();
    say(&format!("{:<18}{done} histories: equal to the oracle", exact.name))
}

fn threads(args: &Args, exact: &Exact) -> Result<(), Box<dyn Error>> {
    let Some(run) = exact.threads.filter(|_| args.seconds > 0) else { return Ok(()) };
    // In parts, so that the end state is compared often and something is to be seen.
    let parts = args.seconds.div_ceil(10);
    let bar = bar(args.seconds, exact.name);
    let (mut events, mut scores, mut contested) = (0, 0, 0);
    for part in 0..parts {
        let time = Duration::from_secs(args.seconds) / parts as u32;
        let report = run(time, args.seed.wrapping_add(part))?;
        (events, scores) = (events + report.events, scores + report.scores);
        contested += report.contested;
        bar.inc(args.seconds / parts);
    }
    bar.finish_and_clear();
    say(&format!(
        "{:<18}{} s of 4 writers and 4 readers: {events} events, {scores} scores, {contested} of them of ranks \
         that changed meanwhile, all possible; equal to the oracle in the end",
        exact.name, args.seconds
    ))
}

fn lives(args: &Args, entry: Entry) -> Result<(), Box<dyn Error>> {
    if args.cycles > 0 {
        let heap = soak::cycles(&*(entry.build)()?, args.cycles, live_bytes).check()?;
        report(entry, heap, &format!("{} cycles", args.cycles))?;
    }
    if args.workers > 0 {
        let heap = soak::short_lived_workers(&*(entry.build)()?, args.workers, live_bytes).check()?;
        report(entry, heap, &format!("{} short-lived workers", args.workers))?;
    }
    if args.churn_seconds > 0 {
        churn(args, entry)?;
    }
    Ok(())
}

/// Churn by the clock.
#[expect(clippy::disallowed_methods, reason = "as long as was asked for is real time")]
fn churn(args: &Args, entry: Entry) -> Result<(), Box<dyn Error>> {
    let subject = (entry.build)()?;
    let mut churn = Churn::new(args.seed);
    let bar = bar(args.churn_seconds, entry.name);
    let start = Instant::now();
    let mut chains = 0;
    let mut readings = Vec::new();
    for tenth in 1..=READINGS {
        let end = Duration::from_secs(args.churn_seconds) * tenth / READINGS;
        while start.elapsed() < end {
            churn.run(&*subject, CHURN_STEP);
            chains += u64::from(CHURN_STEP);
            bar.set_position(start.elapsed().as_secs());
        }
        readings.push(live_bytes());
        bar.suspend(|| {
            let bytes = readings.last().copied().unwrap_or(0);
            say(&format!("{:<18}churn: {bytes} bytes after {} s", entry.name, end.as_secs_f32()))
        })?;
    }
    bar.finish_and_clear();
    Readings(readings).check()?;
    say(&format!(
        "{:<18}{} s of churn, {chains} chains: the last half takes no more memory than the first",
        entry.name, args.churn_seconds
    ))
}

fn report(entry: Entry, heap: Heap, life: &str) -> Result<(), Box<dyn Error>> {
    let Heap { new, early, end } = heap;
    let verdict = if heap.is_back() { "back at its start" } else { "kept for reuse, not growing" };
    say(&format!(
        "{:<18}{life}: {new} bytes when new, {early} empty after a tenth, {end} empty in the end: {verdict}",
        entry.name
    ))
}

fn live_bytes() -> usize {
    heap::live(&ALLOCATOR.stats())
}

fn bar(length: u64, name: &'static str) -> ProgressBar {
    let target =
        if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg:18}{bar:40} {pos}/{len} {eta}");
    let bar = ProgressBar::with_draw_target(Some(length), target).with_message(name);
    style.map(|style| bar.clone().with_style(style)).unwrap_or(bar)
}

fn say(line: &str) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(io::stdout(), "{line}")?)
}
