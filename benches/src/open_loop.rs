//! Open-loop replay: every operation has a deadline, and none waits for the one before to be done.
//!
//! Writers and readers are threads of their own. A rank's events stay on one writer, as in a gateway. A thread that
//! is ahead of its deadlines waits; one that is behind goes on without a pause, and the delay it has piled up is its
//! lag. So an index that is too slow cannot slow the offer down: it shows.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use kv_router_index::Overlaps;
use kv_router_types::{KvEvent, LocalBlockHash, WorkerRank};

use crate::corpus::{Corpus, Op};
use crate::subject::Subject;

/// What one replay showed.
#[derive(Clone, Debug)]
pub struct Point {
    /// Block operations per second that the deadlines ask for.
    pub offered: f64,
    /// Block operations per second up to the last completion.
    pub achieved: f64,
    /// How long each lookup took, shortest first.
    pub lookups: Vec<Duration>,
    /// Median delay of an event's completion behind its deadline.
    pub lag: Duration,
}

impl Point {
    /// The latency below which `share` of the lookups stay.
    pub fn lookup(&self, share: f64) -> Duration {
        percentile(&self.lookups, share)
    }

    /// Whether the index kept up with the offer.
    pub fn keeps_up(&self) -> bool {
        self.achieved >= 0.95 * self.offered
    }
}

/// Threads of one replay: as many writers as readers.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

enum Work<'c> {
    Find(&'c [LocalBlockHash]),
    Apply(WorkerRank, &'c KvEvent),
}

/// A task with the block operations that are offered before it.
type Lane<'c> = Vec<(u64, Work<'c>)>;

/// Offers the measured part of the corpus at `rate` block operations per second to a subject that has done the
/// warm-up. Deadlines keep the order of the recording and spread its block operations evenly.
pub fn run(corpus: &Corpus, subject: &dyn Subject, threads: Threads, rate: f64) -> Point {
    let mut writers: Vec<Lane<'_>> = (0..threads.0).map(|_| Vec::new()).collect();
    let mut readers: Vec<Lane<'_>> = (0..threads.0).map(|_| Vec::new()).collect();
    let (mut offered, mut finds) = (0, 0);
    for (_, op) in corpus.measured() {
        match op {
            Op::Find(query) => {
                readers[finds % threads.0].push((offered, Work::Find(query)));
                finds += 1;
            }
            Op::Apply(from, event) => {
                let writer = from.worker.get() as usize % threads.0;
                writers[writer].push((offered, Work::Apply(*from, event)));
            }
        }
        offered += op.block_ops();
    }

    let barrier = Barrier::new(2 * threads.0 + 1);
    let lanes: Vec<Lane<'_>> = writers.into_iter().chain(readers).collect();
    let (seconds, results) = thread::scope(|scope| {
        let workers: Vec<_> = lanes
            .into_iter()
            .map(|lane| {
                let barrier = &barrier;
                scope.spawn(move || work_off(lane, subject, rate, barrier))
            })
            .collect();
        barrier.wait();
        let start = now();
        let results: Vec<LaneResult> =
            workers.into_iter().map(|worker| worker.join().expect("a replay thread panicked")).collect();
        let end = results.iter().filter_map(|result| result.end).max().unwrap_or(start);
        (end.saturating_duration_since(start).as_secs_f64(), results)
    });

    let mut lookups = Vec::new();
    let mut lags = Vec::new();
    for result in results {
        lookups.extend(result.lookups);
        lags.extend(result.lags);
    }
    lookups.sort_unstable();
    lags.sort_unstable();
    Point { offered: rate, achieved: offered as f64 / seconds, lag: percentile(&lags, 0.5), lookups }
}

#[derive(Default)]
struct LaneResult {
    lookups: Vec<Duration>,
    lags: Vec<Duration>,
    end: Option<Instant>,
}

