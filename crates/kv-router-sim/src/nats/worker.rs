//! A mock worker: an engine with a few ranks, the relay beside it, and its entry in the registry.

use kv_router::WorkerSpec;
use kv_router_nats::{
    Announcement, Link, RankPublisher, Registry, RegistryConfig, RelayConfig, RequestError,
};
use kv_router_transport::Incarnation;
use kv_router_types::{DpRank, WorkerId, WorkerRank};

use super::cache::Cache;
use super::{NatsRunError, block_size};
use crate::holdings::Holdings;
use crate::random::mix2;

/// What all workers of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerConfig {
    pub(super) seed: u64,
    pub(super) ranks: u32,
    /// Blocks of a rank, at most about.
    pub(super) blocks: usize,
    pub(super) relay: RelayConfig,
    pub(super) registry: RegistryConfig,
}

/// An engine that publishes what its caches do.
pub(super) struct Worker {
    id: WorkerId,
    config: WorkerConfig,
    registry: Registry,
    life: u64,
    ranks: Vec<(RankPublisher, Cache)>,
    announcement: Option<Announcement>,
    /// Whether it is to be there.
    is_up: bool,
}

impl Worker {
    /// One that is down.
    pub(super) fn new(id: u64, link: &Link, config: WorkerConfig) -> Result<Self, NatsRunError> {
        let registry = Registry::new(link, config.registry).map_err(RequestError::from)?;
        let (ranks, announcement) = (Vec::new(), None);
        Ok(Self { id: WorkerId::new(id), config, registry, life: 0, ranks, announcement, is_up: false })
    }

    /// Starts its engine, in a new life with empty caches: as soon as the broker lets it, see
    /// [`settle`](Self::settle).
    pub(super) fn start(&mut self, link: &Link) {
        self.crash();
        self.life += 1;
        self.is_up = true;
        self.settle(link);
    }

    /// Ends without a word.
    pub(super) fn crash(&mut self) {
        self.is_up = false;
        self.announcement = None;
        self.ranks.clear();
    }

    /// Takes leave. Whether anybody hears of it or not: it is gone.
    pub(super) fn leave(&mut self) {
        if let Some(announcement) = self.announcement.take() {
            drop(announcement.leave());
        }
        self.crash();
    }

    /// Sees to it that what is to be there is: relays first, so that whoever hears of the worker can ask them. A broker
    /// that does not answer is asked again next time. `false` while something is missing.
    pub(super) fn settle(&mut self, link: &Link) -> bool {
        if !self.is_up || !link.is_up() {
            return !self.is_up;
        }
        if self.ranks.is_empty() {
            self.ranks = self.rank_ids().into_iter().map_while(|rank| self.begin(link, rank)).collect();
            if self.ranks.len() < self.config.ranks as usize {
                self.ranks.clear();
                return false;
            }
        }
        if self.announcement.is_none() {
            let spec = WorkerSpec::new(block_size())
                .with_ranks(self.config.ranks)
                .with_incarnation(Incarnation::new(self.life));
            // What cannot be written down is a fault of this file, and seen by nobody ever joining.
            self.announcement =
                spec.encode().ok().and_then(|about| self.registry.announce(self.id, about).ok());
        }
        self.announcement.is_some()
    }

    /// The relay and the cache of a rank in this life.
    fn begin(&self, link: &Link, rank: WorkerRank) -> Option<(RankPublisher, Cache)> {
        let seed = mix2(self.config.seed, mix2(self.id.get(), u64::from(rank.rank.get()) ^ (self.life << 8)));
        let life = Incarnation::new(self.life);
        let publisher = RankPublisher::start(link, rank, life, self.config.relay).ok()?;
        Some((publisher, Cache::new(seed, self.life, self.config.blocks)))
    }

    /// Each rank does something.
    pub(super) fn step(&mut self) -> Result<(), NatsRunError> {
        for (publisher, cache) in &mut self.ranks {
            publisher.publish(cache.step())?;
        }
        Ok(())
    }

    /// Each rank stores a chain.
    pub(super) fn store(&mut self, blocks: u64) -> Result<(), NatsRunError> {
        for (publisher, cache) in &mut self.ranks {
            let event = cache.store(blocks);
            publisher.publish(vec![event])?;
        }
        Ok(())
    }

    /// Batches that were never sent, and are there for replays only.
    pub(super) fn unsent(&self) -> u64 {
        self.ranks.iter().map(|(publisher, _)| publisher.counters().unsent).sum()
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(super) fn add_to(&self, holdings: &mut Holdings) {
        for (rank, (_, cache)) in self.rank_ids().into_iter().zip(&self.ranks) {
            cache.add_to(rank, holdings);
        }
    }

    fn rank_ids(&self) -> Vec<WorkerRank> {
        (0..self.config.ranks).map(|rank| WorkerRank::new(self.id, DpRank::new(rank))).collect()
    }
}
