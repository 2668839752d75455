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
    ApplyEvents, ConcurrentRadixTree, DumpEvents, Inspect, Overlaps, PositionalIndexer, PrefixIndex,
    RadixTree,
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

/// Bytes on the heap at equal distances in the life of an index that always holds about as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readings(pub Vec<usize>);

impl Readings {
    /// Accepts a life in which the most of the last half is at most a twentieth and 64 KiB above the most of the first.
    ///
    /// # Errors
    ///
    /// The index grows.
    pub fn check(self) -> Result<Self, Growth> {
        let (first, last) = self.0.split_at(self.0.len().div_ceil(2));
        let most = |half: &[usize]| half.iter().copied().max().unwrap_or(0);
        let (first, last) = (most(first), most(last));
        if last > first + first / 20 + SLACK { Err(Growth { first, last }) } else { Ok(self) }
    }
}

/// An index that is larger the longer it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The most bytes in the first half of its life.
    pub first: usize,
    /// And in the last.
    pub last: usize,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        write!(f, "up to {last} bytes in the last half of the churn, {first} in the first")
    }
}

impl Error for Growth {}

/// A fleet of full caches, without end: chains come and the oldest go, most of them from the end and some with holes,
/// some come a second time; engines forget everything, workers are replaced, and somebody asks all the while.
#[derive(Debug)]
pub struct Churn {
    engines: Vec<Engine>,
    /// Names and workers given out.
    names: u64,
    workers: u64,
    draws: u64,
    out: Overlaps,
}

/// What one rank holds.
#[derive(Debug)]
struct Engine {
    rank: WorkerRank,
    chains: VecDeque<Chain>,
    blocks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Chain {
    name: u64,
    content: u64,
    len: u64,
}

impl Chain {
    /// One chain in two begins as others do and goes its own way behind its middle.
    fn local(self, at: u64) -> u64 {
        let is_shared = self.content < Churn::SHARED && at < self.len / 2;
        (if is_shared { self.content } else { Churn::SHARED + self.name }) << 6 | at
    }

    fn store(self) -> KvEvent {
        store((0..self.len).map(|at| (self.name + at, self.local(at))))
    }
}

impl Churn {
    const ENGINES: u64 = 64;
    /// Blocks that an engine holds before the oldest go.
    const CACHE: u64 = 2_000;
    const LONGEST: u64 = 64;
    /// Beginnings that chains share.
    const SHARED: u64 = 256;

    /// With empty caches; `seed` decides everything that comes.
    pub fn new(seed: u64) -> Self {
        let engine = |worker| Engine {
            rank: WorkerId::new(worker).into(),
            chains: VecDeque::with_capacity(Self::CACHE as usize),
            blocks: 0,
        };
        Self {
            engines: (0..Self::ENGINES).map(engine).collect(),
            names: 0,
            workers: Self::ENGINES,
            draws: seed,
            out: Overlaps::new(),
        }
    }

    /// So many chains more.
    pub fn run(&mut self, subject: &dyn Subject, chains: u32) {
        for _ in 0..chains {
            self.step(subject);
        }
        subject.settle();
    }

    fn step(&mut self, subject: &dyn Subject) {
        let (what, len) = (self.draw(1_000), self.draw(Self::LONGEST) + 1);
        let content = self.draw(2 * Self::SHARED);
        let chain = Chain { name: self.names, content, len };
        self.names += len;
        let at = self.draw(Self::ENGINES) as usize;
        let engine = &mut self.engines[at];
        match what {
            0 | 1 => {
                if what == 0 {
                    subject.apply(engine.rank, &KvEvent::Cleared);
                } else {
                    subject.remove_worker(engine.rank.worker);
                    engine.rank = WorkerId::new(self.workers).into();
                    self.workers += 1;
                }
                engine.chains.clear();
                engine.blocks = 0;
            }
            2..300 => {
                let query: Vec<_> = (0..len).map(|at| LocalBlockHash::new(chain.local(at))).collect();
                subject.find(&query, &mut self.out);
            }
            300..350 => {
                if let Some(last) = engine.chains.back() {
                    subject.apply(engine.rank, &last.store());
                }
            }
            _ => {
                subject.apply(engine.rank, &chain.store());
                engine.chains.push_back(chain);
                engine.blocks += len;
                while engine.blocks > Self::CACHE
                    && let Some(Chain { name, len, .. }) = engine.chains.pop_front()
                {
                    if what % 4 == 0 {
                        subject.apply(engine.rank, &remove((name..name + len).step_by(2)));
                        subject.apply(engine.rank, &remove((name + 1..name + len).step_by(2)));
                    } else {
                        subject.apply(engine.rank, &remove((name..name + len).rev()));
                    }
                    engine.blocks -= len;
                }
            }
        }
    }

    /// A number below `bound`, by Weyl's sequence and a finisher.
    fn draw(&mut self, bound: u64) -> u64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.draws ^ self.draws >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % bound
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kv_router_index::{FindOptions, Oracle};
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
                assert_eq!(applied.unknown + applied.moved, 0);
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

    fn readings(subject: &Watched) -> Readings {
        let mut churn = Churn::new(1);
        // The caches are full after the first.
        Readings((0..3).map(|_| (churn.run(subject, 6_000), held(subject)).1 / SLACK).collect())
    }

    #[test]
    fn churn_is_steady_and_growth_is_found() {
        let subject = watched(true);
        let steady = readings(&subject);
        assert!(steady.0[0] > 100_000, "{steady:?}");
        assert_eq!(steady.clone().check(), Ok(steady));
        let growing = readings(&watched(false));
        assert_eq!(growing.clone().check(), Err(Growth { first: growing.0[1], last: growing.0[2] }));
    }

    #[test]
    fn the_halves_of_a_life_are_compared() {
        let check = |readings: &[usize]| Readings(readings.to_vec()).check().is_ok();
        let full = 100 * SLACK;
        assert!(check(&[]) && check(&[full]) && check(&[0, full, full, full]));
        assert!(check(&[full, full, 0, full + 6 * SLACK]));
        assert!(!check(&[0, full, 0, full + 6 * SLACK + 1]));
    }
}
