//! When things happen. All numbers are worked out by hand from the configuration in [`small`](super::small).

use super::*;
use Progress::{Finished, OutputGrown, PrefillCompleted};

#[test]
fn a_long_prompt_is_computed_in_chunks_and_then_decoded() {
    let mut bench = Bench::new(small(100));
    bench.send(0, 1, 80, 3);
    // Chunks of 32, 32 and 16 tokens end at 32, 64 and 80 ms; two more tokens take 10 ms each.
    let expected = [
        (0, 0, admitted(0)),
        (80, 0, PrefillCompleted),
        (80, 0, OutputGrown { output_blocks: 1 }), // token 81 needs a sixth block
        (100, 0, Finished),
    ];
    assert_eq!(bench.run(), expected);
    let stored: Vec<usize> = bench.batches.iter().map(|batch| batch.events[0].block_count()).collect();
    assert_eq!(stored, [2, 2, 1], "blocks are announced as they are computed");
    let stats = bench.engine.stats();
    assert_eq!((stats.prefill_tokens, stats.decode_tokens, stats.steps), (80, 2, 5));
}

#[test]
fn decoding_goes_on_between_the_chunks_of_another() {
    let mut bench = Bench::new(small(100));
    bench.send(0, 1, 16, 3);
    bench.send(1, 2, 40, 1);
    let expected = [
        (0, 0, admitted(0)),
        (0, 1, admitted(0)),
        (32, 0, PrefillCompleted), // 16 + 16 tokens
        (66, 1, PrefillCompleted), // 24 tokens and a decode step
        (66, 1, Finished),
        (76, 0, Finished),
    ];
    assert_eq!(bench.story(), expected);
}

#[test]
fn first_come_first_served_within_the_budget() {
    let mut bench = Bench::new(small(100));
    for index in 0..4 {
        bench.send(index, u64::from(index), 32, 1);
    }
    let tokens: Vec<_> = bench.story().into_iter().filter(|entry| entry.2 == PrefillCompleted).collect();
    assert_eq!(
        tokens,
        [32, 64, 96, 128].into_iter().zip(0..).map(|(at, i)| (at, i, PrefillCompleted)).collect::<Vec<_>>()
    );
}

#[test]
fn no_more_run_than_may() {
    let mut bench = Bench::new(EngineConfig { max_running: 1, ..small(100) });
    bench.send(0, 1, 16, 2);
    bench.send(1, 2, 16, 1);
    // The second could share the first step, but waits until the first is done.
    let expected = [
        (0, 0, admitted(0)),
        (16, 0, PrefillCompleted),
        (26, 0, Finished),
        (26, 1, admitted(0)),
        (42, 1, PrefillCompleted),
        (42, 1, Finished),
    ];
    assert_eq!(bench.story(), expected);
}

#[test]
fn a_cached_prompt_computes_only_its_last_block() {
    let mut bench = Bench::new(small(100));
    bench.send(0, 1, 80, 1);
    bench.run();
    bench.send(1, 1, 80, 1);
    bench.send(2, 1, 90, 1);
    // 80 tokens are 5 blocks, but the last token must be computed: 4 hits, 16 tokens. 90 tokens: 5 hits, 10
    // tokens.
    let expected = [
        (80, 1, admitted(4)),
        (80, 2, admitted(5)),
        (106, 1, PrefillCompleted),
        (106, 2, PrefillCompleted),
        (106, 1, Finished),
        (106, 2, Finished),
    ];
    assert_eq!(bench.story()[3..], expected);
    assert_eq!(bench.batches.len(), 3, "what is computed again is not announced again");
}

#[test]
fn a_block_is_found_once_it_is_computed_and_not_before() {
    let mut bench = Bench::new(small(100));
    bench.send(0, 1, 80, 1);
    bench.step(); // computing blocks 0 and 1 until 32 ms
    bench.send(1, 1, 80, 1);
    bench.step(); // the budget is the first one's: nobody new
    bench.step(); // at 64 ms four blocks are there
    assert_eq!(bench.log.last(), Some(&(64, 1, admitted(4))));
    bench.run();

    let mut bench = Bench::new(EngineConfig { step_token_budget: 1_000, ..small(100) });
    bench.send(0, 1, 80, 1);
    bench.send(1, 1, 80, 1);
    let story = bench.story();
    assert_eq!(story[..2], [(0, 0, admitted(0)), (0, 1, admitted(0))]);
    assert_eq!(bench.engine.stats().prefill_tokens, 160);
    assert_eq!((bench.engine.cached_blocks(), bench.batches.len()), (5, 1), "computed twice, kept once");
}

#[test]
fn between_steps_nothing_happens() {
    let mut bench = Bench::new(small(100));
    bench.send(0, 1, 80, 1);
    bench.step();
    let end = bench.report.next;
    bench.engine.advance(SimTime::from_millis(31), &mut bench.report);
    assert_eq!((bench.report.next, bench.report.milestones.len()), (end, 0));
    assert_eq!(bench.engine.stats().steps, 0);
}
