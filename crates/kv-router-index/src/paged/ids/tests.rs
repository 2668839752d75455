//! The array of places beside a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::paged::id::BlockId;

fn run(first: u32, len: u32) -> BlockRun {
    BlockRun::new(BlockId::new(first), len)
}

proptest! {
    #[test]
    fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..3000, 1u32..700, 0u32..6, 0usize..PAGE_BLOCKS), 1..60)) {
        let (mut ids, mut model) = (Ids::default(), BTreeMap::new());
        for (adds, first, len, record, offset) in steps {
            let len = len.min((PAGE_BLOCKS - offset) as u32);
            prop_assert_eq!(ids.used(run(first, len)), model.range(first..first + len).count());
            if adds && ids.used(run(first, len)) == 0 {
                ids.set_run(first, Place::new(record, offset), len as usize);
                model.extend((0..len).map(|at| (first + at, Place::new(record, offset + at as usize))));
            } else if !adds {
                let (mut at, end) = (first, first + len);
                while at < end {
                    let (place, count) = ids.stretch(at, (end - at) as usize);
                    prop_assert!(count > 0 && count <= (end - at) as usize);
                    prop_assert_eq!(place, model.get(&at).copied());
                    for step in 0..count as u32 {
                        let there = model.get(&(at + step)).copied();
                        prop_assert_eq!(there, place.map(|place| Place::new(place.record() as u32, place.offset() + step as usize)));
                    }
                    if place.is_some() {
                        ids.free_run(at, count);
                        (at..at + count as u32).for_each(|id| { model.remove(&id); });
                    }
                    at += count as u32;
                }
            }
            prop_assert_eq!(ids.len(), model.len());
            let all: Vec<_> = ids.iter().collect();
            prop_assert_eq!(all, model.iter().map(|(&id, &place)| (u64::from(id), place)).collect::<Vec<_>>());
            prop_assert!(model.iter().all(|(&id, &place)| ids.get(u64::from(id)) == Some(place)));
        }
    }
}

#[test]
fn a_stretch_ends_with_its_page() {
    let mut ids = Ids::default();
    ids.set_run(0, Place::new(0, 0), PAGE_BLOCKS);
    ids.set_run(PAGE_BLOCKS as u32, Place::new(1, 0), 9);
    assert_eq!(ids.stretch(0, 600), (Some(Place::new(0, 0)), PAGE_BLOCKS));
}

#[test]
fn memory_follows_what_is_held_and_not_the_greatest_number() {
    let mut ids = Ids::default();
    ids.set_run((1 << 22) - 1, Place::new(0, 0), 1);
    assert!(ids.bytes() < 80 << 10, "{}", ids.bytes());
    for first in (0..1 << 20).step_by(512) {
        ids.set_run(first, Place::new(0, 0), 512);
    }
    assert!(ids.bytes() > 4 << 20);
    for first in (0..1 << 20).step_by(512) {
        assert_eq!(ids.stretch(first, 1 << 20), (Some(Place::new(0, 0)), 512));
        ids.free_run(first, 512);
    }
    assert!(ids.bytes() < 80 << 10, "{}", ids.bytes());
    assert_eq!(ids.stretch(7, 1 << 20), (None, 1017));
    assert_eq!(ids.get(u64::MAX), None);
}
