//! The truth, and what a replica makes of it: the most literal state of caches, and engines at random.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "the time to exact is for people to read")]
#![expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kv_router_nats::{Backoff, Follower, Link, LinkConfig, RankPublisher, RelayConfig};
use kv_router_transport::{
    DumpFingerprint, DumpWriter, EventBatch, FollowSink, ForgetReason, Incarnation, Standing, Watermark,
};
use kv_router_types::{
    DpRank, ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until it is so, or it took too long.
pub(crate) fn until(patience: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

pub(crate) fn rank(worker: u64, rank: u32) -> WorkerRank {
    WorkerRank::new(WorkerId::new(worker), DpRank::new(rank))
}

/// A link that notices and forgives quickly.
pub(crate) fn config(url: &str) -> LinkConfig {
    let mut config = LinkConfig::default();
    config.servers = url.to_owned();
    config.ping_interval = Duration::from_millis(250);
    config.backoff = Backoff { most: Duration::from_millis(250), ..Backoff::default() };
    config
}

pub(crate) fn link(url: &str) -> Link {
    Link::connect(config(url)).unwrap()
}

/// What each rank holds: a copy by name and tier, with what is under it and in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model(BTreeMap<WorkerRank, Copies>);

type Copies = BTreeMap<(Tier, ExternalSequenceHash), (Option<ExternalSequenceHash>, LocalBlockHash)>;

impl Model {
    pub(crate) fn event(&mut self, rank: WorkerRank, event: &KvEvent) {
        let copies = self.0.entry(rank).or_default();
        match event {
            KvEvent::Stored { tier, parent, blocks } => {
                let mut above = *parent;
                for block in blocks {
                    copies.insert((*tier, block.external), (above, block.local));
                    above = Some(block.external);
                }
            }
            KvEvent::Removed { tier, blocks } => {
                for block in blocks {
                    copies.remove(&(*tier, *block));
                }
            }
            KvEvent::Cleared => copies.clear(),
        }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Whether both hold the same; a rank that holds nothing is as good as none.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let held = |model: &'_ Self| -> BTreeMap<WorkerRank, Copies> {
            model.0.iter().filter(|(_, copies)| !copies.is_empty()).map(|(r, c)| (*r, c.clone())).collect()
        };
        held(self) == held(other)
    }

    /// A dump of it, with the watermarks of the ranks that have one.
    pub(crate) fn dump(&self, watermarks: impl Iterator<Item = (WorkerRank, Option<Watermark>)>) -> Vec<u8> {
        let mut writer = DumpWriter::new(Vec::new(), DumpFingerprint::default()).unwrap();
        for (rank, copies) in &self.0 {
            for (&(tier, external), &(parent, local)) in copies {
                let blocks = vec![StoredBlock::new(external, local)];
                writer.event(*rank, &KvEvent::Stored { tier, parent, blocks }).unwrap();
            }
        }
        for (rank, watermark) in watermarks {
            if let Some(watermark) = watermark {
                writer.watermark(rank, watermark).unwrap();
            }
        }
        writer.finish().unwrap()
    }
}

impl FollowSink for Model {
    fn apply(&mut self, batch: EventBatch) {
        for event in &batch.events {
            self.event(batch.from, event);
        }
    }

    fn forget(&mut self, rank: WorkerRank, _reason: ForgetReason) {
        self.0.remove(&rank);
    }

    fn restore(&mut self, rank: WorkerRank, _watermark: Watermark, events: &[KvEvent]) {
        self.0.remove(&rank);
        for event in events {
            self.event(rank, event);
        }
    }

    fn standing(&mut self, _rank: WorkerRank, _standing: Standing) {}
}

/// An engine with a cache that changes at random, published.
pub(crate) struct Engine {
    rank: WorkerRank,
    pub(crate) publisher: RankPublisher,
    pub(crate) truth: Model,
    next: u64,
    random: u64,
}

impl Engine {
    pub(crate) fn start(link: &Link, worker: WorkerRank, life: u64, relay: RelayConfig) -> Self {
        let publisher = RankPublisher::start(link, worker, Incarnation::new(life), relay).unwrap();
        let random = worker.worker.get() * 31 + u64::from(worker.rank.get()) + life * 1_000_003;
        Self { rank: worker, publisher, truth: Model::default(), next: life << 40, random }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Publishes one batch: mostly stores, some removals, rarely a clear.
    pub(crate) fn step(&mut self) {
        let events = match self.draw(100) {
            0 => vec![KvEvent::Cleared],
            1..30 if self.next > 50 => {
                let back = self.next - 1 - self.draw(50);
                let blocks = vec![ExternalSequenceHash::new(back)];
                vec![KvEvent::Removed { tier: Tier::Device, blocks }]
            }
            _ => {
                let count = 1 + self.draw(20);
                let block = |n| {
                    StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n.wrapping_mul(3)))
                };
                let blocks = (self.next..self.next + count).map(block).collect();
                self.next += count;
                vec![KvEvent::Stored { tier: Tier::Device, parent: None, blocks }]
            }
        };
        for event in &events {
            self.truth.event(self.rank, event);
        }
        self.publisher.publish(events).unwrap();
    }

    /// Publishes one store of many blocks.
    pub(crate) fn store(&mut self, count: u64) {
        let block =
            |n| StoredBlock::new(ExternalSequenceHash::new(n), LocalBlockHash::new(n.wrapping_mul(3)));
        let blocks = (self.next..self.next + count).map(block).collect();
        self.next += count;
        let event = KvEvent::Stored { tier: Tier::Device, parent: None, blocks };
        self.truth.event(self.rank, &event);
        self.publisher.publish(vec![event]).unwrap();
    }

    pub(crate) fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }
}

/// All that the engines hold.
pub(crate) fn truth(engines: &[Engine]) -> Model {
    let mut all = Model::default();
    for engine in engines {
        all.0.extend(engine.truth.0.clone());
    }
    all
}

pub(crate) fn poll(follower: &mut Follower, model: &mut Model) {
    while follower.poll(Instant::now(), Duration::from_millis(5), model).unwrap() > 0 {}
}

/// Polls until the replica holds what the engines hold, and says how long that took.
#[track_caller]
pub(crate) fn becomes_exact(what: &str, follower: &mut Follower, model: &mut Model, engines: &[Engine]) {
    let (start, truth) = (Instant::now(), truth(engines));
    let exact = until(PATIENCE, || {
        poll(follower, model);
        model.equals(&truth)
    });
    println!(
        "{what}: exact={exact} after {:?}, {} blocks, {:?}",
        start.elapsed(),
        truth.blocks(),
        follower.counters()
    );
    assert!(exact, "{what}: {} blocks, not {}", model.blocks(), truth.blocks());
}
