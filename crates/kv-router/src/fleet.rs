//! The workers that the router knows, as immutable snapshots.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use kv_router_schedule::{Capacity, StreamFreshness, WorkerTraits};
use kv_router_transport::Incarnation;
use kv_router_types::{BlockSize, DpRank, WorkerId, WorkerRank};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::doctor::Samples;
use crate::ingest::Stream;
use crate::predict::Silence;

/// What a worker says of itself when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerSpec {
    /// Tokens per KV block of its engine. Must be the router's: under another size nothing ever matches.
    pub block_size: BlockSize,
    /// Data-parallel ranks, numbered from 0. Default 1, at most [`WorkerSpec::MAX_RANKS`].
    pub ranks: u32,
    /// Labels and adapters. Its rank bounds are set from [`ranks`](Self::ranks) on joining.
    pub traits: WorkerTraits,
    /// What each rank can bear, for the busy thresholds and the queue. Default: unknown, never busy. See also
    /// [`Router::set_capacity`](crate::Router::set_capacity).
    pub capacity: Capacity,
    /// The life that its engine is in, if it is known: batches of an older one are stale, however late they come.
    /// Default: the lowest, which takes any. A worker that comes back after a restart should say which life it is.
    pub incarnation: Incarnation,
    /// Whether its engine tells what it caches. Default: it does.
    pub events: EventSource,
}

/// Whether an engine tells what it caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventSource {
    /// It does. Should it fall silent, see [`PredictionConfig::silence`](crate::PredictionConfig::silence).
    #[default]
    On,
    /// It does not: its cache is guessed from what is sent there, and batches that claim to be of it are refused.
    Off,
}

impl WorkerSpec {
    /// The most ranks that one worker may have.
    pub const MAX_RANKS: u32 = 4_096;

    /// One rank, no labels, every adapter, unknown capacity.
    pub fn new(block_size: BlockSize) -> Self {
        Self {
            block_size,
            ranks: 1,
            traits: WorkerTraits::default(),
            capacity: Capacity::default(),
            incarnation: Incarnation::default(),
            events: EventSource::default(),
        }
    }

    /// With this many data-parallel ranks.
    #[must_use]
    pub fn with_ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// With these labels and adapters.
    #[must_use]
    pub fn with_traits(mut self, traits: WorkerTraits) -> Self {
        self.traits = traits;
        self
    }

    /// In this life of its engine.
    #[must_use]
    pub fn with_incarnation(mut self, incarnation: Incarnation) -> Self {
        self.incarnation = incarnation;
        self
    }

    /// With an engine that tells nothing of its cache.
    #[must_use]
    pub fn without_events(mut self) -> Self {
        self.events = EventSource::Off;
        self
    }

    /// With this capacity in each rank.
    #[must_use]
    pub fn with_capacity(mut self, capacity: Capacity) -> Self {
        self.capacity = capacity;
        self
    }
}

/// One rank of a worker that has joined.
pub(crate) struct Rank {
    pub(crate) id: WorkerRank,
    pub(crate) traits: Arc<WorkerTraits>,
    /// Serialises the events of the rank. Taken before the index lock, never after.
    pub(crate) stream: Mutex<Stream>,
    pub(crate) events: EventSource,
    /// What it was sent and has said nothing of.
    pub(crate) silence: Silence,
    /// Prompts that it was sent, to be found in what it stores.
    pub(crate) samples: Samples,
    /// What `stream` last said of itself, for decisions, which do not wait for events.
    freshness: AtomicU8,
    /// Counts the changes of `freshness` in the whole fleet.
    judgements: Arc<AtomicU64>,
}

impl Rank {
    /// A rank of a worker that joins `fleet`. It starts cold, or guessed for good.
    pub(crate) fn new(
        fleet: &Fleet,
        id: WorkerRank,
        traits: Arc<WorkerTraits>,
        events: EventSource,
        stream: Stream,
    ) -> Self {
        let freshness = match events {
            EventSource::On => StreamFreshness::Cold,
            EventSource::Off => StreamFreshness::Predicted,
        };
        Self {
            id,
            traits,
            stream: Mutex::new(stream),
            events,
            silence: Silence::default(),
            samples: Samples::default(),
            freshness: AtomicU8::new(code(freshness)),
            judgements: Arc::clone(&fleet.judgements),
        }
    }

    pub(crate) fn freshness(&self) -> StreamFreshness {
        // Relaxed: a decision a moment before or after a change is right either way.
        match self.freshness.load(Ordering::Relaxed) {
            0 => StreamFreshness::Fresh,
            1 => StreamFreshness::Recovering,
            2 => StreamFreshness::Cold,
            _ => StreamFreshness::Predicted,
        }
    }

    pub(crate) fn is_predicted(&self) -> bool {
        self.freshness() == StreamFreshness::Predicted
    }

    /// Tells whether it was another before.
    pub(crate) fn set_freshness(&self, freshness: StreamFreshness) -> bool {
        // Almost every batch leaves it as it was, and then nobody has to look.
        let has_changed = self.freshness.swap(code(freshness), Ordering::Relaxed) != code(freshness);
        if has_changed {
            // Release: who sees the count sees the change.
            self.judgements.fetch_add(1, Ordering::Release);
        }
        has_changed
    }
}

fn code(freshness: StreamFreshness) -> u8 {
    match freshness {
        StreamFreshness::Fresh => 0,
        StreamFreshness::Recovering => 1,
        StreamFreshness::Cold => 2,
        StreamFreshness::Predicted => 3,
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rank")
            .field("id", &self.id)
            .field("freshness", &self.freshness())
            .finish_non_exhaustive()
    }
}

/// All ranks at one moment. Joining and leaving make a new one; whoever reads keeps the old one alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    ranks: FxHashMap<WorkerRank, Arc<Rank>>,
    /// How many ranks each worker has.
    workers: FxHashMap<WorkerId, u32>,
    /// Shared by all that came from one fleet: an older one must not miss what happens now.
    judgements: Arc<AtomicU64>,
}

impl Fleet {
    /// How often the freshness of any rank has changed: while this is the same, so are they all.
    pub(crate) fn judgements(&self) -> u64 {
        self.judgements.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, rank: WorkerRank) -> Option<&Arc<Rank>> {
        self.ranks.get(&rank)
    }

    pub(crate) fn contains(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Rank>> {
        self.ranks.values()
    }

    pub(crate) fn ranks_of(&self, worker: WorkerId) -> impl Iterator<Item = &Arc<Rank>> {
        let ranks = self.workers.get(&worker).copied().unwrap_or(0);
        (0..ranks).filter_map(move |rank| self.ranks.get(&WorkerRank::new(worker, DpRank::new(rank))))
    }

    pub(crate) fn with(&self, worker: WorkerId, ranks: Vec<Rank>) -> Self {
        let mut fleet = self.clone();
        fleet.workers.insert(worker, ranks.len() as u32);
        fleet.ranks.extend(ranks.into_iter().map(|rank| (rank.id, Arc::new(rank))));
        fleet
    }

    pub(crate) fn without(&self, worker: WorkerId) -> Self {
        let mut fleet = self.clone();
        fleet.workers.remove(&worker);
        fleet.ranks.retain(|rank, _| rank.worker != worker);
        fleet
    }
}
