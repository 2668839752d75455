//! A router in virtual time, with a small fleet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_router::{BlockSize, Clock, Router, RouterConfig, WorkerId, WorkerRank, WorkerSpec};
use kv_router_index::ApplyEvents;
use kv_router_index::oracle::Oracle;
use kv_router_types::{ExternalSequenceHash, LocalBlockHash, TierSet};

/// Tokens a block, as in the examples of docs/wire.md.
pub(super) const BLOCK: u32 = 16;

/// Time that goes by when it is told to.
#[derive(Clone, Debug)]
pub(super) struct Hours {
    origin: Instant,
    milliseconds: Arc<AtomicU64>,
}

impl Hours {
    pub(super) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs some origin")]
        let origin = Instant::now();
        Self { origin, milliseconds: Arc::default() }
    }

    pub(super) fn advance(&self, milliseconds: u64) {
        self.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for Hours {
    fn now(&self) -> Instant {
        self.origin + Duration::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }
}

/// A router and its time; the workers have two ranks each.
pub(super) fn router(workers: &[u64], change: impl FnOnce(&mut RouterConfig)) -> (Router, Hours) {
    let built = BlockSize::new(BLOCK).ok().and_then(|size| {
        let (mut config, time) = (RouterConfig::new(size), Hours::new());
        change(&mut config);
        let router = Router::builder(config).seed(1).clock(time.clone()).build().ok()?;
        for &worker in workers {
            router.join(WorkerId::new(worker), WorkerSpec::new(size).with_ranks(2)).ok()?;
        }
        Some((router, time))
    });
    match built {
        Some(built) => built,
        None => panic!("a configuration of this file is no good"),
    }
}

/// A block under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) rank: WorkerRank,
    pub(super) name: ExternalSequenceHash,
    pub(super) tiers: TierSet,
    pub(super) path: Vec<LocalBlockHash>,
}

/// Everything that is held. An index says it in events, which are to be taken by another.
#[track_caller]
pub(super) fn held(router: &Router) -> Vec<Block> {
    let mut index = Oracle::new();
    router.dump(&mut |from, event| {
        if let Err(error) = index.apply(from, &event) {
            panic!("a dump that no index takes: {error}: {event:?}");
        }
    });
    blocks(&index)
}

/// Everything in an index, in the order of ranks and names.
pub(super) fn blocks(index: &Oracle) -> Vec<Block> {
    let mut blocks = Vec::new();
    for rank in index.ranks() {
        for (name, tiers) in index.names(rank) {
            blocks.push(Block { rank, name, tiers, path: index.path(rank, name).unwrap_or_default() });
        }
    }
    blocks.sort_by_key(|block| (block.rank, block.name));
    blocks
}
