//! Routers over a NATS server that must come out right: `cargo xtask chaos --nats`.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use kv_router_sim::nats::chaos::{self, NatsChaosConfig};
use kv_router_sim::nats::scenario::Scenario;

/// Mock workers publish over a real NATS server to routers that it feeds. Each fault by itself, with the time that it
/// takes until every router holds what the workers hold; then all of them at random, then quiet, and the same.
#[derive(Debug, Parser)]
struct Args {
    /// How long faults strike at random; 0 leaves that out.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What workers do, and which faults there are.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Workers, with two ranks each.
    #[arg(long, default_value_t = 4)]
    workers: u64,
    /// Routers.
    #[arg(long, default_value_t = 2)]
    routers: u64,
    /// Batches a second and rank, while faults strike at random.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Blocks of the fleet that a fresh replica comes to; 0 leaves the faults by themselves out.
    #[arg(long, default_value_t = 1_000_000)]
    blocks: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            drop(writeln!(io::stderr(), "kv-router-nats-chaos: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a program on real sockets runs on the real clock")]
fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut stdout = io::stdout();
    let folder = Folder(std::env::temp_dir().join(format!("kv-router-nats-chaos-{}", std::process::id())));
    let mut is_exact = true;
    let scenarios = if args.blocks > 0 { Scenario::all(args.blocks) } else { vec![] };
    for (number, scenario) in scenarios.into_iter().enumerate() {
        let end = scenario.play(&folder.0.join(number.to_string()), Instant::now)?;
        writeln!(stdout, "{end}")?;
        is_exact &= end.is_exact();
    }
    if args.seconds > 0 {
        let config = NatsChaosConfig {
            seed: args.seed,
            workers: args.workers.clamp(1, 100),
            routers: args.routers.clamp(1, 16),
            lasts: Duration::from_secs(args.seconds),
            rate: args.rate.clamp(1, 10_000),
            ..NatsChaosConfig::default()
        };
        let report = chaos::run(&config, &folder.0.join("random"), Instant::now)?;
        write!(stdout, "{report}")?;
        is_exact &= report.end.is_exact();
    }
    Ok(if is_exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is taken away in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the system's own place for what may go.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
