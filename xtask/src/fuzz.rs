//! `cargo xtask fuzz`: inputs that break a decoder, looked for with libFuzzer.
//!
//! The targets are in `fuzz/src/targets`. They are built apart, with the instrumentation that tells libFuzzer which
//! code an input reached; no nightly compiler is needed for it. A corpus is kept between runs below `target/fuzz`.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::error::Error;
use crate::flags::{Fuzz, FuzzTask};
use crate::prepare;
use crate::shell::{Shell, now, seconds};
use report::{Known, Report, Status, Verdict};

/// Where targets are built: other flags than the ordinary ones would rebuild everything each time.
const BUILT: &str = "target/fuzz";
/// A folder a target, for inputs that reach something new.
const CORPORA: &str = "target/fuzz/corpus";
/// Inputs that broke a target.
const CRASHES: &str = "target/fuzz/crashes";
/// What libFuzzer says.
const LOGS: &str = "target/fuzz/logs";
/// Where the targets are listed.
const LIST: &str = "fuzz/src/targets/mod.rs";

/// A counter for each edge of the control flow, and a call at each comparison. The counters are found by section, so
/// nothing must be merged between units of code.
const FLAGS: &str = "--cfg kv_router_fuzz -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The longest input that is made. Limits in the targets are small enough for it.
const MAX_BYTES: u32 = 4_096;
/// An input that takes longer hangs.
const HANGS_AFTER: u32 = 20;
/// Memory of the process, corpus included. What an input may ask for is counted by the targets themselves.
const MEMORY_MIB: u32 = 2_048;
/// Time between two lines of one target.
const PROGRESS: Duration = Duration::from_secs(30);

impl Fuzz {
    /// Runs each target that was named, or all, two at a time. Fails when one of them was broken.
    pub(crate) fn run(&self, shell: &Shell) -> Result<(), Error> {
        let known = Known::read(&shell.root().join(LIST))?;
        if self.task == FuzzTask::List {
            print!("{known}");
            return Ok(());
        }
        let chosen = known.chosen(&self.targets)?;
        let program = build(shell)?;
        let next = AtomicUsize::new(0);
        let (reports, finished) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(chosen.len()) {
                let reports = reports.clone();
                let (next, chosen, program) = (&next, &chosen, &program);
                scope.spawn(move || {
                    while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // Whoever reads them waits until all are there.
                        let _ = reports.send(run(shell, program, target, self.seconds));
                    }
                });
            }
        });
        drop(reports);
        conclude(finished.into_iter().collect::<Result<_, _>>()?)
    }
}

fn conclude(mut reports: Vec<Report>) -> Result<(), Error> {
    reports.sort_by(|left, right| left.target.cmp(&right.target));
    println!("{}", Report::HEAD);
    reports.iter().for_each(|report| println!("{report}"));
    match reports.iter().filter(|report| report.verdict != Verdict::Holds).count() {
        0 => Ok(()),
        count => Err(Error::Findings { command: "fuzz", count }),
    }
}

/// Builds all targets into one program, and says where it is.
fn build(shell: &Shell) -> Result<PathBuf, Error> {
    prepare::compiler(shell)?;
    let version = shell.cargo().args(["-vV"]).read()?;
    let version = String::from_utf8_lossy(&version).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let folder = shell.root().join(BUILT);
    // With a target, the flags do not reach build scripts and macros, which run without libFuzzer.
    shell
        .cargo()
        .args(["build", "--profile", "fuzz", "--package", "kv-router-fuzz", "--target", host, "--target-dir"])
        .args([&folder])
        .env("RUSTFLAGS", FLAGS)
        .run()?;
    Ok(folder.join(host).join("fuzz").join("kv-router-fuzz"))
}

fn run(shell: &Shell, program: &Path, target: &str, time: u32) -> Result<Report, Error> {
    let at = |folder: &str| shell.root().join(folder);
    let (corpus, crashes, logs) = (at(CORPORA).join(target), at(CRASHES), at(LOGS));
    for folder in [&corpus, &crashes, &logs] {
        fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.clone(), source })?;
    }
    let mut status = Status::default();
    let mut crash = None;
    let (started, mut shown) = (now(), now());
    let see = |line: &str| {
        status.add(line);
        crash = report::crash(line).or(crash.take());
        if shown.elapsed() >= PROGRESS {
            shown = now();
            println!("fuzz: {target}: {status} after {}", seconds(started.elapsed()));
        }
    };
    let result = shell
        .program_at(program)
        .args([&corpus])
        .args([format!("-max_total_time={time}"), format!("-max_len={MAX_BYTES}")])
        .args([format!("-timeout={HANGS_AFTER}"), format!("-rss_limit_mb={MEMORY_MIB}")])
        .args([format!("-artifact_prefix={}/{target}-", crashes.display())])
        .env("KV_ROUTER_FUZZ_TARGET", target)
        .env("KV_ROUTER_FUZZ_SEEDS", &corpus.to_string_lossy())
        .run_logging(&logs.join(format!("{target}.log")), see);
    let verdict = match result {
        Ok(()) => Verdict::Holds,
        Err(Error::Failed { .. }) => Verdict::Broken { input: crash.unwrap_or_default() },
        Err(error) => return Err(error),
    };
    let report = Report { target: target.to_owned(), status, verdict };
    if let Verdict::Broken { input } = &report.verdict {
        println!("fuzz: {target} is broken: {}/{target}.log says how; see it again with", logs.display());
        println!("  cargo run -p kv-router-fuzz -- {target} {input}");
    }
    Ok(report)
}
