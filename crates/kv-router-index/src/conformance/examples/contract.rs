//! Each rule of the contract, one by one.

use kv_router_types::Tier::{Device, Disk, Host, Object};

use super::{Example, NOTHING, repeats, unknown_parent};
use crate::Applied;

pub(super) fn examples() -> Vec<Example> {
    let mut examples = events();
    examples.extend(names());
    examples.extend(matching());
    examples.extend(tiers());
    examples
}

fn events() -> Vec<Example> {
    vec![
        Example::new("nothing is held at first").ask([1, 2], &[]).ask([], &[]).empty(),
        Example::new("an empty query matches nobody").store(1, None, [1]).ask([], &[]),
        Example::new("an orphan is refused whole and never attached to the root")
            .store(1, None, [1])
            .refuse(1, Some(8), [9, 10], unknown_parent(8))
            .ask([9, 10], &[])
            .ask([1, 9], &[(1, 1)])
            .holds(1, 1),
        Example::new("a parent that another rank holds is unknown")
            .store(1, None, [1])
            .refuse(2, Some(1), [2], unknown_parent(1))
            .holds(1, 1),
        Example::new("an orphan of an unknown rank leaves no state")
            .refuse(1, Some(8), [9], unknown_parent(8))
            .empty(),
        Example::new("a removed parent is unknown")
            .store(1, None, [1, 2])
            .remove(1, [1])
            .refuse(1, Some(1), [3], unknown_parent(1))
            .store(1, Some(2), [3])
            .ask([1, 2, 3], &[]),
        Example::new("a parent counts in any tier")
            .store_in(Disk, 1, None, [1])
            .store(1, Some(1), [2])
            .ask_tiers([1, 2], &[(1, [1, 0, 1, 0])]),
        Example::new("a replay changes nothing")
            .store(1, None, [1, 2, 3])
            .store_as(1, Device, None, &[(1, 1), (2, 2), (3, 3)], Ok(Applied { already_held: 3, ..NOTHING }))
            .holds(3, 1)
            .ask([1, 2, 3], &[(1, 3)])
            .remove(1, [1, 2, 3])
            .empty(),
        Example::new("a store that goes on after what is held").store(1, None, [1, 2]).store_as(
            1,
            Device,
            None,
            &[(1, 1), (2, 2), (3, 3)],
            Ok(Applied { stored: 1, already_held: 2, ..NOTHING }),
        ),
        Example::new("a store without blocks is nothing, but its parent is checked")
            .store(1, None, [])
            .empty()
            .refuse(1, Some(1), [], unknown_parent(1))
            .empty()
            .store(1, None, [1])
            .store(1, Some(1), [])
            .holds(1, 1),
        Example::new("each name of a removal stands alone")
            .store(1, None, [1, 2, 3])
            .remove_as(1, Device, &[1, 8, 3], Applied { removed: 2, unknown: 1, ..NOTHING })
            .holds(1, 1),
        Example::new("the second time in one removal it is unknown").store(1, None, [1, 2]).remove_as(
            1,
            Device,
            &[2, 2],
            Applied { removed: 1, unknown: 1, ..NOTHING },
        ),
        Example::new("a removal by an unknown rank leaves no state")
            .remove_as(1, Device, &[1], Applied { unknown: 1, ..NOTHING })
            .empty(),
        Example::new("a clear takes every tier of one rank")
            .store(1, None, [1, 2])
            .store_in(Host, 1, None, [1])
            .store(2, None, [1])
            .clear(1, 3)
            .ask([1, 2], &[(2, 1)])
            .clear(2, 1)
            .empty(),
        Example::new("a clear of an unknown rank leaves no state").clear(1, 0).empty(),
        Example::new("a removed worker may return")
            .store(1, None, [1, 2])
            .remove_worker(1, 2)
            .empty()
            .remove_worker(1, 0)
            .refuse(1, Some(2), [3], unknown_parent(2))
            .store(1, None, [1])
            .ask([1, 2], &[(1, 1)]),
        Example::new("a malformed store is refused whole")
            .store(1, None, [5])
            .refuse(1, Some(5), [1, 2, 1], repeats(1))
            .refuse(1, Some(5), [1, 5], repeats(5))
            .refuse(1, Some(5), [1, 2, 2, 1], repeats(2))
            .holds(1, 1)
            .ask([5, 1], &[(1, 1)]),
        Example::new("what the event alone shows comes before what the state shows")
            .refuse(1, Some(8), [8], repeats(8))
            .refuse(1, Some(8), [1, 1], repeats(1))
            .empty(),
        Example::new("a long malformed store is refused for its first repeat")
            .refuse(1, None, (0..100).chain([98, 3]), repeats(98))
            .refuse(1, Some(7), 0..100, unknown_parent_or_repeat())
            .empty(),
    ]
}

