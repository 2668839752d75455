//! One rank that is followed.

use kv_router_transport::{EventBatch, Standing, StreamSequencer};

/// The sequence machine of a rank, and what makes it this one.
pub(super) struct Lane {
    pub(super) sequencer: StreamSequencer<EventBatch>,
    /// Which of all lanes it is. A rank that is dismissed and admitted again has another one, whose requests are
    /// numbered from the start: an answer that is late by one lane must not be taken for its own.
    pub(super) birth: u64,
    /// What the sink was last told.
    pub(super) told: Standing,
}

impl Lane {
    pub(super) fn new(sequencer: StreamSequencer<EventBatch>, birth: u64) -> Self {
        Self { sequencer, birth, told: Standing::Cold }
    }

    /// The standing, if the sink does not know it yet.
    pub(super) fn news(&mut self) -> Option<Standing> {
        let standing = self.sequencer.standing();
        (std::mem::replace(&mut self.told, standing) != standing).then_some(standing)
    }
}
