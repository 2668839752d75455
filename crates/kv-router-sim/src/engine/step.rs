//! How a step ends and how the next is put together; the order of things is in the engine's documentation.

use std::time::Duration;

use kv_router_types::{StoredBlock, Tier};

use super::MockEngine;
use super::chain::ChainKey;
use super::job::{Running, Waiting, content};
use super::ladder::{Arrival, Pull};
use super::pool::{BlockId, Sealed};
use crate::progress::{Milestone, Progress};
use crate::request::SimRequest;
use crate::time::SimTime;

impl MockEngine {
    /// The tokens of the step exist now.
    pub(super) fn finish_step(&mut self, now: SimTime, milestones: &mut Vec<Milestone>) {
        self.stats.steps += 1;
        for index in 0..self.running.len() {
            let job = &mut self.running[index];
            let pending = std::mem::take(&mut job.pending);
            if pending == 0 {
                continue;
            }
            let was_prefilling = job.is_prefilling();
            job.computed += u64::from(pending);
            let has_token = !job.is_prefilling();
            if has_token {
                job.generated += 1;
            }
            self.seal_complete_blocks(index);
            if !was_prefilling {
                self.stats.decode_tokens += 1;
                continue;
            }
            self.stats.prefill_tokens += u64::from(pending);
            if has_token {
                let request = &self.running[index].request;
                milestones.push(self.milestone(request, now, Progress::PrefillCompleted));
            }
        }
        let mut index = 0;
        while index < self.running.len() {
            if self.running[index].is_finished() {
                let job = self.running.remove(index);
                self.release(&job.blocks);
                milestones.push(self.milestone(&job.request, now, Progress::Finished));
            } else {
                index += 1;
            }
        }
    }

    /// Puts the next step together at `now`. Leaves the engine idle when there is nothing to do.
    pub(super) fn begin_step(&mut self, now: SimTime, milestones: &mut Vec<Milestone>) {
        let decoding = self.schedule_decodes(now, milestones);
        let mut budget = self.config.step_token_budget;
        for job in self.running.iter_mut().filter(|job| job.can_prefill()) {
            budget -= take_chunk(job, budget);
        }
        self.admit(now, &mut budget, milestones);
        let prefilled = self.config.step_token_budget - budget;
        if decoding > 0 || prefilled > 0 {
            let decode = if decoding > 0 { self.config.decode_step } else { Duration::ZERO };
            self.step_end = Some(now + decode + self.config.prefill_time(u64::from(prefilled)));
        }
    }

    /// One token for everyone past its prefill, oldest first. Returns how many those are.
    fn schedule_decodes(&mut self, now: SimTime, milestones: &mut Vec<Milestone>) -> usize {
        let mut decoding = 0;
        let mut index = 0;
        while index < self.running.len() {
            if !self.running[index].is_prefilling() {
                if !self.has_room_for_a_token(index, now, milestones) {
                    break; // it was the youngest itself
                }
                self.running[index].pending = 1;
                decoding += 1;
            }
            index += 1;
        }
        decoding
    }

    /// Finds memory for one token of a running request, at the cost of younger ones if need be. False when
    /// the request was preempted itself, for lack of a younger one.
    fn has_room_for_a_token(&mut self, index: usize, now: SimTime, milestones: &mut Vec<Milestone>) -> bool {
        let tokens_per_block = u64::from(self.config.tokens_per_block());
        let job = &self.running[index];
        if job.computed < job.blocks.len() as u64 * tokens_per_block {
            return true;
        }
        while index < self.running.len() {
            if let Some(block) = self.allocate() {
                self.running[index].blocks.push(block);
                let job = &self.running[index];
                let prompt = self.config.blocks_for(u64::from(job.request.input_tokens())) as u32;
                let output_blocks = job.blocks.len() as u32 - prompt;
                milestones.push(self.milestone(&job.request, now, Progress::OutputGrown { output_blocks }));
                return true;
            }
            self.preempt_youngest(now, milestones);
        }
        false
    }

    fn preempt_youngest(&mut self, now: SimTime, milestones: &mut Vec<Milestone>) {
        let Some(job) = self.running.pop() else { return };
        if let (Some(pull), Some(ladder)) = (&job.pull, &mut self.ladder) {
            ladder.end_pull(pull);
        }
        self.release(&job.blocks);
        self.stats.preemptions += 1;
        milestones.push(self.milestone(&job.request, now, Progress::Preempted));
        // Everyone in the queue is younger still, so its head is the place in order of arrival.
        self.waiting.push_front(Waiting { request: job.request, generated: job.generated });
    }

