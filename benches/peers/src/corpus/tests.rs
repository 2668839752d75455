//! Corpora are the same every time, are what their names say, and no engine in them does the impossible.

use kv_router_sim::prompt::TraceBlockSize;
use kv_router_sim::trace::Trace;

use super::*;

fn conversation(block_tokens: u32, routing: Routing) -> Corpus {
    let trace = Trace::sample().unwrap().head(150);
    trace::record(&trace, TraceBlockSize::new(block_tokens).unwrap(), routing, 3).unwrap()
}

/// Lookups, stores, removals, clears, replacements; and the blocks that were stored and removed.
fn shape(corpus: &Corpus) -> ([usize; 5], [usize; 2]) {
    let (mut counts, mut blocks) = ([0; 5], [0; 2]);
    for at in 0..corpus.len() {
        let kind = match corpus.step(at).unwrap() {
            Step::Find { .. } => 0,
            Step::Change(change) => match change {
                Change::Store { .. } => 1,
                Change::Remove { .. } => 2,
                Change::Clear { .. } => 3,
                Change::Replace { .. } => 4,
            },
        };
        if let (1 | 2, Step::Change(change)) = (kind, corpus.step(at).unwrap()) {
            blocks[kind - 1] += change.blocks();
        }
        counts[kind] += 1;
    }
    (counts, blocks)
}

#[test]
fn recording_twice_gives_the_same_bytes() {
    let again = |make: fn() -> Corpus| assert!(make() == make());
    again(|| conversation(16, Routing::Prefix));
    again(|| conversation(512, Routing::Random));
    again(|| fanout::record(3, 40).unwrap());
    again(|| short::record(3, 3_000).unwrap());
    again(|| churn::record(2, 60_000).unwrap());
}

#[test]
fn fleet_sizes_and_routings_make_different_streams() {
    assert!(short::record(3, 300).unwrap() != short::record(4, 300).unwrap());
    assert!(conversation(16, Routing::Prefix) != conversation(16, Routing::Random));
}

#[test]
fn a_trace_asks_once_for_each_of_its_requests_and_copies_have_nothing_in_common() {
    let small = conversation(16, Routing::Prefix);
    assert_eq!(shape(&small).0[0], 150);
    assert_eq!(small.lookups().iter().filter(|&&at| at < small.warm_up()).count(), 45);
    let large = conversation(512, Routing::Prefix);
    // Eight copies; prompts shorter than a block have none and are left out.
    let asked = shape(&large).0[0];
    assert_eq!(asked % 8, 0);
    assert!(asked > 8 * 100, "{asked}");
}

#[test]
fn every_worker_holds_the_common_prompt_of_a_fanout() {
    let corpus = fanout::record(3, 40).unwrap();
    for at in corpus.lookups() {
        let Some(Step::Find { answer, .. }) = corpus.step(at) else { unreachable!() };
        assert_eq!(answer.len(), 3);
        assert!(answer.iter().all(|held| held.blocks >= 2_000));
    }
}

#[test]
fn short_prompts_mostly_miss() {
    let corpus = short::record(3, 3_000).unwrap();
    let misses = corpus.lookups().into_iter().filter(|&at| {
        let Some(Step::Find { query, answer }) = corpus.step(at) else { unreachable!() };
        assert!((4..=32).contains(&query.len()));
        answer.is_empty()
    });
    let share = misses.count() as f64 / 3_000.0;
    assert!((0.6..0.8).contains(&share), "{share}");
}

#[test]
fn churn_removes_as_much_as_it_stores_leaves_holes_and_stores_what_is_held() {
    let corpus = churn::record(2, 2_000_000).unwrap();
    let ([finds, stores, _, clears, replacements], [stored, removed]) = shape(&corpus);
    assert!(finds * 6 < stores);
    assert_eq!((clears, replacements), (8, 2));
    assert!(stored < removed * 2, "{stored} stored, {removed} removed");

    // Replayed literally: holes are blocks behind a missing parent; stores again are stores of held blocks.
    let mut held = std::collections::HashSet::new();
    let (mut holes, mut again) = (0, 0);
    for at in 0..corpus.len() {
        match corpus.step(at).unwrap() {
            Step::Change(Change::Store { worker, blocks, .. }) => {
                again += blocks.iter().filter(|block| !held.insert((worker, block.external))).count();
            }
            Step::Change(Change::Remove { worker, names }) => {
                names.iter().for_each(|&name| assert!(held.remove(&(worker, name))));
            }
            Step::Change(Change::Clear { worker } | Change::Replace { worker }) => {
                held.retain(|(holder, _)| *holder != worker);
            }
            Step::Find { query, answer } => {
                let names = fleet::names(query);
                for worker in 0..2 {
                    let leading = answer.iter().find(|one| one.worker == worker).map_or(0, |one| one.blocks);
                    let behind = names.iter().skip(leading as usize + 1);
                    holes += behind.filter(|&&name| held.contains(&(worker, name))).count();
                }
            }
        }
    }
    assert_eq!(held.len() as u64, corpus.held());
    assert!(holes > 1_000 && again > 1_000, "{holes} held behind holes, {again} stored again");
}

#[test]
fn a_full_engine_evicts_leaves_first_and_refuses_what_does_not_fit() {
    let name = ExternalSequenceHash::new;
    let mut engine = engine::Engine::new(4);
    let first = [1, 2, 3].map(name);
    assert_eq!(engine.admit(&first, 0), Some(vec![]));
    assert_eq!(engine.pinned(), 3);
    assert_eq!(engine.admit(&[10, 11].map(name), 0), None, "running requests leave one block");
    engine.release(&first);
    assert_eq!(engine.admit(&[10, 11].map(name), 0), Some(vec![name(3)]));
    assert_eq!(engine.admit(&[1, 2].map(name), 2), Some(vec![]), "used again");
    engine.release(&[10, 11].map(name));
    engine.release(&[1, 2].map(name));
    assert_eq!(engine.admit(&[20, 21].map(name), 0), Some([11, 10].map(name).to_vec()));
    assert_eq!(engine.hit(&first), 2);
}

#[test]
fn names_lead_back_to_their_corpora() {
    for kind in Kind::ALL {
        assert_eq!(Kind::named(&kind.to_string()), Some(kind));
    }
    assert_eq!(Kind::named("conv"), None);
}

#[test]
fn without_a_folder_conversations_come_from_the_sample_and_synthetic_traces_do_not_come() {
    let synthetic = Kind::named("synth-b16").unwrap();
    assert_eq!(build(synthetic, 2, Scale::Quick, None).unwrap(), None);
    let missing = std::path::Path::new("no such folder");
    let refused = build(synthetic, 2, Scale::Quick, Some(missing)).unwrap_err().to_string();
    assert!(refused.contains("--traces wants a folder"), "{refused}");
}

#[test]
fn a_recorder_names_the_first_step_that_no_engine_would_send() {
    let mut recorder = Recorder::new(1);
    let block = StoredBlock::new(ExternalSequenceHash::new(1), LocalBlockHash::new(1));
    recorder.store(0, None, &[block]);
    recorder.remove(0, &[ExternalSequenceHash::new(2)]);
    recorder.store(0, Some(ExternalSequenceHash::new(2)), &[block]);
    assert_eq!(recorder.finish().unwrap_err(), BrokenStream { step: 1 });
}
