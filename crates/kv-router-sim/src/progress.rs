//! What an engine reports about a request: the signals a gateway sees in the response stream.

use std::sync::Arc;

use kv_router_types::WorkerRank;

use crate::request::SimRequest;
use crate::time::SimTime;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It left the waiting queue and holds blocks. Comes again after a preemption.
    Admitted {
        /// Leading blocks found in the prefix cache and not computed again.
        hit_blocks: u32,
    },
    /// Its prompt is computed, and with it the next token exists: the first one, unless it was preempted
    /// before.
    PrefillCompleted,
    /// Generation began another block.
    OutputGrown {
        /// Blocks now held beyond those that the prompt touches.
        output_blocks: u32,
    },
    /// Its blocks were taken for an older request: it waits at the head of the queue to be computed again.
    Preempted,
    /// All tokens are generated and all blocks are released.
    Finished,
    /// The engine did not take it: it could never fit. Nothing was held.
    Refused,
    /// Its engine died, and that was noticed: it is about to be sent again.
    Lost,
}

/// One report about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// Which request.
    pub request: Arc<SimRequest>,
    /// Where it runs.
    pub worker: WorkerRank,
    /// When.
    pub at: SimTime,
    /// What happened.
    pub progress: Progress,
}
