//! Three deployment groups, and how few of them a search asks: `cargo run -p kv-router-approx --example groups`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router_approx::cuckoo::{CuckooFeeder, FeederLimits, SummaryEpoch};
use kv_router_approx::hierarchy::{GroupId, GroupedOverlaps, HierarchicalIndex, HierarchyLimits};
use kv_router_index::{FindOptions, RadixTree};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut fleet = HierarchicalIndex::new(HierarchyLimits::default());
    for group in 0..3 {
        let summary = CuckooFeeder::new(SummaryEpoch::new(1), FeederLimits::default());
        fleet.add(GroupId::new(group), RadixTree::new(), summary)?;
    }

    // Every group has one worker that shares the system prompt; the second one has seen more of the conversation.
    for (group, blocks) in [(0, 8), (1, 40), (2, 8)] {
        let rank = WorkerRank::from(WorkerId::new(100 + u64::from(group)));
        let block = |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n));
        let event =
            KvEvent::Stored { tier: Tier::Device, parent: None, blocks: (0..blocks).map(block).collect() };
        fleet.apply(GroupId::new(group), rank, &event)?;
    }

    let request: Vec<LocalBlockHash> = (0..64).map(LocalBlockHash::new).collect();
    let mut answer = GroupedOverlaps::new();
    fleet.find_best_into(&request, FindOptions::new(), &mut answer);
    for visit in answer.visited() {
        println!(
            "asked group {}: at most {} blocks, in fact {}",
            visit.bound.group, visit.bound.blocks_at_most, visit.best_blocks
        );
    }
    for bound in answer.skipped() {
        println!("skipped group {}: at most {} blocks", bound.group, bound.blocks_at_most);
    }
    if let Some(best) = answer.overlaps().best() {
        println!("best: {} with {} blocks, {:?}", best.worker(), best.blocks(), answer.proof());
    }
    Ok(())
}
