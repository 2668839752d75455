//! Runs our indexes beside the published ones and says where we win and lose.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use kv_router_peers::chart;
use kv_router_peers::clock::Clock;
use kv_router_peers::corpus::{Corpus, Kind, Scale, build};
use kv_router_peers::relay::relay;
use kv_router_peers::report::{self, ConcurrentRatios, ConcurrentRow, Ratios, RelayRow, Row};
use kv_router_peers::subjects::{PagedIds, PagedKeyed, ROSTER, Subject};
use mimalloc::MiMalloc;

/// One allocator for all, and a good one: none of the indexes is to be measured by its malloc.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Ours that have ratios of their own, beside the first.
const OTHERS: [&str; 2] = [PagedKeyed::NAME, PagedIds::NAME];

/// Our indexes beside the published ones: answers checked, runs interleaved, ratios reported.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench --peers")]
struct Args {
    /// Only this corpus; may be repeated. Without it all of them.
    #[arg(long, value_name = "CORPUS")]
    only: Vec<String>,
    /// Only this fleet size; may be repeated. Without it 8, 64 and 256; with --quick 64.
    #[arg(long, value_name = "N")]
    workers: Vec<u32>,
    /// Runs of every index, one after the other within each; medians are reported. Default 3, with --quick 1.
    #[arg(long, value_name = "N")]
    repetitions: Option<usize>,
    /// Small corpora, 64 workers, one repetition: the picture, not the figures.
    #[arg(long)]
    quick: bool,
    /// A folder with mooncake_conversation.jsonl and mooncake_synthetic.jsonl, plain or .gz. Without it the bundled
    /// sample of conversations, and no synthetic traces.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Write one line of JSON for each corpus, fleet size and index, then one for the ratios.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the ratios as SVG.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
}

impl Args {
    fn scale(&self) -> Scale {
        if self.quick { Scale::Quick } else { Scale::Full }
    }

    fn repetitions(&self) -> usize {
        self.repetitions.unwrap_or(if self.quick { 1 } else { 3 })
    }

    fn sizes(&self) -> &[u32] {
        match (self.workers.is_empty(), self.quick) {
            (false, _) => &self.workers,
            (true, true) => &[64],
            (true, false) => &[8, 64, 256],
        }
    }

    fn kinds(&self) -> Result<Vec<Kind>, Box<dyn Error>> {
        if self.only.is_empty() {
            return Ok(Kind::ALL.to_vec());
        }
        let named = |name: &String| {
            Kind::named(name).ok_or_else(|| {
                let names: Vec<String> = Kind::ALL.iter().map(Kind::to_string).collect();
                format!("there is no corpus {name}: use one of {}", names.join(", ")).into()
            })
        };
        self.only.iter().map(named).collect()
    }
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<(), Box<dyn Error>> {
    if args.repetitions() == 0 || args.sizes().iter().any(|&workers| !(1..=1_024).contains(&workers)) {
        return Err("out of range: --repetitions from 1, --workers from 1 to 1024".into());
    }
    let kinds = args.kinds()?;
    let mut json = args.json.as_ref().map(File::create).transpose()?;
    let mut out = io::stdout();
    let clock = Clock::calibrated();
    writeln!(out, "reading the clock costs {} ns, taken off every measurement", clock.cost_ns())?;
    if args.traces.is_none() {
        writeln!(out, "without --traces: the bundled sample of 6,000 conversations, no synthetic traces")?;
    }
    let progress =
        progress((kinds.len() * args.sizes().len() * (ROSTER.len() * args.repetitions() * 2 + 2)) as u64)?;
    let mut results = Vec::new();
    for &kind in &kinds {
        for &workers in args.sizes() {
            progress.set_message(format!("{kind}, {workers} workers: recording"));
            let Some(corpus) = build(kind, workers, args.scale(), args.traces.as_deref())? else {
                progress.inc((ROSTER.len() * args.repetitions() * 2 + 2) as u64);
                continue;
            };
            progress.inc(1);
            let corpus = Arc::new(corpus);
            let run = Run { args, kind, workers, corpus: &corpus, clock, progress: &progress };
            let rows = run.alone()?;
            let relays = run.relays();
            let beside = run.beside()?;
            let name = kind.to_string();
            progress.suspend(|| {
                write!(
                    out,
                    "{name}, {workers} workers\n{}{}{}",
                    report::table(&rows),
                    report::relay_table(&relays),
                    report::concurrent_table(&beside)
                )
            })?;
            let ratios = (Ratios::of(&rows), ConcurrentRatios::of(&beside));
            if let Some(json) = &mut json {
                for row in &rows {
                    writeln!(json, "{}", report::line(&name, workers, row))?;
                }
                let others = OTHERS.iter().filter_map(|index| Ratios::of_index(index, &rows));
                for ratios in ratios.0.iter().cloned().chain(others) {
                    writeln!(json, "{}", report::ratio_line(&name, workers, &ratios))?;
                }
                writeln!(json, "{}", report::relay_line(&name, workers, &relays))?;
                for row in &beside {
                    writeln!(json, "{}", report::concurrent_line(&name, workers, row))?;
                }
                let others = OTHERS.iter().filter_map(|index| ConcurrentRatios::of_index(index, &beside));
                for ratios in ratios.1.iter().cloned().chain(others) {
                    writeln!(json, "{}", report::concurrent_ratio_line(&name, workers, &ratios))?;
                }
            }
            if let (Some(alone), beside) = ratios {
                results.push((name, workers, alone, beside));
            }
        }
    }
    progress.finish_and_clear();
    write!(out, "\n{}", report::summary(&results))?;
    if let Some(path) = &args.chart {
        fs::write(path, chart::ratios(&results)?)?;
    }
    Ok(())
}

fn progress(steps: u64) -> Result<ProgressBar, Box<dyn Error>> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")?;
    Ok(ProgressBar::new(steps).with_style(style))
}

