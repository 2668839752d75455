//! Guesses of what a worker caches that tells nothing, and when a worker counts as one that tells nothing.
//!
//! The predicted index is a side index: the exact one never hears of it. Which of the two answers for a rank is a
//! property of the rank, its [`StreamFreshness`], and changes at one moment for all later decisions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_router_approx::predicted::{PredictedConfig, PredictedIndex};
use kv_router_index::{Certainty, Overlaps};
use kv_router_schedule::StreamFreshness;
use kv_router_types::{LocalBlockHash, WorkerId, WorkerRank};
use parking_lot::RwLock;

use crate::BuildError;
use crate::fleet::Rank;

/// How the cache of a worker is guessed that has no events, or falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PredictionConfig {
    /// How long a guess lives, and how many blocks are guessed at most.
    pub index: PredictedConfig,
    /// When a rank that has events counts as silent, and is guessed until it is heard of again. `None`: never. Default:
    /// the default rule.
    pub silence: Option<SilenceRule>,
}

impl Default for PredictionConfig {
    fn default() -> Self {
        Self { index: PredictedConfig::default(), silence: Some(SilenceRule::default()) }
    }
}

/// When a rank counts as silent: both bounds must be reached.
///
/// Only requests count that the engine must have an event for: those with a whole block that the rank did not have. So
/// an engine that serves everything from its cache, and has nothing to tell, is not taken for a silent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceRule {
    /// Requests sent to the rank since it was last heard of, at least 1. Default 32.
    pub requests: u32,
    /// Time since the first of them. Default 30 s: well above the longest that a prompt waits for its prefill.
    pub time: Duration,
}

impl Default for SilenceRule {
    fn default() -> Self {
        Self { requests: 32, time: Duration::from_secs(30) }
    }
}

/// What is guessed at the moment, and how often it came to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PredictionStats {
    /// Ranks that are answered by a guess now.
    pub ranks: usize,
    /// Blocks that are guessed to be cached.
    pub blocks: usize,
    /// Ranks that fell silent, since the beginning.
    pub silenced: u64,
    /// Ranks that were heard of again, since the beginning.
    pub heard_again: u64,
    /// Requests that were placed on a guessed rank, since the beginning.
    pub placed: u64,
    /// Guesses that made room for younger ones, in blocks, since the beginning.
    pub pruned: u64,
}

/// What a rank was sent and has said nothing of. Relaxed throughout: whoever acts on it looks again under the lock of
/// the rank's stream.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    requests: AtomicU32,
    /// When the first of them was sent, in nanoseconds since the origin of the predictor.
    since: AtomicU64,
}

impl Silence {
    /// The rank was heard of.
    pub(crate) fn end(&self) {
        self.requests.store(0, Ordering::Relaxed);
    }

    /// Counts one request, up to the bound.
    fn count(&self, rule: &SilenceRule, now: u64) {
        let requests = self.requests.load(Ordering::Relaxed);
        if requests < rule.requests && self.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.since.store(now, Ordering::Relaxed);
        }
    }

    fn is_over(&self, rule: &SilenceRule, now: u64) -> bool {
        let time = now.saturating_sub(self.since.load(Ordering::Relaxed));
        self.requests.load(Ordering::Relaxed) >= rule.requests && u128::from(time) >= rule.time.as_nanos()
    }
}

/// The side index, shared by all decisions.
#[derive(Debug)]
pub(crate) struct Predictor {
    /// Taken under no other lock but that of membership, and no other is taken under it.
    index: RwLock<PredictedIndex>,
    silence: Option<SilenceRule>,
    origin: Instant,
    silenced: AtomicU64,
    heard_again: AtomicU64,
    placed: AtomicU64,
    pruned: AtomicU64,
}

