//! A publisher beside an engine, a reader in a router, and what a lost delta costs:
//! `cargo run -p kv-router-approx --example summaries`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router_approx::cuckoo::{
    CuckooFeeder, CuckooIndex, CuckooLimits, FeederLimits, SummaryDelta, SummaryEpoch,
};
use kv_router_index::{ApplyEvents, PrefixIndex};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

fn main() -> Result<(), Box<dyn Error>> {
    let rank = WorkerRank::from(WorkerId::new(1));
    let store = |blocks: std::ops::Range<u64>| KvEvent::Stored {
        tier: Tier::Device,
        parent: blocks.start.checked_sub(1).map(ExternalSequenceHash::new),
        blocks: blocks
            .map(|n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n)))
            .collect(),
    };
    let request: Vec<LocalBlockHash> = (0..3_000).map(LocalBlockHash::new).collect();

    let mut feeder = CuckooFeeder::new(SummaryEpoch::new(1), FeederLimits::default());
    let mut index = CuckooIndex::new(CuckooLimits::default());

    feeder.apply(rank, &store(0..1_000))?;
    let snapshot = feeder.publisher().snapshot();
    let position = index.install(rank, &snapshot)?;
    println!("snapshot: {} bytes, {position}, {} blocks", snapshot.len(), index.find(&request).blocks(rank));

    feeder.apply(rank, &store(1_000..1_200))?;
    let lost = feeder.publisher().delta_since(position, 1_000)?;
    feeder.apply(rank, &store(1_200..1_500))?;
    let next = feeder.publisher().delta_since(lost.to(), 1_000)?;
    match index.follow(rank, &next) {
        Ok(_) => println!("nothing was lost"),
        Err(error) => println!("refused: {}", error.source().map_or(error.to_string(), ToString::to_string)),
    }

    // The log still has what was lost.
    let Some(position) = index.position(rank) else { return Ok(()) };
    let bytes = feeder.publisher().delta_since(position, 1_000)?.to_bytes();
    let applied = index.follow(rank, &SummaryDelta::from_bytes(&bytes)?)?;
    println!("delta: {} bytes, {applied} changes, {} blocks", bytes.len(), index.find(&request).blocks(rank));
    Ok(())
}
