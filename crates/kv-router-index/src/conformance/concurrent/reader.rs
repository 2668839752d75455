//! A thread that looks up, and knows what it may find.

use std::collections::BTreeMap;

use kv_router_hash::KeyedHashes;
use kv_router_types::Tier;

use super::board::{Board, QUERIES};
use super::{Clock, ConcurrentReport, Consistency, FailedRun};
use crate::conformance::rng::Rng;
use crate::{FindOptions, Overlap, Overlaps, PrefixIndex};

pub(super) fn run(
    index: &impl PrefixIndex,
    board: &Board,
    clock: &Clock,
    mut rng: Rng,
    consistency: Consistency,
) -> Result<ConcurrentReport, Box<FailedRun>> {
    let mut report = ConcurrentReport::default();
    let mut out = Overlaps::new();
    let mut keyed = index.keyer().map(|keyer| KeyedHashes::new(Some(keyer)));
    let mut done = Vec::with_capacity(board.ranks.len());
    while clock.goes_on() {
        let number = rng.below(QUERIES);
        let query = &board.queries[number];
        let early = rng.below(8) == 0;
        let options = if early { FindOptions::new().early_exit() } else { FindOptions::new() };

        done.clear();
        done.extend(board.ranks.iter().map(|log| log.done()));
        match &mut keyed {
            // What a request brings keys for is to be true like the rest.
            Some(keyed) if rng.below(2) == 0 => {
                keyed.set_locals(query);
                index.find_keyed_into(keyed, options, &mut out);
            }
            _ => index.find_into(query, options, &mut out),
        }
        let begun: Vec<_> = board.ranks.iter().map(|log| log.begun()).collect();

        report.lookups += 1;
        let mut found: BTreeMap<_, _> = BTreeMap::new();
        for overlap in out.iter() {
            let rank = overlap.worker();
            if board.log(rank).is_none() || found.insert(rank, overlap).is_some() {
                return Err(Box::new(FailedRun::Stranger { rank }));
            }
        }
        let bounded = out.best().filter(|_| out.is_lower_bound()).map(Overlap::worker);
        for ((log, &from), &to) in board.ranks.iter().zip(&done).zip(&begun) {
            let Some(states) = log.answers(number, from, to) else {
                report.unchecked += 1;
                continue;
            };
            report.scores += 1;
            report.contested += u64::from(to > from);
            let answer = found.get(&log.id).map_or([0; Tier::COUNT], |overlap| overlap.by_tier());
            let right = match consistency {
                _ if bounded == Some(log.id) => blocks(&answer) <= most(&states),
                Consistency::WholeEvents => states.contains(&answer),
                Consistency::Between => (least(&states)..=most(&states)).contains(&blocks(&answer)),
            };
            if !right {
                let (rank, query) = (log.id, query.clone());
                return Err(Box::new(FailedRun::Score { rank, query, found: answer, states }));
            }
        }
    }
    Ok(report)
}

fn blocks(by_tier: &[u32; Tier::COUNT]) -> u32 {
    by_tier.iter().sum()
}

fn most(states: &[[u32; Tier::COUNT]]) -> u32 {
    states.iter().map(blocks).max().unwrap_or(0)
}

fn least(states: &[[u32; Tier::COUNT]]) -> u32 {
    states.iter().map(blocks).min().unwrap_or(0)
}
