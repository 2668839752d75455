//! The checker counts what is wrong, and the indexes are as right as they are known to be.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_router_index::Overlaps;
use kv_router_index::paged::PagedIndex;

use super::*;
use crate::corpus::{Recorder, Scale};
use crate::subjects::{Owner, Paged, ROSTER};

/// Two workers that share a prompt; a hole, a clear, a replacement.
fn small() -> Arc<Corpus> {
    use kv_router_hash::next_sequence_hash;
    use kv_router_types::{ExternalSequenceHash, StoredBlock};
    let locals: Vec<_> = (1..=6).map(LocalBlockHash::new).collect();
    let mut last = None;
    let blocks: Vec<_> = locals
        .iter()
        .map(|&local| {
            last = Some(next_sequence_hash(last, local));
            StoredBlock::new(ExternalSequenceHash::new(last.unwrap().get()), local)
        })
        .collect();
    let mut recorder = Recorder::new(2);
    recorder.store(0, None, &blocks);
    recorder.store(1, None, &blocks[..3]);
    recorder.end_warm_up();
    recorder.find(&locals);
    recorder.remove(0, &[blocks[2].external]);
    recorder.find(&locals);
    recorder.store(0, Some(blocks[1].external), &blocks[2..3]);
    recorder.find(&locals);
    recorder.clear(1);
    recorder.find(&locals);
    recorder.replace(0);
    recorder.find(&locals);
    recorder.store(0, None, &blocks[..1]);
    recorder.find(&locals[..4]);
    Arc::new(recorder.finish().unwrap())
}

#[test]
fn an_index_without_holes_in_it_is_right_and_counted_by_blocks() {
    let replayed = replay::<Paged>(&small(), Clock::calibrated());
    assert_eq!(replayed.wrong_lookups, 0);
    assert_eq!(replayed.lookups, 6 + 6, "the stream, and the end state");
    assert!(replayed.block_ops_per_s > 0.0);
}

/// Lies told by [`Liar`].
static LIES: AtomicU64 = AtomicU64::new(0);

/// A right index, but every third answer that names anybody is off by one block.
struct Liar(Paged, LyingFinder);

struct LyingFinder(PagedIndex, AtomicU64);

impl Find for LyingFinder {
    type Query = Vec<LocalBlockHash>;
    type Answer = Overlaps;

    fn prepare(&self, locals: &[LocalBlockHash], query: &mut Self::Query) {
        self.0.prepare(locals, query);
    }

    fn find(&self, query: &mut Self::Query, answer: &mut Overlaps) {
        self.0.find(query, answer);
    }

    fn read(&self, answer: &Overlaps, out: &mut Vec<Held>) {
        self.0.read(answer, out);
        let turn = self.1.fetch_add(1, Ordering::Relaxed);
        if let Some(last) = out.last_mut().filter(|_| turn.is_multiple_of(3)) {
            last.blocks += 1;
            LIES.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Subject for Liar {
    const NAME: &'static str = "liar";
    const OWNER: Owner = Owner::Us;
    type Event = <Paged as Subject>::Event;
    type Builder = ();
    type Finder = LyingFinder;

    fn open(workers: u32) -> Self {
        let paged = Paged::open(workers);
        let finder = LyingFinder(paged.finder().clone(), AtomicU64::new(0));
        Self(paged, finder)
    }

    fn finder(&self) -> &LyingFinder {
        &self.1
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Self::Event {
        Paged::event(&mut (), change)
    }

    fn apply(&mut self, event: &mut Self::Event) {
        self.0.apply(event);
    }
}

#[test]
fn a_planted_wrong_answer_is_counted() {
    let replayed = replay::<Liar>(&small(), Clock::calibrated());
    let lies = LIES.load(Ordering::Relaxed);
    assert!(lies >= 3, "{lies}");
    assert_eq!(replayed.wrong_lookups, lies);
}

#[test]
fn everybody_is_right_where_nothing_leaves_holes() {
    let corpus = crate::corpus::build(crate::corpus::Kind::Fanout, 2, Scale::Quick, None).unwrap().unwrap();
    let corpus = Arc::new(corpus);
    for entry in ROSTER {
        assert_eq!((entry.replay)(&corpus, Clock::calibrated()).wrong_lookups, 0, "{}", entry.name);
    }
}

#[test]
fn holes_tell_the_exact_from_the_others() {
    let corpus = Arc::new(crate::corpus::churn_for_tests());
    for entry in ROSTER {
        let wrong = (entry.replay)(&corpus, Clock::calibrated()).wrong_lookups;
        let exact = ["paged", "paged-ids", "radix", "kv-index chain"].contains(&entry.name);
        assert_eq!(wrong == 0, exact, "{}: {wrong}", entry.name);
    }
}
