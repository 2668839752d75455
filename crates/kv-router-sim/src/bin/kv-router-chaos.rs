//! Engines that fail on real sockets, and routers that must come out right: `cargo xtask chaos`.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use kv_router_sim::wire::chaos::{self, ChaosConfig};
use kv_router_sim::wire::throughput::{self, ThroughputConfig};

/// Mock engines publish the wire formats of real ones over ZeroMQ, with faults; then it is quiet, and every router
/// must hold what the engines hold.
#[derive(Debug, Parser)]
struct Args {
    /// How long faults strike.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What engines do, and which faults there are.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ranks.
    #[arg(long, default_value_t = 8)]
    engines: u32,
    /// Routers.
    #[arg(long, default_value_t = 2)]
    routers: u32,
    /// Batches a second and rank.
    #[arg(long, default_value_t = 400)]
    rate: u32,
    /// Measures instead how many blocks a second come through without faults.
    #[arg(long)]
    throughput: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "kv-router-chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a program on real sockets runs on the real clock")]
fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut stdout = io::stdout();
    if args.throughput {
        writeln!(stdout, "{}", throughput::measure(&ThroughputConfig::default(), Instant::now)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = ChaosConfig {
        seed: args.seed,
        engines: args.engines.clamp(1, 100),
        routers: args.routers.clamp(1, 16),
        lasts: Duration::from_secs(args.seconds),
        rate: args.rate.clamp(1, 100_000),
        ..ChaosConfig::default()
    };
    let report = chaos::run(&config, Instant::now)?;
    write!(stdout, "{report}")?;
    Ok(if report.is_exact() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
