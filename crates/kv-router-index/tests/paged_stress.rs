//! Writers and readers at once: no lookup is above what a rank held at some moment of it, nor below.
//!
//! Each rank has one writer, which knows what every query must answer after each of its events and says so before it
//! applies the event. A reader notes which events were done before its lookup and which had begun after it: the answer
//! must lie between the least and the greatest of those states.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use kv_router_index::paged::{PagedIndex, RankWriter};
use kv_router_index::{FindOptions, Inspect, Occupancy, Overlaps, PrefixIndex};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, StoredBlock, Tier, WorkerId, WorkerRank,
};
use parking_lot::Mutex;

const WRITERS: usize = 4;
const RANKS_PER_WRITER: usize = 2;
const RANKS: usize = WRITERS * RANKS_PER_WRITER;
const READERS: usize = 2;
const EVENTS: usize = 1500;

/// Requests that share a beginning: each is the first `shared` blocks of the one before, then its own. Long enough for
/// several pages.
const QUERIES: [(usize, usize); 5] = [(0, 1300), (300, 900), (600, 620), (40, 700), (12, 13)];

/// A small generator: the test must not depend on one.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 ^ self.0 >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// The local hashes of each request. A block is its own local hash, so it is also a place and a name.
fn queries() -> Vec<Vec<u64>> {
    let mut paths: Vec<Vec<u64>> = Vec::new();
    for (number, (shared, len)) in QUERIES.into_iter().enumerate() {
        let mut path: Vec<u64> =
            paths.last().map_or_else(Vec::new, |before: &Vec<u64>| before[..shared].to_vec());
        path.extend((shared..len).map(|at| (number as u64 + 1) << 32 | at as u64));
        paths.push(path);
    }
    paths
}

/// What one rank has told so far.
#[derive(Default)]
struct Log {
    /// The answer to each query after so many events.
    states: Mutex<Vec<[u32; QUERIES.len()]>>,
    begun: AtomicUsize,
    done: AtomicUsize,
}

/// One rank and what it holds, most literally.
struct Engine<'a> {
    writer: RankWriter,
    log: &'a Log,
    held: std::collections::HashSet<u64>,
    paths: &'a [Vec<u64>],
}

impl Engine<'_> {
    fn answers(&self) -> [u32; QUERIES.len()] {
        std::array::from_fn(|query| {
            self.paths[query].iter().take_while(|block| self.held.contains(block)).count() as u32
        })
    }

    fn apply(&mut self, event: &KvEvent) {
        match event {
            KvEvent::Stored { blocks, .. } => self.held.extend(blocks.iter().map(|block| block.local.get())),
            KvEvent::Removed { blocks, .. } => {
                blocks.iter().for_each(|name| {
                    self.held.remove(&name.get());
                });
            }
            KvEvent::Cleared => self.held.clear(),
        }
        let answers = self.answers();
        self.log.states.lock().push(answers);
        self.log.begun.fetch_add(1, Ordering::SeqCst);
        self.writer.apply(event).expect("the model only says what is valid");
        self.log.done.fetch_add(1, Ordering::SeqCst);
    }

    fn step(&mut self, rng: &mut Rng) {
        let path = &self.paths[rng.below(self.paths.len())];
        match rng.below(100) {
            0 => self.apply(&KvEvent::Cleared),
            1..60 => {
                // From somewhere that is held, or from the root, over what is there and what is not.
                let known = path.iter().take_while(|block| self.held.contains(block)).count();
                let starts: Vec<usize> =
                    (1..path.len()).filter(|&at| self.held.contains(&path[at - 1])).collect();
                let from = match rng.below(3) {
                    0 => known,
                    1 => 0,
                    _ if starts.is_empty() => 0,
                    _ => starts[rng.below(starts.len())],
                };
                let most = if rng.below(4) == 0 { 700 } else { 40 };
                let len = (1 + rng.below(most)).min(path.len() - from);
                let parent = from.checked_sub(1).map(|at| ExternalSequenceHash::new(path[at]));
                let blocks = path[from..from + len]
                    .iter()
                    .map(|&block| {
                        StoredBlock::new(ExternalSequenceHash::new(block), LocalBlockHash::new(block))
                    })
                    .collect();
                self.apply(&KvEvent::Stored { tier: Tier::Device, parent, blocks });
            }
            _ => {
                // A stretch, from the tail or out of the middle.
                let held: Vec<u64> = path.iter().copied().filter(|block| self.held.contains(block)).collect();
                let most = if rng.below(4) == 0 { 500 } else { 12 };
                let len = (1 + rng.below(most)).min(held.len());
                let from = if rng.below(2) == 0 { held.len() - len } else { rng.below(held.len() - len + 1) };
                let blocks =
                    held[from..from + len].iter().rev().map(|&block| ExternalSequenceHash::new(block));
                self.apply(&KvEvent::Removed { tier: Tier::Device, blocks: blocks.collect() });
            }
        }
    }

    fn finish(mut self) {
        let blocks = self.held.iter().map(|&block| ExternalSequenceHash::new(block)).collect();
        self.apply(&KvEvent::Removed { tier: Tier::Device, blocks });
    }
}

