//! Short prompts with little in common: 4 to 32 blocks, 70 % entirely new, 20 % behind a short shared head, 10 % repeats.
//! Most lookups miss at the first block, and the root has as many children as there are prompts.

use kv_router_sim::random::SeededRandom;
use kv_router_types::LocalBlockHash;

use super::fleet::{Fleet, between, chance, fresh};
use super::{BrokenStream, Corpus};

const HEADS: usize = 64;
/// Prompts that may be repeated.
const RECENT: usize = 10_000;

pub(super) fn record(workers: u32, requests: usize) -> Result<Corpus, BrokenStream> {
    let mut random = SeededRandom::new(0x5407 + u64::from(workers));
    let heads: Vec<Vec<LocalBlockHash>> =
        (0..HEADS).map(|head| (0..=head % 3).map(|_| fresh(&mut random)).collect()).collect();
    let mut fleet = Fleet::new(workers);
    let mut recent: Vec<(usize, Vec<LocalBlockHash>)> = Vec::new();
    for request in 0..requests {
        if request == requests / 2 {
            fleet.out.end_warm_up();
        }
        let anybody = random.below(workers as usize);
        let kind = random.below(10);
        let (worker, prompt) = if kind == 0 && !recent.is_empty() {
            let (home, prompt) = recent[random.below(recent.len())].clone();
            (if chance(&mut random, 50) { home } else { anybody }, prompt)
        } else {
            let mut prompt = if kind <= 2 { heads[random.below(HEADS)].clone() } else { Vec::new() };
            let blocks = between(&mut random, 4, 32);
            prompt.extend((prompt.len()..blocks).map(|_| fresh(&mut random)));
            (anybody, prompt)
        };
        let decodes = random.below(2);
        fleet.serve(worker, &prompt, decodes, &mut random);
        if recent.len() < RECENT {
            recent.push((worker, prompt));
        } else {
            recent[random.below(RECENT)] = (worker, prompt);
        }
    }
    fleet.out.finish()
}
