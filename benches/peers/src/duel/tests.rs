//! A duel ends, whatever the writer does, and its end state is compared.

use std::panic::catch_unwind;

use kv_router_index::paged::PagedIndex;

use super::*;
use crate::corpus::Change;
use crate::corpus::churn_for_tests;
use crate::subjects::{Owner, Paged, ROSTER};

#[test]
fn every_concurrent_index_is_written_and_read() {
    let corpus = Arc::new(churn_for_tests());
    for entry in ROSTER {
        let Some(duel) = entry.duel else { continue };
        let duelled = duel(&corpus, Clock::calibrated()).unwrap();
        assert!(duelled.events_per_s > 0.0 && duelled.event_blocks_per_s > duelled.events_per_s);
        assert!(duelled.lookup_ns.is_sorted(), "{}: {:?}", entry.name, duelled.lookup_ns);
        if entry.owner == Owner::Us {
            assert_eq!(duelled.wrong_lookups, 0);
        }
    }
}

/// An index that panics at its hundredth event.
struct Broken(Paged, u32);

impl Subject for Broken {
    const NAME: &'static str = "broken";
    const OWNER: Owner = Owner::Us;
    type Event = <Paged as Subject>::Event;
    type Builder = ();
    type Finder = PagedIndex;

    fn open(workers: u32) -> Self {
        Self(Paged::open(workers), 0)
    }

    fn finder(&self) -> &PagedIndex {
        self.0.finder()
    }

    fn builder(_corpus: &Corpus) {}

    fn event((): &mut (), change: Change<'_>) -> Self::Event {
        Paged::event(&mut (), change)
    }

    fn apply(&mut self, event: &mut Self::Event) {
        self.1 += 1;
        assert!(self.1 < 100, "planted");
        self.0.apply(event);
    }
}

impl Concurrent for Broken {}

#[test]
fn a_writer_that_panics_does_not_leave_the_reader_waiting() {
    let corpus = Arc::new(churn_for_tests());
    let ended = catch_unwind(move || duel::<Broken>(&corpus, Clock::calibrated()).is_ok());
    assert!(ended.is_err());
}
