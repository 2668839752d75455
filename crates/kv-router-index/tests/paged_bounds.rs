//! What is left when ranks go: of the holders of a page, and of the slots.

use std::sync::atomic::{AtomicBool, Ordering};

use kv_router_index::paged::{PagedConfig, PagedIndex};
use kv_router_index::{ApplyEvents, PrefixIndex};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

fn rank(number: u64) -> WorkerRank {
    WorkerId::new(number).into()
}

fn store(blocks: std::ops::Range<u64>) -> KvEvent {
    let parent = (blocks.start > 1).then(|| ExternalSequenceHash::new(blocks.start - 1));
    let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
    KvEvent::Stored { tier: Tier::Device, parent, blocks: blocks.map(block).collect() }
}

/// The rank that came last stays: what the others left before it must not be gone over by every lookup.
#[test]
fn holders_of_long_ago_take_no_memory() {
    for ranks in [40, 400, 3000] {
        let (index, alone) = (PagedIndex::new(), PagedIndex::new());
        let mut writer = &index;
        for worker in 0..ranks {
            // A hole, so that no two share a word.
            writer.apply(rank(worker), &store(1..11)).unwrap();
            let blocks = vec![ExternalSequenceHash::new(2)];
            writer.apply(rank(worker), &KvEvent::Removed { tier: Tier::Device, blocks }).unwrap();
        }
        for worker in 0..ranks - 1 {
            writer.apply(rank(worker), &KvEvent::Cleared).unwrap();
            while index.reclaim(1000) > 0 {}
        }
        (&alone).apply(rank(0), &store(1..11)).unwrap();
        assert_eq!(index.memory().lines_used, alone.memory().lines_used);
        assert_eq!(index.find(&[LocalBlockHash::new(1)]).blocks(rank(ranks - 1)), 1);
        assert_eq!(index.audit(), vec![]);
    }
}

#[test]
fn a_store_finds_the_slot_of_a_rank_that_is_being_taken_apart() {
    let mut config = PagedConfig::default();
    config.max_ranks = 1;
    let index = PagedIndex::with_config(config).unwrap();
    let stop = AtomicBool::new(false);
    let mut refused = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                index.reclaim(1000);
            }
        });
        let mut writer = &index;
        for round in 0..2000u64 {
            for first in 0..100 {
                let block = StoredBlock::new(ExternalSequenceHash::new(first), LocalBlockHash::new(first));
                let event = KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block] };
                refused += u32::from(writer.apply(rank(round), &event).is_err());
            }
            writer.apply(rank(round), &KvEvent::Cleared).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(refused, 0);
}
