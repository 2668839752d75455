//! Full caches that store and evict one to one, few lookups, and evictions that leave holes.
//!
//! Prompts are prefixes of branching chains that everybody serves, 30 % with a private tail. An engine computes from the
//! first block that it lacks to the end of the prompt and announces all of that, the blocks that it still holds behind a
//! hole included. Half of the evictions take the oldest blocks, half take stretches of up to 8 from anywhere. Ten times a
//! worker is cleared or replaced.

use std::collections::VecDeque;

use kv_router_sim::random::SeededRandom;
use kv_router_types::{ExternalSequenceHash, LocalBlockHash};
use rustc_hash::FxHashMap;

use super::fleet::{between, chance, fresh, names, pairs};
use super::{BrokenStream, CACHE_BLOCKS, Corpus, Recorder};

const CHAINS: usize = 400;
const RESETS: usize = 10;
const FINDS_EVERY: u64 = 8;

struct Chain {
    locals: Vec<LocalBlockHash>,
    names: Vec<ExternalSequenceHash>,
}

impl Chain {
    fn new(locals: Vec<LocalBlockHash>) -> Self {
        Self { names: names(&locals), locals }
    }
}

/// Records at least `block_ops` after the caches are full.
pub(super) fn record(workers: u32, block_ops: usize) -> Result<Corpus, BrokenStream> {
    let mut random = SeededRandom::new(0xc400 + u64::from(workers));
    let mut chains = common_chains(&mut random);
    let mut caches: Vec<Cache> = (0..workers).map(|_| Cache::default()).collect();
    let mut out = Recorder::new(workers);
    let fill = workers as usize * CACHE_BLOCKS * 3 / 2;
    let mut resets = 0;
    for step in 0.. {
        if out.block_ops() >= fill {
            out.end_warm_up();
            let measured = out.block_ops() - fill;
            if measured >= block_ops {
                break;
            }
            if measured > block_ops * (resets + 1) / (RESETS + 1) {
                let worker = random.below(caches.len());
                if resets % 5 == 4 {
                    out.replace(worker as u32)
                } else {
                    out.clear(worker as u32)
                }
                caches[worker] = Cache::default();
                resets += 1;
            }
        }
        let (chain, blocks) = prompt(&mut chains, &mut random);
        if step % FINDS_EVERY == 0 {
            out.find(&chains[chain].locals[..blocks]);
        }
        let worker = random.below(caches.len());
        caches[worker].serve(worker as u32, &chains, (chain, blocks), &mut random, &mut out);
    }
    out.finish()
}

/// Chains of 64 to 512 blocks; most of them leave an earlier one somewhere.
fn common_chains(random: &mut SeededRandom) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::with_capacity(CHAINS);
    for number in 0..CHAINS {
        let blocks = between(random, 64, 512);
        let mut locals = Vec::with_capacity(blocks);
        if number > 0 && chance(random, 60) {
            let other = &chains[random.below(number)].locals;
            locals.extend_from_slice(&other[..between(random, 1, other.len().min(blocks))]);
        }
        locals.extend((locals.len()..blocks).map(|_| fresh(random)));
        chains.push(Chain::new(locals));
    }
    chains
}

/// A chain and how many of its blocks are asked for. A prompt with a private tail is a chain of its own.
fn prompt(chains: &mut Vec<Chain>, random: &mut SeededRandom) -> (usize, usize) {
    let chain = random.below(CHAINS);
    let blocks = between(random, 16, chains[chain].locals.len());
    if !chance(random, 30) {
        return (chain, blocks);
    }
    let mut locals = chains[chain].locals[..blocks].to_vec();
    locals.extend((0..between(random, 16, 128)).map(|_| fresh(random)));
    let blocks = locals.len();
    chains.push(Chain::new(locals));
    (chains.len() - 1, blocks)
}

