//! Checks every index against the oracle on recorded traffic, then finds out how much each can take.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use kv_router_benches::chart;
use kv_router_benches::corpus::{Corpus, Op};
use kv_router_benches::open_loop::{Ladder, Point, Threads, find_knee, run};
use kv_router_benches::subject::{Entry, SUBJECTS, Subject};
use kv_router_benches::truth::Truth;
use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::trace::{ReadOptions, Trace};
use serde_json::json;

/// Measure the indexes: exactness first, then throughput, latency, lag and memory.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
pub struct Args {
    /// A short run: fewer requests, fewer rates. Ends within three minutes.
    #[arg(long)]
    quick: bool,
    /// Only this index; may be repeated.
    #[arg(long = "index", value_name = "NAME")]
    indexes: Vec<String>,
    /// Writer threads, and as many readers.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// A trace to record from, JSON lines, gzip or plain. Default: the bundled conversation sample.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Engines in the fleet.
    #[arg(long, default_value_t = 64)]
    engines: u32,
    /// Tokens per block: 16 to 512, a power of two.
    #[arg(long, default_value_t = 16)]
    block_size: u32,
    /// Requests to replay; 0 for all of the trace.
    #[arg(long, default_value_t = 0)]
    requests: usize,
    /// Write one line of JSON per index and point.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the charts go.
    #[arg(long, value_name = "FOLDER", default_value = "out")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<(), Box<dyn Error>> {
    if args.threads == 0 || args.threads > 64 {
        return Err("--threads is out of range: use 1 to 64".into());
    }
    let chosen = chosen(&args.indexes)?;
    let corpus = record(args)?;
    note(&format!("asking the oracle: {} lookups", corpus.ops.iter().filter(is_find).count()))?;
    let truth = Truth::of(&corpus);

    fs::create_dir_all(&args.out)?;
    write(&args.out.join("density.svg"), &chart::density(&corpus)?)?;
    let mut json = args.json.as_ref().map(File::create).transpose()?;
    let mut ladders = Vec::new();
    let mut out = io::stdout();
    writeln!(out, "{}: {} operations, {} blocks", corpus.name, corpus.measured().len(), corpus.block_ops())?;
    writeln!(
        out,
        "{:<18}{:>7}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}",
        "index", "wrong", "knee M/s", "at", "p50 us", "p99 us", "p99.9 us", "lag ms", "bytes"
    )?;
    for entry in chosen {
        note(&format!("{}: comparing with the oracle", entry.name))?;
        let wrong = truth.wrong_answers(&corpus, &*(entry.build)()?);
        let bytes = bytes_per_block(args, entry, &truth)?;
        let measure = |rate| -> io::Result<Point> {
            Ok(run(&corpus, &*warm(entry, &corpus)?, Threads(args.threads), rate))
        };
        let start = if args.quick { 1e6 } else { 0.25e6 };
        let ladder = find_knee(start, if args.quick { 1 } else { 3 }, |rate| {
            let point = measure(rate)?;
            note(&format!("{}: {:.2} of {:.2} M/s", entry.name, point.achieved * 1e-6, rate * 1e-6))?;
            Ok::<_, Box<dyn Error>>(point)
        })?;
        for share in [0.5, 0.9] {
            let point = measure(ladder.knee * share)?;
            writeln!(
                out,
                "{:<18}{wrong:>7}{:>12.2}{:>9.0}%{:>10.2}{:>10.2}{:>10.2}{:>10.3}{bytes:>8.0}",
                entry.name,
                ladder.knee * 1e-6,
                share * 100.0,
                micros(&point, 0.5),
                micros(&point, 0.99),
                micros(&point, 0.999),
                point.lag.as_secs_f64() * 1e3,
            )?;
            log(&mut json, args, &corpus, entry, &point, wrong, bytes)?;
        }
        for point in &ladder.points {
            log(&mut json, args, &corpus, entry, point, wrong, bytes)?;
        }
        ladders.push((entry.name.to_owned(), ladder));
    }
    write(&args.out.join("offered-achieved.svg"), &chart::ladders(&corpus.name, &ladders)?)?;
    writeln!(out, "\n{}", footer(&ladders))?;
    note(&format!("charts: {}", args.out.display()))
}

