//! A request inside an engine, waiting or running.

use std::sync::Arc;

use kv_router_types::LocalBlockHash;

use super::chain::{ChainKey, private_block};
use super::ladder::Pull;
use super::pool::BlockId;
use crate::request::SimRequest;

/// A request that holds no blocks.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Arc<SimRequest>,
    /// Tokens generated before it was preempted.
    pub(super) generated: u32,
}

impl Waiting {
    /// Tokens to compute before the next one can be generated.
    pub(super) fn target(&self) -> u64 {
        u64::from(self.request.input_tokens()) + u64::from(self.generated)
    }
}

/// A request that holds blocks.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) request: Arc<SimRequest>,
    /// Tokens generated so far.
    pub(super) generated: u32,
    /// Tokens to compute before the next one can be generated, as of admission.
    pub(super) target: u64,
    /// Tokens whose keys and values are in `blocks`.
    pub(super) computed: u64,
    /// Tokens that the step in flight adds.
    pub(super) pending: u32,
    /// In order; the first `sealed` of them are cached.
    pub(super) blocks: Vec<BlockId>,
    pub(super) sealed: usize,
    /// Content of the sealed blocks.
    pub(super) chain: ChainKey,
    /// Blocks on their way up from lower tiers; nothing is computed until they are there.
    pub(super) pull: Option<Pull>,
}

impl Running {
    #[inline]
    pub(super) fn is_prefilling(&self) -> bool {
        self.computed < self.target
    }

    /// Whether the next step can compute some of its prompt.
    #[inline]
    pub(super) fn can_prefill(&self) -> bool {
        self.is_prefilling() && self.pull.is_none()
    }

    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.generated >= self.request.output_tokens()
    }
}

/// What is in a request's block at `position`: prompt, or something that only this request has.
#[inline]
pub(super) fn content(request: &SimRequest, position: usize) -> LocalBlockHash {
    match request.blocks().get(position) {
        Some(&local) => local,
        None => private_block(request.index(), position as u32),
    }
}
