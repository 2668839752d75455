//! From cache changes to numbered event batches.

use kv_router_transport::{EventBatch, Incarnation};
use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier, WorkerRank};

/// Collects the events of one step, joined where they are of one kind, and numbers the batches without gaps.
#[derive(Debug)]
pub(super) struct Publisher {
    from: WorkerRank,
    incarnation: Incarnation,
    sequence: u64,
    events: Vec<KvEvent>,
    /// Tier and name of the last block of the last event, when it is a store that may be continued.
    open: Option<(Tier, ExternalSequenceHash)>,
}

impl Publisher {
    pub(super) const fn new(from: WorkerRank, incarnation: Incarnation) -> Self {
        Self { from, incarnation, sequence: 0, events: Vec::new(), open: None }
    }

    /// A block entered a tier.
    pub(super) fn stored(&mut self, tier: Tier, parent: Option<ExternalSequenceHash>, block: StoredBlock) {
        let continues = self.open.is_some() && self.open == parent.map(|parent| (tier, parent));
        match self.events.last_mut() {
            Some(KvEvent::Stored { blocks, .. }) if continues => blocks.push(block),
            _ => self.events.push(KvEvent::Stored { tier, parent, blocks: vec![block] }),
        }
        self.open = Some((tier, block.external));
    }

    /// A block left a tier.
    pub(super) fn removed(&mut self, tier: Tier, name: ExternalSequenceHash) {
        self.open = None;
        match self.events.last_mut() {
            Some(KvEvent::Removed { tier: last, blocks }) if *last == tier => blocks.push(name),
            _ => self.events.push(KvEvent::Removed { tier, blocks: vec![name] }),
        }
    }

    /// What happened since the last call, if anything did.
    pub(super) fn take_batch(&mut self) -> Option<EventBatch> {
        if self.events.is_empty() {
            return None;
        }
        self.open = None;
        let sequence = self.sequence;
        self.sequence += 1;
        let events = std::mem::take(&mut self.events);
        Some(EventBatch { from: self.from, incarnation: self.incarnation, sequence, events })
    }
}
