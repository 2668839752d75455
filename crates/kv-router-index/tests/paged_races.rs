//! Races that a lookup must survive, each as short a cycle as possible: one thread repeats a few events for ever, the
//! other asks. Every answer that no moment of the cycle allows is a failure. An event may be seen in part: a store of
//! five blocks may show three of them for a moment, but a rank never shows more than it held, nor less.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kv_router_index::paged::PagedIndex;
use kv_router_index::{ApplyEvents, FindOptions, Overlaps, PrefixIndex};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

/// Lookups of a test: a second or two, and each race comes up hundreds of times if nothing prevents it.
const LOOKUPS: usize = 300_000;

const ONE: u64 = 1;
const TWO: u64 = 2;

fn rank(number: u64) -> WorkerRank {
    WorkerId::new(number).into()
}

fn store(parent: Option<u64>, blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    let block = |id| StoredBlock::new(ExternalSequenceHash::new(id), LocalBlockHash::new(id));
    KvEvent::Stored {
        tier: Tier::Device,
        parent: parent.map(ExternalSequenceHash::new),
        blocks: blocks.into_iter().map(block).collect(),
    }
}

fn remove(blocks: impl IntoIterator<Item = u64>) -> KvEvent {
    KvEvent::Removed {
        tier: Tier::Device,
        blocks: blocks.into_iter().map(ExternalSequenceHash::new).collect(),
    }
}

/// Ends the writer, also when a lookup panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Applies `before` once and `cycle` over and over, while lookups of `query` must give each rank one of the depths
/// allowed to it.
#[track_caller]
fn race(
    before: &[(u64, KvEvent)],
    cycle: &[(u64, KvEvent)],
    query: impl IntoIterator<Item = u64>,
    allowed: &[(u64, &[u32])],
) {
    let index = PagedIndex::new();
    let apply = |(from, event): &(u64, KvEvent)| (&index).apply(rank(*from), event).expect("a valid event");
    before.iter().for_each(|event| {
        apply(event);
    });
    let query: Vec<_> = query.into_iter().map(LocalBlockHash::new).collect();
    let stop = AtomicBool::new(false);
    let wrong = thread::scope(|scope| {
        let end = StopOnDrop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                cycle.iter().for_each(|event| {
                    apply(event);
                });
            }
        });
        let mut out = Overlaps::new();
        let wrong = (0..LOOKUPS).find_map(|_| {
            index.find_into(&query, FindOptions::new(), &mut out);
            let depths: Vec<_> = allowed.iter().map(|&(number, _)| out.blocks(rank(number))).collect();
            let good = allowed.iter().zip(&depths).all(|((_, allowed), depth)| allowed.contains(depth))
                && depths.iter().filter(|&&depth| depth > 0).count() == out.len();
            (!good).then(|| format!("{out:?}"))
        });
        drop(end);
        wrong
    });
    assert_eq!(wrong, None, "allowed: {allowed:?}");
}

/// While the first page has a hole, the last grows; before the hole is filled, it shrinks again. Both parts at their
/// longest never were there together.
#[test]
fn no_sum_over_pages_that_never_was() {
    race(
        &[(ONE, store(None, 1..=562))],
        &[
            (ONE, remove([4])),
            (ONE, store(Some(562), [563])),
            (ONE, remove([563])),
            (ONE, store(Some(3), [4])),
        ],
        1..=600,
        &[(ONE, &[3, 562])],
    );
}

/// The same with the parts exchanged.
#[test]
fn no_sum_over_pages_the_other_way_round() {
    race(
        &[(ONE, store(None, 1..=1100))],
        &[
            (ONE, remove([1100])),
            (ONE, remove([600])),
            (ONE, store(Some(1099), [1100])),
            (ONE, remove([1100])),
            (ONE, store(Some(599), [600])),
            (ONE, store(Some(1099), [1100])),
        ],
        1..=1100,
        &[(ONE, &[599, 1099, 1100])],
    );
}