fn chosen(names: &[String]) -> Result<Vec<Entry>, Box<dyn Error>> {
    let known: BTreeMap<&str, Entry> = SUBJECTS.iter().map(|entry| (entry.name, *entry)).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains_key(name.as_str())) {
        let names: Vec<&str> = SUBJECTS.iter().map(|entry| entry.name).collect();
        return Err(format!("there is no index {unknown}: use one of {}", names.join(", ")).into());
    }
    let wanted = |entry: &&Entry| names.is_empty() || names.iter().any(|name| name == entry.name);
    Ok(SUBJECTS.iter().filter(wanted).copied().collect())
}

fn record(args: &Args) -> Result<Corpus, Box<dyn Error>> {
    let (source, trace) = match &args.trace {
        Some(path) => {
            let file =
                File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let stem = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (stem, Trace::read_with(file, ReadOptions::default())?)
        }
        None => ("conversation sample".to_owned(), Trace::sample()?),
    };
    let requests = match (args.requests, args.quick) {
        (0, true) => 2_000,
        (0, false) => usize::MAX,
        (requests, _) => requests,
    };
    note("recording the corpus")?;
    let name = format!("{source}, {} engines, blocks of {}", args.engines, args.block_size);
    Corpus::record(name, trace.head(requests), args.engines, TraceBlockSize::new(args.block_size)?)
}

/// A subject that has done the warm-up of the corpus.
fn warm(entry: Entry, corpus: &Corpus) -> io::Result<Box<dyn Subject>> {
    let subject = (entry.build)()?;
    for (_, op) in &corpus.ops[..corpus.warm_up] {
        if let Op::Apply(from, event) = op {
            subject.apply(*from, event);
        }
    }
    subject.settle();
    Ok(subject)
}

/// Bytes on the heap for each copy held at the end of the corpus, measured in a process of its own, because counting
/// them slows everything down.
fn bytes_per_block(args: &Args, entry: Entry, truth: &Truth) -> Result<f64, Box<dyn Error>> {
    let program = std::env::current_exe()?.with_file_name("kv-router-memory");
    let mut command = Command::new(&program);
    command.args(["--index", entry.name, "--engines", &args.engines.to_string()]);
    command.args(["--block-size", &args.block_size.to_string()]);
    let requests = if args.requests == 0 && args.quick { 2_000 } else { args.requests };
    command.args(["--requests", &requests.to_string()]);
    if let Some(trace) = &args.trace {
        command.arg("--trace").arg(trace);
    }
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let bytes: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(bytes / truth.held_blocks.max(1) as f64)
}

fn log(
    file: &mut Option<File>,
    args: &Args,
    corpus: &Corpus,
    entry: Entry,
    point: &Point,
    wrong: usize,
    bytes: f64,
) -> Result<(), Box<dyn Error>> {
    let Some(file) = file else { return Ok(()) };
    let nanos = |share| point.lookup(share).as_nanos() as u64;
    let line = json!({
        "index": entry.name,
        "corpus": corpus.name,
        "threads": args.threads,
        "offered_block_ops": point.offered.round(),
        "achieved_block_ops": point.achieved.round(),
        "lookup_ns": { "p50": nanos(0.5), "p99": nanos(0.99), "p999": nanos(0.999) },
        "lag_ms": point.lag.as_secs_f64() * 1e3,
        "bytes_per_held_block": bytes,
        "exact": wrong == 0,
    });
    writeln!(file, "{line}")?;
    Ok(())
}

fn footer(ladders: &[(String, Ladder)]) -> String {
    let best = ladders.iter().max_by(|a, b| a.1.knee.total_cmp(&b.1.knee));
    let Some((best, top)) = best else { return "nothing was measured".to_owned() };
    let ratios = ladders.iter().map(|(name, ladder)| format!("{name} {:.2}", ladder.knee / top.knee));
    format!("knees relative to {best}: {}", ratios.collect::<Vec<_>>().join(", "))
}

fn is_find(op: &&(kv_router_sim::time::SimTime, Op)) -> bool {
    matches!(op.1, Op::Find(_))
}

fn micros(point: &Point, share: f64) -> f64 {
    point.lookup(share).as_secs_f64() * 1e6
}

fn write(path: &Path, document: &str) -> Result<(), Box<dyn Error>> {
    fs::write(path, document).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn note(message: &str) -> Result<(), Box<dyn Error>> {
    writeln!(io::stderr(), "{message}")?;
    Ok(())
}