fn work_off(lane: Lane<'_>, subject: &dyn Subject, rate: f64, barrier: &Barrier) -> LaneResult {
    let mut result = LaneResult::default();
    let mut overlaps = Overlaps::new();
    barrier.wait();
    let start = now();
    for (before, work) in lane {
        let deadline = start + Duration::from_secs_f64(before as f64 / rate);
        wait_until(deadline);
        let begin = now();
        match work {
            Work::Find(query) => {
                subject.find(query, &mut overlaps);
                result.lookups.push(begin.elapsed());
            }
            Work::Apply(from, event) => {
                subject.apply(from, event);
                result.lags.push(now().saturating_duration_since(deadline));
            }
        }
    }
    // What is queued is not done: the drain counts.
    subject.settle();
    result.end = Some(now());
    result
}

/// Sleeping overshoots by tens of microseconds, so it ends early and the rest is yielded away: on a machine with
/// fewer cores than threads, whoever waits must not keep a core from whoever works.
fn wait_until(deadline: Instant) {
    const SLACK: Duration = Duration::from_micros(150);
    loop {
        let left = deadline.saturating_duration_since(now());
        if left.is_zero() {
            return;
        }
        if left > SLACK {
            thread::sleep(left - SLACK);
        } else {
            thread::yield_now();
        }
    }
}

/// How a search for the knee went: the points tried, and the highest offer that was kept up with.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// In the order of their offers.
    pub points: Vec<Point>,
    /// Block operations per second at the knee; the best achieved rate when no offer was kept up with.
    pub knee: f64,
}

/// Doubles the offer until the index falls behind, then halves the distance `refinements` times.
///
/// # Errors
///
/// The first that `measure` gives.
pub fn find_knee<E>(
    start: f64,
    refinements: u32,
    mut measure: impl FnMut(f64) -> Result<Point, E>,
) -> Result<Ladder, E> {
    let mut points = Vec::new();
    let (mut below, mut rate) = (None, start);
    let above = loop {
        let point = measure(rate)?;
        let kept_up = point.keeps_up();
        points.push(point);
        if !kept_up {
            break rate;
        }
        below = Some(rate);
        rate *= 2.0;
    };
    let (mut low, mut high) = (below.unwrap_or(0.0), above);
    for _ in 0..refinements {
        let middle = (low + high) / 2.0;
        let point = measure(middle)?;
        if point.keeps_up() {
            low = middle
        } else {
            high = middle
        }
        points.push(point);
    }
    points.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let knee = if low > 0.0 { low } else { points.iter().map(|point| point.achieved).fold(0.0, f64::max) };
    Ok(Ladder { points, knee })
}

fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn ladder(start: f64, refinements: u32, capacity: f64) -> Ladder {
        let measure = |offered: f64| {
            let achieved = offered.min(capacity);
            Ok::<_, Infallible>(Point { offered, achieved, lookups: Vec::new(), lag: Duration::ZERO })
        };
        find_knee(start, refinements, measure).unwrap()
    }

    #[test]
    fn the_knee_of_a_known_capacity_is_found() {
        let ladder = ladder(1.0, 8, 100.0);
        assert!((95.0..=105.3).contains(&ladder.knee), "{}", ladder.knee);
        assert!(ladder.points.is_sorted_by(|a, b| a.offered <= b.offered));
    }

    #[test]
    fn an_index_slower_than_the_first_offer_still_has_a_knee() {
        let ladder = ladder(1_000.0, 3, 10.0);
        assert!((5.0..=150.0).contains(&ladder.knee), "{}", ladder.knee);
    }

    #[test]
    fn percentiles_of_nothing_are_nothing() {
        assert_eq!(percentile(&[], 0.99), Duration::ZERO);
        let hundred: Vec<Duration> = (1..=100).map(Duration::from_nanos).collect();
        assert_eq!(percentile(&hundred, 0.5), Duration::from_nanos(51));
        assert_eq!(percentile(&hundred, 1.0), Duration::from_nanos(100));
    }
}
