//! One long prompt that every worker holds, private tails behind it: every lookup is deep and reports everybody.

use kv_router_sim::random::SeededRandom;
use kv_router_types::LocalBlockHash;

use super::fleet::{Fleet, between, chance, fresh, names, pairs};
use super::{BrokenStream, Corpus};

/// Blocks of the common prompt.
const COMMON: usize = 2_000;
/// Blocks that a chunked prefill announces at once.
const CHUNK: usize = 512;
/// Tails that a later request may continue.
const RECENT: usize = 2_000;
const DECODES: usize = 4;

pub(super) fn record(workers: u32, requests: usize) -> Result<Corpus, BrokenStream> {
    let mut random = SeededRandom::new(0xfa00 + u64::from(workers));
    let common: Vec<LocalBlockHash> = (0..COMMON).map(|_| fresh(&mut random)).collect();
    let mut fleet = Fleet::new(workers);
    let common_names = names(&common);
    let blocks = pairs(&common_names, &common);
    for worker in 0..workers {
        let engine = &mut fleet.engines[worker as usize];
        engine.admit(&common_names, 0);
        engine.release(&common_names);
        for from in (0..COMMON).step_by(CHUNK) {
            let parent = from.checked_sub(1).map(|last| common_names[last]);
            fleet.out.store(worker, parent, &blocks[from..COMMON.min(from + CHUNK)]);
        }
    }
    let mut tails: Vec<(usize, Vec<LocalBlockHash>)> = Vec::new();
    for request in 0..requests {
        if request == requests / 4 {
            fleet.out.end_warm_up();
        }
        let continues = !tails.is_empty() && chance(&mut random, 40);
        let (home, mut prompt, grow) = if continues {
            let back = random.below(tails.len().min(RECENT));
            let (home, prompt) = tails[tails.len() - 1 - back].clone();
            (home, prompt, between(&mut random, 8, 64))
        } else {
            (random.below(workers as usize), common.clone(), between(&mut random, 16, 256))
        };
        prompt.extend((0..grow).map(|_| fresh(&mut random)));
        let worker = if chance(&mut random, 80) { home } else { random.below(workers as usize) };
        fleet.serve(worker, &prompt, DECODES, &mut random);
        tails.push((worker, prompt));
    }
    fleet.out.finish()
}
