//! Models of the pages: `PagedIndex` itself, with the small parts of `src/paged/sizes.rs`: four blocks a page, two words
//! a line, one segment that grows with its first entries, one lookup without locks before it takes them.
//!
//! Each event changes one word a page for readers, so a lookup may see an event in part; the answers allowed are those
//! of the states before, between and after.

use kv_router_index::paged::{BlockId, BlockRun, PagedIndex, RankWriter};

use super::*;
use super::{scores_into, scores_of as scores};

/// An index in which each worker holds a chain.
fn index(held: &[(u64, &[u64])]) -> PagedIndex {
    let index = PagedIndex::new();
    held.iter().for_each(|&(worker, blocks)| apply(&index, worker, &store(None, blocks)));
    index
}

fn apply(index: &PagedIndex, worker: u64, event: &KvEvent) {
    let mut writer = index;
    writer.apply(rank(worker), event).unwrap();
}

/// A thread that applies events, each rank's with its one writer.
fn write<const N: usize>(
    index: &PagedIndex,
    events: [(u64, KvEvent); N],
) -> thread::JoinHandle<Vec<RankWriter>> {
    let mut writers: Vec<RankWriter> = Vec::new();
    for (worker, _) in &events {
        if writers.iter().all(|writer| writer.rank() != rank(*worker)) {
            writers.push(index.writer(rank(*worker)).unwrap());
        }
    }
    thread::spawn(move || {
        for (worker, event) in &events {
            let writer = writers.iter_mut().find(|writer| writer.rank() == rank(*worker)).unwrap();
            writer.apply(event).unwrap();
        }
        writers
    })
}

/// Nothing contradicts itself; and once the workers are removed, nothing is left.
fn check_and_empty(index: &PagedIndex, workers: &[u64]) {
    assert_eq!(index.audit(), []);
    let mut writer = index;
    workers.iter().for_each(|&worker| {
        writer.remove_worker(WorkerId::new(worker));
    });
    while index.reclaim(100) > 0 {}
    assert_eq!(index.occupancy(), Occupancy::default());
    assert_eq!(index.audit(), []);
}

#[test]
fn paged_store_and_lookup() {
    model_with(1, "paged_store_and_lookup", || {
        let index = index(&[(1, &[1, 2]), (2, &[1])]);
        let writer = write(&index, [(1, store(Some(2), &[3, 4, 5]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), &[[2, 1], [4, 1], [5, 1]]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), [5, 1]);
        check_and_empty(&index, &[1, 2]);
    });
}

#[test]
fn paged_remove_and_lookup() {
    model_with(1, "paged_remove_and_lookup", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5]), (2, &[1, 2])]);
        let writer = write(&index, [(1, remove(&[5, 4]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), &[[5, 2], [4, 2], [3, 2]]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), [3, 2]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// The same two by number: one run over two pages stored, then removed.
#[test]
fn paged_by_number_and_lookup() {
    model_with(1, "paged_by_number_and_lookup", || {
        let index = PagedIndex::new();
        let mut writer = index.id_writer(rank(1)).unwrap();
        let (run, locals) = (
            |first, len| [BlockRun::new(BlockId::new(first), len)],
            [1, 2, 3, 4, 5].map(LocalBlockHash::new),
        );
        writer.store(Tier::Device, None, &run(0, 2), &locals[..2]).unwrap();
        let writer = thread::spawn(move || {
            writer.store(Tier::Device, Some(BlockId::new(1)), &run(2, 3), &locals[2..]).unwrap();
            writer.remove(Tier::Device, &run(3, 2));
            writer
        });
        one_of(scores(&index, &[1, 2, 3, 4, 5], [1]), &[[2], [3], [4], [5]]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2, 3, 4, 5], [1]), [3]);
        check_and_empty(&index, &[1]);
    });
}

/// The first page has a hole before the last page grows: both at their longest never were there together.
#[test]
fn paged_hole_then_store_below() {
    model("paged_hole_then_store_below", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5])]);
        let writer = write(&index, [(1, remove(&[2])), (1, store(Some(5), &[6]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5, 6], [1]), &[[5], [1]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1]);
    });
}

