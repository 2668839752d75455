//! How the events of one rank are to be understood.

use kv_router_hash::HashScheme;

use super::MediaTable;

/// What repeated stores of one name mean. It depends on the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Each store is one physical copy more, and each removal one less: vLLM, TensorRT-LLM. Where an engine says
    /// nothing about copies this is also the safe choice against overlapping offload chunks.
    ///
    /// Where requests ask vLLM for full reports (`kv_cache_report_mode`), each report looks like a copy, unless it says
    /// what it is ([`WireEvent::is_reused`](crate::WireEvent::is_reused)), which no release up to 0.33 does: blocks would
    /// stay after the engine gave them up. Choose [`Presence::Logical`] there.
    #[default]
    Copies,
    /// A store says that the block is there and a removal that it is gone, however often it was stored: SGLang.
    Logical,
}

/// How the events of one rank are to be understood.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// How the router hashes prompts: its block size, not the engine's.
    pub scheme: HashScheme,
    /// What repeated stores mean. Default: copies.
    pub presence: Presence,
    /// Which tier a medium is. Default: [`MediaTable::default`].
    pub media: MediaTable,
    /// Names of adapters for engines that send only numbers: vLLM up to 0.13, TensorRT-LLM. Default: none, and
    /// such events are passed over, because under a name of our own no request would find them.
    pub adapters: Vec<(i64, String)>,
    /// Names that are remembered at most, 70 to 100 bytes each; stores beyond it are passed over. Default: 16,777,216.
    pub max_names: usize,
}

impl IngestConfig {
    /// The defaults under a scheme.
    pub fn new(scheme: HashScheme) -> Self {
        Self {
            scheme,
            presence: Presence::default(),
            media: MediaTable::default(),
            adapters: Vec::new(),
            max_names: 1 << 24,
        }
    }
}
