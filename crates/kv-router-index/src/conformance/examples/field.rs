//! What indexes in the field got wrong.

use kv_router_types::Tier::{Device, Host, Object};

use super::super::rng::Rng;
use super::{Example, NOTHING, repeats, unknown_parent};
use crate::Applied;

pub(super) fn examples() -> Vec<Example> {
    let mut examples = leaks();
    examples.extend(holes());
    examples.extend(jumps());
    examples.extend(streams());
    examples
}

/// Structure that outlives what it was for.
fn leaks() -> Vec<Example> {
    let chain = || Example::new("a chain of 140 removed in any order leaves nothing").store(1, None, 1..=140);
    let mut shuffled: Vec<u64> = (1..=140).collect();
    Rng::new(7).shuffle(&mut shuffled);
    let one_by_one = |order: Vec<u64>| {
        order.into_iter().fold(chain(), |example, block| example.remove(1, [block])).empty()
    };
    let mut examples = vec![
        chain().remove(1, (1..=140).rev()).empty(),
        chain().remove(1, 1..=140).empty(),
        chain().remove(1, shuffled.clone()).empty(),
        one_by_one((1..=140).rev().collect()),
        one_by_one((1..=140).collect()),
        one_by_one(shuffled),
        Example::new("a split chain leaves nothing")
            .store(1, None, 1..=140)
            .store(2, None, 1..=70)
            .store(2, Some(70), 200..=250)
            .remove(1, 1..=140)
            .remove(2, (200..=250).rev())
            .remove(2, (1..=70).rev())
            .empty(),
    ];
    let short_lived = (0..1000).fold(Example::new("short-lived workers leave nothing"), |example, worker| {
        match worker % 3 {
            0 => example.store(worker, None, [1, 2]).remove_worker(worker, 2),
            1 => example.store(worker, None, [1, 2]).clear(worker, 2),
            _ => example.store(worker, None, [1, 2]).remove(worker, [1, 2]),
        }
    });
    examples.push(short_lived.empty());
    examples
}

fn holes() -> Vec<Example> {
    vec![
        Example::new("head eviction, whole chain")
            .store(1, None, 1..=3)
            .remove(1, [1])
            .ask(1..=3, &[])
            .store(1, None, [1])
            .ask(1..=3, &[(1, 3)]),
        Example::new("head eviction, split chain")
            .store(1, None, 1..=3)
            .store(2, None, 1..=2)
            .store(2, Some(1), [12])
            .remove(1, [1])
            .ask(1..=3, &[(2, 2)])
            .store(1, None, [1])
            .ask(1..=3, &[(1, 3), (2, 2)]),
        Example::new("middle eviction")
            .store(1, None, 1..=5)
            .remove(1, [2])
            .ask(1..=5, &[(1, 1)])
            .store(1, Some(1), [2])
            .ask(1..=5, &[(1, 5)]),
        Example::new("a refilled hole counts, and its end is a parent still")
            .store(1, None, 1..=10)
            .remove(1, [5])
            .ask(1..=10, &[(1, 4)])
            .store(1, Some(4), [5])
            .ask(1..=10, &[(1, 10)])
            .store(1, Some(10), [11])
            .ask(1..=11, &[(1, 11)]),
        Example::new("what hangs behind a hole is a parent still")
            .store(1, None, 1..=5)
            .remove(1, [2])
            .store(1, Some(5), [6])
            .ask(1..=6, &[(1, 1)])
            .store(1, Some(1), [2])
            .ask(1..=6, &[(1, 6)]),
    ]
}

/// Searches that skip blocks must not trust numbers of holders.
fn jumps() -> Vec<Example> {
    let mut examples = vec![
        Example::new("one worker leaves for another chain")
            .store(1, None, 0..=7)
            .store(2, None, 0..=3)
            .store(2, Some(3), 14..=17)
            .ask(0..=7, &[(1, 8), (2, 4)])
            .ask([0, 1, 2, 3, 14, 15, 16, 17], &[(1, 4), (2, 8)]),
    ];
    for half in [1, 2, 3, 4, 8, 16, 31, 32, 33, 64, 65, 128] {
        // Worker 3 takes the place of worker 2, so that the number of holders stays two all along.
        examples.push(
            Example::new("two workers swap")
                .store(1, None, 0..2 * half)
                .store(2, None, 0..half)
                .store(3, None, 0..2 * half)
                .remove(3, 0..half)
                .ask(0..2 * half, &[(1, 2 * half as u32), (2, half as u32)])
                .ask(0..half, &[(1, half as u32), (2, half as u32)]),
        );
        // And back: at the last block worker 2 holds again.
        examples.push(
            Example::new("a hole between two probes")
                .store(1, None, 0..2 * half + 1)
                .store(2, None, 0..2 * half + 1)
                .remove(2, [half])
                .ask(0..2 * half + 1, &[(1, 2 * half as u32 + 1), (2, half as u32)]),
        );
    }
    examples
}

fn streams() -> Vec<Example> {
    vec![
        Example::new("an orphan is visible and repaired by its parent's store")
            .refuse(1, Some(8), [9], unknown_parent(8))
            .ask([9], &[])
            .store(1, None, [7, 8])
            .store(1, Some(8), [9])
            .ask([7, 8, 9], &[(1, 3)]),
        Example::new("a second store does not inflate sizes")
            .store(1, None, [10, 20, 30])
            .store_as(
                1,
                Device,
                None,
                &[(10, 10), (20, 20), (30, 30)],
                Ok(Applied { already_held: 3, ..NOTHING }),
            )
            .holds(3, 1)
            .remove(1, [30, 20, 10])
            .empty(),
        Example::new("engines that hash content, not sequence")
            .refuse(1, None, [1, 1], repeats(1))
            .empty()
            .store(1, None, [1])
            .refuse(1, Some(1), [1], repeats(1))
            .holds(1, 1)
            .ask([1, 1], &[(1, 1)]),
        Example::new("engines with different hash functions share a prefix")
            .store_as(1, Device, None, &[(0xA1, 1), (0xA2, 2)], Ok(Applied { stored: 2, ..NOTHING }))
            .store_as(2, Device, None, &[(0xB1, 1), (0xA1, 3)], Ok(Applied { stored: 2, ..NOTHING }))
            .ask([1, 2], &[(1, 2), (2, 1)])
            .ask([1, 3], &[(1, 1), (2, 2)])
            .remove(1, [0xA1])
            .ask([1, 3], &[(2, 2)]),
        Example::new("object storage does not count as device memory")
            .store(1, None, [1])
            .store_in(Object, 1, Some(1), [2])
            .ask_tiers([1, 2], &[(1, [1, 0, 0, 1])])
            .remove_as(1, Device, &[2], Applied { unknown: 1, ..NOTHING })
            .ask_tiers([1, 2], &[(1, [1, 0, 0, 1])]),
        Example::new("a tier's removal is not the block's")
            .store(1, None, [1])
            .store_in(Host, 1, None, [1])
            .remove(1, [1])
            .ask_tiers([1], &[(1, [0, 1, 0, 0])])
            .remove_in(Host, 1, [1])
            .ask([1], &[])
            .empty(),
        Example::new("an absent block does not stop a removal")
            .store(1, None, [1, 2, 3])
            .remove_as(1, Device, &[1, 99, 3], Applied { removed: 2, unknown: 1, ..NOTHING })
            .ask(1..=3, &[])
            .holds(1, 1),
    ]
}