    fn admit(&mut self, now: SimTime, budget: &mut u32, milestones: &mut Vec<Milestone>) {
        while *budget > 0 && !self.head_is_stuck && self.running.len() < self.config.max_running as usize {
            let Some(head) = self.waiting.front() else { return };
            let target = head.target();
            let chain = self.find_prefix(target);
            let needed = self.config.blocks_for(target) - self.hits.len() as u64;
            // Cached blocks that nobody holds can be evicted, but not those about to be used.
            let pinned = self.hits.iter().filter(|&&block| self.pool.is_idle(block)).count();
            if u64::from(self.pool.available()) < pinned as u64 + needed {
                self.head_is_stuck = true;
                return;
            }
            let Some(head) = self.waiting.pop_front() else { return };
            let hit_blocks = self.hits.len();
            let pull = self.begin_pull(&head.request, chain, target, now);
            let mut blocks = Vec::with_capacity(hit_blocks + needed as usize);
            for &block in &self.hits {
                self.pool.acquire(block);
                blocks.push(block);
            }
            for _ in 0..needed {
                blocks.extend(self.allocate()); // there is one: counted above
            }
            let mut job = Running {
                request: head.request,
                generated: head.generated,
                target,
                computed: hit_blocks as u64 * u64::from(self.config.tokens_per_block()),
                pending: 0,
                blocks,
                sealed: hit_blocks,
                chain,
                pull,
            };
            let pulled = job.pull.as_ref().map_or(0, |pull| pull.len());
            if job.can_prefill() {
                *budget -= take_chunk(&mut job, *budget);
            }
            let progress = Progress::Admitted { hit_blocks: (hit_blocks + pulled) as u32 };
            milestones.push(self.milestone(&job.request, now, progress));
            self.running.push(job);
        }
    }

    /// Collects the leading cached blocks of the head of the queue in `hits`, and returns where they end. The
    /// block with the last token before `target` is left out: it must be computed to go on.
    fn find_prefix(&mut self, target: u64) -> ChainKey {
        self.hits.clear();
        self.hit_keys.clear();
        let mut chain = ChainKey::ROOT;
        let Some(head) = self.waiting.front() else { return chain };
        let limit = (target - 1) / u64::from(self.config.tokens_per_block());
        for position in 0..limit as usize {
            let longer = chain.then(content(&head.request, position));
            let Some(block) = self.pool.find(longer) else { break };
            self.hits.push(block);
            self.hit_keys.push(longer);
            chain = longer;
        }
        chain
    }

    /// Marks the head's device hits as used, and begins to pull what follows them from lower tiers.
    fn begin_pull(
        &mut self,
        request: &SimRequest,
        chain: ChainKey,
        target: u64,
        now: SimTime,
    ) -> Option<Pull> {
        let ladder = self.ladder.as_mut()?;
        self.hit_keys.iter().for_each(|&key| ladder.used(key));
        let block_tokens = u64::from(self.config.tokens_per_block());
        let limit = ((target - 1) / block_tokens) as usize;
        let keys = (self.hits.len()..limit).scan(chain, |chain, position| {
            *chain = chain.then(content(request, position));
            Some(*chain)
        });
        ladder.begin_pull(keys, self.config.prefill_time(block_tokens), now)
    }

    /// Files the blocks whose pull is over.
    pub(super) fn finish_pulls(&mut self, now: SimTime) {
        for index in 0..self.running.len() {
            let Some(pull) = self.running[index].pull.take_if(|pull| pull.ends <= now) else { continue };
            let blocks = pull.len() as u64;
            self.running[index].computed += blocks * u64::from(self.config.tokens_per_block());
            self.stats.onboarded_blocks += blocks;
            self.seal_complete_blocks(index);
            if let Some(ladder) = &mut self.ladder {
                ladder.end_pull(&pull);
            }
        }
    }

    /// Files the blocks of one request whose content is complete since its last step.
    fn seal_complete_blocks(&mut self, index: usize) {
        let Self { running, pool, namer, publisher, config, head_is_stuck, ladder, .. } = self;
        let job = &mut running[index];
        let complete = (job.computed / u64::from(config.tokens_per_block())) as usize;
        while job.sealed < complete {
            let position = job.sealed;
            let local = content(&job.request, position);
            let key = job.chain.then(local);
            let parent = position.checked_sub(1).map(|before| job.blocks[before]);
            // As long as any tier holds a block, its name stays.
            let known = ladder.as_ref().and_then(|ladder| ladder.name(key));
            match pool.seal(job.blocks[position], parent, key, || known.unwrap_or_else(|| namer.name(key))) {
                Sealed::Cached(external) => {
                    let parent = parent.and_then(|parent| pool.name(parent));
                    let block = StoredBlock::new(external, local);
                    publisher.stored(Tier::Device, parent, block);
                    if let Some(ladder) = ladder {
                        let parent = (position > 0).then_some(job.chain);
                        let is_prompt = position < job.request.blocks().len();
                        ladder.arrived(Arrival { key, parent, block, is_prompt });
                    }
                }
                Sealed::Duplicate(shared) => {
                    job.blocks[position] = shared;
                    *head_is_stuck = false; // a block came free
                }
            }
            if position < job.request.blocks().len() {
                *head_is_stuck = false; // prompt content: the head may need fewer blocks now
            }
            job.chain = key;
            job.sealed += 1;
        }
    }

    fn allocate(&mut self) -> Option<BlockId> {
        let allocation = self.pool.allocate()?;
        if let Some((key, name)) = allocation.evicted {
            self.stats.evictions += 1;
            self.publisher.removed(Tier::Device, name);
            if let Some(ladder) = &mut self.ladder {
                ladder.left_device(key);
            }
        }
        Some(allocation.block)
    }

    /// Lets go of a request's blocks, tail first: the prefix cache gives up tails before heads.
    fn release(&mut self, blocks: &[BlockId]) {
        for &block in blocks.iter().rev() {
            self.pool.release(block);
        }
        self.head_is_stuck = false;
    }
}

/// Gives a prefill its share of what is left of the step's budget, and returns it.
fn take_chunk(job: &mut Running, budget: u32) -> u32 {
    let missing = u32::try_from(job.target - job.computed).unwrap_or(u32::MAX);
    job.pending = missing.min(budget);
    job.pending
}
