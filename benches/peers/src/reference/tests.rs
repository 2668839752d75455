//! The reference against the contract in its most literal form.

use std::collections::BTreeSet;

use kv_router_sim::random::SeededRandom;
use kv_router_types::{ExternalSequenceHash, LocalBlockHash, StoredBlock};

use super::*;

/// Who holds which block, every block spelled out as its whole path.
type Literal = BTreeSet<(u32, Vec<LocalBlockHash>)>;

fn name(path: &[LocalBlockHash]) -> ExternalSequenceHash {
    let last = path.iter().fold(None, |parent, &local| Some(next_sequence_hash(parent, local)));
    ExternalSequenceHash::new(last.unwrap().get())
}

fn literal_answer(held: &Literal, workers: u32, query: &[LocalBlockHash]) -> Vec<Held> {
    let leading = |worker| {
        let is_held = |blocks: &u32| held.contains(&(worker, query[..*blocks as usize].to_vec()));
        (1..=query.len() as u32).take_while(is_held).count() as u32
    };
    let scores = (0..workers).map(|worker| Held { worker, blocks: leading(worker) });
    scores.filter(|held| held.blocks > 0).collect()
}

#[track_caller]
fn check_history(seed: u64, workers: u32) {
    let mut random = SeededRandom::new(seed);
    let mut reference = Reference::new(workers);
    let mut literal = Literal::new();
    for _ in 0..120 {
        // Few contents and short paths, so that everything meets everything.
        let path: Vec<_> =
            (0..=random.below(4)).map(|_| LocalBlockHash::new(random.below(3) as u64)).collect();
        let worker = random.below(workers as usize) as u32;
        let path_is_held = literal.contains(&(worker, path.clone()));
        match random.below(8) {
            0..5 => {
                let from = random.below(path.len());
                let parent = (from > 0).then(|| name(&path[..from]));
                let blocks: Vec<_> = (from + 1..=path.len())
                    .map(|to| StoredBlock::new(name(&path[..to]), path[to - 1]))
                    .collect();
                let sound = from == 0 || literal.contains(&(worker, path[..from].to_vec()));
                assert_eq!(reference.apply(Change::Store { worker, parent, blocks: &blocks }), sound);
                literal.extend((from + 1..=path.len()).map(|to| (worker, path[..to].to_vec())));
            }
            5..7 => {
                let names = [name(&path)];
                assert_eq!(reference.apply(Change::Remove { worker, names: &names }), path_is_held);
                literal.remove(&(worker, path.clone()));
            }
            _ if random.below(6) == 0 => {
                reference.apply(Change::Clear { worker });
                literal.retain(|(holder, _)| *holder != worker);
            }
            _ => {}
        }
        let mut answer = Vec::new();
        reference.find_into(&path, &mut answer);
        assert_eq!(answer, literal_answer(&literal, workers, &path), "seed {seed}");
        assert_eq!(reference.held(), literal.len() as u64, "seed {seed}");
    }
}

#[test]
fn it_agrees_with_the_contract_on_small_histories() {
    (0..400).for_each(|seed| check_history(seed, 3));
}

#[test]
fn it_agrees_when_workers_fill_more_than_a_word() {
    (0..60).for_each(|seed| check_history(seed, 130));
}

#[test]
fn an_empty_query_has_no_answer() {
    let mut answer = Vec::new();
    Reference::new(3).find_into(&[], &mut answer);
    assert_eq!(answer, []);
}