/// The page grows behind a hole, which is filled then: the rank holds one block or four, never three.
#[test]
fn paged_store_behind_hole_then_refill() {
    model("paged_store_behind_hole_then_refill", || {
        let index = index(&[(1, &[1, 2, 3])]);
        apply(&index, 1, &remove(&[2]));
        let writer = write(&index, [(1, store(Some(3), &[4])), (1, store(Some(1), &[2]))]);
        one_of(scores(&index, &[1, 2, 3, 4], [1]), &[[1], [4]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1]);
    });
}

/// The same over two pages, the second of which is there already.
#[test]
fn paged_longer_child_then_refill() {
    model("paged_longer_child_then_refill", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5])]);
        apply(&index, 1, &remove(&[2]));
        let writer = write(&index, [(1, store(Some(5), &[6])), (1, store(Some(1), &[2]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5, 6], [1]), &[[1], [6]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1]);
    });
}

/// The same with a new page, whose edge makes the table grow.
#[test]
fn paged_new_child_then_refill() {
    model("paged_new_child_then_refill", || {
        let index = index(&[(1, &[1, 2, 3, 4])]);
        apply(&index, 1, &remove(&[2]));
        let writer = write(&index, [(1, store(Some(4), &[5])), (1, store(Some(1), &[2]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5], [1]), &[[1], [5]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1]);
    });
}

/// Two blocks exchange their names: neither is away for a moment.
#[test]
fn paged_rename_and_lookup() {
    model("paged_rename_and_lookup", || {
        let index = index(&[(1, &[1, 2, 3])]);
        let block =
            |name, local| StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(local));
        let renamed =
            KvEvent::Stored { tier: Tier::Device, parent: None, blocks: vec![block(2, 1), block(1, 2)] };
        let writer = write(&index, [(1, renamed)]);
        assert_eq!(scores(&index, &[1, 2, 3], [1]), [3]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1]);
    });
}

/// A tier record is freed and written anew for another rank. The ranks reach unequally far, so that neither joins the
/// word of the other, which would change the version too.
#[test]
fn paged_tier_record_used_again() {
    model_with(1, "paged_tier_record_used_again", || {
        let index = index(&[(1, &[1, 2]), (2, &[1])]);
        let host = |event| match event {
            KvEvent::Stored { parent, blocks, .. } => KvEvent::Stored { tier: Tier::Host, parent, blocks },
            other => other,
        };
        apply(&index, 1, &host(store(Some(1), &[2])));
        apply(&index, 1, &remove(&[2]));
        apply(&index, 2, &host(store(None, &[1])));
        let writer = write(&index, [(1, store(Some(1), &[2])), (2, remove(&[1]))]);
        let overlaps = index.find(&[LocalBlockHash::new(1)]);
        let on_host = [1, 2].map(|worker| overlaps.get(rank(worker)).unwrap().credited_at(Tier::Host));
        one_of(on_host, &[[0, 0], [0, 1]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1, 2]);
    });
}

