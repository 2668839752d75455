//! One engine against numbers worked out by hand, and against its own events.

mod memory;
mod properties;
mod tiers;
mod timing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kv_router_index::{ApplyEvents, DumpEvents, Oracle, Overlap, PrefixIndex};
use kv_router_types::{ExternalSequenceHash, KvEvent, Tier, TierSet, WorkerId};

use super::*;
use crate::model::CacheModel;
use crate::prompt::{PIECE_TOKENS, Prompt, TraceBlockSize};

/// 16-token blocks, 1 ms a prompt token, 10 ms a decode step, chunks of 32 tokens.
fn small(pool_blocks: u32) -> EngineConfig {
    EngineConfig {
        block_size: TraceBlockSize::new(16).unwrap(),
        pool_blocks,
        prefill_tokens_per_second: 1_000,
        decode_step: Duration::from_millis(10),
        step_token_budget: 32,
        max_running: 8,
        ladder: None,
    }
}

fn identity(naming: Naming) -> EngineIdentity {
    EngineIdentity { worker: WorkerRank::from(WorkerId::new(3)), incarnation: Incarnation::new(1), naming }
}

/// A prompt of one content named `id`: `id` decides every token.
fn request(index: u32, id: u64, input: u32, output: u32, size: TraceBlockSize) -> Arc<SimRequest> {
    let ids = (0..u64::from(input.div_ceil(PIECE_TOKENS))).map(|piece| id * 1_000 + piece).collect();
    Arc::new(SimRequest::new(index, SimTime::ZERO, Prompt::new(ids, input).unwrap(), output, size))
}

/// An engine with a log of everything it reported, checked as it comes.
struct Bench {
    engine: MockEngine,
    model: CacheModel,
    /// In place of the model when there are lower tiers.
    oracle: Oracle,
    /// Prompts that the oracle is asked about after every step.
    watched: Vec<Arc<SimRequest>>,
    report: StepReport,
    now: SimTime,
    batches: Vec<EventBatch>,
    /// Milliseconds, request, progress.
    log: Vec<(u64, u32, Progress)>,
}

impl Bench {
    fn new(config: EngineConfig) -> Self {
        Self::named(config, Naming::Content)
    }

    fn named(config: EngineConfig, naming: Naming) -> Self {
        Self {
            engine: MockEngine::new(identity(naming), config).unwrap(),
            model: CacheModel::new(),
            oracle: Oracle::new(),
            watched: Vec::new(),
            report: StepReport::default(),
            now: SimTime::ZERO,
            batches: Vec::new(),
            log: Vec::new(),
        }
    }

    fn send(&mut self, index: u32, id: u64, input: u32, output: u32) {
        let size = self.engine.config.block_size;
        self.engine.enqueue(request(index, id, input, output, size)).unwrap();
    }

    /// One call of `advance`, at the end of the step in flight or now, with every invariant checked after it.
    fn step(&mut self) -> bool {
        self.now = self.report.next.unwrap_or(self.now);
        self.engine.advance(self.now, &mut self.report);
        if let Some(batch) = self.report.batch.take() {
            assert_eq!(batch.sequence, self.batches.len() as u64, "gapless from 0");
            assert_eq!(
                (batch.from, batch.incarnation),
                (identity(Naming::Content).worker, Incarnation::new(1))
            );
            assert!(!batch.events.is_empty() && batch.events.iter().all(|event| event.block_count() > 0));
            for event in &batch.events {
                if self.engine.ladder.is_none() {
                    assert_eq!(self.model.apply(event), Ok(()));
                } else {
                    let applied = self.oracle.apply(batch.from, event).unwrap();
                    assert_eq!(
                        (applied.already_held, applied.moved, applied.unknown),
                        (0, 0, 0),
                        "{event:?}"
                    );
                }
            }
            self.batches.push(batch);
        }
        for milestone in &self.report.milestones {
            assert_eq!(milestone.at, self.now);
            let millis = milestone.at.as_nanos() / 1_000_000;
            self.log.push((millis, milestone.request.index(), milestone.progress));
        }
        self.engine.pool.check();
        self.check_cache();
        assert!(self.engine.held_blocks() <= self.engine.config.pool_blocks);
        self.report.next.is_some()
    }

    fn check_cache(&self) {
        let Some(ladder) = &self.engine.ladder else {
            assert_eq!(self.model.names(), self.engine.pool.names(), "events and cache agree");
            return;
        };
        ladder.check(self.engine.config.ladder.unwrap().max_queued);
        let truth = ladder.tiers();
        let on_device = truth.iter().filter(|(_, tiers)| tiers.contains(&Tier::Device));
        let on_device: Vec<_> = on_device.map(|(name, _)| *name).collect();
        assert_eq!(on_device, self.engine.pool.names(), "the ladder knows what the device has");
        assert_eq!(truth, believed(&self.oracle), "events and tiers agree");
        for request in &self.watched {
            let found = self.oracle.find(request.blocks());
            let reach =
                found.get(identity(Naming::Content).worker).map_or([0; Tier::COUNT], Overlap::by_tier);
            assert_eq!(reach, ladder.reach(request.blocks()), "every block is where the events put it");
        }
    }

    fn run(&mut self) -> &[(u64, u32, Progress)] {
        while self.step() {}
        assert_eq!((self.engine.running(), self.engine.waiting(), self.engine.held_blocks()), (0, 0, 0));
        assert!(self.engine.is_idle() && self.engine.ladder.as_ref().is_none_or(Ladder::is_quiet));
        &self.log
    }

    /// The log without the growth of outputs.
    fn story(&mut self) -> Vec<(u64, u32, Progress)> {
        let is_story = |entry: &&(u64, u32, Progress)| !matches!(entry.2, Progress::OutputGrown { .. });
        self.run().iter().filter(is_story).copied().collect()
    }
}

/// Every block that the events leave, with its tiers, sorted.
fn believed(oracle: &Oracle) -> Vec<(ExternalSequenceHash, Vec<Tier>)> {
    let mut held: BTreeMap<ExternalSequenceHash, TierSet> = BTreeMap::new();
    oracle.dump(&mut |_, event| match event {
        KvEvent::Stored { tier, blocks, .. } => {
            for block in blocks {
                let tiers = held.entry(block.external).or_default();
                *tiers = tiers.with(tier);
            }
        }
        KvEvent::Removed { tier, blocks } => {
            for name in blocks {
                let tiers = held.entry(name).or_default();
                *tiers = tiers.without(tier);
            }
        }
        KvEvent::Cleared => held.clear(),
    });
    let held = held.into_iter().filter(|(_, tiers)| !tiers.is_empty());
    held.map(|(name, tiers)| (name, tiers.iter().collect())).collect()
}

const fn admitted(hit_blocks: u32) -> Progress {
    Progress::Admitted { hit_blocks }
}
