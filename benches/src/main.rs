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
use kv_router_benches::decisions::{Queueing, Setup, measure as measure_decisions};
use kv_router_benches::engines::{self, Effort};
use kv_router_benches::open_loop::{Ladder, Point, Threads, find_knee, run};
use kv_router_benches::serial::{self, Work};
use kv_router_benches::source::Source;
use kv_router_benches::subject::{Entry, SUBJECTS, Subject};
use kv_router_benches::truth::Truth;
use serde_json::json;

/// Measure the indexes: exactness first, then throughput, latency, lag and memory.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
pub struct Args {
    /// A short run: fewer requests, fewer rates. Ends within three minutes.
    #[arg(long)]
    quick: bool,
    /// Only the check, the memory and the work on one thread: no ladder of rates.
    #[arg(long)]
    serial: bool,
    /// Time whole decisions instead of the indexes: 8 to 4,000 ranks, 1 and 2 threads.
    #[arg(long)]
    decisions: bool,
    /// Measure the way of engines' payloads into the index instead: on one thread, and over ZeroMQ.
    #[arg(long)]
    streams: bool,
    /// Only this index; may be repeated.
    #[arg(long = "index", value_name = "NAME")]
    indexes: Vec<String>,
    /// Writer threads, and as many readers.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    source: Source,
    /// Write one line of JSON per index and point.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the charts go.
    #[arg(long, value_name = "FOLDER", default_value = "out")]
    out: PathBuf,
}

/// Requests of a quick run.
const QUICK_REQUESTS: usize = 2_000;

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
    if args.decisions {
        return decisions(args);
    }
    if args.streams {
        let mut json = args.json.as_ref().map(File::create).transpose()?;
        let mut line = |line| json.as_mut().map_or(Ok(()), |file| writeln!(file, "{line}"));
        let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
        return engines::bench(effort, &mut io::stdout(), &mut line);
    }
    let chosen = chosen(&args.indexes)?;
    let mut source = args.source.clone();
    if args.quick && source.requests == 0 {
        source.requests = QUICK_REQUESTS;
    }
    note("recording the corpus")?;
    let corpus = source.record()?;
    note(&format!("asking the oracle: {} lookups", corpus.ops.iter().filter(is_find).count()))?;
    let truth = Truth::of(&corpus);

    fs::create_dir_all(&args.out)?;
    write(&args.out.join("density.svg"), &chart::density(&corpus)?)?;
    let mut json = args.json.as_ref().map(File::create).transpose()?;
    let mut out = io::stdout();
    writeln!(out, "{}: {} operations, {} blocks", corpus.name, corpus.measured().len(), corpus.block_ops())?;
    writeln!(
        out,
        "{:<18}{:>7}{:>8}{:>14}{:>14}{:>14}",
        "index", "wrong", "bytes", "asked, ns", "stored, ns", "removed, ns"
    )?;
    let clock = serial::clock_cost();
    let mut sound = Vec::new();
    for entry in chosen {
        note(&format!("{}: comparing with the oracle", entry.name))?;
        let wrong = truth.wrong_answers(&corpus, &*(entry.build)()?);
        let bytes = bytes_per_block(&source, entry, &truth)?;
        let Work { asked, stored, removed } = serial::run(&corpus, &*warm(entry, &corpus)?);
        let [asked, stored, removed] = [asked, stored, removed].map(|tally| tally.nanos_a_block(clock));
        writeln!(out, "{:<18}{wrong:>7}{bytes:>8.0}{asked:>14.1}{stored:>14.1}{removed:>14.1}", entry.name)?;
        if let Some(file) = &mut json {
            let work = json!({ "asked": asked, "stored": stored, "removed": removed });
            let line = json!({ "index": entry.name, "corpus": corpus.name, "work_ns_per_block": work });
            writeln!(file, "{line}")?;
        }
        sound.push(Sound { entry, wrong, bytes });
    }
    if args.serial {
        return Ok(());
    }
    ladder(args, &corpus, &sound, &mut json)
}

/// An index whose answers were compared with the oracle's.
struct Sound {
    entry: Entry,
    wrong: usize,
    bytes: f64,
}

