//! Four engines write, the router looks up meanwhile: `cargo run -p kv-router-index --example writer_pool`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::Instant;

use kv_router_index::{ConcurrentRadixTree, FindOptions, Overlaps, PoolConfig, PrefixIndex, WriterPool};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

fn main() -> Result<(), Box<dyn Error>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a program may read the clock; the pool asks it for the time"
    )]
    let clock = || Instant::now();
    let pool = WriterPool::new(ConcurrentRadixTree::new(), &PoolConfig::default(), clock)?;
    let prompt: Vec<_> = (0..1000).map(LocalBlockHash::new).collect();

    std::thread::scope(|scope| {
        for worker in 1..=4 {
            let (pool, prompt) = (&pool, &prompt);
            scope.spawn(move || {
                let from = WorkerRank::from(WorkerId::new(worker));
                // The engine's own names, 50 blocks an event; each engine caches another part of the prompt.
                let name = |at: usize| ExternalSequenceHash::new(worker * 1_000_000 + at as u64);
                for start in (0..worker as usize * 200).step_by(50) {
                    let blocks = start..start + 50;
                    let event = KvEvent::Stored {
                        tier: Tier::Device,
                        parent: start.checked_sub(1).map(name),
                        blocks: blocks.map(|at| StoredBlock::new(name(at), prompt[at])).collect(),
                    };
                    if let Err(refused) = pool.enqueue(from, event) {
                        println!("{refused}");
                    }
                }
            });
        }
        let mut overlaps = Overlaps::new();
        for _ in 0..3 {
            pool.index().find_into(&prompt, FindOptions::new(), &mut overlaps);
            println!("while they write: {:?}", overlaps.iter().map(|o| o.blocks()).collect::<Vec<_>>());
        }
    });

    pool.remove_worker(WorkerId::new(4))?;
    let (index, stats) = pool.shutdown();
    for overlap in index.find(&prompt).iter() {
        println!("{}: {} blocks", overlap.worker(), overlap.blocks());
    }
    let total = stats.total();
    println!(
        "{} events, median lag {:?}, longest {:?}",
        total.events,
        total.lag.quantile(0.5),
        total.lag.max()
    );
    Ok(())
}