/// One corpus at one fleet size.
struct Run<'a> {
    args: &'a Args,
    kind: Kind,
    workers: u32,
    corpus: &'a Arc<Corpus>,
    clock: Clock,
    progress: &'a ProgressBar,
}

impl Run<'_> {
    /// Every index in turn, as often as there are repetitions: what the machine does meanwhile hits all of them.
    fn alone(&self) -> Result<Vec<Row>, Box<dyn Error>> {
        let mut runs = ROSTER.map(|_| Vec::new());
        for _ in 0..self.args.repetitions() {
            for (entry, runs) in ROSTER.iter().zip(&mut runs) {
                self.note(entry.name);
                runs.push((entry.replay)(self.corpus, self.clock));
                self.progress.inc(1);
            }
        }
        self.note("bytes");
        let bytes = self.bytes()?;
        self.progress.inc(1);
        let rows = ROSTER.iter().zip(&runs).zip(bytes);
        Ok(rows.map(|((entry, runs), bytes)| Row::of(entry.name, entry.owner, runs, bytes)).collect())
    }

    /// What puts numbers for names, beside each engine.
    fn relays(&self) -> RelayRow {
        let runs: Vec<_> = (0..self.args.repetitions()).map(|_| relay(self.corpus, self.clock)).collect();
        RelayRow::of("paged-relay", &runs)
    }

    /// The same with a writer and a reader.
    fn beside(&self) -> Result<Vec<ConcurrentRow>, Box<dyn Error>> {
        let mut runs = ROSTER.map(|_| Vec::new());
        for _ in 0..self.args.repetitions() {
            for (entry, runs) in ROSTER.iter().zip(&mut runs) {
                if let Some(duel) = entry.duel {
                    self.note(&format!("{}, writer and reader", entry.name));
                    runs.push(duel(self.corpus, self.clock)?);
                }
                self.progress.inc(1);
            }
        }
        let rows = ROSTER.iter().zip(&runs).filter(|(_, runs)| !runs.is_empty());
        Ok(rows.map(|(entry, runs)| ConcurrentRow::of(entry.name, entry.owner, runs)).collect())
    }

    /// Bytes for each held block, by index, from the program with the counting allocator.
    fn bytes(&self) -> Result<Vec<f64>, Box<dyn Error>> {
        let program = std::env::current_exe()?.with_file_name("kv-router-peers-memory");
        let mut command = Command::new(&program);
        command.args(["--corpus", &self.kind.to_string(), "--workers", &self.workers.to_string()]);
        if self.args.quick {
            command.arg("--quick");
        }
        if let Some(traces) = &self.args.traces {
            command.arg("--traces").arg(traces);
        }
        let output =
            command.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let lines = String::from_utf8(output.stdout)?;
        lines.lines().map(|line| Ok(line.trim().parse()?)).collect()
    }

    fn note(&self, what: &str) {
        self.progress.set_message(format!("{}, {} workers: {what}", self.kind, self.workers));
    }
}
