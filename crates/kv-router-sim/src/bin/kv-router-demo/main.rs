//! Compares routing policies on a trace: a table or JSON on stdout, progress on stderr, a chart in a file.

mod args;
mod terminal;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, iter};

use clap::Parser;
use kv_router_sim::policy::{BEST_PREFIX, KvAware};
use kv_router_sim::report::{Comparison, PolicyReport, json_line, multiples, svg, table};
use kv_router_sim::scenario::{Scenario, Stage, StageError, StageOptions};
use kv_router_sim::trace::{ReadOptions, Trace};
use kv_router_sim::workload::Workload;

use args::{Args, Play};
use terminal::Terminal;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "kv-router-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let document = match args.scenario {
        Some(Play::All) => play_all(args)?,
        Some(Play::One(scenario)) => svg(&print(args, &staged(args, scenario)?)?)?,
        None => svg(&print(args, &of_trace(args)?)?)?,
    };
    let chart = args.chart();
    write_chart(&chart, &document)?;
    writeln!(io::stderr(), "chart: {}", chart.display())?;
    Ok(())
}

fn staged(args: &Args, scenario: Scenario) -> Result<Stage, StageError> {
    let requests = args.requests.map(|requests| requests as usize);
    scenario.stage(&StageOptions { seed: args.seed, requests, knobs: args.knobs.clone() })
}

/// Plays every scenario, and draws all of them in one chart.
fn play_all(args: &Args) -> Result<String, Box<dyn Error>> {
    let mut comparisons = Vec::new();
    for scenario in Scenario::ALL {
        if !args.json && !comparisons.is_empty() {
            writeln!(io::stdout())?;
        }
        comparisons.push((scenario.name().to_owned(), print(args, &staged(args, scenario)?)?));
    }
    Ok(multiples("Routing policies in seven scenarios", &comparisons)?)
}

/// Plays everything that is wanted, and prints the table.
fn print(args: &Args, stage: &Stage) -> Result<Comparison, Box<dyn Error>> {
    let comparison = play(args, stage)?;
    if !args.json {
        write!(io::stdout(), "{}", table(&comparison))?;
    }
    Ok(comparison)
}

/// Plays everything that is wanted, and prints lines of JSON as they come.
fn play(args: &Args, stage: &Stage) -> Result<Comparison, Box<dyn Error>> {
    let bound = stage.workload.hit_bound();
    let mut printed = Ok(());
    let comparison = stage.run(
        |name| is_wanted(args, name),
        |name| Terminal::new(name, stage.workload.len()),
        |report| {
            if args.json && printed.is_ok() && report.outcome.finished > 0 {
                printed = writeln!(io::stdout(), "{}", json_line(report, &bound));
            }
        },
    )?;
    printed?;
    match comparison.policies.iter().find(|report| report.outcome.finished == 0) {
        Some(PolicyReport { policy, .. }) => {
            Err(format!("{policy}: no request was served; try more --pool-blocks or --engines").into())
        }
        None => Ok(comparison),
    }
}

/// A trace before the fleet that the command line describes.
fn of_trace(args: &Args) -> Result<Stage, Box<dyn Error>> {
    let trace = load(args)?;
    if trace.skipped() > 0 {
        writeln!(io::stderr(), "left out {} broken lines of the trace", trace.skipped())?;
    }
    let fleet = args.fleet();
    let workload = Workload::new(trace, args.block_size)
        .hashed_by(KvAware::hash)
        .at_utilisation(args.utilisation, &fleet);
    Ok(Stage::plain(setting(args, &workload), fleet, workload, args.seed, &args.knobs))
}

fn load(args: &Args) -> Result<Trace, Box<dyn Error>> {
    let options = ReadOptions { max_skipped: args.skip_bad_lines, ..ReadOptions::default() };
    let trace = match &args.trace {
        None => Trace::sample()?,
        Some(path) => {
            let unread = |source| FileError { path: path.clone(), what: "read", source };
            Trace::read_with(File::open(path).map_err(unread)?, options)?
        }
    };
    Ok(match args.requests {
        Some(requests) => trace.head(requests as usize),
        None => trace,
    })
}

fn is_wanted(args: &Args, name: &str) -> bool {
    if args.policies.is_empty() {
        // On a trace the yardstick takes part only when it is named.
        return args.scenario.is_some() || name != BEST_PREFIX.name;
    }
    // Variants of a policy have its name and something more.
    args.policies.iter().any(|wanted| name.split(' ').next() == Some(wanted))
}

fn setting(args: &Args, workload: &Workload) -> String {
    let trace = match &args.trace {
        Some(path) => path.file_name().unwrap_or_default().to_string_lossy(),
        None => "Mooncake conversation sample".into(),
    };
    format!(
        "{trace}, {} requests; {} engines, {} blocks of {} tokens each; utilisation {:.2} without hits, seed {}",
        workload.len(),
        args.engines,
        args.pool_blocks,
        args.block_size.get(),
        args.utilisation.get(),
        args.seed,
    )
}

fn write_chart(path: &Path, document: &str) -> Result<(), FileError> {
    let failed = |source| FileError { path: path.to_owned(), what: "write", source };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, document).map_err(failed)
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A file that could not be read or written.
#[derive(Debug)]
struct FileError {
    path: PathBuf,
    what: &'static str,
    source: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, what, source } = self;
        write!(f, "cannot {what} {}: {source}", path.display())
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
