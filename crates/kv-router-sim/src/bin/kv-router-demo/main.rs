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
use kv_router_sim::fleet::replay;
use kv_router_sim::policy::{KvAware, POLICIES, PolicyContext};
use kv_router_sim::report::{Comparison, PolicyReport, json_line, svg, table};
use kv_router_sim::trace::{ReadOptions, Trace};
use kv_router_sim::workload::Workload;

use args::Args;
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
    let trace = load(args)?;
    if trace.skipped() > 0 {
        writeln!(io::stderr(), "left out {} broken lines of the trace", trace.skipped())?;
    }
    let fleet = args.fleet();
    let workload = Workload::new(trace, args.block_size)
        .hashed_by(KvAware::hash)
        .at_utilisation(args.utilisation, &fleet);
    let workers = fleet.workers();
    let context = PolicyContext { workers: &workers, engine: fleet.engine, seed: args.seed };

    let mut comparison =
        Comparison { setting: setting(args, &workload), bound: workload.hit_bound(), policies: Vec::new() };
    for entry in POLICIES.iter().filter(|entry| is_wanted(args, entry.name)) {
        let mut policy = (entry.build)(&context)?;
        let mut terminal = Terminal::new(entry.name, workload.len());
        let outcome = replay(&fleet, &workload, policy.as_mut(), &mut terminal)?;
        drop(terminal);
        if outcome.finished == 0 {
            return Err(format!(
                "{}: no request was served; try more --pool-blocks or --engines",
                entry.name
            )
            .into());
        }
        let report = PolicyReport { policy: entry.name.to_owned(), outcome };
        if args.json {
            writeln!(io::stdout(), "{}", json_line(&report, &comparison.bound))?;
        }
        comparison.policies.push(report);
    }
    if !args.json {
        write!(io::stdout(), "{}", table(&comparison))?;
    }
    write_chart(&args.chart, &svg(&comparison)?)?;
    writeln!(io::stderr(), "chart: {}", args.chart.display())?;
    Ok(())
}

fn load(args: &Args) -> Result<Trace, Box<dyn Error>> {
    let options = ReadOptions { max_skipped: args.skip_bad_lines, ..ReadOptions::default() };
    let Some(path) = &args.trace else { return Ok(Trace::sample()?) };
    let file = File::open(path).map_err(|source| FileError { path: path.clone(), what: "read", source })?;
    Ok(Trace::read_with(file, options)?)
}

fn is_wanted(args: &Args, name: &str) -> bool {
    args.policies.is_empty() || args.policies.iter().any(|wanted| wanted == name)
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
