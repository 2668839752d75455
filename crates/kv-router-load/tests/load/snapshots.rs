//! A buffer that is filled again and again, from a large fleet and from another one, against one filled from nothing.

use std::num::NonZeroU32;

use kv_router_load::{Booking, EngineReport, LoadSnapshot, LoadTracker, RankCapacity, RankLoad};
use kv_router_types::SequenceHash;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{Clock, blocks, demand, rank, tracker};

/// Enough for several groups in every shard, and a last one that is not full.
const RANKS: u64 = 300;

#[derive(Clone, Debug)]
enum Step {
    Book {
        tracker: usize,
        worker: u64,
        prompt: usize,
    },
    Progress(Index),
    Drop(Index),
    Report {
        tracker: usize,
        worker: u64,
        blocks: u64,
    },
    Capacity {
        tracker: usize,
        worker: u64,
        tokens: u32,
    },
    Remove {
        tracker: usize,
        worker: u64,
    },
    Add {
        tracker: usize,
        worker: u64,
    },
    /// A buffer is filled from a tracker.
    Fill {
        buffer: usize,
        tracker: usize,
        prompt: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (two, worker, prompt) = (|| 0..2usize, || 0..RANKS, || 0..4usize);
    prop_oneof![
        6 => (two(), worker(), prompt()).prop_map(|(tracker, worker, prompt)| Step::Book { tracker, worker, prompt }),
        2 => any::<Index>().prop_map(Step::Progress),
        3 => any::<Index>().prop_map(Step::Drop),
        2 => (two(), worker(), 0..3u64).prop_map(|(tracker, worker, blocks)| Step::Report { tracker, worker, blocks }),
        1 => (two(), worker(), 1..3u32).prop_map(|(tracker, worker, tokens)| Step::Capacity { tracker, worker, tokens }),
        1 => (two(), worker()).prop_map(|(tracker, worker)| Step::Remove { tracker, worker }),
        1 => (two(), worker()).prop_map(|(tracker, worker)| Step::Add { tracker, worker }),
        6 => (two(), prop_oneof![4 => Just(0), 1 => Just(1)], prompt())
            .prop_map(|(buffer, tracker, prompt)| Step::Fill { buffer, tracker, prompt }),
    ]
}

fn prompts() -> [Vec<SequenceHash>; 4] {
    [blocks(&[]), blocks(&[1, 2, 3, 4, 5]), blocks(&[1, 2, 9]), blocks(&[7])]
}

fn check_fill(
    tracker: &LoadTracker,
    prompt: &[SequenceHash],
    buffer: &mut LoadSnapshot,
) -> Result<(), TestCaseError> {
    let (before, membership): (Vec<RankLoad>, _) = (buffer.iter().collect(), buffer.membership());
    tracker.snapshot_into(prompt, buffer);
    let mut fresh = LoadSnapshot::new();
    tracker.snapshot_into(prompt, &mut fresh);
    prop_assert!(buffer.iter().eq(fresh.iter()));
    prop_assert_eq!(buffer.membership(), fresh.membership());
    prop_assert_eq!(buffer.shared_blocks(), fresh.shared_blocks());
    let ordered = |positions: &mut dyn Iterator<Item = usize>| {
        let mut positions: Vec<usize> = positions.collect();
        positions.sort_unstable();
        positions
    };
    prop_assert_eq!(ordered(&mut buffer.sharers()), ordered(&mut fresh.sharers()));
    let differs = |position: &usize| {
        let Some(now) = buffer.get(*position) else { return false };
        buffer.membership() != membership
            || (before[*position].load, before[*position].capacity) != (now.load, now.capacity)
    };
    let different: Vec<usize> = (0..buffer.len()).filter(differs).collect();
    prop_assert_eq!(ordered(&mut buffer.changed()), different);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_used_buffer_shows_what_a_new_one_shows(steps in prop::collection::vec(step(), 0..150)) {
        let (clock, prompts) = (Clock::start(), prompts());
        let all: Vec<_> = (0..RANKS).map(|worker| rank(worker, 0)).collect();
        let trackers = [tracker(&all), tracker(&all[..20])];
        let mut buffers = [LoadSnapshot::new(), LoadSnapshot::new()];
        let mut bookings: Vec<Booking> = Vec::new();
        for step in steps {
            match step {
                Step::Book { tracker, worker, prompt } => {
                    let demand = demand(None, 5, &prompts[prompt], 1);
                    bookings.extend(trackers[tracker].book(rank(worker, 0), demand, clock.at(0)).ok());
                }
                Step::Progress(which) if !bookings.is_empty() => {
                    let _ = bookings[which.index(bookings.len())].grow_output(1, clock.at(0));
                }
                Step::Drop(which) if !bookings.is_empty() => {
                    drop(bookings.swap_remove(which.index(bookings.len())));
                }
                Step::Progress(_) | Step::Drop(_) => {}
                Step::Report { tracker, worker, blocks } => {
                    let report = EngineReport { blocks: Some(blocks), ..EngineReport::default() };
                    trackers[tracker].report(rank(worker, 0), &report, clock.at(0));
                }
                Step::Capacity { tracker, worker, tokens } => {
                    let capacity = RankCapacity { batched_tokens: NonZeroU32::new(tokens), total_blocks: None };
                    trackers[tracker].set_capacity(rank(worker, 0), capacity);
                }
                Step::Remove { tracker, worker } => {
                    trackers[tracker].remove_rank(rank(worker, 0));
                }
                Step::Add { tracker, worker } => trackers[tracker].add_rank(rank(worker, 0)).unwrap(),
                Step::Fill { buffer, tracker, prompt } => {
                    check_fill(&trackers[tracker], &prompts[prompt], &mut buffers[buffer])?;
                }
            }
        }
    }
}