/// Finds the knee of each index and measures below it.
fn ladder(
    args: &Args,
    corpus: &Corpus,
    subjects: &[Sound],
    json: &mut Option<File>,
) -> Result<(), Box<dyn Error>> {
    let mut ladders = Vec::new();
    let mut out = io::stdout();
    writeln!(
        out,
        "\n{:<18}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "index", "knee M/s", "at", "p50 us", "p99 us", "p99.9 us", "lag ms"
    )?;
    for subject in subjects {
        let entry = subject.entry;
        let measure = |rate| -> io::Result<Point> {
            Ok(run(corpus, &*warm(entry, corpus)?, Threads(args.threads), rate))
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
                "{:<18}{:>12.2}{:>9.0}%{:>10.2}{:>10.2}{:>10.2}{:>10.3}",
                entry.name,
                ladder.knee * 1e-6,
                share * 100.0,
                micros(&point, 0.5),
                micros(&point, 0.99),
                micros(&point, 0.999),
                point.lag.as_secs_f64() * 1e3,
            )?;
            log(json, args, corpus, subject, &point)?;
        }
        for point in &ladder.points {
            log(json, args, corpus, subject, point)?;
        }
        ladders.push((entry.name.to_owned(), ladder));
    }
    write(&args.out.join("offered-achieved.svg"), &chart::ladders(&corpus.name, &ladders)?)?;
    writeln!(out, "\n{}", footer(&ladders))?;
    note(&format!("charts: {}", args.out.display()))
}

fn decisions(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut json = args.json.as_ref().map(File::create).transpose()?;
    let mut out = io::stdout();
    writeln!(
        out,
        "{:>6}{:>8}{:>8}{:>8}{:>12}{:>10}{:>10}",
        "ranks", "held", "queue", "threads", "per second", "p50 us", "p99 us"
    )?;
    for setup in decision_setups(args) {
        let Setup { ranks, held_percent, queue, threads, .. } = setup;
        let figures = measure_decisions(setup)?;
        let [p50, p99] = [figures.p50, figures.p99].map(|time| time.as_secs_f64() * 1e6);
        let queue = if queue == Queueing::On { "on" } else { "off" };
        writeln!(
            out,
            "{ranks:>6}{held_percent:>7}%{queue:>8}{threads:>8}{:>12.0}{p50:>10.2}{p99:>10.2}",
            figures.per_second
        )?;
        if let Some(file) = &mut json {
            let line = json!({
                "ranks": ranks,
                "held_percent": held_percent,
                "queue": queue,
                "threads": threads,
                "decisions_per_second": figures.per_second.round(),
                "p50_us": p50,
                "p99_us": p99,
            });
            writeln!(file, "{line}")?;
        }
    }
    Ok(())
}

/// Every cell of the table of decisions.
fn decision_setups(args: &Args) -> Vec<Setup> {
    let decisions = if args.quick { 5_000 } else { 50_000 };
    let mut setups = Vec::new();
    for ranks in [8, 64, 512, 4_000] {
        for held_percent in [1, 10, 100] {
            for queue in [Queueing::Off, Queueing::On] {
                let cell = |threads| Setup { ranks, held_percent, queue, threads, decisions };
                setups.extend([1, 2].map(cell));
            }
        }
    }
    setups
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
fn bytes_per_block(source: &Source, entry: Entry, truth: &Truth) -> Result<f64, Box<dyn Error>> {
    let program = std::env::current_exe()?.with_file_name("kv-router-memory");
    let mut command = Command::new(&program);
    command.args(["--index", entry.name]);
    source.pass_on(&mut command);
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
    subject: &Sound,
    point: &Point,
) -> Result<(), Box<dyn Error>> {
    let Some(file) = file else { return Ok(()) };
    let nanos = |share| point.lookup(share).as_nanos() as u64;
    let line = json!({
        "index": subject.entry.name,
        "corpus": corpus.name,
        "threads": args.threads,
        "offered_block_ops": point.offered.round(),
        "achieved_block_ops": point.achieved.round(),
        "lookup_ns": { "p50": nanos(0.5), "p99": nanos(0.99), "p999": nanos(0.999) },
        "lag_ms": point.lag.as_secs_f64() * 1e3,
        "bytes_per_held_block": subject.bytes,
        "exact": subject.wrong == 0,
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
