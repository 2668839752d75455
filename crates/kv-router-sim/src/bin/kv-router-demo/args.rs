//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser, RangedI64ValueParser, TypedValueParser};

use kv_router_sim::engine::EngineConfig;
use kv_router_sim::fleet::FleetConfig;
use kv_router_sim::policy::{BEST_PREFIX, Knobs, POLICIES};
use kv_router_sim::prompt::{TraceBlockSize, TraceBlockSizeError};
use kv_router_sim::scenario::Scenario;
use kv_router_sim::workload::{Utilisation, UtilisationError};

/// Compares routing policies by replaying a trace against a simulated fleet of inference engines.
#[derive(Debug, Parser)]
#[command(name = "kv-router-demo")]
pub(crate) struct Args {
    /// Situation to play instead of a trace, on a fleet of its own.
    #[arg(long, value_name = "NAME", value_parser = scenario(), conflicts_with_all = OF_A_TRACE)]
    pub(crate) scenario: Option<Play>,
    /// Requests to stop after; all of a trace, and the scenario's own number, by default.
    #[arg(long, value_name = "N", value_parser = up_to(1_000_000))]
    pub(crate) requests: Option<u32>,
    /// Settings of the router to try beside those for the first token, such as device_weight=1.5, or beside its defaults,
    /// such as defaults,temperature=0.1; give it again for more.
    #[arg(long = "knobs", value_name = "NAME=VALUE,..")]
    pub(crate) knobs: Vec<Knobs>,
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
    /// Where to write the chart: out/demo.svg by default, out/demo-NAME.svg for a scenario.
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
}

/// What a scenario decides itself.
const OF_A_TRACE: [&str; 9] = [
    "trace",
    "skip_bad_lines",
    "engines",
    "block_size",
    "utilisation",
    "prefill_rate",
    "decode_step_ms",
    "max_running",
    "pool_blocks",
];

impl Args {
    /// Where the chart goes.
    pub(crate) fn chart(&self) -> PathBuf {
        match (&self.chart, self.scenario) {
            (Some(path), _) => path.clone(),
            (None, Some(Play::One(scenario))) => format!("out/demo-{scenario}.svg").into(),
            (None, Some(Play::All)) => "out/demo-all.svg".into(),
            (None, None) => "out/demo.svg".into(),
        }
    }

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
    PossibleValuesParser::new(POLICIES.iter().chain([&BEST_PREFIX]).map(|policy| policy.name))
}

/// What is played instead of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Play {
    One(Scenario),
    All,
}

const ALL: &str = "all";

fn scenario() -> impl TypedValueParser<Value = Play> {
    let one = Scenario::ALL.map(|scenario| PossibleValue::new(scenario.name()).help(scenario.summary()));
    let all = PossibleValue::new(ALL).help("each of them, in one chart");
    PossibleValuesParser::new(one.into_iter().chain([all])).try_map(|name| match name.as_str() {
        ALL => Ok(Play::All),
        name => name.parse().map(Play::One),
    })
}

fn block_size(text: &str) -> Result<TraceBlockSize, TraceBlockSizeError> {
    TraceBlockSize::new(text.parse().unwrap_or(0))
}

fn utilisation(text: &str) -> Result<Utilisation, UtilisationError> {
    Utilisation::new(text.parse().unwrap_or(f64::NAN))
}
