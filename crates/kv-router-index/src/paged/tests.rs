//! Limits that take more memory than tests have: the same code with small ones.

use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use super::page::Headers;
use super::pages::Pages;
use super::words::{Content, Entry, Extent, MAX_SLOTS, Shape};
use super::*;

fn rank(number: u64) -> WorkerRank {
    WorkerId::new(number).into()
}

fn name(raw: u64) -> ExternalSequenceHash {
    ExternalSequenceHash::new(raw)
}

fn store(parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let block = |id| StoredBlock::new(name(id), LocalBlockHash::new(id));
    let blocks = blocks.into_iter().map(block).collect();
    KvEvent::Stored { tier: Tier::Device, parent: parent.map(name), blocks }
}

fn remove(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    KvEvent::Removed { tier: Tier::Device, blocks: blocks.into_iter().map(name).collect() }
}

fn limited(limit: impl Fn(&mut Pages)) -> PagedIndex {
    let mut shared = Shared::new(PagedConfig::default());
    limit(&mut shared.pages);
    PagedIndex { shared: Arc::new(shared) }
}

/// What a refused store must leave as it was.
#[track_caller]
fn check_refused(index: &PagedIndex, from: WorkerRank, event: &KvEvent, limit: usize) {
    let state = || {
        let mut events = Vec::new();
        index.dump(&mut |from, event| events.push((from, event)));
        events.sort_by_key(|(from, _)| *from);
        (index.occupancy(), events)
    };
    let before = state();
    assert_eq!(index.apply_event(from, event), Err(ApplyError::IndexFull { limit }));
    assert_eq!(state(), before);
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn no_page_has_more_continuations_than_can_be_counted() {
    let index = limited(|pages| pages.branches.most = 5);
    let apply = |from, event: &KvEvent| index.apply_event(rank(from), event).unwrap();
    apply(1, &store(None, 0..10));
    apply(2, &store(None, 0..10));
    for child in 100..105 {
        apply(1, &store(Some(child % 3), [child]));
    }
    check_refused(&index, rank(1), &store(Some(1), [200]), 5);
    check_refused(&index, rank(2), &store(Some(2), [200]), 5);
    check_refused(&index, rank(3), &store(None, [0, 1, 2, 201, 202]), 5);
    // What is there already may be held by anybody, and other pages have room.
    assert_eq!(apply(1, &store(Some(102 % 3), [102])).already_held, 1);
    assert_eq!(apply(2, &store(Some(102 % 3), [102, 300])).stored, 2);
    assert_eq!(apply(4, &store(None, [7, 8])).stored, 2);

    apply(1, &remove([101]));
    assert_eq!(apply(1, &store(Some(1), [200])).stored, 1);
    check_refused(&index, rank(1), &store(Some(1), [201]), 5);

    let run = |first, len| vec![BlockRun::new(BlockId::new(first), len)];
    let stored = |parent, runs, locals: &[u64]| IdEvent::Stored {
        tier: Tier::Device,
        parent,
        runs,
        locals: locals.iter().copied().map(LocalBlockHash::new).collect(),
    };
    let mut writer = index.id_writer(rank(9)).unwrap();
    let refused = writer.apply(&stored(None, run(0, 3), &[0, 1, 300]));
    assert_eq!(refused, Err(IdError::IndexFull { limit: 5 }));
    assert_eq!(writer.apply(&stored(None, run(0, 3), &[0, 1, 200])).unwrap().stored, 3);
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn a_full_memory_of_lists_refuses_what_is_new() {
    let index = limited(|pages| pages.lines.most = 2);
    let apply = |event: &KvEvent| index.apply_event(rank(1), event);
    // Nine blocks are one more than fit beside a header.
    let chain = |n: u64| n * 9..n * 9 + 9;
    let fit = (0..1000).take_while(|&n| apply(&store(None, chain(n))).is_ok()).count() as u64;
    assert_eq!(fit, 193, "one slab, and the first piece of the next");
    check_refused(&index, rank(1), &store(None, chain(fit)), 2);
    check_refused(&index, rank(2), &store(None, chain(0)), 2);
    assert_eq!(apply(&store(None, chain(0))).unwrap().already_held, 9);
    for n in 192..fit {
        apply(&remove(chain(n))).unwrap();
    }
    assert_eq!(apply(&store(None, chain(500))).unwrap().stored, 9);
    assert_eq!(index.audit(), vec![]);
}

#[test]
fn a_page_has_a_word_for_every_rank_that_there_can_be() {
    let (lines, headers) = (lines::Lines::new(), Headers::new());
    let mut page = headers.allocate();
    page.revive(Shape::new(words::ROOT, 0, 9), Content::new(Extent::NONE, 0));
    let last = MAX_SLOTS as u32 - 1;
    for slot in 0..=last {
        let reach = if slot < 2 { 3 } else { 1 };
        page.add_holder(&lines, Entry::new(slot, reach, 3, 0));
    }
    assert_eq!(page.holders().count(), MAX_SLOTS - 1, "two share a word");
    // A rank that leaves its crew stands in two words for a moment, also when the list is as long as can be.
    for (slot, plain) in [(0, 9), (1, 9), (last, 9), (0, 8)] {
        page.set_holder(&lines, Entry::new(slot, plain, plain, 0), 0);
    }
    let mut listed = Vec::new();
    holders::for_each(&lines, &page, |entry| listed.push(entry));
    listed.sort_unstable_by_key(|entry| entry.slot());
    assert_eq!(listed.len(), MAX_SLOTS);
    let ends = [0, 1, 2, last].map(|slot| listed[slot as usize].end());
    assert_eq!(ends, [8, 9, 3, 9]);
}
