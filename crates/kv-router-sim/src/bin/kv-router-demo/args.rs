//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::{PossibleValuesParser, RangedI64ValueParser};

use kv_router_sim::engine::EngineConfig;
use kv_router_sim::fleet::FleetConfig;
use kv_router_sim::policy::POLICIES;
use kv_router_sim::prompt::{TraceBlockSize, TraceBlockSizeError};
use kv_router_sim::workload::{Utilisation, UtilisationError};

/// Compares routing policies by replaying a trace against a simulated fleet of inference engines.
#[derive(Debug, Parser)]
#[command(name = "kv-router-demo")]
pub(crate) struct Args {
    /// Trace to replay, plain or gzip; the bundled sample of the Mooncake conversation trace by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Broken lines of the trace to leave out before giving up.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip_bad_lines: u64,
    /// Engines in the fleet.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = up_to(FleetConfig::MAX_ENGINES))]
    pub(crate) engines: u32,
    /// Tokens per block: 16, 32, 64, 128, 256 or 512.
    #[arg(long, value_name = "B", default_value = "16", value_parser = block_size)]
    pub(crate) block_size: TraceBlockSize,
    /// Policy to run; give it again for more than one. All by default.
    #[arg(long = "policy", value_name = "P", value_parser = policy_name())]
    pub(crate) policies: Vec<String>,
    /// Decides every draw.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How busy the fleet would be without any cache hit; 1 is just keeping up.
    #[arg(long, value_name = "U", default_value = "0.7", value_parser = utilisation)]
    pub(crate) utilisation: Utilisation,
    /// Prompt tokens that an engine computes per second.
    #[arg(long, value_name = "TOKENS", default_value_t = 8_000, value_parser = up_to(u32::MAX))]
    pub(crate) prefill_rate: u32,
    /// Milliseconds that one token for every decoding request takes.
    #[arg(long, value_name = "MS", default_value_t = 25, value_parser = up_to(3_600_000))]
    pub(crate) decode_step_ms: u32,
    /// Requests that an engine runs at one time.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = up_to(u32::MAX))]
    pub(crate) max_running: u32,
    /// Blocks of KV memory in an engine.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = up_to(EngineConfig::MAX_POOL_BLOCKS))]
    pub(crate) pool_blocks: u32,
    /// One line of JSON a policy on stdout, instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to write the chart.
    #[arg(long, value_name = "FILE", default_value = "out/demo.svg")]
    pub(crate) chart: PathBuf,
}

impl Args {
    /// The fleet asked for.
    pub(crate) fn fleet(&self) -> FleetConfig {
        FleetConfig {
            engines: self.engines,
            engine: EngineConfig {
                block_size: self.block_size,
                pool_blocks: self.pool_blocks,
                prefill_tokens_per_second: self.prefill_rate,
                decode_step: Duration::from_millis(u64::from(self.decode_step_ms)),
                max_running: self.max_running,
                ..EngineConfig::default()
            },
            ..FleetConfig::default()
        }
    }
}

/// A whole number from 1 to `max`.
fn up_to(max: u32) -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=i64::from(max))
}

fn policy_name() -> PossibleValuesParser {
    PossibleValuesParser::new(POLICIES.iter().map(|policy| policy.name))
}

fn block_size(text: &str) -> Result<TraceBlockSize, TraceBlockSizeError> {
    TraceBlockSize::new(text.parse().unwrap_or(0))
}

fn utilisation(text: &str) -> Result<Utilisation, UtilisationError> {
    Utilisation::new(text.parse().unwrap_or(f64::NAN))
}
