//! Long runs that an index must survive: random histories, threads against each other, and lives without end.
//!
//! Each takes how much of it to do, so that a test runs the same code for a moment that `cargo xtask soak` runs for an
//! hour.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use kv_router_index::conformance::{ConcurrentReport, ConcurrentRun, Consistency, Shared, Suite};
use kv_router_index::paged::PagedIndex;
use kv_router_index::{
    ApplyEvents, ConcurrentRadixTree, DumpEvents, Inspect, PositionalIndexer, PrefixIndex, RadixTree,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use crate::subject::Subject;

/// Checks random histories: how many, from which seed.
type Histories = fn(u32, u64) -> Result<(), Box<dyn Error>>;
/// Four writers and four readers for a time, from a seed.
type Threads = fn(Duration, u64) -> Result<ConcurrentReport, Box<dyn Error>>;

/// An exact index, as the conformance suite sees it.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// What reports call it.
    pub name: &'static str,
    /// Compares it with the oracle on one thread.
    pub histories: Histories,
    /// The same for threads; `None` for an index that one thread owns.
    pub threads: Option<Threads>,
}

/// All exact indexes.
pub const EXACT: &[Exact] = &[
    Exact { name: "radix", histories: |cases, seed| histories(RadixTree::new, cases, seed), threads: None },
    Exact {
        name: "concurrent-radix",
        histories: |cases, seed| histories(|| Shared(ConcurrentRadixTree::new()), cases, seed),
        threads: Some(|time, seed| {
            threads(&ConcurrentRadixTree::new(), Consistency::WholeEvents, time, seed)
        }),
    },
    Exact {
        name: "positional",
        histories: |cases, seed| histories(|| Shared(PositionalIndexer::new()), cases, seed),
        threads: Some(|time, seed| threads(&PositionalIndexer::new(), Consistency::Between, time, seed)),
    },
    Exact {
        name: "paged",
        histories: |cases, seed| histories(PagedIndex::new, cases, seed),
        threads: Some(|time, seed| threads(&PagedIndex::new(), Consistency::Between, time, seed)),
    },
];

fn histories<I>(new: impl Fn() -> I, cases: u32, seed: u64) -> Result<(), Box<dyn Error>>
where
    I: PrefixIndex + ApplyEvents + DumpEvents + Inspect,
{
    Ok(Suite::new(new).search_from(seed, cases)?)
}

fn threads<T>(
    index: &T,
    consistency: Consistency,
    duration: Duration,
    seed: u64,
) -> Result<ConcurrentReport, Box<dyn Error>>
where
    T: PrefixIndex + Inspect + Sync,
    for<'a> &'a T: ApplyEvents,
{
    let mut run = ConcurrentRun::default().lasting(duration).expecting(consistency);
    run.seed = seed;
    let report = run.check(index)?;
    if !report.is_meaningful() {
        return Err(format!("the threads hardly met: give the run more time ({report:?})").into());
    }
    Ok(report)
}

/// Bytes on the heap over the life of an index that was filled and emptied ten times, in the same way each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Before the first event.
    pub new: usize,
    /// Empty again, after the first tenth.
    pub early: usize,
    /// Empty again, in the end.
    pub end: usize,
}

/// What may remain without being a leak: a table that keeps its smallest size.
const SLACK: usize = 64 << 10;

impl Heap {
    /// Accepts a life after which nothing is left that the first tenth had not left.
    ///
    /// # Errors
    ///
    /// The index grows.
    pub fn check(self) -> Result<Self, Leak> {
        if self.end > self.early + SLACK { Err(Leak(self)) } else { Ok(self) }
    }

    /// Whether the index gave back what it had taken.
    pub fn is_back(self) -> bool {
        self.end <= self.new + SLACK
    }
}

/// An index that is larger each time it is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak(pub Heap);

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Heap { new, early, end } = self.0;
        write!(f, "{end} bytes are left in the end, {early} were after the first tenth, {new} at first")
    }
}

impl Error for Leak {}

/// Rounds of a life; each ends with nothing held.
const ROUNDS: u32 = 10;

/// Lives through `cycles` stores and removals of three blocks with at most 1,000 chains alive, on 16 ranks that share
/// half of their content. `live` tells the bytes on the heap.
pub fn cycles(subject: &dyn Subject, cycles: u32, live: impl Fn() -> usize) -> Heap {
    const ALIVE: usize = 1_000;
    in_rounds(subject, live, |round| {
        let mut alive = VecDeque::new();
        for n in 0..u64::from(cycles / ROUNDS) {
            let name = (u64::from(round) << 40 | n) * 3;
            let rank = WorkerRank::from(WorkerId::new(n % 16));
            // Every other chain is one of 64 that all ranks know.
            let content = if n % 2 == 0 { n % 64 } else { n << 8 };
            subject.apply(rank, &store((0..3).map(|at| (name + at, content << 8 | at))));
            alive.push_back((rank, name));
            if alive.len() > ALIVE
                && let Some((rank, name)) = alive.pop_front()
            {
                subject.apply(rank, &remove((name..name + 3).rev()));
            }
        }
        for (rank, name) in alive {
            subject.apply(rank, &remove((name..name + 3).rev()));
        }
    })
}

