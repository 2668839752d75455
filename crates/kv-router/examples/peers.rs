//! Two routers over one fleet, with a network of one's own between them: `cargo run -p kv-router --example peers`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;

use kv_router::{
    BlockSize, JournalConfig, PeerLimits, PeerMessage, ReplicaId, ReplicaLife, RouteRequest, Router,
    RouterConfig, WorkerId, WorkerRank, WorkerSpec,
};

fn router(replica: u64) -> Result<Router, Box<dyn Error>> {
    let block_size = BlockSize::new(16)?;
    let mut config = RouterConfig::new(block_size);
    // A restart is a new life with a larger number, for example the time of its start.
    config.journal = Some(JournalConfig::new(ReplicaLife { replica: ReplicaId::new(replica), life: 1 }));
    let router = Router::builder(config).seed(replica).build()?;
    for id in 0..2 {
        router.join(WorkerId::new(id), WorkerSpec::new(block_size))?;
    }
    Ok(router)
}

/// What a gateway does on a timer: everything that `from` has to say goes to `to`, here as bytes through the air.
fn carry(from: &Router, to: &Router) -> Result<(), Box<dyn Error>> {
    let (limits, mut bytes) = (PeerLimits::default(), Vec::new());
    for envelope in from.poll_peers() {
        envelope.message.encode(&limits, &mut bytes)?;
        let outcome = to.receive_peer(PeerMessage::decode(&bytes, &limits)?);
        println!("  {} bytes: {outcome:?}", bytes.len());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = (router(1)?, router(2)?);
    let tokens: Vec<u32> = (0..64).collect();
    let decision = here.route(&RouteRequest::from_tokens(&tokens))?;
    println!("one router sends a request to {}", decision.worker());
    carry(&here, &there)?;
    let load = |id| there.load(WorkerRank::from(WorkerId::new(id)));
    println!("the other sees {:?} and {:?}", load(0), load(1));
    let next = there.route(&RouteRequest::from_tokens(&tokens))?;
    println!("and sends the next one to {}", next.worker());
    drop(decision);
    carry(&here, &there)?;
    println!("in the end it sees {:?} and {:?}", load(0), load(1));
    Ok(())
}
