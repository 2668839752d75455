//! The life of one block, in the words that all crates share: `cargo run -p kv-router-types --example words`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use kv_router_types::{
    BlockSize, BlockSizeError, DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier,
    WorkerId, WorkerRank,
};

fn main() -> Result<(), BlockSizeError> {
    let size = BlockSize::new(16)?;
    println!("a prompt of 100 tokens has {} whole blocks of {size}", size.blocks_in(100));

    let rank = WorkerRank::new(WorkerId::new(7), DpRank::new(1));
    let block = StoredBlock::new(ExternalSequenceHash::new(0xA1), LocalBlockHash::new(0x11));
    let events = [
        KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block] },
        KvEvent::Stored { tier: Tier::Host, parent: None, blocks: vec![block] },
        KvEvent::Removed { tier: Tier::Device, blocks: vec![block.external] },
        KvEvent::Cleared,
    ];
    for event in &events {
        println!("{rank}: {event:?}");
    }

    println!("refused: {}", BlockSizeError { tokens: 70_000 });
    Ok(())
}