/// 7 is both the unknown parent and among the blocks.
fn unknown_parent_or_repeat() -> crate::ApplyError {
    repeats(7)
}

fn names() -> Vec<Example> {
    vec![
        Example::new("engines that name the same content differently match the same requests")
            .store_as(1, Device, None, &[(11, 1), (12, 2)], Ok(Applied { stored: 2, ..NOTHING }))
            .store_as(2, Device, None, &[(21, 1), (22, 2)], Ok(Applied { stored: 2, ..NOTHING }))
            .ask([1, 2], &[(1, 2), (2, 2)])
            .remove(1, [12])
            .ask([1, 2], &[(1, 1), (2, 2)]),
        Example::new("one name for different content is not mixed up")
            .store_as(1, Device, None, &[(7, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(2, Device, None, &[(7, 2)], Ok(Applied { stored: 1, ..NOTHING }))
            .ask([1], &[(1, 1)])
            .ask([2], &[(2, 1)])
            .remove(1, [7])
            .ask([1], &[])
            .ask([2], &[(2, 1)]),
        Example::new("a name stored elsewhere moves there, from every tier")
            .store(1, None, [1, 2])
            .store_in(Host, 1, Some(1), [2])
            .store_as(1, Device, None, &[(2, 9)], Ok(Applied { moved: 1, ..NOTHING }))
            .ask([1, 2], &[(1, 1)])
            .ask([9], &[(1, 1)])
            .holds(2, 1)
            .remove_as(1, Host, &[2], Applied { unknown: 1, ..NOTHING })
            .remove(1, [1, 2])
            .empty(),
        Example::new("a name may move below itself")
            .store(1, None, [1, 2])
            .store_as(1, Device, Some(2), &[(1, 3)], Ok(Applied { moved: 1, ..NOTHING }))
            .ask([1, 2, 3], &[])
            .remove(1, [1, 2])
            .empty(),
        Example::new("a moving name does not take its old place's children along")
            .store(1, None, [1, 2, 3])
            .store_as(1, Device, None, &[(2, 9)], Ok(Applied { moved: 1, ..NOTHING }))
            .ask([9, 3], &[(1, 1)])
            .store_as(1, Device, Some(1), &[(4, 2)], Ok(Applied { stored: 1, ..NOTHING }))
            .ask([1, 2, 3], &[(1, 3)]),
        Example::new("a chain of moves within one store")
            .store(1, None, [1, 2, 3])
            .store_as(
                1,
                Device,
                None,
                &[(3, 1), (2, 2), (1, 3)],
                Ok(Applied { already_held: 1, moved: 2, ..NOTHING }),
            )
            .ask([1, 2, 3], &[(1, 3)])
            .remove(1, [3])
            .ask([1, 2, 3], &[]),
        Example::new("a block with two names is held until the last goes")
            .store_as(1, Device, None, &[(1, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(1, Device, None, &[(2, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(1, Device, None, &[(3, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .ask([1], &[(1, 1)])
            .remove(1, [1])
            .ask([1], &[(1, 1)])
            .remove(1, [3])
            .ask([1], &[(1, 1)])
            .remove(1, [2])
            .ask([1], &[])
            .empty(),
        Example::new("two names of one block in two tiers")
            .store_as(1, Device, None, &[(1, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(1, Host, None, &[(2, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .ask_tiers([1], &[(1, [1, 0, 0, 0])])
            .remove(1, [1])
            .ask_tiers([1], &[(1, [0, 1, 0, 0])])
            .remove_as(1, Device, &[2], Applied { unknown: 1, ..NOTHING })
            .remove_in(Host, 1, [2])
            .empty(),
        Example::new("either name of a block is a parent")
            .store_as(1, Device, None, &[(1, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(1, Device, None, &[(2, 1)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(1, Device, Some(1), &[(3, 3)], Ok(Applied { stored: 1, ..NOTHING }))
            .store_as(1, Device, Some(2), &[(4, 4)], Ok(Applied { stored: 1, ..NOTHING }))
            .ask([1, 3], &[(1, 2)])
            .ask([1, 4], &[(1, 2)]),
    ]
}

fn matching() -> Vec<Example> {
    vec![
        Example::new("the longest prefix counts, and nothing after it")
            .store(1, None, 1..=5)
            .ask(1..=5, &[(1, 5)])
            .ask(1..=3, &[(1, 3)])
            .ask(1..=9, &[(1, 5)])
            .ask([1, 2, 9, 4, 5], &[(1, 2)])
            .ask([2, 3], &[]),
        Example::new("holes count")
            .store(1, None, 1..=5)
            .remove(1, [2])
            .ask(1..=5, &[(1, 1)])
            .store(1, Some(1), [2])
            .ask(1..=5, &[(1, 5)]),
        Example::new("heads too")
            .store(1, None, 1..=3)
            .remove(1, [1])
            .ask(1..=3, &[])
            .store(1, None, [1])
            .ask(1..=3, &[(1, 3)]),
        Example::new("a hole that everybody has")
            .store(1, None, 1..=5)
            .store(2, None, 1..=5)
            .remove(1, [3])
            .remove(2, [3])
            .ask(1..=5, &[(1, 2), (2, 2)])
            .store(2, Some(2), [3])
            .ask(1..=5, &[(1, 2), (2, 5)]),
        Example::new("several holes, filled in any order")
            .store(1, None, 1..=8)
            .remove(1, [3, 6, 1])
            .ask(1..=8, &[])
            .store(1, Some(5), [6])
            .store(1, Some(2), [3])
            .ask(1..=8, &[])
            .store(1, None, [1])
            .ask(1..=8, &[(1, 8)]),
        Example::new("equal content at other positions is other blocks")
            .store_as(1, Device, None, &[(1, 7), (2, 7), (3, 7)], Ok(Applied { stored: 3, ..NOTHING }))
            .ask([7, 7, 7, 7], &[(1, 3)])
            .remove(1, [2])
            .ask([7, 7, 7], &[(1, 1)])
            .store_as(1, Device, None, &[(4, 8), (5, 7)], Ok(Applied { stored: 2, ..NOTHING }))
            .ask([8, 7], &[(1, 2)])
            .ask([7, 8], &[(1, 1)]),
        Example::new("content 0 is content")
            .store_as(1, Device, None, &[(0, 0), (1, 0)], Ok(Applied { stored: 2, ..NOTHING }))
            .ask([0, 0], &[(1, 2)]),
        Example::new("shape does not change answers: a split, then a merge")
            .store(1, None, 1..=6)
            .store(2, None, 1..=3)
            .store(2, Some(3), [13])
            .ask(1..=6, &[(1, 6), (2, 3)])
            .ask([1, 2, 3, 13], &[(1, 3), (2, 4)])
            .remove(2, [13, 3, 2, 1])
            .remove(1, [2])
            .store(1, Some(1), [2])
            .ask(1..=6, &[(1, 6)]),
        Example::new("ranks of one worker do not influence each other")
            .store(1, None, [1, 2])
            .store(2, None, [1])
            .remove(1, [1, 2])
            .ask([1, 2], &[(2, 1)]),
    ]
}

fn tiers() -> Vec<Example> {
    vec![
        Example::new("each block is credited once, at its best tier")
            .store(1, None, [1])
            .store_in(Host, 1, Some(1), [2])
            .store(1, Some(2), [3])
            .ask_tiers(1..=3, &[(1, [2, 1, 0, 0])])
            .store_in(Host, 1, None, [1])
            .ask_tiers(1..=3, &[(1, [2, 1, 0, 0])]),
        Example::new("a lost device copy lowers the credit, not the reach")
            .store(1, None, 1..=3)
            .store_in(Host, 1, Some(1), [2])
            .remove(1, [2])
            .ask_tiers(1..=3, &[(1, [2, 1, 0, 0])])
            .remove_in(Host, 1, [2])
            .ask_tiers(1..=3, &[(1, [1, 0, 0, 0])]),
        Example::new("down the ladder, tier by tier")
            .store(1, None, [1])
            .store_in(Host, 1, None, [1])
            .store_in(Disk, 1, None, [1])
            .store_in(Object, 1, None, [1])
            .ask_tiers([1], &[(1, [1, 0, 0, 0])])
            .remove(1, [1])
            .ask_tiers([1], &[(1, [0, 1, 0, 0])])
            .remove_in(Host, 1, [1])
            .ask_tiers([1], &[(1, [0, 0, 1, 0])])
            .remove_in(Disk, 1, [1])
            .ask_tiers([1], &[(1, [0, 0, 0, 1])])
            .remove_in(Object, 1, [1])
            .empty(),
        Example::new("a removal from a tier without a copy is unknown")
            .store(1, None, [1])
            .remove_as(1, Host, &[1], Applied { unknown: 1, ..NOTHING })
            .ask([1], &[(1, 1)]),
        Example::new("two ranks in different tiers")
            .store(1, None, [1, 2])
            .store_in(Host, 2, None, [1, 2])
            .ask_tiers([1, 2], &[(1, [2, 0, 0, 0]), (2, [0, 2, 0, 0])]),
    ]
}
