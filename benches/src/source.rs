//! Where a corpus comes from, as flags that the benchmark and its helper process share.

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};
use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::trace::{ReadOptions, Trace};

use crate::corpus::Corpus;

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A trace replayed over simulated engines.
    Trace,
    /// Long documents that most engines hold, and private tails: deep lookups of shared prefixes.
    SharedPrompts,
}

/// The traffic to measure on.
#[derive(Clone, Debug, Args)]
pub struct Source {
    /// What the traffic is.
    #[arg(long, value_enum, default_value = "trace")]
    pub corpus: Kind,
    /// A trace to record from, JSON lines, gzip or plain. Default: the bundled conversation sample.
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// Engines in the fleet.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub engines: u32,
    /// Tokens per block of the trace: 16 to 512, a power of two.
    #[arg(long, default_value_t = 16)]
    pub block_size: u32,
    /// Requests to replay; 0 for all of the trace.
    #[arg(long, default_value_t = 0)]
    pub requests: usize,
}

/// Requests of the shared-prompts corpus where none are asked for.
const SHARED_PROMPT_REQUESTS: usize = 4_000;

impl Source {
    /// Records or makes the corpus.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read or the fleet cannot be built.
    pub fn record(&self) -> Result<Corpus, Box<dyn Error>> {
        match self.corpus {
            Kind::Trace => self.replay(),
            Kind::SharedPrompts => {
                let requests = if self.requests == 0 { SHARED_PROMPT_REQUESTS } else { self.requests };
                Ok(Corpus::shared_prompts(self.engines, requests))
            }
        }
    }

    fn replay(&self) -> Result<Corpus, Box<dyn Error>> {
        let (source, trace) = match &self.trace {
            Some(path) => {
                let file =
                    File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name, Trace::read_with(file, ReadOptions::default())?)
            }
            None => ("conversation sample".to_owned(), Trace::sample()?),
        };
        let requests = if self.requests == 0 { usize::MAX } else { self.requests };
        let name = format!("{source}, {} engines, blocks of {}", self.engines, self.block_size);
        Corpus::record(name, trace.head(requests), self.engines, TraceBlockSize::new(self.block_size)?)
    }

    /// Hands the same choice on to another process.
    pub fn pass_on(&self, command: &mut Command) {
        let kind = self.corpus.to_possible_value();
        command.arg("--corpus").arg(kind.map_or_else(String::new, |kind| kind.get_name().to_owned()));
        command.args(["--engines", &self.engines.to_string()]);
        command.args(["--block-size", &self.block_size.to_string()]);
        command.args(["--requests", &self.requests.to_string()]);
        if let Some(trace) = &self.trace {
            command.arg("--trace").arg(trace);
        }
    }
}
