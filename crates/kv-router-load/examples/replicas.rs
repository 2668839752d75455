//! Two routers over one fleet, and a message that is lost: `cargo run -p kv-router-load --example replicas`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::{Duration, Instant};

use kv_router_load::{
    Demand, Hooks, JournalConfig, LoadConfig, LoadTracker, ReplicaId, ReplicaLife, ReplicaSync, SyncConfig,
};
use kv_router_types::{SequenceHash, WorkerId, WorkerRank};

#[expect(clippy::disallowed_methods, reason = "a program reads the clock, the library does not")]
fn clock() -> Instant {
    Instant::now()
}

fn replica(id: u64, worker: WorkerRank) -> Result<(LoadTracker, ReplicaSync), Box<dyn Error>> {
    let life = ReplicaLife { replica: ReplicaId::new(id), life: 1 };
    let hooks = Hooks { journal: Some(JournalConfig::new(life)), ..Hooks::default() };
    let tracker = LoadTracker::with_hooks(LoadConfig::default(), hooks)?;
    tracker.add_rank(worker)?;
    let sync = ReplicaSync::new(tracker.clone(), SyncConfig::default())?;
    Ok((tracker, sync))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (start, worker) = (clock(), WorkerRank::from(WorkerId::new(7)));
    let ((here, _), (there, mut sync)) = (replica(1, worker)?, replica(2, worker)?);
    let prompt = [1, 2, 3].map(SequenceHash::new);
    let demand =
        Demand { request: None, attempt: 0, prefill_tokens: 48, prompt_blocks: &prompt, private_blocks: 1 };
    let deltas = || here.take_deltas(1_000).ok_or("no journal");

    let first = here.book(worker, demand, start)?;
    println!("one booking is told: {:?}", sync.receive(deltas()?, start));
    println!("the other sees {:?}", there.load(worker));

    let second = here.book(worker, demand, start)?;
    drop(deltas()?); // lost on its way
    println!("the next heartbeat shows that something is missing: {:?}", sync.receive(deltas()?, start));
    let later = start + Duration::from_secs(1);
    for wish in sync.wanted(later) {
        println!("so it asks {} for what it lacks", wish.of);
        for part in here.bookings_parts(wish.names).ok_or("no journal")? {
            sync.receive_part(part, later);
        }
    }
    println!("the other sees {:?}", there.load(worker));

    drop((first, second));
    sync.receive(deltas()?, later);
    println!("and in the end {:?}", there.load(worker));
    Ok(())
}