impl Predictor {
    pub(crate) fn new(config: PredictionConfig, origin: Instant) -> Result<Self, BuildError> {
        if config.silence.is_some_and(|rule| rule.requests == 0) {
            return Err(BuildError::SilentRequests);
        }
        let index = PredictedIndex::new(config.index, origin).map_err(BuildError::Prediction)?;
        Ok(Self {
            index: RwLock::new(index),
            silence: config.silence,
            origin,
            silenced: AtomicU64::new(0),
            heard_again: AtomicU64::new(0),
            placed: AtomicU64::new(0),
            pruned: AtomicU64::new(0),
        })
    }

    pub(crate) fn find_into(&self, query: &[LocalBlockHash], now: Instant, out: &mut Overlaps) {
        self.index.read().find_at(query, now, out);
    }

    /// A request with these blocks was sent to a rank that has the first `cached` of them, as far as is known. Tells
    /// whether the rank is guessed from here on, and was not before.
    pub(crate) fn sent(
        &self,
        rank: &Rank,
        blocks: &[LocalBlockHash],
        cached: u32,
        certainty: Certainty,
        now: Instant,
    ) -> bool {
        if certainty == Certainty::Guess {
            self.placed.fetch_add(1, Ordering::Relaxed);
            self.record(rank, blocks, now);
        } else if (cached as usize) < blocks.len() {
            // Counted in any case: a diagnosis wants to know.
            let at = self.at(now);
            rank.silence.count(&self.silence.unwrap_or_default(), at);
            if let Some(rule) = &self.silence
                && rank.silence.is_over(rule, at)
                && self.silence_rank(rank, rule, at)
            {
                self.record(rank, blocks, now);
                return true;
            }
        }
        false
    }

    fn at(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Requests that a rank was sent and has said nothing of, at least so many, and since when; `None` while that is
    /// within the rule, or the default rule where there is none.
    pub(crate) fn silence_of(&self, rank: &Rank, now: Instant) -> Option<(u32, Duration)> {
        let (rule, at) = (self.silence.unwrap_or_default(), self.at(now));
        let Silence { requests, since } = &rank.silence;
        let time = Duration::from_nanos(at.saturating_sub(since.load(Ordering::Relaxed)));
        rank.silence.is_over(&rule, at).then(|| (requests.load(Ordering::Relaxed), time))
    }

    /// Makes a rank a guessed one, unless it has been heard of meanwhile: that happens under the same lock.
    fn silence_rank(&self, rank: &Rank, rule: &SilenceRule, at: u64) -> bool {
        let stream = rank.stream.lock();
        let is_silent = !stream.is_closed() && rank.silence.is_over(rule, at);
        let has_fallen_silent = is_silent && rank.set_freshness(StreamFreshness::Predicted);
        drop(stream);
        if has_fallen_silent {
            self.silenced.fetch_add(1, Ordering::Relaxed);
        }
        has_fallen_silent
    }

    fn record(&self, rank: &Rank, blocks: &[LocalBlockHash], now: Instant) {
        let mut index = self.index.write();
        // Whoever makes it another than a guessed one does so before it has the guesses forgotten, under this lock: a
        // rank that was heard of, or left, never keeps one.
        if rank.is_predicted() {
            let recorded = index.record(rank.id, blocks, now);
            self.pruned.fetch_add(recorded.pruned as u64, Ordering::Relaxed);
        }
    }

    /// A guessed rank was heard of, and is guessed no more.
    pub(crate) fn heard_again(&self, rank: WorkerRank) {
        self.heard_again.fetch_add(1, Ordering::Relaxed);
        self.index.write().remove_rank(rank);
    }

    pub(crate) fn remove_worker(&self, worker: WorkerId) {
        self.index.write().remove_worker(worker);
    }

    pub(crate) fn expire(&self, now: Instant) {
        self.index.write().expire(now);
    }

    /// The counters; how many ranks are guessed the fleet knows.
    pub(crate) fn stats(&self, ranks: usize) -> PredictionStats {
        PredictionStats {
            ranks,
            blocks: self.index.read().len(),
            silenced: self.silenced.load(Ordering::Relaxed),
            heard_again: self.heard_again.load(Ordering::Relaxed),
            placed: self.placed.load(Ordering::Relaxed),
            pruned: self.pruned.load(Ordering::Relaxed),
        }
    }
}
