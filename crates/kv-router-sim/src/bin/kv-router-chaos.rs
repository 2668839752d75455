//! Engines that fail on real sockets, and routers that must come out right: `cargo xtask chaos`.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use kv_router_sim::wire::chaos::{self, ChaosConfig};
use kv_router_sim::wire::scenario::{self, Scenario, ScenarioConfig};
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
    /// Runs one fault at a time instead, and prints the time to exact of each.
    #[arg(long)]
    scenarios: bool,
    /// Blocks in the caches of all engines together, of scenarios.
    #[arg(long, default_value_t = 32_000)]
    blocks: u32,
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
    if args.scenarios {
        return scenarios(args, &mut stdout);
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

#[expect(clippy::disallowed_methods, reason = "a program on real sockets runs on the real clock")]
fn scenarios(args: &Args, stdout: &mut impl Write) -> Result<ExitCode, Box<dyn Error>> {
    let engines = args.engines.clamp(1, 100);
    let blocks = args.blocks.clamp(1_000, 10_000_000) / engines;
    let config = ScenarioConfig {
        seed: args.seed,
        engines,
        batches: blocks / BLOCKS_A_BATCH,
        blocks: blocks as usize,
        ..ScenarioConfig::default()
    };
    let mut is_well = true;
    for scenario in Scenario::ALL {
        let report = scenario::run(scenario, &config, Instant::now)?;
        writeln!(stdout, "{report}")?;
        is_well &= report.is_well();
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// By which a cache grows with a batch of a mock engine, about: what it stores without what it evicts.
const BLOCKS_A_BATCH: u32 = 5;
