//! Tiers below the device: times worked out by hand, and what must hold whatever happens. [`Bench::step`] checks after
//! every step that no tier is over its capacity, that every block is accounted for, and that the events say the same.

use proptest::collection::vec;
use proptest::prelude::*;

use super::properties::{build, check_lives, config, naming, shape};
use super::*;
use Progress::{Finished, PrefillCompleted};

/// 5 ms and 1 ms a block to host memory, which has room for `host` blocks.
fn ladder(host: u32, disk: u32) -> LadderConfig {
    let tier = |blocks| TierConfig {
        blocks,
        latency: Duration::from_millis(5),
        blocks_per_second: 1_000,
        min_uses: 1,
    };
    LadderConfig { host: tier(host), disk: tier(disk), object: tier(0), ..LadderConfig::default() }
}

fn bench(host: u32, disk: u32) -> Bench {
    Bench::new(EngineConfig { ladder: Some(ladder(host, disk)), ..small(4) })
}

/// Milliseconds at which each batch with an event of `tier` came, and how many blocks of it were stored.
fn stores(bench: &Bench, tier: Tier) -> usize {
    let events = bench.batches.iter().flat_map(|batch| &batch.events);
    events
        .filter(|event| matches!(event, KvEvent::Stored { tier: of, .. } if *of == tier))
        .map(KvEvent::block_count)
        .sum()
}

#[test]
fn down_after_the_pass_and_the_batch_and_up_again_instead_of_computing() {
    let mut bench = bench(100, 0);
    bench.send(0, 1, 64, 1);
    bench.run();
    // Computed at 32 and 64, the last pass ends at 64; four blocks wait 10 ms for more and take 5 + 4 ms.
    assert_eq!((bench.now, stores(&bench, Tier::Host)), (SimTime::from_millis(83), 4));
    assert_eq!(bench.engine.lower_tier_blocks(), [4, 0, 0]);

    bench.log.clear();
    bench.send(1, 2, 64, 1); // takes all of the device
    bench.run();
    let start = bench.now.as_nanos() / 1_000_000;
    assert_eq!(start, 83 + 83);
    bench.log.clear();
    bench.send(2, 1, 64, 1);
    // Three blocks come up in 5 + 3 ms, the fourth is computed in 16.
    let expected = [(start, 2, admitted(3)), (start + 24, 2, PrefillCompleted), (start + 24, 2, Finished)];
    assert_eq!(bench.story(), expected);
    assert_eq!(
        (bench.engine.stats().onboarded_blocks, bench.engine.stats().prefill_tokens),
        (3, 64 + 64 + 16)
    );
}

#[test]
fn a_block_that_gives_way_before_it_is_committed_is_cancelled() {
    let mut bench = bench(100, 0);
    bench.send(0, 1, 64, 1);
    bench.send(1, 2, 64, 1); // begins at 64 and takes what waits to be offloaded
    bench.run();
    assert_eq!(stores(&bench, Tier::Host), 4, "those of the second alone");
    assert_eq!(bench.engine.lower_tier_blocks(), [4, 0, 0]);
}

#[test]
fn what_is_slower_than_computing_is_computed() {
    let mut slow = ladder(100, 0);
    slow.host.latency = Duration::from_secs(1);
    let mut bench = Bench::new(EngineConfig { ladder: Some(slow), ..small(4) });
    for (index, id) in [1, 2, 1].into_iter().enumerate() {
        bench.send(index as u32, id, 64, 1);
        bench.run();
    }
    assert_eq!((bench.engine.stats().onboarded_blocks, bench.engine.stats().prefill_tokens), (0, 3 * 64));
}

#[test]
fn what_host_memory_gives_up_is_on_disk() {
    let mut bench = bench(4, 100);
    for (index, id) in [1, 2, 3].into_iter().enumerate() {
        bench.send(index as u32, id, 64, 1);
        bench.run();
    }
    assert_eq!(bench.engine.lower_tier_blocks(), [4, 12, 0]);
    bench.log.clear();
    bench.send(3, 1, 64, 1);
    let start = bench.now.as_nanos() / 1_000_000;
    // Staged in 5 + 3 ms, pulled in 5 + 3 ms, the fourth computed in 16.
    assert_eq!(bench.story()[1], (start + 32, 3, PrefillCompleted));
}

#[test]
fn a_preempted_pull_lets_go_of_what_it_read() {
    let mut slow = ladder(100, 0);
    slow.host.latency = Duration::from_millis(40);
    let mut bench = Bench::new(EngineConfig { ladder: Some(slow), ..small(9) });
    bench.send(0, 1, 64, 1);
    bench.run();
    bench.send(1, 3, 144, 1); // takes all of the device
    bench.run();
    bench.log.clear();
    let start = bench.now.as_nanos() / 1_000_000;
    bench.send(2, 2, 78, 30);
    bench.send(3, 1, 64, 1);
    let story = bench.story();
    // Its three blocks would have come 40 + 3 ms after they were asked for; the older one needs a sixth block before.
    assert_eq!(story[1], (start + 64, 3, admitted(3)));
    assert_eq!(story[3], (start + 98, 3, Progress::Preempted));
    assert_eq!(story.last(), Some(&(bench.log.last().unwrap().0, 3, Finished)));
}

fn tier(blocks: impl Strategy<Value = u32>) -> impl Strategy<Value = TierConfig> {
    (blocks, 0u64..40, 20u32..5_000, 1u32..4).prop_map(|(blocks, latency, blocks_per_second, min_uses)| {
        TierConfig { blocks, latency: Duration::from_millis(latency), blocks_per_second, min_uses }
    })
}

fn any_ladder() -> impl Strategy<Value = LadderConfig> {
    let tiers = (tier(1u32..24), tier(0u32..24), tier(0u32..48));
    (tiers, 1u32..9, 1u32..9, 0u64..20, 1u32..40).prop_map(
        |((host, disk, object), flush_at, batch_cap, flush_after, max_queued)| LadderConfig {
            host,
            disk,
            object,
            flush_at,
            batch_cap,
            flush_after: Duration::from_millis(flush_after),
            max_queued,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_tier_keeps_its_bounds_and_is_what_its_events_say(
        config in config(),
        ladder in any_ladder(),
        naming in naming(),
        shapes in vec(shape(), 1..14),
    ) {
        let config = EngineConfig { ladder: Some(ladder), ..config };
        let mut bench = Bench::named(config, naming);
        let mut accepted = Vec::new();
        for (index, shape) in shapes.iter().enumerate() {
            for _ in 0..shape.pause {
                bench.step();
            }
            let request = build(index as u32, shape, config.block_size);
            if bench.engine.enqueue(Arc::clone(&request)).is_ok() {
                bench.watched.push(Arc::clone(&request));
                accepted.push(request);
            }
        }
        bench.run();
        check_lives(&bench, &accepted);
        let [host, disk, object] = bench.engine.lower_tier_blocks();
        prop_assert!(host <= ladder.host.blocks as usize);
        prop_assert!(disk <= ladder.disk.blocks as usize);
        prop_assert!(object <= ladder.object.blocks as usize);
    }
}