/// The page grows behind a hole, which is filled then. There never was a moment at which the rank held just the blocks
/// that were in the page before it grew.
#[test]
fn no_end_where_the_page_ended_before() {
    race(
        &[(ONE, store(None, 1..=300)), (ONE, remove([2]))],
        &[
            (ONE, store(Some(300), 301..=310)),
            (ONE, store(Some(1), [2])),
            (ONE, remove([2])),
            (ONE, remove((301..=310).rev())),
        ],
        1..=310,
        &[(ONE, &[1, 310])],
    );
}

/// The end of a page is cut off though nobody's reach became less, and written again with other content.
#[test]
fn no_hold_behind_what_was_cut_off() {
    race(
        &[(ONE, store(None, 1..=2)), (TWO, store(None, 1..=2))],
        &[
            (ONE, store(Some(2), 3..=9)),
            (ONE, remove([3])),
            (ONE, remove((4..=9).rev())),
            (TWO, store(Some(2), 23..=29)),
            (TWO, remove((23..=29).rev())),
        ],
        1..=9,
        &[(ONE, &[2, 9]), (TWO, &[2])],
    );
}

/// The end of a page is cut off and written again with other content, for another rank.
#[test]
fn no_hold_on_content_that_was_not_its_own() {
    race(
        &[(ONE, store(None, 1..=9)), (TWO, store(None, 1..=9))],
        &[(ONE, store(Some(9), [10])), (ONE, remove([10])), (TWO, store(Some(9), [20])), (TWO, remove([20]))],
        1..=10,
        &[(ONE, &[9, 10]), (TWO, &[9])],
    );
}

/// The content moves to other memory and back, and the memory serves somebody else.
#[test]
fn no_look_at_memory_that_was_given_away() {
    race(
        &[(ONE, store(None, 1..=8)), (TWO, store(None, 101..=108))],
        &[
            (ONE, store(Some(8), 9..=40)),
            (ONE, remove((9..=40).rev())),
            (TWO, store(Some(108), 109..=140)),
            (TWO, remove((109..=140).rev())),
        ],
        1..=40,
        &[(ONE, &(8..=40).collect::<Vec<_>>())],
    );
}

/// A cleared rank comes back under another slot.
#[test]
fn no_rank_twice() {
    race(
        &[(TWO, store(None, 1..=3))],
        &[(ONE, store(None, 1..=5)), (ONE, KvEvent::Cleared)],
        1..=8,
        &[(ONE, &[0, 3, 5]), (TWO, &[3])],
    );
}

/// A slot is given to another rank.
#[test]
fn no_rank_for_another() {
    race(
        &[(3, store(None, 1..=2))],
        &[
            (ONE, store(None, 1..=7)),
            (ONE, KvEvent::Cleared),
            (TWO, store(None, 1..=4)),
            (TWO, remove((1..=4).rev())),
        ],
        1..=8,
        &[(ONE, &[0, 2, 7]), (TWO, &[0, 1, 2, 3, 4]), (3, &[2])],
    );
}

/// The list of holders is written anew while it is read.
#[test]
fn nobody_is_missed() {
    let mut before: Vec<_> = (10..14).map(|number| (number, store(None, 1..=6))).collect();
    before.push((ONE, store(None, 1..=6)));
    let come = (20..40).map(|number| (number, store(None, 1..=6)));
    let go = (20..40).map(|number| (number, remove((1..=6).rev())));
    let cycle: Vec<_> = come.chain(go).collect();
    let rest: Vec<u32> = (0..=6).collect();
    let mut allowed: Vec<(u64, &[u32])> = (20..40).map(|number| (number, rest.as_slice())).collect();
    allowed.extend([10, 11, 12, 13, ONE].map(|number| (number, &[6][..])));
    race(&before, &cycle, 1..=7, &allowed);
}

/// Pages die and their numbers come back elsewhere.
#[test]
fn no_page_for_another() {
    race(
        &[],
        &[
            (ONE, store(None, 1..=600)),
            (TWO, store(None, 1001..=1600)),
            (ONE, remove((1..=600).rev())),
            (TWO, remove((1001..=1600).rev())),
            (TWO, store(None, 1001..=1600)),
            (ONE, store(None, 1..=600)),
            (TWO, KvEvent::Cleared),
            (ONE, KvEvent::Cleared),
        ],
        1..=600,
        // A store and a removal show their pages one by one.
        &[(ONE, &[0, 512, 600])],
    );
}