fn rank(number: usize) -> WorkerRank {
    WorkerId::new(number as u64).into()
}

fn read(index: &PagedIndex, logs: &[Log], paths: &[Vec<u64>], stop: &AtomicBool, seed: u64) -> usize {
    let queries: Vec<Vec<LocalBlockHash>> =
        paths.iter().map(|path| path.iter().copied().map(LocalBlockHash::new).collect()).collect();
    let (mut out, mut rng, mut lookups) = (Overlaps::new(), Rng(seed), 0);
    while !stop.load(Ordering::Relaxed) {
        let query = rng.below(queries.len());
        let done: Vec<usize> = logs.iter().map(|log| log.done.load(Ordering::SeqCst)).collect();
        index.find_into(&queries[query], FindOptions::new(), &mut out);
        let begun: Vec<usize> = logs.iter().map(|log| log.begun.load(Ordering::SeqCst)).collect();
        let mut seen = 0;
        for number in 0..RANKS {
            let found = out.blocks(rank(number));
            seen += usize::from(found > 0);
            let states = logs[number].states.lock();
            let possible = states[done[number]..=begun[number]].iter().map(|answers| answers[query]);
            let (least, most) =
                possible.fold((u32::MAX, 0), |(least, most), now| (least.min(now), most.max(now)));
            assert!(
                (least..=most).contains(&found),
                "rank {number}, query {query}: {found} is not in {least}..={most}, events {}..={}",
                done[number],
                begun[number],
            );
        }
        assert_eq!(seen, out.len(), "each rank once");
        lookups += 1;
    }
    lookups
}

#[test]
fn lookups_see_what_was_there() {
    let (index, paths) = (PagedIndex::new(), queries());
    let logs: Vec<Log> = (0..RANKS).map(|_| Log::default()).collect();
    for log in &logs {
        log.states.lock().push([0; QUERIES.len()]);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (index, logs, paths, stop) = (&index, &logs, &paths, &stop);
        let readers: Vec<_> = (0..READERS)
            .map(|number| scope.spawn(move || read(index, logs, paths, stop, number as u64)))
            .collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                scope.spawn(move || {
                    let mut rng = Rng(number as u64 + 77);
                    let mut engines: Vec<Engine<'_>> = (0..RANKS_PER_WRITER)
                        .map(|at| number * RANKS_PER_WRITER + at)
                        .map(|number| Engine {
                            writer: index.writer(rank(number)).unwrap(),
                            log: &logs[number],
                            held: Default::default(),
                            paths,
                        })
                        .collect();
                    for _ in 0..EVENTS {
                        let at = rng.below(engines.len());
                        engines[at].step(&mut rng);
                    }
                    for engine in &engines {
                        let mut answers = [0; QUERIES.len()];
                        for (answer, path) in answers.iter_mut().zip(paths) {
                            let query: Vec<_> = path.iter().copied().map(LocalBlockHash::new).collect();
                            *answer = index.find(&query).blocks(engine.writer.rank());
                        }
                        assert_eq!(answers, engine.answers(), "a writer sees all that it did");
                    }
                    engines.into_iter().for_each(Engine::finish);
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        let lookups: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        results.into_iter().for_each(|result| result.unwrap());
        assert!(lookups > 100, "readers got to read: {lookups}");
    });
    while index.reclaim(1000) > 0 {}
    assert_eq!(index.occupancy(), Occupancy::default());
}
