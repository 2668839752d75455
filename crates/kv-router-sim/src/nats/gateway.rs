//! A gateway: a router that the broker feeds, with requests that come and go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_router::{
    Decision, JournalConfig, PeerLimits, ReplicaId, ReplicaLife, RouteRequest, Router, RouterConfig,
    RouterReplica, StreamFreshness,
};
use kv_router_nats::{Link, Replica, ReplicaConfig, ReplicaLinkCounters};

use super::{NatsRunError, block_size};
use crate::holdings::{Holdings, holdings_of};
use crate::random::SeededRandom;

/// Requests that a gateway has under way at a time.
const REQUESTS: usize = 16;

/// One router, and all that feeds it.
pub(super) struct Gateway {
    replica: Replica,
    sink: RouterReplica,
    /// Requests under way: dropping one releases its load.
    requests: Vec<Decision>,
    random: SeededRandom,
}

/// What there has to be in a router.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) holdings: Holdings,
    pub(super) ranks: usize,
}

impl Gateway {
    /// One in this life, its number among the gateways in `config`.
    pub(super) fn start(
        link: &Link,
        mut config: ReplicaConfig,
        life: u64,
        now: Instant,
    ) -> Result<Self, NatsRunError> {
        let replica = ReplicaId::new(config.replica);
        let mut settings = RouterConfig::new(block_size());
        settings.journal = Some(JournalConfig::new(ReplicaLife { replica, life }));
        let router = Router::builder(settings).seed(config.replica).build()?;
        let limits = PeerLimits { max_bytes: config.gossip.most_bytes, ..PeerLimits::default() };
        let sink = RouterReplica::new(Arc::new(router), limits);
        config.follower.fingerprint = sink.fingerprint();
        let random = SeededRandom::new(config.replica ^ life << 32);
        let replica = Replica::start(link, config, now)?;
        Ok(Self { replica, sink, requests: Vec::new(), random })
    }

    /// Does what there is to do.
    pub(super) fn poll(&mut self, now: fn() -> Instant) -> Result<(), NatsRunError> {
        for _ in 0..64 {
            if self.replica.poll(now(), Duration::from_millis(5), &mut self.sink)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Places a request, and ends the oldest. Whether there was a place.
    pub(super) fn serve(&mut self) -> bool {
        if self.requests.len() >= REQUESTS {
            drop(self.requests.swap_remove(0));
        }
        let first = self.random.below(50) as u32;
        let tokens: Vec<u32> = (0..256).map(|token| token ^ first << 16).collect();
        // While nobody has joined there is nowhere to go.
        let decision = self.sink.router().route(&RouteRequest::from_tokens(&tokens));
        let is_placed = decision.is_ok();
        self.requests.extend(decision);
        is_placed
    }

    /// Ends all requests.
    pub(super) fn finish(&mut self) {
        self.requests.clear();
    }

    /// Whether the router holds the truth, says so, and knows of no load.
    pub(super) fn is_exact(&self, truth: &Truth) -> bool {
        self.looks_exact(truth) && self.holdings() == truth.holdings
    }

    /// The same without looking at every block.
    pub(super) fn looks_exact(&self, truth: &Truth) -> bool {
        let router = self.sink.router();
        let stats = router.stats();
        let streams = router.streams();
        stats.ranks == truth.ranks
            && stats.index.names == truth.holdings.len()
            && streams.iter().all(|stream| stream.freshness == StreamFreshness::Fresh && !stream.suspect)
            && streams.iter().all(|stream| router.load(stream.worker).is_some_and(|load| load.requests == 0))
    }

    pub(super) fn holdings(&self) -> Holdings {
        holdings_of(|emit| self.sink.router().dump(emit))
    }

    pub(super) fn counters(&self) -> ReplicaLinkCounters {
        self.replica.counters()
    }

    /// What is not as it should be, for whoever reads that it is not.
    pub(super) fn differences(&self, truth: &Truth) -> String {
        let (router, held) = (self.sink.router(), self.holdings());
        let missing = truth.holdings.iter().filter(|(name, what)| held.get(name) != Some(what)).count();
        let extra = held.keys().filter(|name| !truth.holdings.contains_key(name)).count();
        let streams = router.streams();
        let unsound: Vec<_> = streams
            .iter()
            .filter(|s| s.freshness != StreamFreshness::Fresh || s.suspect)
            .map(|s| (s.worker, s.freshness, s.suspect))
            .collect();
        let loads: u32 = streams.iter().filter_map(|s| router.load(s.worker)).map(|load| load.requests).sum();
        format!(
            "{missing} missing, {extra} extra of {}, ranks {} of {}, not fresh {unsound:?}, {loads} requests, {:?}",
            truth.holdings.len(),
            streams.len(),
            truth.ranks,
            self.sink.counters(),
        )
    }
}
