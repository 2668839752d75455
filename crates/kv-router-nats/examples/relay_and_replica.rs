//! An engine's relay, and a router's replica that comes late, over the server named on the command line:
//! `nats-server & cargo run -p kv-router-nats --example relay_and_replica nats://127.0.0.1:4222`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]
#![expect(clippy::disallowed_methods, reason = "a program reads the clock")]

use std::collections::BTreeSet;
use std::error::Error;
use std::time::{Duration, Instant};

use kv_router_nats::{
    Follower, FollowerConfig, Link, LinkConfig, RankPublisher, RelayConfig, SnapshotConfig, SnapshotStore,
};
use kv_router_transport::{EventBatch, FollowSink, ForgetReason, Incarnation, Standing, Watermark};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

/// The names of the blocks on one rank.
#[derive(Default)]
struct Blocks(BTreeSet<u64>);

impl FollowSink for Blocks {
    fn apply(&mut self, batch: EventBatch) {
        for event in batch.events {
            match event {
                KvEvent::Stored { blocks, .. } => self.0.extend(blocks.iter().map(|b| b.external.get())),
                KvEvent::Removed { blocks, .. } => self.0.retain(|&name| !removes(&blocks, name)),
                KvEvent::Cleared => self.0.clear(),
            }
        }
    }

    fn forget(&mut self, rank: WorkerRank, reason: ForgetReason) {
        println!("{rank:?} is forgotten: {reason:?}");
        self.0.clear();
    }

    fn restore(&mut self, _rank: WorkerRank, _watermark: Watermark, _events: &[KvEvent]) {}

    fn standing(&mut self, rank: WorkerRank, standing: Standing) {
        println!("{rank:?} is {standing:?}");
    }
}

fn removes(blocks: &[ExternalSequenceHash], name: u64) -> bool {
    blocks.iter().any(|block| block.get() == name)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = LinkConfig::default();
    if let Some(servers) = std::env::args().nth(1) {
        config.servers = servers;
    }
    let link = Link::connect(config)?;
    let rank = WorkerRank::from(WorkerId::new(7));
    // Lives of one engine have to grow: with the time of its start they do.
    let life = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let publisher = RankPublisher::start(&link, rank, Incarnation::new(life), RelayConfig::default())?;
    for n in 0..1000 {
        let block = StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n * 31));
        let parent = n.checked_sub(1).map(ExternalSequenceHash::new);
        publisher.publish(vec![KvEvent::Stored { tier: Tier::Device, parent, blocks: vec![block] }])?;
    }
    publisher.flush(Duration::from_secs(5))?;

    let store = SnapshotStore::new(&link, SnapshotConfig::default())?;
    let (mut follower, start) = (Follower::start(&link, store, FollowerConfig::default())?, Instant::now());
    let mut blocks = Blocks::default();
    follower.warm(start, &mut blocks)?;
    while blocks.0.len() < 1000 && start.elapsed() < Duration::from_secs(10) {
        follower.poll(Instant::now(), Duration::from_millis(20), &mut blocks)?;
    }
    println!("{} blocks after {:?}, {:?}", blocks.0.len(), start.elapsed(), follower.counters());
    println!("{rank:?} is {:?}", follower.standing(rank));
    link.close(Duration::from_secs(1));
    Ok(())
}
