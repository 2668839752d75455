//! Any requests, any pool: what must hold whatever happens. [`Bench::step`] checks the cache against its
//! events, the pool against a recount, and the order of evictions after every step.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A request by its path through a small tree of contents, so that prefixes are shared often.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    path: Vec<bool>,
    /// Tokens of the last piece.
    tail: u32,
    output: u32,
    /// Steps of the engine before it is sent.
    pub(super) pause: u8,
}

pub(super) fn shape() -> impl Strategy<Value = Shape> {
    (vec(any::<bool>(), 1..4), 1..=PIECE_TOKENS, 1u32..300, 0u8..40)
        .prop_map(|(path, tail, output, pause)| Shape { path, tail, output, pause })
}

pub(super) fn config() -> impl Strategy<Value = EngineConfig> {
    (prop_oneof![Just(64), Just(128), Just(256)], 5u32..40, 1u32..600, 1u32..7).prop_map(
        |(block, pool_blocks, step_token_budget, max_running)| EngineConfig {
            block_size: TraceBlockSize::new(block).unwrap(),
            pool_blocks,
            step_token_budget,
            max_running,
            ..EngineConfig::default()
        },
    )
}

pub(super) fn naming() -> impl Strategy<Value = Naming> {
    prop_oneof![Just(Naming::Content), any::<u64>().prop_map(Naming::Salted), Just(Naming::Serial)]
}

pub(super) fn build(index: u32, shape: &Shape, size: TraceBlockSize) -> Arc<SimRequest> {
    let mut node = 1;
    let ids: Vec<u64> = shape
        .path
        .iter()
        .map(|&right| {
            node = node * 2 + u64::from(right);
            node
        })
        .collect();
    let tokens = (ids.len() as u32 - 1) * PIECE_TOKENS + shape.tail;
    Arc::new(SimRequest::new(index, SimTime::ZERO, Prompt::new(ids, tokens).unwrap(), shape.output, size))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_lost_and_the_cache_is_what_its_events_say(
        config in config(),
        naming in naming(),
        shapes in vec(shape(), 1..14),
    ) {
        let mut bench = Bench::named(config, naming);
        let mut accepted = Vec::new();
        for (index, shape) in shapes.iter().enumerate() {
            for _ in 0..shape.pause {
                bench.step();
            }
            let request = build(index as u32, shape, config.block_size);
            let tokens = u64::from(request.input_tokens() + request.output_tokens() - 1);
            let fits = config.blocks_for(tokens) <= u64::from(config.pool_blocks);
            prop_assert_eq!(bench.engine.enqueue(Arc::clone(&request)).is_ok(), fits);
            if fits {
                accepted.push(request);
            }
        }
        bench.run();
        check_lives(&bench, &accepted);
    }
}

/// Every request lives a life in the right order, and every token is accounted for.
#[track_caller]
pub(super) fn check_lives(bench: &Bench, accepted: &[Arc<SimRequest>]) {
    let block = u64::from(bench.engine.config.tokens_per_block());
    let (mut first_admissions, mut tokens_of_prefills, mut least_prefill, mut preemptions) =
        (vec![], 0, 0, 0);
    for request in accepted {
        let life = bench.log.iter().filter(|entry| entry.1 == request.index()).map(|entry| entry.2);
        let (mut running, mut has_token, mut output, mut done) = (false, false, 0, false);
        for (nth, progress) in life.enumerate() {
            assert!(!done, "nothing comes after the end");
            match progress {
                Progress::Admitted { hit_blocks } => {
                    assert!(!running);
                    (running, has_token) = (true, false);
                    if nth == 0 {
                        assert!(u64::from(hit_blocks) <= u64::from(request.input_tokens() - 1) / block);
                        least_prefill += u64::from(request.input_tokens()) - u64::from(hit_blocks) * block;
                    }
                }
                Progress::PrefillCompleted => {
                    assert!(running && !has_token);
                    has_token = true;
                    tokens_of_prefills += 1;
                }
                Progress::OutputGrown { output_blocks } => {
                    assert!(running && has_token);
                    assert!(output_blocks > output, "blocks are reported as they are added");
                    output = output_blocks;
                }
                Progress::Preempted => {
                    assert!(running);
                    (running, output) = (false, 0);
                    preemptions += 1;
                }
                Progress::Finished => {
                    assert!(running && has_token);
                    done = true;
                }
                Progress::Refused | Progress::Lost => {
                    panic!("engines refuse by an error, and do not die alone")
                }
            }
        }
        assert!(done, "request {} never ended", request.index());
    }
    for entry in &bench.log {
        if matches!(entry.2, Progress::Admitted { .. }) && !first_admissions.contains(&entry.1) {
            first_admissions.push(entry.1);
        }
    }
    assert!(first_admissions.is_sorted(), "first come, first served");

    let stats = bench.engine.stats();
    let generated: u64 = accepted.iter().map(|request| u64::from(request.output_tokens())).sum();
    assert_eq!(stats.decode_tokens + tokens_of_prefills, generated, "each token is generated once");
    assert_eq!(stats.preemptions, preemptions);
    if preemptions == 0 {
        assert_eq!(stats.prefill_tokens, least_prefill);
    }
}
