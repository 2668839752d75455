//! Writers and readers at once: no answer may be one that no interleaving of the events allows.
//!
//! Each writer owns some workers and keeps an oracle of its own ranks. Before it applies an event it logs
//! what the oracle answers to a fixed set of queries once the event is done. A reader notes for each rank how
//! many events were done when its lookup began and how many had begun when it ended: the answer must be among
//! the states between.
//!
//! In the end, with all threads gone, the index must answer what the oracles do, and be empty once all
//! workers are removed.

mod board;
mod reader;
mod writer;

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use kv_router_types::{KvEvent, LocalBlockHash, Tier, WorkerRank};

use self::board::{Board, QUERIES};
use self::writer::Writer;
use super::rng::Rng;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Applied, ApplyError, ApplyEvents, Inspect, Occupancy, Oracle, Overlap, PrefixIndex};

/// What an index promises to a lookup that runs while events of a rank do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// The answer for a rank is right for one moment between two of its events, tiers included.
    WholeEvents,
    /// The score of a rank is not above what it held at some moment, and not below what it held at all
    /// moments.
    Between,
}

/// How many threads do what for how long.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConcurrentRun {
    /// Threads that write. Each owns two workers of two ranks, which leave and return. Default: 4.
    pub writers: usize,
    /// Threads that look up. Default: 4.
    pub readers: usize,
    /// How long. Default: 2 s.
    pub duration: Duration,
    /// Decides the events, though not how they interleave. Default: 1.
    pub seed: u64,
    /// What to expect. Default: whole events.
    pub consistency: Consistency,
}

impl Default for ConcurrentRun {
    fn default() -> Self {
        Self {
            writers: 4,
            readers: 4,
            duration: Duration::from_secs(2),
            seed: 1,
            consistency: Consistency::WholeEvents,
        }
    }
}