/// The end of a page is cut off, though nobody's reach becomes less, and is written anew with other content. Pages of
/// three blocks: what is left of longer ones moves to other memory, which says so itself.
#[test]
fn paged_end_written_anew() {
    model_with(1, "paged_end_written_anew", || {
        let index = index(&[(1, &[1, 2, 3]), (2, &[1, 2])]);
        apply(&index, 1, &remove(&[2]));
        let writer = write(&index, [(1, remove(&[3])), (2, store(Some(2), &[9]))]);
        assert_eq!(scores(&index, &[1, 2, 3], [1, 2]), [1, 2]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2, 9], [1, 2]), [1, 3]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// The end of a page is cut off as a rank lets go of it, and written anew by another: a lookup for the new content must
/// not take the old hold for one of it.
#[test]
fn paged_end_written_anew_by_another() {
    model("paged_end_written_anew_by_another", || {
        let index = index(&[(1, &[1, 2, 3]), (2, &[1, 2])]);
        let writer = write(&index, [(1, remove(&[3])), (2, store(Some(2), &[9]))]);
        one_of(scores(&index, &[1, 2, 9], [1, 2]), &[[2, 2], [2, 3]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1, 2]);
    });
}

/// The content of a page moves, and its old memory serves a page that begins with the same hash, on another thread.
#[test]
fn paged_lines_used_again() {
    model_with(1, "paged_lines_used_again", || {
        let index = index(&[(1, &[1, 2]), (2, &[5, 6])]);
        let writer = write(&index, [(1, store(Some(2), &[3, 4]))]);
        let other = write(&index, [(2, store(Some(5), &[1, 9]))]);
        let (reader, asked) = (index.clone(), [1, 9]);
        let reader = thread::spawn(move || assert_eq!(scores(&reader, &asked, [1, 2]), [1, 0]));
        drop((writer.join().unwrap(), other.join().unwrap(), reader.join().unwrap()));
        assert_eq!(scores(&index, &[5, 1, 9], [1, 2]), [0, 3]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// The same where the content of another page is copied into it, not written anew.
#[test]
fn paged_lines_copied_into() {
    model_with(1, "paged_lines_copied_into", || {
        let index = index(&[(1, &[1, 2, 3]), (2, &[5, 7, 8, 4])]);
        let writer = write(&index, [(1, store(Some(3), &[4]))]);
        let other = write(&index, [(2, remove(&[4]))]);
        let reader = index.clone();
        let reader = thread::spawn(move || assert_eq!(scores(&reader, &[1, 7, 8], [1, 2]), [1, 0]));
        drop((writer.join().unwrap(), other.join().unwrap(), reader.join().unwrap()));
        assert_eq!(scores(&index, &[5, 7, 8], [1, 2]), [0, 3]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// A page dies and its number comes back elsewhere, for another rank.
#[test]
fn paged_page_used_again() {
    model_with(1, "paged_page_used_again", || {
        let index = index(&[(1, &[1])]);
        let writer = write(&index, [(1, remove(&[1])), (2, store(None, &[7]))]);
        let reader = index.clone();
        let reader = thread::spawn(move || one_of(scores(&reader, &[1], [1, 2]), &[[1, 0], [0, 0]]));
        drop((writer.join().unwrap(), reader.join().unwrap()));
        assert_eq!(scores(&index, &[7], [1, 2]), [0, 1]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// A page dies and its number comes back below another page, with a content that begins as the old one did.
#[test]
fn paged_page_used_again_below() {
    model_with(1, "paged_page_used_again_below", || {
        let index = index(&[(1, &[1]), (2, &[5, 6])]);
        let writer = write(&index, [(1, remove(&[1])), (2, store(Some(5), &[1]))]);
        let reader = index.clone();
        let reader = thread::spawn(move || one_of(scores(&reader, &[1], [1, 2]), &[[1, 0], [0, 0]]));
        drop((writer.join().unwrap(), reader.join().unwrap()));
        assert_eq!(scores(&index, &[5, 1], [1, 2]), [0, 2]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// A list of holders is written anew elsewhere, and its memory serves content that looks like holders.
#[test]
fn paged_list_used_again() {
    model("paged_list_used_again", || {
        let index = index(&[(1, &[1]), (2, &[1, 2]), (3, &[1]), (4, &[1, 2])]);
        let like_a_holder = |slot: u64| 1 << 20 | slot;
        let blocks = [9, 0, 1, 2].map(like_a_holder);
        let names = [11, 12, 13, 14];
        let second = KvEvent::Stored {
            tier: Tier::Device,
            parent: None,
            blocks: names
                .into_iter()
                .zip(blocks)
                .map(|(name, local)| {
                    StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(local))
                })
                .collect(),
        };
        let writer = write(&index, [(5, store(None, &[1])), (5, second)]);
        one_of(scores(&index, &[1, 2], [1, 2, 3, 4, 5]), &[[1, 2, 1, 2, 0], [1, 2, 1, 2, 1]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1, 2, 3, 4, 5]);
    });
}

/// A rank of two that held the same lets go of the end: it is not away for a moment, nor there twice.
#[test]
fn paged_leave_crew() {
    model("paged_leave_crew", || {
        let index = index(&[(1, &[1, 2, 3]), (2, &[1, 2, 3])]);
        let writer = write(&index, [(1, remove(&[3]))]);
        one_of(scores(&index, &[1, 2, 3], [1, 2]), &[[3, 3], [2, 3]]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2, 3], [1, 2]), [2, 3]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// A rank comes to hold what another does, and joins it.
#[test]
fn paged_join_crew() {
    model("paged_join_crew", || {
        let index = index(&[(1, &[1, 2, 3]), (2, &[1, 2])]);
        let writer = write(&index, [(2, store(Some(2), &[3]))]);
        one_of(scores(&index, &[1, 2, 3], [1, 2]), &[[3, 2], [3, 3]]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2, 3], [1, 2]), [3, 3]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// A rank of two gets a hole in the first page before its last page grows.
#[test]
fn paged_leave_crew_then_store_below() {
    model("paged_leave_crew_then_store_below", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5]), (2, &[1, 2, 3, 4])]);
        let writer = write(&index, [(1, remove(&[2])), (1, store(Some(5), &[6]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5, 6], [1, 2]), &[[5, 4], [1, 4]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1, 2]);
    });
}

/// The table grows twice while a lookup asks it for what was there before.
#[test]
fn paged_growth_and_lookup() {
    model("paged_growth_and_lookup", || {
        let index = index(&[(1, &[1])]);
        let writer = write(&index, [(2, store(None, &[2])), (2, store(None, &[3]))]);
        assert_eq!(scores(&index, &[1], [1, 2]), [1, 0]);
        drop(writer.join().unwrap());
        assert_eq!([1, 2, 3].map(|block| scores(&index, &[block], [1, 2])), [[1, 0], [0, 1], [0, 1]]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// Two pages are entered at once, and each entry makes the table grow.
#[test]
fn paged_growth_by_two() {
    model_with(1, "paged_growth_by_two", || {
        let index = index(&[(1, &[1])]);
        let writer = write(&index, [(2, store(None, &[2]))]);
        let other = write(&index, [(3, store(None, &[3]))]);
        assert_eq!(scores(&index, &[1], [1]), [1]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!([1, 2, 3].map(|block| scores(&index, &[block], [block])), [[1]; 3]);
        check_and_empty(&index, &[1, 2, 3]);
    });
}

/// A cleared rank comes back under another slot while the old one's pages are still there.
#[test]
fn paged_clear_and_store_again() {
    model_with(1, "paged_clear_and_store_again", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5]), (2, &[1]), (1, &[7])]);
        let writer = write(&index, [(1, KvEvent::Cleared), (1, store(None, &[1]))]);
        one_of(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), &[[5, 1], [0, 1], [1, 1]]);
        drop(writer.join().unwrap());
        assert_eq!(scores(&index, &[1, 2], [1, 2]), [1, 1]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// A reader that knows whom the slots stood for learns that one stands for nobody any more, though most of its pages
/// still name it.
#[test]
fn paged_clear_and_ask_again() {
    model("paged_clear_and_ask_again", || {
        let index = index(&[(1, &[1]), (1, &[7]), (1, &[8]), (2, &[1])]);
        let mut overlaps = Overlaps::new();
        assert_eq!(scores_into(&index, &[1], [1, 2], &mut overlaps), [1, 1]);
        let writer = write(&index, [(1, KvEvent::Cleared)]);
        one_of(scores_into(&index, &[1], [1, 2], &mut overlaps), &[[1, 1], [0, 1]]);
        drop(writer.join().unwrap());
        for (asked, others) in [(1, 1), (7, 0), (8, 0)] {
            assert_eq!(scores_into(&index, &[asked], [1, 2], &mut overlaps), [0, others]);
        }
        check_and_empty(&index, &[1, 2]);
    });
}

/// A slot is taken from one rank and given to another.
#[test]
fn paged_slot_used_again() {
    model_with(1, "paged_slot_used_again", || {
        let index = index(&[(1, &[1, 2]), (3, &[1, 2])]);
        let writer = write(&index, [(1, KvEvent::Cleared), (2, store(None, &[1]))]);
        one_of(scores(&index, &[1, 2], [1, 2, 3]), &[[2, 0, 2], [0, 0, 2], [0, 1, 2]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[2, 3]);
    });
}

/// A cleared rank keeps its slot as long as a page names it.
#[test]
fn paged_slot_kept_while_pages_name_it() {
    model("paged_slot_kept_while_pages_name_it", || {
        let index = index(&[(1, &[1, 2]), (1, &[5]), (1, &[7])]);
        let writer = write(&index, [(1, KvEvent::Cleared), (2, store(None, &[1]))]);
        one_of(scores(&index, &[1, 2], [1, 2]), &[[2, 0], [0, 0], [0, 1]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[2]);
    });
}

#[test]
fn paged_two_make_one_root() {
    model_with(1, "paged_two_make_one_root", || {
        let index = index(&[]);
        let writer = write(&index, [(1, store(None, &[1, 2]))]);
        let other = write(&index, [(2, store(None, &[1]))]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!(scores(&index, &[1, 2], [1, 2]), [2, 1]);
        assert_eq!(index.occupancy().nodes, 2);
        check_and_empty(&index, &[1, 2]);
    });
}

#[test]
fn paged_two_make_one_child() {
    model("paged_two_make_one_child", || {
        let index = index(&[(1, &[1, 2, 3, 4]), (2, &[1, 2, 3, 4])]);
        let writer = write(&index, [(1, store(Some(4), &[5]))]);
        let other = write(&index, [(2, store(Some(4), &[5, 6]))]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!(scores(&index, &[1, 2, 3, 4, 5, 6], [1, 2]), [5, 6]);
        assert_eq!(index.occupancy().nodes, 6);
        check_and_empty(&index, &[1, 2]);
    });
}

/// One leaves a page for good as the other comes to it from the root.
#[test]
fn paged_free_and_enter() {
    model_with(1, "paged_free_and_enter", || {
        let index = index(&[(1, &[1])]);
        let writer = write(&index, [(1, remove(&[1]))]);
        let other = write(&index, [(2, store(None, &[1, 2]))]);
        one_of(scores(&index, &[1, 2], [1, 2]), &[[1, 0], [0, 0], [1, 1], [1, 2], [0, 1], [0, 2]]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!(scores(&index, &[1, 2], [1, 2]), [0, 2]);
        check_and_empty(&index, &[2]);
    });
}

/// One leaves a page below another as the other comes to it.
#[test]
fn paged_free_and_attach() {
    model("paged_free_and_attach", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5]), (2, &[1, 2, 3, 4])]);
        let writer = write(&index, [(1, remove(&[5]))]);
        let other = write(&index, [(2, store(Some(4), &[5]))]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), [4, 5]);
        check_and_empty(&index, &[1, 2]);
    });
}

/// The last page of a chain goes, and with it the pages before it that only it kept, as another rank comes to them.
#[test]
fn paged_free_upwards_and_enter() {
    model("paged_free_upwards_and_enter", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5])]);
        apply(&index, 1, &remove(&[1, 2, 3, 4]));
        let writer = write(&index, [(1, remove(&[5]))]);
        let other = write(&index, [(2, store(None, &[1]))]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!(scores(&index, &[1, 2, 3, 4, 5], [1, 2]), [0, 1]);
        check_and_empty(&index, &[2]);
    });
}

/// A page is left; before it can be freed it is held again, left again, and freed by the other.
#[test]
fn paged_free_beside_store_and_remove() {
    model("paged_free_beside_store_and_remove", || {
        let index = index(&[(1, &[1, 2, 3, 4, 5]), (2, &[1, 2, 3, 4])]);
        let writer = write(&index, [(1, remove(&[5]))]);
        let other = write(&index, [(2, store(Some(4), &[5])), (2, remove(&[5]))]);
        drop((writer.join().unwrap(), other.join().unwrap()));
        assert_eq!(index.occupancy().nodes, 4);
        check_and_empty(&index, &[1, 2]);
    });
}

/// One event frees one block of a rank and the best copy of another: nobody sees the new credit with the old reach.
#[test]
fn paged_credit_and_reach_of_one_state() {
    model_with(1, "paged_credit_and_reach_of_one_state", || {
        let index = index(&[(1, &[1, 2, 3])]);
        apply(
            &index,
            1,
            &KvEvent::Stored {
                tier: Tier::Host,
                parent: Some(ExternalSequenceHash::new(1)),
                blocks: vec![StoredBlock::new(ExternalSequenceHash::new(2), LocalBlockHash::new(2))],
            },
        );
        let writer = write(&index, [(1, remove(&[2, 3]))]);
        let overlaps = index.find(&[1, 2, 3].map(LocalBlockHash::new));
        let found = overlaps.get(rank(1)).unwrap();
        one_of([found.blocks(), found.credited_at(Tier::Host)], &[[3, 0], [2, 1]]);
        drop(writer.join().unwrap());
        check_and_empty(&index, &[1]);
    });
}
