//! Events for the index, joined where that changes nothing.

use kv_router_types::{ExternalSequenceHash, KvEvent, StoredBlock, Tier};

/// Where events are appended. Engines announce evictions one block at a time, and some of them stores too.
#[derive(Debug)]
pub(super) struct Output<'a> {
    events: &'a mut Vec<KvEvent>,
    /// Whether the last event may grow by blocks that continue it: it was made here, and all its names were new.
    open: bool,
    /// Events that were there before: never changed.
    first: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(events: &'a mut Vec<KvEvent>) -> Self {
        let first = events.len();
        Self { events, open: false, first }
    }

    pub(super) fn push(&mut self, event: KvEvent) {
        self.open = false;
        self.events.push(event);
    }

    /// A chain of blocks whose names are all new: it can join the chain before it, as no name is in it twice.
    pub(super) fn stored_fresh(
        &mut self,
        tier: Tier,
        parent: Option<ExternalSequenceHash>,
        blocks: impl ExactSizeIterator<Item = StoredBlock>,
    ) {
        if self.open
            && let Some(KvEvent::Stored { tier: last_tier, blocks: before, .. }) = self.last()
            && *last_tier == tier
            && parent.is_some()
            && before.last().map(|block| block.external) == parent
        {
            before.extend(blocks);
            return;
        }
        self.push(KvEvent::Stored { tier, parent, blocks: blocks.collect() });
        self.open = true;
    }

    pub(super) fn removed(&mut self, tier: Tier, name: u64) {
        self.open = false;
        let name = ExternalSequenceHash::new(name);
        match self.last() {
            Some(KvEvent::Removed { tier: last_tier, blocks }) if *last_tier == tier => blocks.push(name),
            _ => self.events.push(KvEvent::Removed { tier, blocks: vec![name] }),
        }
    }

    fn last(&mut self) -> Option<&mut KvEvent> {
        self.events.get_mut(self.first..).and_then(<[KvEvent]>::last_mut)
    }
}