impl ConcurrentRun {
    /// Runs for this long.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Expects this.
    #[must_use]
    pub fn expecting(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Runs the threads against an empty index.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check<T>(&self, index: &T) -> Result<ConcurrentReport, Box<FailedRun>>
    where
        T: PrefixIndex + Inspect + Sync,
        for<'a> &'a T: ApplyEvents,
    {
        let writers: Vec<_> = (0..self.writers).map(|number| Writer::new(number, self.seed)).collect();
        let board = Board::new(writers.iter().flat_map(Writer::ranks));
        let clock = Clock { started: now(), duration: self.duration, failed: AtomicBool::new(false) };

        let (oracles, report) = std::thread::scope(|scope| {
            let (board, clock) = (&board, &clock);
            let writing: Vec<_> = writers
                .into_iter()
                .map(|writer| scope.spawn(move || clock.guard(writer.run(index, board, clock))))
                .collect();
            let reading: Vec<_> = (0..self.readers)
                .map(|number| {
                    let rng = Rng::new(self.seed ^ (1000 + number as u64));
                    scope.spawn(move || clock.guard(reader::run(index, board, clock, rng, self.consistency)))
                })
                .collect();
            let mut report = ConcurrentReport::default();
            let mut oracles = Vec::new();
            for thread in writing {
                let (oracle, events) = join(thread)?;
                report.events += events;
                oracles.push(oracle);
            }
            for thread in reading {
                report.add(join(thread)?);
            }
            Ok::<_, Box<FailedRun>>((oracles, report))
        })?;
        compare(index, &board, &oracles)?;
        empty(index, &oracles)?;
        Ok(report)
    }

    /// [`check`](Self::check), as a test. On a machine that is too busy for the threads to meet it runs again, for
    /// twice as long each time, up to 64 times as long.
    ///
    /// # Panics
    ///
    /// When it fails, or when hardly anything overlapped even so, so that nothing was tested.
    #[track_caller]
    pub fn run<T>(&self, index: &T)
    where
        T: PrefixIndex + Inspect + Sync,
        for<'a> &'a T: ApplyEvents,
    {
        let mut run = *self;
        loop {
            // A run leaves the index empty, as it found it.
            match run.check(index) {
                Ok(report) if report.is_meaningful() => return,
                Ok(report) => {
                    assert!(run.duration < 64 * self.duration, "too little was tested: {report:?}");
                }
                Err(failed) => panic!("{failed}"),
            }
            run.duration *= 2;
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConcurrentReport {
    /// Events that were applied and had the result that the oracle gave.
    pub events: u64,
    /// Lookups.
    pub lookups: u64,
    /// Scores that were checked, one for each rank and lookup.
    pub scores: u64,
    /// Those of them during whose lookup the rank changed.
    pub contested: u64,
    /// Scores that could not be checked, since the log of the rank did not go back far enough.
    pub unchecked: u64,
}

impl ConcurrentReport {
    /// Whether scores were checked, some of them while the rank changed, and few had to be left out.
    pub fn is_meaningful(&self) -> bool {
        self.contested > 0 && self.unchecked <= self.scores / 4
    }

    fn add(&mut self, other: Self) {
        self.lookups += other.lookups;
        self.scores += other.scores;
        self.contested += other.contested;
        self.unchecked += other.unchecked;
    }
}

/// What went wrong during a concurrent run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FailedRun {
    /// An event had another result than the oracle gave, though its rank has one writer.
    Event {
        /// Whose event.
        from: WorkerRank,
        /// The event; `None` for the removal of the worker.
        event: Option<KvEvent>,
        /// The oracle's result.
        expected: Result<Applied, ApplyError>,
        /// The index's result.
        found: Result<Applied, ApplyError>,
    },
    /// An answer that is right for none of the states of the rank during the lookup.
    Score {
        /// Whose score.
        rank: WorkerRank,
        /// The query.
        query: Vec<LocalBlockHash>,
        /// Blocks by best tier, as found.
        found: [u32; Tier::COUNT],
        /// The same in each state that the lookup may have seen, in order.
        states: Vec<[u32; Tier::COUNT]>,
    },
    /// An answer names a rank twice, or one that does not exist.
    Stranger {
        /// The rank.
        rank: WorkerRank,
    },
    /// With all threads gone, an answer differs from the oracles'.
    Answer {
        /// The query.
        query: Vec<LocalBlockHash>,
        /// The oracles' answer, by rank.
        expected: Vec<Overlap>,
        /// The index's answer, by rank.
        found: Vec<Overlap>,
    },
    /// With all threads gone, the index holds another number of ranks or names than the oracles.
    Occupancy {
        /// Of all oracles.
        expected: Occupancy,
        /// Of the index.
        found: Occupancy,
    },
    /// Something is left after all workers were removed.
    Leftover {
        /// What the index says.
        found: Occupancy,
    },
    /// A thread panicked; its message is on stderr.
    Panicked,
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}

impl Error for FailedRun {}

/// When threads stop: after a while, or when one has failed.
struct Clock {
    started: Instant,
    duration: Duration,
    failed: AtomicBool,
}

impl Clock {
    fn goes_on(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && self.started.elapsed() < self.duration
    }

    fn guard<T>(&self, result: Result<T, Box<FailedRun>>) -> Result<T, Box<FailedRun>> {
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }
}

#[expect(clippy::disallowed_methods, reason = "a run on real threads lasts for real time")]
fn now() -> Instant {
    Instant::now()
}

fn join<T>(
    thread: std::thread::ScopedJoinHandle<'_, Result<T, Box<FailedRun>>>,
) -> Result<T, Box<FailedRun>> {
    thread.join().unwrap_or_else(|_| Err(Box::new(FailedRun::Panicked)))
}

fn compare<T: PrefixIndex + Inspect>(
    index: &T,
    board: &Board,
    oracles: &[Oracle],
) -> Result<(), Box<FailedRun>> {
    for query in &board.queries[..QUERIES] {
        let mut expected: Vec<_> =
            oracles.iter().flat_map(|oracle| oracle.find(query).iter().collect::<Vec<_>>()).collect();
        let mut found: Vec<_> = index.find(query).iter().collect();
        expected.sort_by_key(|overlap| overlap.worker());
        found.sort_by_key(|overlap| overlap.worker());
        if expected != found {
            return Err(Box::new(FailedRun::Answer { query: query.clone(), expected, found }));
        }
    }
    let found = index.occupancy();
    let mut expected =
        Occupancy { nodes: found.nodes, side_entries: found.side_entries, ..Occupancy::default() };
    for oracle in oracles.iter().map(Oracle::occupancy) {
        expected.ranks += oracle.ranks;
        expected.names += oracle.names;
    }
    if expected == found { Ok(()) } else { Err(Box::new(FailedRun::Occupancy { expected, found })) }
}

fn empty<T>(index: &T, oracles: &[Oracle]) -> Result<(), Box<FailedRun>>
where
    T: Inspect,
    for<'a> &'a T: ApplyEvents,
{
    let mut writer = index;
    for rank in oracles.iter().flat_map(Oracle::ranks) {
        writer.remove_worker(rank.worker);
    }
    match index.occupancy() {
        found if found == Occupancy::default() => Ok(()),
        found => Err(Box::new(FailedRun::Leftover { found })),
    }
}
