//! What ranks hold, in the most literal form: to compare a router with the engines that it listens to.

use std::collections::BTreeMap;

use kv_router_hash::next_sequence_hash;
use kv_router_index::DumpEvents;
use kv_router_types::{ExternalSequenceHash, KvEvent, SequenceHash, TierSet, WorkerRank};

/// What ranks hold: each name with what leads to the block, and where its copies are.
pub type Holdings = BTreeMap<(WorkerRank, ExternalSequenceHash), (SequenceHash, TierSet)>;

/// What an index holds, told by its dump.
pub fn holdings(index: &dyn DumpEvents) -> Holdings {
    holdings_of(|emit| index.dump(emit))
}

/// What the events hold that `dump` emits: those of an index, or of a router.
pub fn holdings_of(dump: impl FnOnce(&mut dyn FnMut(WorkerRank, KvEvent))) -> Holdings {
    let mut paths: BTreeMap<(WorkerRank, ExternalSequenceHash), SequenceHash> = BTreeMap::new();
    let mut held = Holdings::new();
    dump(&mut |rank, event| match event {
        KvEvent::Stored { tier, parent, blocks } => {
            let mut path = parent.and_then(|parent| paths.get(&(rank, parent)).copied());
            for block in blocks {
                let here = next_sequence_hash(path, block.local);
                paths.insert((rank, block.external), here);
                let (_, tiers) = held.entry((rank, block.external)).or_insert((here, TierSet::default()));
                *tiers = tiers.with(tier);
                path = Some(here);
            }
        }
        KvEvent::Removed { tier, blocks } => {
            for name in blocks {
                if let Some((_, tiers)) = held.get_mut(&(rank, name)) {
                    *tiers = tiers.without(tier);
                    if tiers.is_empty() {
                        held.remove(&(rank, name));
                    }
                }
            }
        }
        KvEvent::Cleared => held.retain(|&(of, _), _| of != rank),
    });
    held
}
