//! What the three indexes of dynamo-kv-router have in common: their events, queries and scores.

use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash as TheirLocalHash, OverlapScores, RouterEvent,
};
use kv_router_types::LocalBlockHash;

use crate::corpus::{Change, Held};

/// An owned event, as their event stream hands one to an indexer. A replaced worker is a cleared one to the indexes that
/// take nothing but events.
pub(super) fn event(change: Change<'_>) -> RouterEvent {
    let (worker, data) = match change {
        Change::Store { worker, parent, blocks } => {
            let block = |block: &kv_router_types::StoredBlock| KvCacheStoredBlockData {
                block_hash: ExternalSequenceBlockHash(block.external.get()),
                tokens_hash: TheirLocalHash(block.local.get()),
                mm_extra_info: None,
            };
            let data = KvCacheStoreData {
                parent_hash: parent.map(|parent| ExternalSequenceBlockHash(parent.get())),
                start_position: None,
                blocks: blocks.iter().map(block).collect(),
            };
            (worker, KvCacheEventData::Stored(data))
        }
        Change::Remove { worker, names } => {
            let block_hashes = names.iter().map(|name| ExternalSequenceBlockHash(name.get())).collect();
            (worker, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
        }
        Change::Clear { worker } | Change::Replace { worker } => (worker, KvCacheEventData::Cleared),
    };
    RouterEvent::new(u64::from(worker), KvCacheEvent { event_id: 0, data, dp_rank: 0 })
}

pub(super) fn prepare(locals: &[LocalBlockHash], query: &mut Vec<TheirLocalHash>) {
    query.clear();
    query.extend(locals.iter().map(|local| TheirLocalHash(local.get())));
}

pub(super) fn read(answer: &OverlapScores, out: &mut Vec<Held>) {
    let held = answer.scores.iter().map(|(worker, &blocks)| {
        let worker = u32::try_from(worker.worker_id).unwrap_or(u32::MAX);
        Held { worker, blocks }
    });
    out.extend(held);
}