/// A held block: where it stands, when it was last used, and its place in the list for even draws.
struct Block {
    chain: usize,
    position: usize,
    used: u64,
    drawn_at: usize,
}

/// A cache without pins: one request after the other.
#[derive(Default)]
struct Cache {
    held: FxHashMap<ExternalSequenceHash, Block>,
    /// By use, oldest first. Entries of blocks that were used again, or are gone, are passed over.
    queue: VecDeque<(ExternalSequenceHash, u64)>,
    draws: Vec<ExternalSequenceHash>,
    now: u64,
}

impl Cache {
    fn serve(
        &mut self,
        worker: u32,
        chains: &[Chain],
        (number, blocks): (usize, usize),
        random: &mut SeededRandom,
        out: &mut Recorder,
    ) {
        let chain = &chains[number];
        let wanted = &chain.names[..blocks];
        let missing = wanted.iter().filter(|name| !self.held.contains_key(name)).count();
        let excess = (self.held.len() + missing).saturating_sub(CACHE_BLOCKS);
        // The leading blocks count as used before room is made, or the oldest would be taken from under the prompt.
        let known = self.leading(wanted);
        self.touch(number, wanted, 0..known);
        let victims = if chance(random, 50) {
            self.evict_oldest(excess)
        } else {
            self.evict_anywhere(excess, chains, random)
        };
        out.remove(worker, &victims);
        // Evictions from anywhere may have hit the prompt itself: it is computed from the first gap on.
        let known = self.leading(wanted);
        let parent = known.checked_sub(1).map(|last| wanted[last]);
        out.store(worker, parent, &pairs(&wanted[known..], &chain.locals[known..blocks]));
        self.touch(number, wanted, known..blocks);
    }

    fn leading(&self, names: &[ExternalSequenceHash]) -> usize {
        names.iter().take_while(|name| self.held.contains_key(name)).count()
    }

    /// Marks blocks as used now, tail first, so that a leaf is older than its parent.
    fn touch(&mut self, chain: usize, names: &[ExternalSequenceHash], range: std::ops::Range<usize>) {
        for position in range.rev() {
            self.now += 1;
            let (name, used) = (names[position], self.now);
            let drawn_at = self.held.get(&name).map_or(self.draws.len(), |block| block.drawn_at);
            if drawn_at == self.draws.len() {
                self.draws.push(name);
            }
            self.held.insert(name, Block { chain, position, used, drawn_at });
            self.queue.push_back((name, used));
        }
    }

    fn forget(&mut self, name: ExternalSequenceHash) {
        let Some(gone) = self.held.remove(&name) else { return };
        self.draws.swap_remove(gone.drawn_at);
        if let Some(moved) = self.draws.get(gone.drawn_at).and_then(|moved| self.held.get_mut(moved)) {
            moved.drawn_at = gone.drawn_at;
        }
    }

    fn evict_oldest(&mut self, count: usize) -> Vec<ExternalSequenceHash> {
        let mut victims = Vec::with_capacity(count);
        while victims.len() < count {
            let Some((name, used)) = self.queue.pop_front() else { break };
            if self.held.get(&name).is_some_and(|block| block.used == used) {
                self.forget(name);
                victims.push(name);
            }
        }
        victims
    }

    fn evict_anywhere(
        &mut self,
        count: usize,
        chains: &[Chain],
        random: &mut SeededRandom,
    ) -> Vec<ExternalSequenceHash> {
        let mut victims = Vec::with_capacity(count);
        while victims.len() < count && !self.draws.is_empty() {
            let Some(block) = self.held.get(&self.draws[random.below(self.draws.len())]) else { break };
            let names = &chains[block.chain].names;
            let stretch = block.position..(block.position + between(random, 1, 8)).min(names.len());
            for &name in &names[stretch] {
                if victims.len() < count && self.held.contains_key(&name) {
                    self.forget(name);
                    victims.push(name);
                }
            }
        }
        victims
    }
}
