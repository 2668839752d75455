//! A small fleet whose engines number their batches and name their blocks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_router::{
    BatchReport, BlockSize, Capacity, Clock, EventBatch, ExternalSequenceHash, Incarnation, KvEvent, Prompt,
    Router, RouterConfig, StoredBlock, Tier, WorkerId, WorkerRank, WorkerSpec,
};
use parking_lot::Mutex;

pub(crate) fn worker(id: u64) -> WorkerId {
    WorkerId::new(id)
}

pub(crate) fn rank(id: u64) -> WorkerRank {
    worker(id).into()
}

/// The name that the engine of `worker` gives to the block at `position`.
pub(crate) fn name(worker: u64, position: usize) -> ExternalSequenceHash {
    ExternalSequenceHash::new(worker * 1_000_000 + position as u64)
}

#[derive(Clone, Debug)]
pub(crate) struct TestClock(Arc<Mutex<Instant>>);

impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock() += by;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        *self.0.lock()
    }
}

/// Engines with blocks of 16 tokens, and the router in front of them.
pub(crate) struct Fleet {
    pub(crate) router: Router,
    pub(crate) clock: TestClock,
    /// Incarnation and next sequence of each engine.
    streams: Mutex<Vec<(u64, u64)>>,
}

impl Fleet {
    pub(crate) fn new(workers: u64) -> Self {
        Self::with(workers, Capacity::default(), |_| ())
    }

    pub(crate) fn with(workers: u64, capacity: Capacity, change: impl FnOnce(&mut RouterConfig)) -> Self {
        let block_size = BlockSize::new(16).unwrap();
        let mut config = RouterConfig::new(block_size);
        change(&mut config);
        #[expect(clippy::disallowed_methods, reason = "virtual time needs some origin")]
        let clock = TestClock(Arc::new(Mutex::new(Instant::now())));
        let builder = Router::builder(config).seed(1).clock(clock.clone());
        let router = builder.build().unwrap();
        for id in 0..workers {
            router.join(worker(id), WorkerSpec::new(block_size).with_capacity(capacity)).unwrap();
        }
        Self { router, clock, streams: Mutex::new(vec![(1, 0); workers as usize]) }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The next batch of a worker, not yet sent.
    pub(crate) fn batch(&self, id: u64, events: Vec<KvEvent>) -> EventBatch {
        let (incarnation, sequence) = self.streams.lock()[id as usize];
        EventBatch { from: rank(id), incarnation: Incarnation::new(incarnation), sequence, events }
    }

    pub(crate) fn apply(&self, id: u64, events: Vec<KvEvent>) -> BatchReport {
        let batch = self.batch(id, events);
        self.skip(id, 1);
        self.router.apply(&batch).unwrap()
    }

    /// Sends the last number again.
    pub(crate) fn repeat(&self, id: u64) -> BatchReport {
        self.streams.lock()[id as usize].1 -= 1;
        self.apply(id, vec![KvEvent::Cleared])
    }

    /// Loses batches.
    pub(crate) fn skip(&self, id: u64, batches: u64) {
        self.streams.lock()[id as usize].1 += batches;
    }

    pub(crate) fn restart(&self, id: u64) {
        let mut streams = self.streams.lock();
        let (incarnation, sequence) = &mut streams[id as usize];
        (*incarnation, *sequence) = (*incarnation + 1, 0);
    }

    /// The event by which a worker says that it holds the first `blocks` blocks of a prompt.
    pub(crate) fn stored(&self, id: u64, tokens: &[u32], blocks: usize) -> KvEvent {
        let locals = self.router.scheme().hash(&Prompt::new(tokens));
        let block = |position: usize| StoredBlock::new(name(id, position), locals[position]);
        KvEvent::Stored { tier: Tier::Device, parent: None, blocks: (0..blocks).map(block).collect() }
    }

    pub(crate) fn store(&self, id: u64, tokens: &[u32], blocks: usize) -> BatchReport {
        self.apply(id, vec![self.stored(id, tokens, blocks)])
    }
}
