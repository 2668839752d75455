//! One request on its way through the simulation.

use kv_router_types::{BlockSize, LocalBlockHash, RequestId};

use crate::prompt::{Prompt, TraceBlockSize};
use crate::time::SimTime;

/// One request: what a policy may look at, and what an engine computes.
///
/// The output length is part of it because the engine must know when to stop. A policy that peeks at it
/// cheats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimRequest {
    index: u32,
    arrival: SimTime,
    prompt: Prompt,
    output_tokens: u32,
    block_size: BlockSize,
    /// One a whole prompt block.
    blocks: Vec<LocalBlockHash>,
}

impl SimRequest {
    /// A request that generates `output_tokens` tokens; 0 counts as 1, because the first token ends the
    /// prefill.
    pub fn new(
        index: u32,
        arrival: SimTime,
        prompt: Prompt,
        output_tokens: u32,
        size: TraceBlockSize,
    ) -> Self {
        let blocks = prompt.local_hashes(size);
        Self { index, arrival, prompt, output_tokens: output_tokens.max(1), block_size: size.get(), blocks }
    }

    /// The same request under block hashes of the caller's own, for a router that hashes [`Self::tokens`]
    /// itself. A list of another length than [`Self::blocks`] is cut or left short; engines treat what is
    /// missing as private.
    #[must_use]
    pub fn with_blocks(mut self, mut blocks: Vec<LocalBlockHash>) -> Self {
        blocks.truncate(self.blocks.len());
        self.blocks = blocks;
        self
    }

    /// Position in the workload, from 0. Unique in one replay.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The name that a gateway would give the request.
    #[inline]
    pub fn id(&self) -> RequestId {
        RequestId::new(u128::from(self.index))
    }

    /// When it reaches the router.
    #[inline]
    pub fn arrival(&self) -> SimTime {
        self.arrival
    }

    /// Prompt length in tokens, above 0.
    #[inline]
    pub fn input_tokens(&self) -> u32 {
        self.prompt.token_count()
    }

    /// Tokens to generate, above 0.
    #[inline]
    pub fn output_tokens(&self) -> u32 {
        self.output_tokens
    }

    /// Tokens per block of [`Self::blocks`].
    #[inline]
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Local hashes of the prompt's whole blocks.
    #[inline]
    pub fn blocks(&self) -> &[LocalBlockHash] {
        &self.blocks
    }

    /// The prompt's tokens, derived one by one: see [`Prompt::tokens`].
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        self.prompt.tokens()
    }
}
