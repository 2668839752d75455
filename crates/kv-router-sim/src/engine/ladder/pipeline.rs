//! The way down from one tier to the next: wait for the forward pass, make a batch, transfer, commit.
//!
//! A block may be cancelled at any stage before it is committed. One transfer is under way at a time.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::super::chain::ChainKey;
use super::config::{LadderConfig, TierConfig};
use crate::time::SimTime;

/// Blocks on their way to a tier.
#[derive(Debug)]
pub(super) struct Pipeline {
    to: TierConfig,
    flush_at: usize,
    batch_cap: usize,
    flush_after: Duration,
    max_queued: usize,
    /// Those below that are not cancelled.
    alive: FxHashSet<ChainKey>,
    /// They may be read once the pass that computes next to them has ended.
    computing: Vec<ChainKey>,
    /// With the time since when they wait for a batch.
    batch: VecDeque<(ChainKey, SimTime)>,
    transfer: Option<Transfer>,
}

#[derive(Debug)]
struct Transfer {
    blocks: Vec<ChainKey>,
    ends: SimTime,
}

impl Pipeline {
    pub(super) fn new(config: &LadderConfig, to: TierConfig) -> Self {
        Self {
            to,
            flush_at: config.flush_at as usize,
            batch_cap: config.batch_cap as usize,
            flush_after: config.flush_after,
            max_queued: config.max_queued as usize,
            alive: FxHashSet::default(),
            computing: Vec::new(),
            batch: VecDeque::new(),
            transfer: None,
        }
    }

    /// Takes a block whose memory the forward pass is still using. False when it is on its way already, or when there
    /// are too many.
    pub(super) fn after_the_pass(&mut self, key: ChainKey) -> bool {
        let is_taken = self.queued() < self.max_queued && self.alive.insert(key);
        if is_taken {
            self.computing.push(key);
        }
        is_taken
    }

    /// Takes a block that can be read at once.
    pub(super) fn at_once(&mut self, key: ChainKey, now: SimTime) -> bool {
        let is_taken = self.queued() < self.max_queued && self.alive.insert(key);
        if is_taken {
            self.batch.push_back((key, now));
        }
        is_taken
    }

    /// The pass is over.
    pub(super) fn pass_ended(&mut self, now: SimTime) {
        self.batch.extend(self.computing.drain(..).map(|key| (key, now)));
    }

    /// The block is not to be committed, wherever it is on its way. False when it was not on its way.
    pub(super) fn cancel(&mut self, key: ChainKey) -> bool {
        self.alive.remove(&key)
    }

    /// Moves things on. The blocks whose transfer has ended go to `committed`, in order.
    pub(super) fn advance(&mut self, now: SimTime, committed: &mut Vec<ChainKey>) {
        if let Some(transfer) = self.transfer.take_if(|transfer| transfer.ends <= now) {
            committed.extend(transfer.blocks.into_iter().filter(|key| self.alive.remove(key)));
        }
        if self.transfer.is_none() && self.flush_time().is_some_and(|at| at <= now) {
            let batch = self.batch.drain(..self.batch.len().min(self.batch_cap));
            let blocks: Vec<_> = batch.map(|(key, _)| key).filter(|key| self.alive.contains(key)).collect();
            if !blocks.is_empty() {
                let ends = now + self.to.transfer_time(blocks.len() as u64);
                self.transfer = Some(Transfer { blocks, ends });
            }
        }
    }

    /// When to call [`Self::advance`] next; `None` while nothing moves.
    pub(super) fn next(&self) -> Option<SimTime> {
        self.transfer.as_ref().map(|transfer| transfer.ends).or_else(|| self.flush_time())
    }

    /// When the next batch goes, were no transfer under way.
    fn flush_time(&self) -> Option<SimTime> {
        if let Some((_, completed)) = self.flush_at.checked_sub(1).and_then(|last| self.batch.get(last)) {
            return Some(*completed);
        }
        self.batch.front().map(|(_, since)| *since + self.flush_after)
    }

    /// Blocks in the stages, cancelled ones included until their stage is over.
    pub(super) fn queued(&self) -> usize {
        let moving = self.transfer.as_ref().map_or(0, |transfer| transfer.blocks.len());
        self.computing.len() + self.batch.len() + moving
    }
}

#[cfg(test)]
mod tests {
    use kv_router_types::LocalBlockHash;

    use super::*;

    fn key(local: u64) -> ChainKey {
        ChainKey::ROOT.then(LocalBlockHash::new(local))
    }

    fn at(millis: u64) -> SimTime {
        SimTime::from_millis(millis)
    }

    /// 1 ms a block after 5 ms.
    fn pipeline() -> Pipeline {
        let to = TierConfig {
            blocks: 1_000,
            latency: Duration::from_millis(5),
            blocks_per_second: 1_000,
            min_uses: 1,
        };
        Pipeline::new(&LadderConfig::default(), to)
    }

    #[track_caller]
    fn advance(pipeline: &mut Pipeline, millis: u64) -> Vec<ChainKey> {
        let mut committed = Vec::new();
        pipeline.advance(at(millis), &mut committed);
        committed
    }

    #[test]
    fn few_wait_for_ten_milliseconds_and_eight_go_at_once() {
        let mut few = pipeline();
        assert!(few.after_the_pass(key(1)) && !few.after_the_pass(key(1)));
        assert_eq!(few.next(), None, "the pass is still on");
        few.pass_ended(at(100));
        assert_eq!(few.next(), Some(at(110)));
        assert_eq!((advance(&mut few, 109), few.next()), (vec![], Some(at(110))));
        assert_eq!((advance(&mut few, 110), few.next()), (vec![], Some(at(116))));
        assert_eq!((advance(&mut few, 116), few.next()), (vec![key(1)], None));

        let mut eight = pipeline();
        (0..7).for_each(|local| assert!(eight.at_once(key(local), at(100))));
        assert_eq!(eight.next(), Some(at(110)));
        assert!(eight.at_once(key(7), at(103)));
        assert_eq!(eight.next(), Some(at(103)));
        assert_eq!((advance(&mut eight, 103), eight.next()), (vec![], Some(at(116))));
        assert_eq!(advance(&mut eight, 116).len(), 8);
    }

    #[test]
    fn a_transfer_takes_64_at_most_and_the_rest_waits_for_its_end() {
        let mut pipeline = pipeline();
        (0..70).for_each(|local| assert!(pipeline.at_once(key(local), at(0))));
        advance(&mut pipeline, 0);
        assert_eq!(pipeline.next(), Some(at(69)));
        assert_eq!(advance(&mut pipeline, 69).len(), 64);
        assert_eq!(pipeline.next(), Some(at(69 + 5 + 6)));
    }

    #[test]
    fn a_cancelled_block_is_not_committed_at_any_stage() {
        let mut pipeline = pipeline();
        for local in 0..4 {
            pipeline.after_the_pass(key(local));
        }
        assert!(pipeline.cancel(key(0)));
        pipeline.pass_ended(at(0));
        assert!(pipeline.cancel(key(1)));
        advance(&mut pipeline, 10);
        assert!(pipeline.cancel(key(2)) && !pipeline.cancel(key(2)));
        assert_eq!(advance(&mut pipeline, 17), [key(3)]);
        assert!(!pipeline.cancel(key(3)), "committed is committed");
        assert_eq!((pipeline.queued(), pipeline.next()), (0, None));
    }
}
