//! Every corpus by its name.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::trace::Trace;

use super::{Corpus, churn, fanout, short, trace};

/// The traces that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Conversations: prompts that grow turn by turn. The repository has a sample.
    Conversation,
    /// Synthetic long contexts with much in common. Only in a folder of traces.
    Synthetic,
}

/// How the requests of a trace are spread over the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// To the worker with the least to compute and to hold.
    Prefix,
    /// To anybody.
    Random,
}

/// What a corpus is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A trace on engines.
    Trace {
        /// Which one.
        source: Source,
        /// Tokens of a block, 16 to 512.
        block_tokens: u32,
        /// Who gets which request.
        routing: Routing,
    },
    /// A long prompt that all hold, private tails behind it.
    Fanout,
    /// Short prompts, mostly new.
    Short,
    /// Full caches, holes, clears, replacements.
    Churn,
}

impl Kind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 11] = {
        const fn trace(source: Source, block_tokens: u32, routing: Routing) -> Kind {
            Kind::Trace { source, block_tokens, routing }
        }
        use Routing::{Prefix, Random};
        use Source::{Conversation, Synthetic};
        [
            trace(Conversation, 16, Prefix),
            trace(Conversation, 16, Random),
            trace(Conversation, 512, Prefix),
            trace(Conversation, 512, Random),
            trace(Synthetic, 16, Prefix),
            trace(Synthetic, 16, Random),
            trace(Synthetic, 512, Prefix),
            trace(Synthetic, 512, Random),
            Self::Fanout,
            Self::Short,
            Self::Churn,
        ]
    };

    /// The corpus of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name)
    }

    /// The trace that it needs.
    pub fn source(self) -> Option<Source> {
        match self {
            Self::Trace { source, .. } => Some(source),
            Self::Fanout | Self::Short | Self::Churn => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace { source, block_tokens, routing } => {
                let source = match source {
                    Source::Conversation => "conv",
                    Source::Synthetic => "synth",
                };
                let routing = match routing {
                    Routing::Prefix => "",
                    Routing::Random => "-random",
                };
                write!(f, "{source}-b{block_tokens}{routing}")
            }
            Self::Fanout => f.write_str("fanout"),
            Self::Short => f.write_str("short"),
            Self::Churn => f.write_str("churn"),
        }
    }
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Enough for tails to be stable.
    Full,
    /// Enough to see the picture.
    Quick,
}

impl Scale {
    const fn of(self, full: usize, quick: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// Makes a corpus. `traces` is the folder of full traces; without it conversations come from the bundled sample and
/// synthetic traces are `None`.
///
/// # Errors
///
/// When a trace cannot be read, or the stream is broken, which would be a fault of this program.
pub fn build(
    kind: Kind,
    workers: u32,
    scale: Scale,
    traces: Option<&Path>,
) -> Result<Option<Corpus>, Box<dyn Error>> {
    let corpus = match kind {
        Kind::Trace { source, block_tokens, routing } => {
            let Some(requests) = read(source, traces)? else { return Ok(None) };
            let requests = requests.head(scale.of(usize::MAX, 3_000));
            trace::record(&requests, TraceBlockSize::new(block_tokens)?, routing, workers)?
        }
        Kind::Fanout => fanout::record(workers, scale.of(8_000, 2_000))?,
        Kind::Short => short::record(workers, scale.of(400_000, 200_000))?,
        Kind::Churn => churn::record(workers, scale.of(12_000_000, 2_000_000))?,
    };
    Ok(Some(corpus))
}

fn read(source: Source, traces: Option<&Path>) -> Result<Option<Trace>, Box<dyn Error>> {
    let name = match source {
        Source::Conversation => "mooncake_conversation.jsonl",
        Source::Synthetic => "mooncake_synthetic.jsonl",
    };
    let Some(folder) = traces else {
        return Ok(match source {
            Source::Conversation => Some(Trace::sample()?),
            Source::Synthetic => None,
        });
    };
    let packed: PathBuf = folder.join(format!("{name}.gz"));
    let path = if packed.exists() { packed } else { folder.join(name) };
    let file = File::open(&path).map_err(|error| {
        format!("{}: {error}: --traces wants a folder with {name}, plain or .gz", path.display())
    })?;
    Ok(Some(Trace::read(file)?))
}
