//! Who holds what, what is given up, and what is called what.

use super::*;
use Progress::{Finished, Preempted, PrefillCompleted};

fn stored(batches: &[EventBatch]) -> Vec<(Option<ExternalSequenceHash>, kv_router_types::StoredBlock)> {
    let mut list = Vec::new();
    for event in batches.iter().flat_map(|batch| &batch.events) {
        if let KvEvent::Stored { parent, blocks, .. } = event {
            let mut parent = *parent;
            for &block in blocks {
                list.push((parent, block));
                parent = Some(block.external);
            }
        }
    }
    list
}

fn removed(batches: &[EventBatch]) -> Vec<ExternalSequenceHash> {
    let events = batches.iter().flat_map(|batch| &batch.events);
    let names = events.filter_map(|event| match event {
        KvEvent::Removed { blocks, .. } => Some(blocks.as_slice()),
        KvEvent::Stored { .. } | KvEvent::Cleared => None,
    });
    names.flatten().copied().collect()
}

#[test]
fn what_can_never_fit_is_refused_and_what_just_fits_is_not() {
    let mut bench = Bench::new(small(4));
    let size = bench.engine.config.block_size;
    let error = bench.engine.enqueue(request(0, 1, 64, 2, size)).unwrap_err();
    assert_eq!(error, EnqueueError::TooLarge { needed_blocks: 5, pool_blocks: 4 });
    let huge = Prompt::new((0..100).collect(), 51_200).unwrap();
    let huge = SimRequest::new(0, SimTime::ZERO, huge, u32::MAX, size);
    assert!(matches!(bench.engine.enqueue(Arc::new(huge)), Err(EnqueueError::TooLarge { .. })));
    let other = request(0, 1, 64, 1, TraceBlockSize::new(32).unwrap());
    assert_eq!(bench.engine.enqueue(other), Err(EnqueueError::BlockSize { engine: 16, request: 32 }));

    bench.send(1, 1, 64, 1); // the one token generated is never fed back
    assert_eq!(bench.run().last(), Some(&(64, 1, Finished)));
}

#[test]
fn a_head_that_does_not_fit_holds_up_those_behind_it() {
    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(6) });
    bench.send(0, 1, 64, 1);
    bench.send(1, 2, 64, 1); // needs 4 of the 2 left
    bench.send(2, 3, 16, 1); // would fit
    let expected = [
        (0, 0, admitted(0)),
        (64, 0, PrefillCompleted),
        (64, 0, Finished),
        (64, 1, admitted(0)),
        (64, 2, admitted(0)),
    ];
    assert_eq!(bench.story()[..5], expected);
}

#[test]
fn a_stuck_head_is_admitted_when_its_prefix_appears() {
    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(6) });
    bench.send(0, 1, 64, 20);
    bench.send(1, 1, 64, 1); // needs 4 of the 2 left, until the first has computed blocks to share
    bench.step();
    bench.step();
    // At 64 ms: 3 blocks shared, 1 needed, and the output of the first took 1 of the 2 left.
    assert_eq!(bench.log.last(), Some(&(64, 1, admitted(3))));
    bench.run();
}

#[test]
fn tails_go_first_and_the_least_recently_used_chain_before_the_others() {
    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(8) });
    bench.send(0, 1, 48, 1); // a0 a1 a2
    bench.run();
    bench.send(1, 2, 48, 1); // b0 b1 b2
    bench.run();
    bench.send(2, 1, 33, 1); // uses a0 a1 again; one block for the last token comes free unsealed
    bench.run();
    let names: Vec<_> = stored(&bench.batches).into_iter().map(|(_, block)| block.external).collect();
    let [a0, a1, a2, b0, b1, b2] = names[..] else { panic!("{names:?}") };
    bench.send(3, 3, 128, 1);
    bench.run();
    assert_eq!(removed(&bench.batches), [a2, b2, b1, b0, a1, a0]);
}

#[test]
fn a_block_in_use_is_never_evicted() {
    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(6) });
    bench.send(0, 1, 48, 40);
    bench.step();
    bench.step();
    bench.send(1, 2, 32, 1);
    bench.step();
    bench.step();
    let chain = request(0, 1, 48, 1, bench.engine.config.block_size);
    assert_eq!(bench.model.longest_prefix(chain.blocks()), 3);
    bench.run();
}

#[test]
fn generated_blocks_are_cached_under_hashes_of_their_own() {
    let mut bench = Bench::new(small(100));
    bench.send(0, 1, 20, 30); // 20 + 29 tokens are fed: 3 whole blocks, of which the prompt fills 1
    bench.send(1, 1, 20, 30);
    bench.run();
    let stored = stored(&bench.batches);
    assert_eq!(stored.len(), 5, "one prompt block, and two of each");
    let prompt = request(0, 1, 20, 1, bench.engine.config.block_size);
    let mut locals: Vec<_> = stored.iter().map(|(_, block)| block.local).collect();
    assert_eq!(locals[0], prompt.blocks()[0]);
    locals.sort_unstable();
    locals.dedup();
    assert_eq!(locals.len(), 5);
}

#[test]
fn the_youngest_gives_way_and_is_computed_again() {
    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(4) });
    bench.send(0, 1, 32, 10);
    bench.send(1, 2, 32, 2);
    // At 64 ms both have their first token and hold 2 blocks each; both need a third. The second gives way:
    // the first takes the memory of its tail, and finishes 9 tokens later. The second comes back only then: 1
    // block is free and 1 of its own is still cached, but it needs 2 more.
    let expected = [
        (0, 0, admitted(0)),
        (0, 1, admitted(0)),
        (64, 0, PrefillCompleted),
        (64, 1, PrefillCompleted),
        (64, 1, Preempted),
        (154, 0, Finished),
        (154, 1, admitted(1)),
        (171, 1, PrefillCompleted), // 32 + 1 tokens, of which 16 are cached: 17 ms
        (171, 1, Finished),         // and with that its second token
    ];
    assert_eq!(bench.story(), expected);
    let stats = bench.engine.stats();
    assert_eq!((stats.preemptions, stats.prefill_tokens, stats.decode_tokens), (1, 64 + 17, 9));
}

#[test]
fn who_gave_way_comes_back_before_those_who_only_waited() {
    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(4) });
    bench.send(0, 1, 32, 10);
    bench.send(1, 2, 32, 2);
    bench.send(2, 3, 16, 1); // fits beside the first once the second gave way
    let story = bench.story();
    let preempted = story.iter().position(|entry| *entry == (64, 1, Preempted)).unwrap();
    assert_eq!(
        story[preempted + 1..][..3],
        [(154, 0, Finished), (154, 1, admitted(1)), (154, 2, admitted(0))]
    );
}

#[test]
fn naming_is_the_engines_own_business() {
    let names = |naming| {
        let mut bench = Bench::named(small(100), naming);
        bench.send(0, 1, 48, 1);
        bench.run();
        stored(&bench.batches)
    };
    let [content, again, salted, other, serial] =
        [Naming::Content, Naming::Content, Naming::Salted(1), Naming::Salted(2), Naming::Serial].map(names);
    assert_eq!(content, again);
    let external = |list: &[(_, kv_router_types::StoredBlock)]| -> Vec<u64> {
        list.iter().map(|(_, block)| block.external.get()).collect()
    };
    assert_eq!(external(&serial), [0, 1, 2]);
    for [one, two] in [[&content, &salted], [&salted, &other]] {
        assert!(one.iter().zip(two).all(|(a, b)| a.1.local == b.1.local && a.1.external != b.1.external));
    }
}