/// Lets `workers` workers come, store twenty blocks and go, 16 at a time: half of them give up their blocks, the
/// others are removed with them.
pub fn short_lived_workers(subject: &dyn Subject, workers: u32, live: impl Fn() -> usize) -> Heap {
    const AT_ONCE: u64 = 16;
    const BLOCKS: u64 = 20;
    in_rounds(subject, live, |round| {
        let first = u64::from(round) * u64::from(workers / ROUNDS);
        let end = first + u64::from(workers / ROUNDS);
        let leave = |number: u64| match number % 2 {
            0 => subject
                .apply(WorkerId::new(number).into(), &remove((number * BLOCKS..(number + 1) * BLOCKS).rev())),
            _ => subject.remove_worker(WorkerId::new(number)),
        };
        for number in first..end {
            // The first half of the prompt is everybody's.
            let local = |at| if at < BLOCKS / 2 { at } else { number << 8 | at };
            let blocks = (0..BLOCKS).map(|at| (number * BLOCKS + at, local(at)));
            subject.apply(WorkerId::new(number).into(), &store(blocks));
            if number >= first + AT_ONCE {
                leave(number - AT_ONCE);
            }
        }
        (end.saturating_sub(AT_ONCE).max(first)..end).for_each(leave);
    })
}

fn in_rounds(subject: &dyn Subject, live: impl Fn() -> usize, round: impl Fn(u32)) -> Heap {
    let new = live();
    let mut heap = Heap { new, early: new, end: new };
    for number in 0..ROUNDS {
        round(number);
        subject.settle();
        heap.end = live();
        if number == 0 {
            heap.early = heap.end;
        }
    }
    heap
}

fn store(blocks: impl Iterator<Item = (u64, u64)>) -> KvEvent {
    let block = |(name, local)| StoredBlock::new(ExternalSequenceHash::new(name), LocalBlockHash::new(local));
    KvEvent::Stored { tier: Tier::Device, parent: None, blocks: blocks.map(block).collect() }
}

fn remove(names: impl Iterator<Item = u64>) -> KvEvent {
    KvEvent::Removed { tier: Tier::Device, blocks: names.map(ExternalSequenceHash::new).collect() }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kv_router_index::{FindOptions, Oracle, Overlaps};
    use parking_lot::Mutex;

    use super::*;

    /// An oracle that panics about nothing and forgets to forget when told so.
    struct Watched {
        oracle: Mutex<Oracle>,
        forgets: bool,
    }

    impl Subject for Watched {
        fn apply(&self, from: WorkerRank, event: &KvEvent) {
            if self.forgets || matches!(event, KvEvent::Stored { .. }) {
                let applied = self.oracle.lock().apply(from, event).expect("every event is valid");
                assert_eq!(applied.unknown + applied.already_held + applied.moved, 0);
            }
        }

        fn remove_worker(&self, worker: WorkerId) {
            self.oracle.lock().remove_worker(worker);
        }

        fn find(&self, query: &[LocalBlockHash], out: &mut Overlaps) {
            self.oracle.lock().find_into(query, FindOptions::new(), out);
        }
    }

    fn watched(forgets: bool) -> Watched {
        Watched { oracle: Mutex::new(Oracle::new()), forgets }
    }

    fn held(subject: &Watched) -> usize {
        subject.oracle.lock().occupancy().names * (SLACK + 1)
    }

    #[test]
    fn each_round_ends_with_nothing_held() {
        let subject = watched(true);
        let all = Heap { new: 0, early: 0, end: 0 };
        assert_eq!(cycles(&subject, 25_000, || held(&subject)), all);
        assert_eq!(short_lived_workers(&subject, 400, || held(&subject)), all);
        assert!(all.check().is_ok_and(Heap::is_back));
    }

    #[test]
    fn an_index_that_grows_is_found() {
        let subject = watched(false);
        let heap = cycles(&subject, 200, || held(&subject));
        assert_eq!(heap.check(), Err(Leak(heap)));
        assert!(!heap.is_back());
        let subject = watched(false);
        let heap = short_lived_workers(&subject, 200, || held(&subject));
        assert_eq!(heap.check(), Err(Leak(heap)));
    }

    #[test]
    fn memory_that_is_kept_for_reuse_is_no_leak() {
        let reading = Cell::new(0);
        let subject = watched(true);
        let live = || if reading.replace(reading.get() + 1) == 0 { 0 } else { 10 * SLACK };
        let heap = cycles(&subject, 10, live);
        assert!(heap.check().is_ok() && !heap.is_back());
    }
}
